"""Variances of a weighted total by the sample design: clusters within strata.

Clusters are treated as drawn with replacement within their strata, which is conservative if they
were drawn without (no finite population correction).

Binder, D. A. (1983). On the variances of asymptotically normal estimators from complex surveys.
International Statistical Review 51(3), 279-292.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
