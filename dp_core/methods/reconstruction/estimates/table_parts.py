"""Parts of a table and of its noise that its margins do not determine. Public side of the wall."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.client.interactions import cell_variance, implied_table
from dp_core.client.released import Totals
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.linear_questions import Interaction


def beyond(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the interaction of all columns of a table: the part that sums to 0 over every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def interaction_part(domain: Domain) -> float:
    """Return the proportion of a table's noise variance that is in its interaction."""
    return math.prod(1 - 1 / size for size in domain.sizes)


def interactions_by_clique(
    domain: Domain, interactions: Sequence[Totals]
) -> dict[Clique, tuple[NDArray[np.float64], float]]:
    """Return each clique's interaction, in records, and the cell variance of an equivalent table.

    Repeated interactions of the same columns are averaged by inverse variance.
    """
    found: dict[Clique, tuple[NDArray[np.float64], float]] = {}
    for item in interactions:
        assert isinstance(item.of, Interaction)
        clique = tuple(name for name in domain.columns if name in item.of.columns)
        values = implied_table(item.of, item.values)
        values = values.transpose([item.of.columns.index(name) for name in clique])
        variance = cell_variance(item.of, item.variance)
        if clique in found:
            before, spread = found[clique]
            weight = spread / (spread + variance)
            values, variance = before + weight * (values - before), spread * (1 - weight)
        found[clique] = values, variance
    return found
