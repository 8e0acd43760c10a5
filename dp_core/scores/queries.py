"""Statistics of counting queries: their counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.domain import Clique
from dp_core.marginals import Marginal
from dp_core.privacy import Neighbours
from dp_core.queries import Queries, queries_from_json
from dp_core.scores.base import Bounds


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """The numbers of records of counting queries.

    Attributes:
        queries: What is counted.
    """

    queries: Queries

    @property
    def length(self) -> int:
        return self.queries.length

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return self.queries.cliques

    def largest_change(self, neighbours: Neighbours) -> int:  # noqa: ARG002
        """1: a row is counted or not, whether it comes, goes or is replaced by another."""
        return 1

    def l1(self, neighbours: Neighbours) -> int:
        """Return what the queries prove of themselves."""
        return self.queries.l1(neighbours)

    def l2_squared(self, neighbours: Neighbours) -> int:
        """Return what the queries prove of themselves."""
        return self.queries.l2_squared(neighbours)

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        return _exact(self.queries, counts)

    def to_json(self) -> dict[str, object]:
        return {"name": "query-counts", "queries": self.queries.to_json()}

    @staticmethod
    def required(document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
        # privacy: the queries themselves are read, and what they say of themselves is proven.
        queries = queries_from_json(document["queries"])
        return 1, queries.l1(neighbours), queries.l2_squared(neighbours)


def _exact(queries: Queries, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
    """Return exact counts, shape (length,). Confidential."""
    values = queries.count({clique: counts[clique].counts for clique in queries.cliques})
    # privacy: counts of records, never a float.
    assert values.dtype == np.int64
    return values
