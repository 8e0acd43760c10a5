"""Weights of interactions in the measuring budget that minimise the expected error.

Beyond the one-way tables, a table consists of orthogonal parts: the interaction of each pair, of
each triple, and so on. Each part can be measured alone, at a cost that decreases with the number of
levels (ResidualPlanner: Xiao et al., NeurIPS 2023). Here the expected error of all tables of two
and of three columns is a smooth, decreasing function of the shares of the budget, and the shares
minimise it. A part with a share of 0 is not measured.

The error of a part is the error that remains after shrinkage. For a cell with a typical deviation
`w` from its prediction and noise variance `v` it is `w / sqrt(1 + w^2 / v)`. The errors of the
parts of one table are independent and add in quadrature. All inputs are public.

Levels of areas and kinds of linked tables have their own parts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.selection.budget.chance import BINS, HALF_NORMAL, bin_widths, deviation
from dp_core.methods.selection.selector import Expected

_POWER = 0.3  # assumed deviation of a cell from its expected count E is proportional to E ** _POWER
# Exponent by which the errors of a table's parts add up: 2 for independent errors, 1 for a plain
# sum. The error of a column is in all its tables, so the value lies between. Of 1, 1.2, 1.5 and 2
# this was the best on most generated files.
_ADD_UP = 1.2
_WORTH = 0.02  # smallest relative reduction of the error for which pairs or triples are measured
_SMALL = 0.1  # a smaller share, relative to the mean share, is 0 unless it removes much error
_LITTLE = 0.25  # fraction of the error of a part that counts as much error
_STEPS = 300
_LOOKS = 10  # number of steps between two checks for convergence
_TOLERANCE = 2e-5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """The parts that may be measured, and what is known about them.

    Attributes:
        columns: Estimated one-way tables, in records, one per column.
        known: Noise variance of each column's cells before measuring, in records squared; infinite
            for a column that was not measured.
        cliques: Positions of the columns of each part: every single column first, in order, then
            pairs, then triples.
        dependence: For each part, the expected sum of absolute deviations of its cells from the
            prediction of smaller tables, in records, without sampling deviations; not used for
            single columns.
        noise: Noise variance of a cell of each part's own deviation, measured with the whole
            budget, in records squared.
        margin: Noise variance of each cell of a pair's two columns, from measuring the pair with
            the whole budget, in records squared, shape (parts, 2); infinite if only the interaction
            is measured, and for parts that are not pairs.
        exponent: Exponent of the share in the precision: 1 for zCDP, 2 for pure epsilon.
        floor: Part of the noise variance at the whole budget that every share has in addition: the
            allowance of the Gaussian curve for the rounding of discrete noise.
        unlisted: Sum of the deviations of all pairs, and of all triples, that are not parts.
        drawn: Mean deviation of a triple beyond its pairs from drawing records, in records. The
            budget cannot reduce it, so it does not influence the shares.
        told: Precision of each part's own deviation before measuring, in 1 / records squared, shape
            (parts,), 0 for single columns, whose noise is in `known`; None for 0 everywhere.
        reach: For each part, the deviations that its measurement serves, relative to its own, shape
            (parts,); None for 1 everywhere.
        also: Parts about which the measurement of another part also tells something, besides a
            pair's two columns; None for none.
    """

    columns: Sequence[NDArray[np.float64]]
    known: NDArray[np.float64]
    cliques: Sequence[tuple[int, ...]]
    dependence: NDArray[np.float64]
    noise: NDArray[np.float64]
    margin: NDArray[np.float64]
    exponent: float
    floor: float = 0.0
    unlisted: tuple[float, float] = (0.0, 0.0)
    drawn: float = 0.0
    told: NDArray[np.float64] | None = None
    reach: NDArray[np.float64] | None = None
    also: AlsoTold | None = None


def balance(parts: Parts, *, roughly: bool = False) -> NDArray[np.float64]:
    """Return the share of each part; they sum to 1, and many are 0.

    Multiplicative steps equalise the gain of all positive shares. Then the smallest shares are set
    to 0, and the rest is balanced again. With pure epsilon the error is not convex, because a very
    small share has almost no effect. There the steps start from fewer and fewer parts, and the best
    result is used. If larger parts reduce the error very little, columns get the whole budget.

    Args:
        parts: Parts that may be measured.
        roughly: Whether a tenth of the steps, from the first starts only, is enough. This is
            accurate enough for the expected error, but not for the shares.
    """
    steps = _STEPS // 10 if roughly else _STEPS
    error = _error(parts)
    orders = np.array([len(clique) for clique in parts.cliques])
    single, pair, triple = orders == 1, orders == 2, orders == 3
    starts = []
    for members in (single | pair | triple, single | pair):
        start = np.where(members, 1.0, 0.0) * np.where(single, 0.3, 0.7)
        for group in (single, pair, triple):
            if (members & group).any():
                start[group] /= group.sum()
        starts.append(start)
    if parts.exponent > 1 and not roughly:
        even = error.descend(starts[-1], steps)
        order = np.argsort(-np.where(pair, even, -1.0), kind="stable")[: pair.sum()]
        for part in (0.7, 0.5, 0.35, 0.25, 0.15, 0.07):
            start = starts[1].copy()
            start[order[round(part * pair.sum()) :]] = 0.0
            starts.append(start)
    ends = [error.descend(start, steps) for start in starts]
    best = min(ends, key=error.value)
    alone = error.descend(np.where(single, 1.0, 0.0), steps // 2)
    if error.value(best) > (1 - _WORTH) * error.value(alone):
        return alone
    return best


def expected_error(parts: Parts, shares: NDArray[np.float64]) -> Expected:
    """Return the expected error for shares of the budget."""
    error = _error(parts)
    two, three = error.errors(error.means(shares), 2.0)
    three = math.hypot(three, parts.drawn)
    rows = 2 * error.rows
    # For tables with far more cells than records, the sum of the parts can exceed all records.
    return Expected(min(two / rows, 1.0), min(three / rows, 1.0))


@lru_cache(maxsize=1)
def _error(parts: Parts) -> _Error:
    """Return the error function of these parts, cached because balancing uses it again."""
    return _Error(parts)


class _Error:
    """Expected L1 error of a table of two and of three columns, as a function of the shares."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.orders = np.array([len(clique) for clique in parts.cliques])
        d = len(parts.columns)
        self.number = (float(d), d * (d - 1) / 2, d * (d - 1) * (d - 2) / 6)
        self.rows = max(float(np.mean([column.sum() for column in parts.columns])), 1.0)
        shape = (len(parts.cliques), BINS)
        self.counts, self.widths = np.zeros(shape), np.zeros(shape)
        for index, clique in enumerate(parts.cliques):
            tables = [parts.columns[at] for at in clique]
            power = 1.0 if len(clique) == 1 else _POWER
            self.counts[index], self.widths[index] = bin_widths(tables, self.rows, power)
        # Columns with few levels use few bins.
        filled = self.counts.any(axis=0)
        self.counts, self.widths = self.counts[:, filled], self.widths[:, filled]
        spread = HALF_NORMAL * (self.counts * self.widths).sum(axis=1)
        scale = parts.dependence / np.maximum(spread, 1e-300)
        # The file is a sample, so its deviations also contain Poisson sampling variance; the factor
        # of a part's own deviation in it is `own`.
        own = np.array(
            [math.prod(1 - 1 / parts.columns[at].size for at in clique) for clique in parts.cliques]
        )
        by_chance = deviation(own[:, None] * self.widths ** (1 / _POWER))
        together = np.hypot(scale[:, None] * self.widths, by_chance)
        self.widths = np.where((self.orders > 1)[:, None], together, self.widths)
        self.squares = self.widths**2
        self.areas = HALF_NORMAL * self.counts * self.widths
        if parts.reach is not None:
            self.areas *= parts.reach[:, None]
        self.of_order = [np.flatnonzero(self.orders == order) for order in (1, 2, 3)]
        self.before = np.zeros(len(parts.cliques))
        self.before[:d] = 1 / parts.known
        if parts.told is not None:
            self.before += parts.told
        self.tables = np.flatnonzero(np.isfinite(parts.margin).all(axis=1))
        ends = [parts.cliques[index] for index in self.tables.tolist()]
        self.ends = np.array(ends, dtype=np.int64).reshape(-1, 2)
        self.help = 1 / parts.margin[self.tables]

    def precision(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the precision of a cell of each part, in 1 / records squared."""
        powers = shares**self.parts.exponent
        powers = powers / (1 + self.parts.floor * powers)
        found = self.before + powers / self.parts.noise
        np.add.at(found, self.ends, powers[self.tables][:, None] * self.help)
        also = self.parts.also
        if also is not None:
            np.add.at(found, also.target, powers[also.source] / also.variance)
        return np.asarray(found)

    def means(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean error of a part of one, two and three columns, in records, shape (3,)."""
        return self._means(self.areas * self._remaining_error(shares))

    def _remaining_error(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the proportion of each bin's width that remains as error, for each part."""
        return 1 / np.sqrt(1 + self.precision(shares)[:, None] * self.squares)

    def _means(self, left: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the result of `means` from the remaining error of each bin of each part."""
        of_part = left.sum(axis=1)
        sums = [float(of_part[members].sum()) for members in self.of_order]
        sums[1] += self.parts.unlisted[0]
        sums[2] += self.parts.unlisted[1]
        return np.array(sums) / np.maximum(self.number, 1.0)

    def errors(self, means: NDArray[np.float64], power: float) -> tuple[float, float]:
        """Return the error of a table of two and of a table of three columns, in records.

        Args:
            means: Result of `means`.
            power: Exponent by which errors of a table's parts add up; 2 for independent errors.
        """
        one, two, three = (means**power).tolist()
        of_two = two + 2 * one if self.number[1] else one
        of_three = three + 3 * two + 3 * one if self.number[2] else 0.0
        return of_two ** (1 / power), of_three ** (1 / power)

    def value(self, shares: NDArray[np.float64]) -> float:
        """Return the sum of both errors, the objective of the division, in records."""
        return sum(self.errors(self.means(shares), _ADD_UP))

    def gain(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the negative derivative of `value` in each share, all positive."""
        kept = self._remaining_error(shares)
        left = self.areas * kept
        means = np.maximum(self._means(left), 1e-300)
        of_two, of_three = self.errors(means, _ADD_UP)
        two = np.array([2.0, 1.0, 0.0]) * max(of_two, 1e-300) ** (1 - _ADD_UP)
        three = np.array([3.0, 3.0, 1.0]) * of_three ** (1 - _ADD_UP) if of_three else 0.0
        slope = means ** (_ADD_UP - 1) * (two + three)
        weight = (slope / np.maximum(self.number, 1.0))[self.orders - 1]
        worth = weight * 0.5 * (left * self.squares * kept * kept).sum(axis=1)
        rate = worth / self.parts.noise
        rate[self.tables] += (worth[self.ends] * self.help).sum(axis=1)
        also = self.parts.also
        if also is not None:
            np.add.at(rate, also.source, worth[also.target] / also.variance)
        exponent = self.parts.exponent
        powers = exponent * shares ** (exponent - 1)
        gains: NDArray[np.float64] = rate * powers / (1 + self.parts.floor * shares**exponent) ** 2
        return np.maximum(gains, 1e-300)

    def descend(self, shares: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
        """Return improved shares; shares of 0 stay 0."""
        shares = shares / shares.sum()
        for count in (steps, steps // 3):
            before = math.inf
            for step in range(count):
                shares = shares * np.sqrt(self.gain(shares))
                shares /= shares.sum()
                if step % _LOOKS == _LOOKS - 1:
                    now = self.value(shares)
                    if now > (1 - _TOLERANCE) * before:
                        break
                    before = now
            shares = np.where(self._dispensable(shares), 0.0, shares)
            shares /= shares.sum()
        return shares

    def _dispensable(self, shares: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which shares are small and remove little of the error of their part.

        Beside a table of many thousand cells, a small share can measure a table of a few cells
        with enough precision. Such a share is kept.
        """
        small = shares < _SMALL / shares.size
        with_them = (self.areas * self._remaining_error(shares)).sum(axis=1)
        without = (self.areas * self._remaining_error(np.where(small, 0.0, shares))).sum(axis=1)
        return np.asarray(small & (with_them > (1 - _LITTLE) * without))


_LEAST_PART = 0.5  # at least this part of a pair's deviation is not due to the larger areas


@dataclass(frozen=True, slots=True, eq=False)
class AlsoTold:
    """Parts about which the measurement of another part also tells something.

    Attributes:
        source: Positions of the measured parts, shape (number,).
        target: Positions of the parts about which they tell something, same shape.
        variance: Noise variance of a cell of the target, from measuring the source with the whole
            budget, in records squared, same shape.
    """

    source: NDArray[np.intp]
    target: NDArray[np.intp]
    variance: NDArray[np.float64]


def larger_areas(
    domain: Domain,
    cliques: Sequence[Clique],
    noise: NDArray[np.float64],
    margin: NDArray[np.float64],
) -> AlsoTold | None:
    """Return what tables of small areas tell about larger ones; None without nested columns.

    A sum over smaller areas has the noise of all of them.

    Args:
        domain: All columns.
        cliques: Columns of each part: columns first, then pairs, then others.
        noise: Noise variance of a cell of each part's own deviation, shape (parts,).
        margin: Noise variance of the cells of a pair's columns from measuring it, shape (parts, 2);
            infinite if it does not tell them.
    """
    nested = domain.nested
    if nested is None:
        return None
    place = {clique: at for at, clique in enumerate(cliques)}
    found: list[tuple[int, int, float]] = []
    for at, clique in enumerate(cliques):
        lower = next((name for name in clique if nested.depth(name)), None)
        if lower is None or len(clique) > 2:
            continue
        for upper in nested.columns[: nested.depth(lower)]:
            areas = domain.size((lower,)) / domain.size((upper,))
            named = {upper if name == lower else name for name in clique}
            above = place.get(tuple(name for name in domain.columns if name in named))
            if above is not None:
                found.append((at, above, float(noise[at]) * areas))
            told = float(margin[at][clique.index(lower)]) if len(clique) == 2 else math.inf
            if math.isfinite(told):
                found.append((at, place[(upper,)], told * areas))
    source, target, variance = zip(*found, strict=True)
    return AlsoTold(
        np.array(source, dtype=np.intp), np.array(target, dtype=np.intp), np.array(variance)
    )


def with_sums_of_areas(domain: Domain, known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the noise variance of each one-way table, pooled with the sums of smaller areas.

    Args:
        domain: All columns.
        known: Noise variance of a cell of each one-way table, in records squared.
    """
    if domain.nested is None:
        return known
    precision = 1 / known
    for lower in domain.nested.columns:
        for upper in domain.nested.columns[: domain.nested.depth(lower)]:
            areas = domain.size((lower,)) / domain.size((upper,))
            one, other = domain.axes((upper, lower))
            precision[one] += 1 / (known[other] * areas)
    return np.asarray(1 / precision)


def beyond_larger_areas(domain: Domain, dependence: Mapping[Clique, float]) -> dict[Clique, float]:
    """Return what each pair's dependence adds to that of the pair with the next larger areas.

    Args:
        domain: All columns; unless some are nested, nothing changes.
        dependence: Dependence of each pair, in records.
    """
    nested, found = domain.nested, dict(dependence)
    if nested is None:
        return found
    for pair, value in dependence.items():
        lower = next((name for name in pair if nested.above(name) is not None), None)
        if lower is None:
            continue
        named = {nested.above(name) if name == lower else name for name in pair}
        larger = dependence.get(tuple(name for name in domain.columns if name in named), 0.0)
        found[pair] = math.sqrt(max(value**2 - larger**2, (_LEAST_PART * value) ** 2))
    return found


def kind_weights(domain: Domain, pairs: Iterable[Clique]) -> Mapping[Clique, float]:
    """Return the weight of each pair's error, so that the four kinds weigh the same; mean 1.

    The kinds are household x household, household x person, person x person, and member x other
    member. Without these weights the most frequent kind would get most of the budget. The result is
    empty for a file of one table, where every pair weighs 1.

    Args:
        domain: All columns.
        pairs: The pairs that may be measured.
    """
    linked = domain.linked
    if linked is None:
        return {}

    def kind(pair: Clique) -> tuple[int, int]:
        of_person = sum(name in linked.person_columns for name in pair)
        return of_person, sum(name in linked.others for name in pair)

    kinds = {pair: kind(pair) for pair in pairs}
    numbers = Counter(kinds.values())
    each = len(kinds) / max(len(numbers), 1)
    return {pair: each / numbers[own] for pair, own in kinds.items()}
