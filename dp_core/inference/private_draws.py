"""Posterior of a proportion from records that are private draws, by the known mechanism.

Charest (2011), How can we analyze differentially-private synthetic datasets? (Journal of Privacy
and Confidentiality 2(2)). Combining rules treat the sets as samples of the population. They are
not: virtual records move every proportion towards a known value. The model of the paper includes
the mechanism. With n_1 of n records in a group, v_1 virtual records in it and v_0 outside it, the
number of k draws that fall in the group has a known distribution. With a prior for the proportion,
the posterior of n_1 is a finite sum, so no Markov chain is needed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

Floats: TypeAlias = NDArray[np.float64]

MOST_COUNTS = 20_001
"""Largest number of values of n_1 in the sum; for a larger file, they are evenly spaced."""
_NEGLIGIBLE = 1e-10
_MOST_POINTS = 2000  # with more, quantiles of the population's proportion merge neighbours


@dataclass(frozen=True, slots=True)
class GroupDraws:
    """The part of private draws that concerns one group of records.

    Attributes:
        kind: `independent` draws, or draws from an `urn`; see `CellDraws`.
        records: Number of draws, k.
        inside: Number of draws in the group.
        virtual_inside, virtual_outside: Virtual records in the group and outside it, in records.
    """

    kind: Literal["independent", "urn"]
    records: int
    inside: int
    virtual_inside: float
    virtual_outside: float

    def log_likelihood(self, ones: Floats, rows: Floats) -> Floats:
        """Return the log-likelihood of numbers of records in the group, up to a constant.

        Args:
            ones: Numbers n_1 of records of the file in the group.
            rows: Numbers n of records of the file, of the same shape.
        """
        own, rest = ones + self.virtual_inside, rows - ones + self.virtual_outside
        outside = self.records - self.inside
        if self.kind == "urn":
            # A Dirichlet distribution over cells is a Beta distribution over groups of them.
            together = special.betaln(own + self.inside, rest + outside) - special.betaln(own, rest)
        else:
            # xlogy is 0 where nothing was drawn, even if the probability of a draw is 0.
            both = own + rest
            together = special.xlogy(self.inside, own / both) + special.xlogy(outside, rest / both)
        return np.asarray(together)


@dataclass(frozen=True, slots=True, eq=False)
class GroupPosterior:
    """The posterior of the number of records in a group.

    Attributes:
        ones: Possible numbers n_1 of records in the group, shape (points,).
        rows: Number n of records of the file at each point.
        weights: Posterior probabilities of the points, which add up to 1.
    """

    ones: Floats
    rows: Floats
    weights: Floats

    def in_file(self, level: float, *, count: bool = False) -> tuple[float, float, float]:
        """Return the mean and the credible interval of the file's own value.

        Args:
            level: Probability of the interval; each tail has half of the rest.
            count: Whether the value is the number of records instead of the proportion; False by
                default.
        """
        values = self.ones if count else self.ones / self.rows
        order = np.argsort(values, kind="stable")
        below = np.cumsum(self.weights[order])
        tail = (1 - level) / 2
        # The tolerance keeps rounding errors of the sum from moving an end.
        places = np.searchsorted(below, [tail + 1e-12, 1 - tail - 1e-12])
        low, high = values[order][np.minimum(places, len(values) - 1)]
        return float(values @ self.weights), float(low), float(high)

    def in_population(self, level: float, *, count: bool = False) -> tuple[float, float, float]:
        """Return the same for the population of which the file is a simple random sample.

        Given n_1, the proportion has a Beta distribution. With `count` it is multiplied by n.
        """
        size = self.rows if count else np.ones_like(self.rows)
        one, other = 1 + self.ones, 1 + self.rows - self.ones
        mean = float(self.weights @ (size * one / (one + other)))
        one, other, size, weights = _together(one, other, size, self.weights)

        def end(probability: float) -> float:
            def over(value: float) -> float:
                part = np.minimum(value / size, 1.0)
                return float(weights @ stats.beta.cdf(part, one, other)) - probability

            return float(optimize.brentq(over, 0.0, float(size.max()), xtol=1e-10))

        tail = (1 - level) / 2
        return mean, end(tail), end(1 - tail)


def group_posterior(draws: Sequence[GroupDraws], rows: Floats, chances: Floats) -> GroupPosterior:
    """Return the posterior of the number of records in a group, with a uniform prior of its share.

    Args:
        draws: Independent private draws from the same file, at least one.
        rows: Possible numbers of records of the file, each at least 1; a single one if the number
            is public.
        chances: Their probabilities before the draws are taken into account, of the same shape.

    Raises:
        ValueError: if there are no draws, or a number of records is below 1.

    Example:
        >>> draws = [GroupDraws("independent", 100, 58, 100.0, 100.0)]
        >>> found = group_posterior(draws, np.array([100.0]), np.array([1.0]))
        >>> mean, low, high = found.in_population(0.95)
        >>> round(mean, 2), round(low, 2), round(high, 2)
        (0.72, 0.43, 0.96)
    """
    if not draws or rows.min() < 1:
        raise ValueError("There must be draws, and one record or more.")
    points, totals, logs = [], [], []
    for number, chance in zip(rows, chances, strict=True):
        points_of = int(min(number + 1, MOST_COUNTS))
        ones = np.linspace(0, number, points_of).round()
        total = np.full(points_of, number)
        # Every n_1 has the same prior probability. Evenly spaced numbers stand for several each.
        log = np.full(points_of, np.log(chance) - np.log(points_of))
        for each in draws:
            log = log + each.log_likelihood(ones, total)
        points.append(ones)
        totals.append(total)
        logs.append(log)
    log = np.concatenate(logs)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    kept = weights > _NEGLIGIBLE * weights.max()
    weights = weights[kept] / weights[kept].sum()
    return GroupPosterior(np.concatenate(points)[kept], np.concatenate(totals)[kept], weights)


def _together(one: Floats, other: Floats, size: Floats, weights: Floats) -> tuple[Floats, ...]:
    """Return at most `_MOST_POINTS` components, each the mean of neighbours by their proportion."""
    if len(weights) <= _MOST_POINTS:
        return one, other, size, weights
    order = np.argsort(one / (one + other), kind="stable")
    parts = np.array_split(order, _MOST_POINTS)
    sums = [weights[part].sum() for part in parts]
    means = [
        [
            float(values[part] @ weights[part]) / total
            for part, total in zip(parts, sums, strict=True)
        ]
        for values in (one, other, size)
    ]
    return tuple(np.array(each) for each in (*means, sums))
