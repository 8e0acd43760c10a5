"""Chooses the pairs of ordered columns whose trend is measured besides tables. Public.

The measuring budget pays for `SHARE` of trends, equally. With more trends each has more noise, so
those are measured that together reduce the expected errors of the correlations most.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.trends import UNITS, Trend, scale_of, scaled_codes

if TYPE_CHECKING:
    from dp_core.client.curator import Curator

Floats = NDArray[np.float64]

SHARE = Fraction(1, 10)
"""Part of the measuring budget for trends, if any is measured."""
_WORTH = 0.1  # smallest relative reduction of the errors of correlations for which trends are
_TWO = 2  # levels
_LEAST = 0.005  # smallest mean reduction of the error of a correlation
_NUMBERS = 20  # numbers of trends that are compared
_LINEAR = 0.64  # L1 distance from independence of two normal variables, over their correlation


def chosen_trends(
    curator: Curator,
    domain: Domain,
    ordered: Mapping[str, int],
    columns: Sequence[Floats],
    noise: Floats,
    dependence: Mapping[Clique, float],
    tables: Mapping[Clique, float],
    cost: Fraction,
) -> tuple[Trend, ...]:
    """Return the trends to measure; none if tables tell the correlations nearly as well.

    Args:
        curator: Knows the noise of a budget.
        domain: All columns.
        ordered: Number of ordered codes of each ordered column; larger codes mean missing.
        columns: Estimated one-way tables, in records, in the order of the domain.
        noise: Noise variance of a cell of each, in records squared.
        dependence: Expected L1 distance of each pair from what other pairs imply, in records;
            trends of other pairs are not measured.
        tables: Noise variance of a cell's own deviation of each pair that is measured, in records
            squared.
        cost: Measuring budget, in the release's currency.
    """
    scales, values, there, spread = {}, {}, {}, {}
    for name, counts, variance in zip(domain.columns, columns, noise, strict=True):
        positions = ordered.get(name, 0)
        if not 0 <= counts.size - positions <= 1:
            continue  # not ordered, or several kinds of missing
        scale = scale_of(name, counts, float(variance) ** 0.5, positions)
        if scale is None:
            continue
        shares = np.maximum(counts, 0.0) / max(float(counts.sum()), 1.0)
        own = scaled_codes(scale, counts.size)
        scales[name], values[name] = scale, own
        there[name] = max(float(shares[:positions].sum()), 1e-9)
        mean = float(own @ shares) / there[name]
        spread[name] = max(float((own**2) @ shares) / there[name] - mean**2, 1e-9)
    # The trend of two columns of two levels is their interaction, which may be measured itself.
    pairs = [
        (one, two)
        for one, two in itertools.combinations(scales, 2)
        if (one, two) in dependence and max(ordered[one], ordered[two]) > _TWO
    ]
    if not pairs:
        return ()
    rows = max(float(columns[0].sum()), 1.0)
    both = np.array([rows * min(there[one], there[two]) for one, two in pairs])
    # A trend of 1 correlation, in records, and the variance that tables leave of it.
    unit = both * np.sqrt([spread[one] * spread[two] for one, two in pairs])
    expected = np.minimum([dependence[pair] for pair in pairs] / (_LINEAR * both), 1.0)
    weights = np.array(
        [
            float(np.var(values[a]) * values[a].size * np.var(values[b]) * values[b].size)
            for a, b in pairs
        ]
    )
    told = np.array([tables.get(pair, np.inf) for pair in pairs]) * weights / unit**2
    before = _errors(expected, told)

    def trend(at: int, number: int) -> Trend:
        one, other = pairs[at]
        return Trend(scales[one], scales[other], SHARE / number)

    best, kept = _WORTH * float(before.sum()), list[int]()
    numbers = np.unique(np.geomspace(1, len(pairs), _NUMBERS).round().astype(int))
    for number in numbers.tolist():
        stddev = curator.statistic_noise(trend(0, number).question(), cost * SHARE / number).stddev
        after = _errors(expected, 1 / (1 / told + (unit * UNITS / stddev) ** 2))
        order = np.argsort(after - before, kind="stable")[:number]
        gain = float((before - after)[order].sum())
        if gain > max(best, _LEAST * number):
            best, kept = gain, sorted(order.tolist())
    return tuple(trend(at, len(kept)) for at in kept)


def _errors(expected: Floats, variances: Floats) -> Floats:
    """Return the expected errors of correlations after shrinkage, shape (pairs,)."""
    return np.asarray(expected / np.sqrt(1 + expected**2 / np.maximum(variances, 1e-300)))
