"""Sentences of the report that follow from the schema alone: rules and public totals."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from dp_core.schema.definition import Schema
from dp_core.schema.rules.row_rules import row_rules
from dp_core.text.pages.page_html import html_templates


def public_facts(schema: Schema, sets: int) -> dict[str, str]:
    """Return sentences as HTML; each is empty if the schema states nothing of the kind.

    Args:
        schema: The schema of the release.
        sets: Number of synthetic sets; without sets there is no sentence about totals.

    Returns:
        `impossible`: combinations that are impossible. `totals`: public totals, which the sets
        meet. `between`: rules between columns. `counting`: rules that count the members of a
        household.
    """
    rules, counted = row_rules(schema), "records" if schema.linked is None else "households"
    stated: dict[str, tuple[Any, ...]] = {
        "impossible": ([rule.text for rule in rules if rule.key == "impossible"],),
        "totals": ([each.in_words for each in schema.totals if sets], counted),
        "between": ([rule.text for rule in rules if rule.key == "rules"],),
        "counting": ([rule.text for rule in schema.member_rules],),
    }
    return {
        name: getattr(_sentences(), name)(*about) if about[0] else ""
        for name, about in stated.items()
    }


@cache
def _sentences() -> Any:
    return html_templates(Path(__file__).parent).get_template("public_facts.jinja").module
