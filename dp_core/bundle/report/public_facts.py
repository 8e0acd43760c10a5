"""Sentences of the report that follow from the schema alone: rules and public totals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dp_core.schema.definition import Schema
from dp_core.schema.rules.row_rules import row_rules
from dp_core.text.pages.html_template import html_templates


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """Sentences as HTML; each is empty if the schema states nothing of the kind.

    Attributes:
        impossible: Combinations that are impossible.
        totals: Public totals, which the sets meet.
        between: Rules between columns.
        counting: Rules that count the members of a household.
    """

    impossible: str
    totals: str
    between: str
    counting: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences that are not empty."""
        every = (self.impossible, self.totals, self.between, self.counting)
        return tuple(str(each) for each in every if each)


def public_facts(schema: Schema, sets: int) -> PublicFacts:
    """Return the sentences of a release.

    Args:
        schema: The schema of the release.
        sets: Number of synthetic sets; without sets there is no sentence about totals.
    """
    rules = row_rules(schema)
    impossible = [rule.text for rule in rules if rule.key == "impossible"]
    between = [rule.text for rule in rules if rule.key == "rules"]
    counting = [rule.text for rule in schema.member_rules]
    totals = [each.in_words for each in schema.totals if sets]
    counted = "records" if schema.linked is None else "households"
    said = _sentences()
    return PublicFacts(
        impossible=said.impossible(impossible) if impossible else "",
        totals=said.totals(totals, counted) if totals else "",
        between=said.between(between) if between else "",
        counting=said.counting(counting) if counting else "",
    )


@cache
def _sentences() -> Any:
    return html_templates(Path(__file__).parent).get_template("public_facts.jinja").module
