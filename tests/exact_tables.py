"""Exact tables of records and of joint tables, summed plainly, for tests to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.counting_queries import Queries


def counts_of(data: Dataset, clique: Clique) -> NDArray[np.int64]:
    """Return how many records are in each cell of a clique's table."""
    sizes = data.domain.project(clique).sizes
    found = np.zeros(sizes, dtype=np.int64)
    np.add.at(found, tuple(data.column(name).astype(np.int64) for name in clique), 1)
    return found


def summed(joint: NDArray, domain: Domain, clique: Clique) -> NDArray:
    """Return a joint table summed over all columns but a clique's, in the clique's order."""
    others = tuple(axis for axis, name in enumerate(domain.columns) if name not in clique)
    kept = [name for name in domain.columns if name in clique]
    return np.asarray(joint.sum(axis=others)).transpose([kept.index(name) for name in clique])


def query_counts(joint: NDArray, domain: Domain, queries: Queries) -> NDArray[np.int64]:
    """Return the exact answers of a joint table to counting queries."""
    return queries.count({clique: summed(joint, domain, clique) for clique in queries.cliques})
