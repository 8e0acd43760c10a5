"""Checks that are charged or public: which tables, against what, and what thresholds make of them.

All of it is arithmetic on public values: what is asked of the file goes through the curator.
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

from dp_core.metrics.marginal_error import Tally
from dp_core.schema.definition import Schema
from dp_core.tables.domain import Clique, Domain
from dp_core.wall.quality_figures import Public, largest, mean

MOST_TABLES = 20
"""Tables that are checked: the noise of each grows with their number."""

MOST_CELLS = 10_000
"""Of a table that is chosen by rule; one that is named may be larger."""

Figure = Literal["worst_tvd", "mean_tvd", "fit"]
"""What a threshold is on. `worst_tvd`, `mean_tvd`: of the charged tables, at the upper end of their
intervals. `fit`: how much further the sets are from what was measured, noisy tables and
interactions alike, than noise and the drawing of rows explain (TVD)."""

FIGURES: tuple[Figure, ...] = get_args(Figure)
OF_CHARGED: frozenset[Figure] = frozenset({"worst_tvd", "mean_tvd"})

Verdict = Literal["publish", "hold", "fail"]
_ORDER: tuple[Verdict, ...] = ("publish", "hold", "fail")


@dataclass(frozen=True, slots=True)
class Threshold:
    """From where on a figure holds a release for a person, or ends it.

    Attributes:
        figure: Public or charged.
        hold: A figure above it waits for a person; None: never.
        fail: A figure above it ends the release without a bundle; None: never.
    """

    figure: Figure
    hold: Fraction | None
    fail: Fraction | None

    def to_json(self) -> dict[str, object]:
        """Return it as a plan has it."""
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
        """Return what a figure leads to; one that could not be computed is for a person."""
        if value is None:
            return "hold"
        # Exact: a figure is a decimal of six digits, a threshold what was written.
        exact = Fraction(str(value))
        if self.fail is not None and exact > self.fail:
            return "fail"
        return "hold" if self.hold is not None and exact > self.hold else "publish"


def chosen_tables(domain: Domain, seed: int) -> tuple[Clique, ...]:
    """Return the tables that are checked where a spec names none: by a public rule, no data.

    The columns in an order that the seed gives (by a hash, so that it is the same everywhere) stand
    in a circle, and neighbours in it are the pairs: each column is in two. Larger tables than
    10,000 cells are passed over; at most twenty are taken. One column alone is its own table.

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
    """Return the columns whose codes anyone reads off the published sets, as they were drawn.

    Not survey weights that are raked to public totals: what is published of them was multiplied
    after it was drawn, and has other codes, or none. What is checked is made of the others, since
    whoever verifies makes it again from the files.

    Args:
        schema: Of the release; numbers may stand on a grid.
    """
    domain, weight = (schema.coarse or schema).domain, schema.weight
    if weight is None or not schema.calibration:
        return domain
    return domain.project(tuple(name for name in domain.columns if name != weight.name))


def reference_counts(
    tallies: Sequence[Tally], cliques: Sequence[Clique], records: int
) -> tuple[NDArray[np.int64], ...]:
    """Return what the finished sets have in each table, for as many records as the file has.

    The sets are pooled, scaled to `records` and rounded (half up), in whole numbers throughout, so
    that anyone gets the same counts.
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
    """Return the figures of the fit to what was measured (`dp_core.bundle.quality.table_fit`).

    `fit` is the mean of `set_tvd` less the mean of `expected_tvd`, or 0 if that is negative: 0 of
    sets that are as far from what was measured as noise and drawing explain, and of a model with an
    error of its own the TVD that it adds.

    Args:
        set_tvd: Distance of each set from each noisy table that it serves, and from each
            interaction, as the table that it makes with the set's own margins.
        expected_tvd: What noise and the drawing of rows give, for each of them.
        tables: Number of noisy tables and interactions.
    """
    to_noisy, expected = mean(list(set_tvd)), mean(list(expected_tvd))
    further = None if to_noisy is None or expected is None else max(0.0, to_noisy - expected)
    return (
        Public("tables", tables),
        Public("mean_tvd_to_noisy", _rounded(to_noisy)),
        Public("mean_expected_tvd", _rounded(expected)),
        Public("fit", _rounded(further)),
    )


def figure_values(checks: Mapping[str, Any]) -> dict[Figure, float | None]:
    """Return the figures that thresholds may be on, from the `checks` of a statement."""
    upper = [float(item["interval"][1]) for item in checks["charged"]]
    public = {item["figure"]: item["value"] for item in checks["public"]}
    return {
        "worst_tvd": largest(upper),
        "mean_tvd": _rounded(mean(upper)),
        "fit": public.get("fit"),
    }


def judged(
    thresholds: Sequence[Threshold], checks: Mapping[str, Any]
) -> tuple[list[dict[str, object]], Verdict]:
    """Return what each threshold says of the published figures, and what follows from all.

    Privacy:
        Post-processing: the figures are public or charged, and nothing else is looked at.
    """
    values = figure_values(checks)
    verdicts = [threshold.judge(values[threshold.figure]) for threshold in thresholds]
    said = [
        {**threshold.to_json(), "value": values[threshold.figure], "verdict": verdict}
        for threshold, verdict in zip(thresholds, verdicts, strict=True)
    ]
    return said, max(verdicts, key=_ORDER.index, default="publish")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
