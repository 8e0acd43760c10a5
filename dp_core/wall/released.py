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
        round: Round it was measured in, from 1, where a method measures in rounds; otherwise 0.
    """

    domain: Domain
    values: NDArray[np.int64]
    noise: Noise
    scale: float
    stage: str
    replicate: int
    grant: int
    round: int = 0

    @property
    def variance(self) -> float:
        """Variance of each cell, records squared (of the continuous noise, an upper bound)."""
        return noise_variance(self.noise, self.scale)

    @property
    def clique(self) -> Clique:
        """Columns, in the order of the axes."""
        return self.domain.columns


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Noisy answers to counting queries that are no whole table, paid for together.

    Attributes:
        queries: What was asked; each counts every record at most once.
        values: Shape (`queries.length`,), records; whole numbers, may be negative.
        noise, scale, stage, replicate, grant, round: As of a `Measurement`; one event for all.
    """

    queries: Queries
    values: NDArray[np.int64]
    noise: Noise
    scale: float
    stage: str
    replicate: int
    grant: int
    round: int = 0

    @property
    def variance(self) -> float:
        """Variance of each answer, records squared (of the continuous noise, an upper bound)."""
        return noise_variance(self.noise, self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class SparseTable:
    """Noisy counts of those cells that passed a threshold (a stability-based histogram).

    Of every other cell nothing is known but that it was not among them.

    Attributes:
        domain: The clique's domain; it may have any number of cells.
        cells: Shape (cells, columns), `uint16` codes, ascending.
        values: Shape (cells,), records; at least `threshold`.
        threshold: Least noisy count that was kept, records.
        capacity: Number of cells the stored result had room for; public.
        noise, scale, stage, replicate, grant, round: As of a `Measurement`.
    """

    domain: Domain
    cells: NDArray[np.uint16]
    values: NDArray[np.int64]
    threshold: int
    capacity: int
    noise: Noise
    scale: float
    stage: str
    replicate: int
    grant: int
    round: int = 0

    @property
    def clique(self) -> Clique:
        """Columns, in the order of the cells' codes."""
        return self.domain.columns


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """A noisy sum over records: whole numbers that are no counts, paid for together.

    Attributes:
        of: What was summed, and in which unit.
        values: Shape (`of.length`,), in the sum's own unit; whole numbers.
        noise, scale, stage, replicate, grant, round: As of a `Measurement`; one event for all, its
            scale in the sum's unit.
    """

    of: Sum
    values: NDArray[np.int64]
    noise: Noise
    scale: float
    stage: str
    replicate: int
    grant: int
    round: int = 0

    @property
    def variance(self) -> float:
        """Variance of each entry, its unit squared (of the continuous noise, an upper bound)."""
        return noise_variance(self.noise, self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Public records that a method made itself, by choices or draws that were paid for.

    Attributes:
        dataset: All columns.
        replicate: As of a `Measurement`.
    """

    dataset: Dataset
    replicate: int = 0


Released: TypeAlias = Measurement | Answers | SparseTable | Totals | Records
"""What is known about the data on the public side, all of it paid for."""

ReleasedKind = Literal["tables", "answers", "sparse", "totals", "interactions", "records"]
"""The words by which a method says what it gives or takes."""


def kind_of(item: Released) -> ReleasedKind:
    """Return the word for something that was released."""
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
    """Return the complete noisy tables among what was released, in order."""
    return tuple(item for item in released if isinstance(item, Measurement))


def interactions_of(released: Sequence[Released]) -> tuple[Totals, ...]:
    """Return the noisy interactions among what was released, in order; `of` is an `Interaction`."""
    return tuple(
        item for item in released if isinstance(item, Totals) and isinstance(item.of, Interaction)
    )


def noise_variance(noise: Noise, scale: float) -> float:
    """Return the variance of the continuous noise, an upper bound of that of the discrete."""
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
