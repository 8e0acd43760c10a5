"""Exact counts, and the protocol by which they are counted. Confidential.

`Marginal` is a type of its own: a function that publishes takes a `Measurement`
(`dp_core.wall.released`), and the type checker refuses a `Marginal` in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_core.tables.domain import Clique, Domain


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Marginal:
    """Exact counts over a clique. Confidential.

    Attributes:
        domain: The clique's domain.
        counts: Shape `domain.sizes`, records.
    """

    domain: Domain
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.counts.shape != self.domain.sizes:
            raise ValueError(f"Counts of shape {self.counts.shape} for sizes {self.domain.sizes}.")

    def __repr__(self) -> str:
        return f"Marginal({self.domain}, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        # Pickles are how orchestrators leak; Dask tasks return plain count vectors instead.
        raise TypeError("A Marginal is confidential and is not pickled.")


class Counter(Protocol):
    """Counts marginals of the confidential file exactly; only the curator holds one."""

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        """Return the exact marginal of each clique."""

    def observed(self, clique: Clique) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Return the cells of a clique that hold a record, and how many each holds.

        Only records are visited, never the clique's domain, which may have any number of cells.

        Returns:
            Codes, shape (cells, columns), ascending as the clique's axes have them, and counts,
            shape (cells,), all positive.
        """
