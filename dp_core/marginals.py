"""Marginals on both sides of the wall, as two types that cannot be mistaken for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dp_core.domain import Clique, Domain


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


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """A noisy marginal, paid for. Safe to release.

    Attributes:
        domain: The clique's domain.
        values: Shape `domain.sizes`, records; whole numbers, may be negative.
        noise: Kind of noise.
        scale: Its parameter: `b` of the discrete Laplace, `sigma` of the discrete Gaussian.
        stage: Stage that paid (`total`, `one_way`, `measure`).
        replicate: Set this measurement serves when every set has its own (1..m); 0 when shared.
        grant: Number of the ledger entry that paid for it.
    """

    domain: Domain
    values: NDArray[np.int64]
    noise: Literal["laplace", "gaussian"]
    scale: float
    stage: str
    replicate: int
    grant: int

    @property
    def variance(self) -> float:
        """Variance of each cell, records squared (of the continuous noise, an upper bound)."""
        return (2.0 if self.noise == "laplace" else 1.0) * self.scale**2

    @property
    def clique(self) -> Clique:
        """Columns, in the order of the axes."""
        return self.domain.columns


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A public table of a fitted model: nonnegative, consistent with its neighbours.

    Attributes:
        domain: The clique's domain.
        values: Shape `domain.sizes`, records (not necessarily whole).
    """

    domain: Domain
    values: NDArray[np.float64]

    @property
    def clique(self) -> Clique:
        """Columns, in the order of the axes."""
        return self.domain.columns
