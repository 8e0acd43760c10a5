"""Charged and public quality checks: their tables, their figures, and thresholds on the figures.

This module computes with public values only. The curator answers the charged checks.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import nearest
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.metrics.marginal_error import Tally
from dp_core.metrics.quality_figures import Public, largest, mean
from dp_core.schema.definition import Schema
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

MOST_TABLES = 20
"""Most tables to check; the noise of each grows with their number."""

MOST_CELLS = 10_000
"""Most cells of a table chosen by rule; a table that the spec names may be larger."""

Figure = Literal["worst_tvd", "mean_tvd", "fit"]
"""Figures that may have a threshold. `worst_tvd`, `mean_tvd`: the largest and the mean upper end of
the intervals of the charged tables. `fit`: TVD between the sets and the measurements, less the part
that noise and sampling explain."""

FIGURES: tuple[Figure, ...] = get_args(Figure)
OF_CHARGED: frozenset[Figure] = frozenset({"worst_tvd", "mean_tvd"})

Verdict = Literal["publish", "hold", "fail"]
_ORDER: tuple[Verdict, ...] = ("publish", "hold", "fail")


@dataclass(frozen=True, slots=True)
class Threshold:
    """Limits of a figure above which a release waits for approval, or ends.

    Attributes:
        figure: Name of the figure.
        hold: Limit above which the release waits for approval, or None.
        fail: Limit above which the release ends without a bundle, or None.
    """

    figure: Figure
    hold: Fraction | None
    fail: Fraction | None

    def to_json(self) -> dict[str, object]:
        """Return the threshold as a plan states it."""
        return {
            "figure": self.figure,
            "hold": None if self.hold is None else str(self.hold),
            "fail": None if self.fail is None else str(self.fail),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Threshold:
        """Return the threshold that `to_json` wrote."""
        hold, fail = (
            None if values[name] is None else Fraction(values[name]) for name in ("hold", "fail")
        )
        return cls(values["figure"], hold, fail)

    def judge(self, value: float | None) -> Verdict:
        """Return the verdict on a figure; `hold` if it could not be computed (None)."""
        if value is None:
            return "hold"
        # Compare exactly: a figure has six decimals, and a threshold is as written in the spec.
        exact = Fraction(str(value))
        if self.fail is not None and exact > self.fail:
            return "fail"
        return "hold" if self.hold is not None and exact > self.hold else "publish"


def chosen_tables(domain: Domain, seed: int) -> tuple[Clique, ...]:
    """Return the tables to check if a spec names none; the data do not influence the choice.

    A hash with the seed orders the columns, the same on every machine. Each column is paired with
    the next, and the last with the first. Pairs of more than 10,000 cells are left out, and at most
    20 are kept. If no pair is left, single columns are checked.

    >>> len(chosen_tables(Domain(tuple("abc"), (2, 2, 2)), 1))
    3
    """
    order = sorted(
        domain.columns, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).digest()
    )
    if len(order) < 2:
        return tuple((name,) for name in order)
    pairs = list(itertools.pairwise([*order, *(order[:1] if len(order) > 2 else [])]))
    small = [tuple(sorted(pair, key=domain.columns.index)) for pair in pairs]
    small = [pair for pair in small if domain.size(pair) <= MOST_CELLS]
    return tuple(small[:MOST_TABLES]) or tuple((name,) for name in order[:MOST_TABLES])


def countable(schema: Schema) -> Domain:
    """Return the columns whose drawn codes can be read from the published sets.

    A survey weight that is raked to public totals is not among them, because raking changes its
    values after drawing. Verification recomputes the checked tables from the published files.

    Args:
        schema: Schema of the release; numeric columns may be on a grid.
    """
    domain, weight = (schema.coarse or schema).domain, schema.weight
    if weight is None or not schema.calibration:
        return domain
    return domain.project(tuple(name for name in domain.columns if name != weight.name))


def reference_counts(
    tallies: Sequence[Tally], cliques: Sequence[Clique], records: int
) -> tuple[NDArray[np.int64], ...]:
    """Return the counts of the pooled sets in each table, scaled to `records` records.

    The counts are rounded half up, in integer arithmetic, so that the result is reproducible.
    """
    rows = sum(tally.rows for tally in tallies)
    found = []
    for clique in cliques:
        pooled = sum(tally.count(clique).astype(object) for tally in tallies)
        scaled = (2 * records * pooled + rows) // (2 * rows) if rows else pooled * 0
        found.append(np.asarray(scaled, dtype=np.int64))
    return tuple(found)


def public_figures(
    set_tvd: Sequence[float], expected_tvd: Sequence[float], tables: int
) -> tuple[Public, ...]:
    """Return the figures of the fit to the measurements (`dp_core.bundle.quality.table_fit`).

    `fit` is the mean of `set_tvd` less the mean of `expected_tvd`, or 0 if that is negative. It
    estimates the error that the model adds to those of noise and of drawing rows.

    Args:
        set_tvd: TVD between each set and each noisy table that it is fitted to, and each
            interaction, taken as the table that it gives with the set's own margins.
        expected_tvd: TVD expected from noise and sampling alone, for each of them.
        tables: Number of noisy tables and interactions.
    """
    to_noisy, expected = mean(list(set_tvd)), mean(list(expected_tvd))
    further = None if to_noisy is None or expected is None else max(0.0, to_noisy - expected)
    return (
        Public("tables", tables),
        Public("mean_tvd_to_noisy", _round_or_none(to_noisy)),
        Public("mean_expected_tvd", _round_or_none(expected)),
        Public("fit", _round_or_none(further)),
    )


def verdicts(
    thresholds: Sequence[Threshold], checks: Mapping[str, Any]
) -> tuple[list[dict[str, object]], Verdict]:
    """Return the verdict of each threshold, and the most severe of them.

    Args:
        thresholds: The thresholds of the plan.
        checks: The `checks` of a statement.

    Privacy:
        Post-processing of public and charged figures.
    """
    upper = [float(item["interval"][1]) for item in checks["charged"]]
    public = {item["figure"]: item["value"] for item in checks["public"]}
    values: dict[Figure, float | None] = {
        "worst_tvd": largest(upper),
        "mean_tvd": _round_or_none(mean(upper)),
        "fit": public.get("fit"),
    }
    verdicts = [threshold.judge(values[threshold.figure]) for threshold in thresholds]
    said = [
        {**threshold.to_json(), "value": values[threshold.figure], "verdict": verdict}
        for threshold, verdict in zip(thresholds, verdicts, strict=True)
    ]
    return said, max(verdicts, key=_ORDER.index, default="publish")


def _round_or_none(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


# -- the key `checks` of a spec

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
            if name not in domain:
                raise item.error(
                    f"{quote(name)} is not a column whose values in the sets are those drawn."
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
    found = next((figure for figure in FIGURES if figure == text), None)
    if found is None:
        raise node.error(
            f"{quote(text)} cannot have a threshold; use worst_tvd or mean_tvd (charged), or fit"
            " (public). To decide by other figures, use publish: after-approval, and staff review"
            " them."
        )
    if found in OF_CHARGED and not share:
        raise node.error(
            f"{found} needs charged checks; add a share, for example share: 0.05, or use `fit`,"
            " which costs no budget."
        )
    return found
