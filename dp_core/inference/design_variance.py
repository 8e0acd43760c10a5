"""Variances by a sample design: from clusters within strata, or from replicate weights by a rule.

Clusters are treated as drawn with replacement within their strata, which is conservative if they
were drawn without (no finite population correction): Binder, D. A. (1983). On the variances of
asymptotically normal estimators from complex surveys. International Statistical Review 51(3).

Each replicate multiplies the weights of every cluster by a factor. With estimates t_r from the
replicates and t from the full weights, the variance is the sum of c_r (t_r - t)(t_r - t)'.

| rule | factors | c_r |
|---|---|---|
| jk1 | 0 for one cluster, n/(n - 1) for the others | (n - 1)/n |
| jkn | in one stratum 0 for one cluster and n_h/(n_h - 1) for the others; else 1 | (n_h - 1)/n_h |
| brr | in each stratum 2 - fay for one cluster and fay for the other | 1/(R (1 - fay)^2) |
| bootstrap | n_h/(n_h - 1) for each of n_h - 1 draws with replacement | 1/R |

McCarthy, P. J. (1969). Pseudo-replication: half samples. Review of the International Statistical
Institute 37(3), 239-264. Rao, J. N. K. & Wu, C. F. J. (1988). Resampling inference with complex
survey data. Journal of the American Statistical Association 83(401), 231-241. Judkins, D. R.
(1990). Fay's method for variance estimation. Journal of Official Statistics 6(3), 223-239.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.survey.primary_units import hadamard
from dp_core.schema.survey.survey_design import Replicates

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


def variance_of_totals(totals: Floats, strata: Integers) -> Floats:
    """Return the covariance of the sum of all clusters' totals, shape (p, p).

    It is the sum over strata of n / (n - 1) sum_c (z_c - z)(z_c - z)', where n is the number of
    clusters of the stratum, z_c the total of one, and z their mean. In a stratum with one cluster,
    its total is compared with the mean of all clusters, as `survey.lonely.psu="adjust"` of R's
    survey package does; a schema has no such stratum, but rows as clusters can.

    Args:
        totals: Weighted total of each cluster, shape (clusters, p); 0 for a cluster without rows.
        strata: Index of each cluster's stratum, shape (clusters,).

    >>> totals = np.array([[1.0], [3.0], [10.0], [10.0]])
    >>> variance_of_totals(totals, np.array([0, 0, 1, 1])).tolist()
    [[4.0]]
    """
    sizes = np.bincount(strata)
    means = sums_by_group(totals, strata, sizes.size) / np.maximum(sizes, 1)[:, None]
    means[sizes == 1] = totals.mean(axis=0)
    away = totals - means[strata]
    factors = sizes / np.maximum(sizes - 1, 1)
    found: Floats = (away * factors[strata][:, None]).T @ away
    return (found + found.T) / 2


def sums_by_group(values: Floats, groups: Integers, count: int) -> Floats:
    """Return the sums of rows by group, shape (count, p).

    Args:
        values: Shape (rows, p).
        groups: Index of each row's group, shape (rows,).
        count: Number of groups.
    """
    columns = [np.bincount(groups, weights=column, minlength=count) for column in values.T]
    return np.column_stack(columns) if columns else np.empty((count, 0))


def design_degrees(strata: Integers) -> float:
    """Return the degrees of freedom of a variance by the design: clusters minus strata, at least 1.

    Korn and Graubard (1990, The American Statistician 44) and most software use this number.

    Args:
        strata: Index of the stratum of each cluster that has rows, shape (clusters,).

    >>> design_degrees(np.array([0, 0, 1, 1, 1]))
    3.0
    """
    return max(float(strata.size - np.unique(strata).size), 1.0)


_SEED = 20_260_101
"""Seed of the bootstrap: the rule is public, so everybody makes the same replicates."""


def replicate_factors(rule: Replicates, strata: Integers) -> Iterator[tuple[float, Floats]]:
    """Yield for each replicate its coefficient c_r and the factor of every cluster.

    Args:
        rule: The rule. `brr` needs two clusters in every stratum; the jackknives need as many
            replicates as clusters.
        strata: Index of each cluster's stratum, shape (clusters,).

    >>> from dp_core.schema.survey.survey_design import Replicates
    >>> rule = Replicates(method="jkn", number=4)
    >>> for part, factors in replicate_factors(rule, np.array([0, 0, 1, 1])):
    ...     print(part, factors.tolist())
    0.5 [0.0, 2.0, 1.0, 1.0]
    0.5 [2.0, 0.0, 1.0, 1.0]
    0.5 [1.0, 1.0, 0.0, 2.0]
    0.5 [1.0, 1.0, 2.0, 0.0]
    """
    if rule.method == "jk1":
        yield from _jackknife(np.zeros_like(strata))
    elif rule.method == "jkn":
        yield from _jackknife(strata)
    elif rule.method == "brr":
        yield from _half_samples(rule, strata)
    else:
        yield from _bootstrap(rule, strata)


def _jackknife(strata: Integers) -> Iterator[tuple[float, Floats]]:
    sizes = np.bincount(strata)
    for cluster, stratum in enumerate(strata):
        size = int(sizes[stratum])
        factors = np.where(strata == stratum, size / (size - 1), 1.0)
        factors[cluster] = 0.0
        yield (size - 1) / size, factors


def _half_samples(rule: Replicates, strata: Integers) -> Iterator[tuple[float, Floats]]:
    away = 1 - float(rule.fay)
    order = np.argsort(strata, kind="stable")
    sides = np.empty(strata.size)
    sides[order] = np.resize([1.0, -1.0], strata.size)
    # The first column of the matrix is constant, so it balances no half samples.
    halves = hadamard(rule.number)[:, 1:]
    part = 1 / (rule.number * away**2)
    for row in halves:
        yield part, 1 + away * sides * row[strata]


def _bootstrap(rule: Replicates, strata: Integers) -> Iterator[tuple[float, Floats]]:
    rng = np.random.default_rng(_SEED)
    sizes = np.bincount(strata)
    members = [np.flatnonzero(strata == stratum) for stratum in range(sizes.size)]
    for _ in range(rule.number):
        factors = np.ones(strata.size)
        for own in members:
            if own.size > 1:
                drawn = rng.integers(own.size, size=own.size - 1)
                times = np.bincount(drawn, minlength=own.size)
                factors[own] = times * (own.size / (own.size - 1))
        yield 1 / rule.number, factors


def random_groups(strata: Integers, each: int) -> tuple[Integers, Integers]:
    """Return the group of each row and the stratum of each group, for a jackknife of rows.

    The rows of a synthetic set are exchangeable draws, so the rows of a stratum are dealt to its
    groups in turn.

    Args:
        strata: Index of each row's stratum, shape (rows,).
        each: Number of groups in every stratum.

    >>> groups, above = random_groups(np.array([0, 1, 0, 1, 0]), 2)
    >>> groups.tolist(), above.tolist()
    ([0, 2, 1, 3, 0], [0, 0, 1, 1])
    """
    count = int(strata.max()) + 1
    groups = np.empty_like(strata)
    for stratum in range(count):
        own = np.flatnonzero(strata == stratum)
        groups[own] = stratum * each + np.arange(own.size) % each
    return groups, np.repeat(np.arange(count), each)
