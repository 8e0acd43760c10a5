"""Results that crossed the wall: noisy tables, answers, sums and records. Safe to release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.privacy import Noise
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.wall.statistics import Sum
from dp_core.wall.statistics.counting_queries import Queries
from dp_core.wall.statistics.interactions import Interaction


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Paid:
    """What one charge paid for: the noise of a result, and where it was measured.

    Attributes:
        noise: Kind of noise.
        scale: Its parameter, in units of the values: `b` of the discrete Laplace, `sigma` of the
            discrete Gaussian.
        stage: Paying stage.
        replicate: Set that the result serves if every set has its own (1..m); 0 if shared.
        grant: Number of the ledger entry that paid for it.
        round: Round it was measured in, from 1; 0 if the method has no rounds.
    """

    noise: Noise
    scale: float
    stage: str
    replicate: int = 0
    grant: int
    round: int = 0

    @property
    def variance(self) -> float:
        """Variance of the noise on each value, in its unit squared; see `noise_variance`."""
        return noise_variance(self.noise, self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class Measurement(Paid):
    """A noisy marginal. Safe to release.

    Attributes:
        domain: The clique's domain.
        values: Shape `domain.sizes`, records; whole numbers, may be negative.
    """

    domain: Domain
    values: NDArray[np.int64]

    @property
    def clique(self) -> Clique:
        """Columns, in the order of the axes."""
        return self.domain.columns


@dataclass(frozen=True, slots=True, eq=False)
class Answers(Paid):
    """Noisy answers to counting queries, paid for by one event.

    Attributes:
        queries: What was asked; each counts every record at most once.
        values: Shape (`queries.length`,), records; whole numbers, may be negative.
    """

    queries: Queries
    values: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SparseTable(Paid):
    """Noisy counts of the cells that reached a threshold (a stability-based histogram).

    Nothing is known about any other cell except that it is not among these.

    Attributes:
        domain: The clique's domain; it may have any number of cells.
        cells: Shape (cells, columns), `uint16` codes, ascending.
        values: Shape (cells,), records; at least `threshold`.
        threshold: Least noisy count that was kept, records.
        capacity: Most cells that the stored result can hold; public.
    """

    domain: Domain
    cells: NDArray[np.uint16]
    values: NDArray[np.int64]
    threshold: int
    capacity: int

    @property
    def clique(self) -> Clique:
        """Columns, in the order of the cells' codes."""
        return self.domain.columns


@dataclass(frozen=True, slots=True, eq=False)
class Totals(Paid):
    """A noisy sum over records, paid for by one event.

    Attributes:
        of: What was summed, and in which unit.
        values: Shape (`of.length`,), in the sum's own unit; whole numbers.
    """

    of: Sum
    values: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Public records that a method made by choices or draws that were paid for.

    Attributes:
        dataset: All columns.
        replicate: Set that the records are for, 0 if shared.
    """

    dataset: Dataset
    replicate: int = 0


Released: TypeAlias = Measurement | Answers | SparseTable | Totals | Records
"""Everything that the public side knows about the data, all of it paid for."""

ReleasedKind = Literal["tables", "answers", "sparse", "totals", "interactions", "records"]
"""Kinds of results, by which a method declares what it gives or takes."""


def kind_of(item: Released) -> ReleasedKind:
    """Return the kind of a released result."""
    match item:
        case Measurement():
            return "tables"
        case Answers():
            return "answers"
        case SparseTable():
            return "sparse"
        case Totals():
            return "interactions" if isinstance(item.of, Interaction) else "totals"
        case Records():
            return "records"


def tables_of(released: Sequence[Released]) -> tuple[Measurement, ...]:
    """Return the complete noisy tables among released results, in order."""
    return tuple(item for item in released if isinstance(item, Measurement))


def interactions_of(released: Sequence[Released]) -> tuple[Totals, ...]:
    """Return the noisy interactions among released results, in order; `of` is an `Interaction`."""
    return tuple(
        item for item in released if isinstance(item, Totals) and isinstance(item.of, Interaction)
    )


def noise_variance(noise: Noise, scale: float) -> float:
    """Return the variance of continuous noise, an upper bound on that of discrete noise."""
    return (2.0 if noise == "laplace" else 1.0) * scale**2


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
