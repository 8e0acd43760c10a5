"""Reads the `checks` of a spec: which tables are checked against a charge, and their thresholds."""

from __future__ import annotations

from fractions import Fraction

from dp_core.documents.node import Node
from dp_core.documents.typed_text import shown
from dp_core.errors import nearest
from dp_core.schema.definition import Schema
from dp_core.spec.quality_checks import (
    FIGURES,
    MOST_TABLES,
    OF_CHARGED,
    Figure,
    Threshold,
    chosen_tables,
    countable,
)
from dp_core.tables.domain import Clique

EXAMPLE_TABLES = "[[age, sex], [sex, income]]"
EXAMPLE_THRESHOLD = "{figure: worst_tvd, hold: 0.05, fail: 0.2}"


def read_tables(section: Node, schema: Schema, share: Fraction, seed: int) -> tuple[Clique, ...]:
    """Return the tables that are checked; none without a share.

    Args:
        section: The spec's `checks`.
        schema: Of the release; numbers may stand on a grid.
        share: Of the budget, for the checks.
        seed: Of the spec, for the tables of a spec that names none.

    Raises:
        BadInput: for any mistake, naming the place.
    """
    domain, node = countable(schema), section.entries().get("tables")
    if node is None:
        return chosen_tables(domain, seed) if share else ()
    if not share:
        raise node.error(
            "tables are compared with the confidential data for a share of the budget; add one,"
            " such as share: 0.05, or leave out the tables."
        )
    items = node.items(example=EXAMPLE_TABLES)
    if not 1 <= len(items) <= MOST_TABLES:
        raise node.error(
            f"has {len(items)} tables; from 1 to {MOST_TABLES} are checked, since the noise of each"
            " grows with their number."
        )
    found: list[Clique] = []
    for item in items:
        names = item.texts(example="[age, sex]")
        for name in names:
            if schema.calibration and schema.weight is not None and name == schema.weight.name:
                raise item.error(
                    f"{shown(name)} is raked to public totals after it was drawn, so nobody could"
                    " count it again from the published sets; check tables of other columns."
                )
            if name not in domain:
                raise item.error(
                    f"{shown(name)} is no column that is synthesised by itself."
                    f"{nearest(name, domain.columns)}"
                )
        if not names:
            raise item.error("a table is of one or more columns, as in [age, sex].")
        if set(names) in map(set, found):
            raise item.error(f"the table {' x '.join(names)} is there twice; leave one out.")
        found.append(tuple(names))
    return tuple(found)


def read_thresholds(section: Node, share: Fraction) -> tuple[Threshold, ...]:
    """Return the thresholds that decide whether a release is published, held or ended.

    Raises:
        BadInput: for any mistake, naming the place.
    """
    node = section.entries().get("thresholds")
    if node is None:
        return ()
    found: list[Threshold] = []
    for item in node.items(example=f"[{EXAMPLE_THRESHOLD}]"):
        keys = item.fields(
            ("figure", "hold", "fail"), required=("figure",), example=EXAMPLE_THRESHOLD
        )
        figure = _figure(keys["figure"], share)
        hold, fail = (
            keys[name].fraction(minimum=0, maximum=1) if name in keys else None
            for name in ("hold", "fail")
        )
        if hold is None and fail is None:
            raise item.error(f"needs `hold` or `fail`, as in {EXAMPLE_THRESHOLD}.")
        if hold is not None and fail is not None and hold > fail:
            raise item.error(
                "holds from a figure on at which it has failed; let hold be below fail."
            )
        if any(threshold.figure == figure for threshold in found):
            raise item.error(f"{figure} has two thresholds; state both values in one.")
        found.append(Threshold(figure, hold, fail))
    return tuple(found)


def _figure(node: Node, share: Fraction) -> Figure:
    text = node.text(example="worst_tvd")
    for figure in FIGURES:
        if text == figure:
            if figure in OF_CHARGED and not share:
                raise node.error(
                    f"{figure} is of the tables that a share of the budget pays for; add one, such"
                    " as share: 0.05, or take `fit`, which costs nothing."
                )
            return figure
    raise node.error(
        f"{shown(text)} decides nothing: thresholds are on charged figures (worst_tvd, mean_tvd) or"
        " on the public one (fit). Figures against the confidential data are for staff, who look"
        " and decide with publish: after-approval."
    )
