"""Exact counts, and the protocol of the classes that count them. Confidential.

`Marginal` is a separate type from `Measurement` (`dp_core.client.released`), so that the type
checker refuses exact counts in functions that publish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.domain import Clique, Domain


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Marginal:
    """Exact counts over a clique. Confidential.

    Attributes:
        domain: Domain of the clique.
        counts: Number of records in each cell, shape `domain.sizes`.
    """

    domain: Domain
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.counts.shape != self.domain.sizes:
            raise ValueError(f"Counts of shape {self.counts.shape} for sizes {self.domain.sizes}.")

    def __repr__(self) -> str:
        return f"Marginal({self.domain}, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        # Prefect and Dask pickle what they store or send; Dask tasks return plain arrays instead.
        raise TypeError("A Marginal is confidential and is not pickled.")


class Counter(Protocol):
    """Counts marginals of the confidential file exactly; only the kernel holds one."""

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        """Return the exact marginal of each clique."""

    def observed(self, clique: Clique) -> tuple[Codes, NDArray[np.int64]]:
        """Return the non-empty cells of a clique, and their counts.

        The clique may have any number of cells, because only records are visited.

        Returns:
            Codes, shape (cells, columns), in ascending order, and counts, shape (cells,), all
            positive.
        """
