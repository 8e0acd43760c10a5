"""Totals and counts by group, from the noisy answers to the questions of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Totals
from dp_core.kernel.questions.limited_sums import LimitedSums
from dp_core.kernel.questions.linear_questions import BinnedCounts
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.declared_statistics.limits import excess, probe, sums_question
from dp_core.methods.declared_statistics.tail_counts import TailCounts, tail_counts
from dp_core.methods.declared_statistics.value_table import ValueTable

Floats = NDArray[np.float64]

PARTS: Mapping[str, Fraction] = {
    "counts": Fraction(1, 8),
    "shape": Fraction(1, 8),
    "layers": Fraction(1, 8),
    "sums": Fraction(5, 8),
}
"""Part of a table's budget for each of its questions, in their order."""

Noise = Callable[[Sum], float]
"""Returns the standard deviation of a question's noise at its budget, in the question's unit."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Estimated totals and counts of groups, each array of shape (groups,).

    Attributes:
        totals: Total of the values, in the unit of the column.
        variance: Variance of its noise, of the noise of the counts that it uses, and of what is
            beyond the limits.
        fourth: Fourth cumulant of the noise of the sums.
        allowance: Bias allowance: the largest expected error of the estimate of what is beyond the
            limits.
        counts: Number of records that have the number.
        counts_variance: Variance of its noise.
        covariance: Covariance of totals and counts.
        beyond: Estimated number of records beyond the limits.
        limits: Upper limit of the values of each group, in the unit of the column.
    """

    totals: Floats
    variance: Floats
    fourth: Floats
    allowance: Floats
    counts: Floats
    counts_variance: Floats
    covariance: Floats
    beyond: Floats
    limits: Floats

    def added(self, weights: Floats) -> GroupSums:
        """Return the sums over groups.

        Args:
            weights: 1 for each group that counts, otherwise 0, shape (results, groups).
        """
        largest = np.where(weights > 0, self.limits[None, :], -np.inf).max(axis=1)
        return GroupSums(
            totals=weights @ self.totals,
            variance=weights @ self.variance,
            fourth=weights @ self.fourth,
            allowance=weights @ self.allowance,
            counts=weights @ self.counts,
            counts_variance=weights @ self.counts_variance,
            covariance=weights @ self.covariance,
            beyond=weights @ self.beyond,
            limits=largest,
        )


def counts_question(table: ValueTable) -> BinnedCounts:
    """Return the question for the number of records of each group that have the number."""
    return table.counts((0, table.values.positions))


def layers_question(table: ValueTable) -> BinnedCounts:
    """Return the question for the counts by group and layer."""
    return table.counts(table.layers.edges)


def shape_question(table: ValueTable) -> BinnedCounts:
    """Return the question for the counts by layer of all groups together."""
    return table.together.counts(table.layers.edges)


def limited_question(
    table: ValueTable, counts: Totals, shape: Totals, layers: Totals, noise: Noise
) -> LimitedSums:
    """Return the question for the sums, from the answers to the other questions.

    Args:
        table: The table.
        counts: Answer to `counts_question`.
        shape: Answer to `shape_question`.
        layers: Answer to `layers_question`.
        noise: Noise of a question at the budget of the sums.
    """
    known, variance = _counted(table, counts, layers)
    tail = _tail(table, shape, layers, known)
    trial = probe(table)
    relative = noise(trial) / trial.reach
    return sums_question(table, tail, float(np.sqrt(variance.max())), relative)


def group_sums(
    table: ValueTable,
    counts: Totals,
    shape: Totals,
    layers: Totals,
    sums: Totals,
    known: tuple[Floats, Floats] | None = None,
) -> GroupSums:
    """Return the estimates.

    Args:
        table: The table.
        counts: Answer to `counts_question`.
        shape: Answer to `shape_question`.
        layers: Answer to `layers_question`.
        sums: Answer to `limited_question`.
        known: Counts from other measurements of the release and their variances, shape (groups,)
            each; None (the default) if there are none.
    """
    of = sums.of
    assert isinstance(of, LimitedSums)
    number, variance = _counted(table, counts, layers)
    tail = _tail(table, shape, layers, number)
    if known is not None:
        number, variance = _combined((number, variance), known)
    lows, highs, centres, factors = (
        np.array(each, dtype=np.float64) for each in (of.lows, of.highs, of.centres, of.factors)
    )
    origin = table.layers.origin
    lost = excess(tail, table.layers, np.maximum(highs - origin, origin - lows))
    noise = sums.variance / factors**2
    totals = np.asarray(sums.values, dtype=np.float64) / factors + centres * number
    unit = float(table.values.unit)
    return GroupSums(
        totals=(totals + lost.above - lost.below) * unit,
        variance=(noise + centres**2 * variance + lost.variance) * unit**2,
        fourth=(3.0 * noise**2 if sums.noise == "laplace" else 0.0 * noise) * unit**4,
        allowance=lost.allowance * unit,
        counts=number,
        counts_variance=variance,
        covariance=centres * variance * unit,
        beyond=lost.records,
        limits=highs * unit,
    )


def answers_of(table: ValueTable, measured: Sequence[object]) -> tuple[Totals, ...] | None:
    """Return the answers to the questions of a table, in the order of `PARTS`.

    Args:
        table: The table.
        measured: Everything that the release measured.

    Returns:
        Four answers; None if the release did not measure them.
    """
    wanted: dict[str, Sum] = {
        "counts": counts_question(table),
        "shape": shape_question(table),
        "layers": layers_question(table),
    }
    found: dict[str, Totals] = {}
    for item in measured:
        if not isinstance(item, Totals) or item.stage != "analyses":
            continue
        for part, question in wanted.items():
            # Without groups, two questions are the same.
            if item.of == question and item not in found.values():
                found.setdefault(part, item)
                if found[part] is item:
                    break
        of = item.of
        if isinstance(of, LimitedSums) and (of.by, of.column) == (table.by, table.column):
            found.setdefault("sums", item)
    return tuple(found[part] for part in PARTS) if len(found) == len(PARTS) else None


def _counted(table: ValueTable, counts: Totals, layers: Totals) -> tuple[Floats, Floats]:
    """Return the number of records of each group and its variance, from both answers."""
    own = table.present(counts.values)[:, 0]
    sums = table.present(layers.values)
    return _combined(
        (own, np.full(len(own), counts.variance)),
        (sums.sum(axis=1), np.full(len(own), layers.variance * sums.shape[1])),
    )


def _combined(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Return two independent unbiased estimates combined by their variances."""
    both = np.maximum(one[1] + other[1], 1e-300)
    weight = np.where(one[1] + other[1] > 0, other[1] / both, 0.5)
    return weight * one[0] + (1 - weight) * other[0], one[1] * other[1] / both


def _tail(table: ValueTable, shape: Totals, layers: Totals, totals: Floats) -> TailCounts:
    return tail_counts(
        table.together.present(shape.values)[0],
        shape.variance,
        table.present(layers.values),
        layers.variance,
        totals,
        table.layers,
    )
