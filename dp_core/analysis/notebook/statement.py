"""The statement of a release, as a dictionary that prints what a data user must know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.schema.definition import Schema
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Fact, Page, Sentence
from dp_core.text.pages.printed import Printed


class Statement(Printed, dict[str, Any]):
    """The content of `release.json`; it prints the guarantee, and what lies outside it."""

    def to_json(self) -> dict[str, Any]:
        """Return the whole content as plain values."""
        return dict(self)

    def page(self) -> Page:
        """Return the release, its guarantee, its intervals, and what the guarantee leaves out."""
        release, guarantee = self["release"], self["guarantee"]
        outside = [text.partition(".")[0] for text in guarantee["not_covered"]]
        return (
            Sentence(
                f"{release['title']} (release {release['name']}, version {release['version']})"
            ),
            Fact("Privacy", guarantee_words(self)),
            Fact("Means", guarantee["in_words"]),
            *(Fact("In total", text) for text in guarantee["over_all_releases"]),
            Fact("Outside", f"{'; '.join(outside)}. `guarantee.not_covered` explains each."),
            Fact("Sets", sets_words(self)),
            Fact("Refused", self["refusals"]["in_words"]),
            Fact("Cite as", release["cite_as"]),
        )


def guarantee_words(statement: Statement) -> str:
    """Return epsilon, delta and what they protect."""
    guarantee = statement["guarantee"]
    epsilon, delta = (
        f"{guarantee['tightest'][name]['decimal']:.6g}" for name in ("epsilon", "delta")
    )
    unit, rows = guarantee["unit"], guarantee.get("max_rows")
    protected = f"a {unit}" if rows is None else f"a {unit} with up to {rows} rows"
    if unit == "household":
        protected = f"a household with up to {guarantee['max_members']} members"
    panel = statement["method"]["schema"].get("panel")
    if panel:
        protected = f"a person in the waves {panel['waves'][0]} to {panel['waves'][-1]}"
    return f"epsilon {epsilon}, delta {delta}, for {protected} ({guarantee['neighbours']})"


def tables_words(tables: int, measurements: int) -> str:
    """Return how many tables of counts there are, and from how many measurements.

    >>> tables_words(6, 10)
    '6 tables of counts, from 10 measurements'
    """
    return f"{plural(tables, 'table')} of counts, from {plural(measurements, 'measurement')}"


def columns_words(schema: Schema) -> str:
    """Return the columns of the sets, of linked tables by table."""
    linked = schema.linked
    if linked is None:
        return ", ".join(schema.names)
    homes, persons = ", ".join(linked.household_reads), ", ".join(linked.person_reads)
    return f"{linked.households}: {homes}; {linked.persons}: {persons}"


def sets_words(statement: Mapping[str, Any]) -> str:
    """Return how many sets there are, and what their intervals cover."""
    sets, covers = statement["sets"], statement["inference"]["covers"]
    if not sets["m"]:
        return str(covers)
    rows = sorted(set(sets["rows"]))
    number = f"{rows[0]:,}" if len(rows) == 1 else f"{rows[0]:,} to {rows[-1]:,}"
    what = "households" if "persons" in sets else "rows"
    made = f"{plural(sets['m'], 'set')} of {number} {what} each ({sets['mode']})."
    return f"{made} Intervals of `infer` cover: {covers}"
