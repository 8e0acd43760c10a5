"""Reads the `checks` of a spec: the tables that charged checks compare, and the thresholds."""

from __future__ import annotations

from fractions import Fraction

from dp_core.errors import nearest
from dp_core.plan.quality_checks import (
    FIGURES,
    MOST_TABLES,
    OF_CHARGED,
    Figure,
    Threshold,
    chosen_tables,
    countable,
)
from dp_core.schema.definition import Schema
from dp_core.tables.domain import Clique
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

EXAMPLE_TABLES = "[[age, sex], [sex, income]]"
EXAMPLE_THRESHOLD = "{figure: worst_tvd, hold: 0.05, fail: 0.2}"


def read_tables(section: Node, schema: Schema, share: Fraction, seed: int) -> tuple[Clique, ...]:
    """Return the tables to check; none without a share.

    Args:
        section: Node `checks` of the spec.
        schema: Schema of the release; numeric columns may be on a grid.
        share: Share of the checks.
        seed: Seed of the spec; it chooses the tables if the spec names none.

    Raises:
        BadInput: for any mistake, with its place.
    """
    domain, node = countable(schema), section.entries().get("tables")
    if node is None:
        return chosen_tables(domain, seed) if share else ()
    if not share:
        raise node.error(
            "comparing tables with the confidential data needs a share of the budget; add one, for"
            " example share: 0.05, or remove the tables."
        )
    items = node.items(example=EXAMPLE_TABLES)
    if not 1 <= len(items) <= MOST_TABLES:
        raise node.error(
            f"has {len(items)} tables; name 1 to {MOST_TABLES}, because the noise of each grows"
            " with their number."
        )
    found: list[Clique] = []
    for item in items:
        names = item.texts(example="[age, sex]")
        for name in names:
            if schema.calibration and schema.weight is not None and name == schema.weight.name:
                raise item.error(
                    f"{shown(name)} is raked to public totals after drawing, so it cannot be"
                    " recounted from the published sets; check tables of other columns."
                )
            if name not in domain:
                raise item.error(
                    f"{shown(name)} is not a column that is synthesised directly."
                    f"{nearest(name, domain.columns)}"
                )
        if not names:
            raise item.error("a table needs at least one column; write for example [age, sex].")
        if set(names) in map(set, found):
            raise item.error(f"the table {' x '.join(names)} is listed twice; remove one.")
        found.append(tuple(names))
    return tuple(found)


def read_thresholds(section: Node, share: Fraction) -> tuple[Threshold, ...]:
    """Return the thresholds by which a release is published, waits for approval, or ends.

    Raises:
        BadInput: for any mistake, with its place.
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
            raise item.error(f"needs `hold` or `fail`; write for example {EXAMPLE_THRESHOLD}.")
        if hold is not None and fail is not None and hold > fail:
            raise item.error(
                "has a hold above its fail, so nothing would wait for approval; lower hold."
            )
        if any(threshold.figure == figure for threshold in found):
            raise item.error(f"{figure} has two entries; write hold and fail in one.")
        found.append(Threshold(figure, hold, fail))
    return tuple(found)


def _figure(node: Node, share: Fraction) -> Figure:
    text = node.text(example="worst_tvd")
    for figure in FIGURES:
        if text == figure:
            if figure in OF_CHARGED and not share:
                raise node.error(
                    f"{figure} needs charged checks; add a share, for example share: 0.05, or use"
                    " `fit`, which costs no budget."
                )
            return figure
    raise node.error(
        f"{shown(text)} cannot have a threshold; use worst_tvd or mean_tvd (charged), or fit"
        " (public). To decide by other figures, use publish: after-approval, and staff review them."
    )
