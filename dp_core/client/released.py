"""Results that crossed the wall: noisy tables, answers, sums and records. Safe to release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.privacy import Noise
from dp_core.kernel.questions.counting_queries import Queries
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.kernel.questions.statistic import Sum


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Paid:
    """A noisy result that one charge paid for: its noise, and where it was measured.

    Attributes:
        noise: Kind of noise, `laplace` or `gaussian`.
        scale: Parameter of the noise, in units of the values: `b` of the discrete Laplace
            distribution, `sigma` of the discrete Gaussian. Where households are the units, it is
            that of the noise on shares divided by their number.
        stage: Stage that paid.
        replicate: Index of the set that the result is for (1 to m); 0 (the default) if all sets
            share it.
        grant: Number of the receipt of its charge.
        round: Number of the round, from 1; 0 (the default) if the method has no rounds.
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
        values: Shape `domain.sizes`, records; whole numbers, may be negative. Where households are
            the units, floats: whole numbers of shares divided by their number.
    """

    domain: Domain
    values: NDArray[Any]

    @property
    def clique(self) -> Clique:
        """Columns, in the order of the axes."""
        return self.domain.columns


@dataclass(frozen=True, slots=True, eq=False)
class Answers(Paid):
    """Noisy answers to counting queries, paid for by one event.

    Attributes:
        queries: The counting queries; each counts every record at most once.
        values: Shape (`queries.length`,), records; whole numbers, may be negative; floats as in
            `Measurement` where households are the units.
    """

    queries: Queries
    values: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Totals(Paid):
    """A noisy sum over records, paid for by one event.

    Attributes:
        of: The sum; it defines the entries and their unit.
        values: Noisy entries, shape (`of.length`,), in the sum's unit; whole numbers, or floats as
            in `Measurement` where households are the units.
    """

    of: Sum
    values: NDArray[Any]


def noise_variance(noise: Noise, scale: float) -> float:
    """Return the variance of continuous noise, an upper bound on that of discrete noise.

    Args:
        noise: Kind of noise.
        scale: Parameter of the noise, in units of the values.
    """
    return (2.0 if noise == "laplace" else 1.0) * scale**2


@dataclass(frozen=True, slots=True)
class Charged:
    """The noisy distance of one table from that of the sets, paid for by a receipt.

    Attributes:
        grant: Grant that paid for it; only a session of the ledger makes one.
        table: Columns of the table.
        distance: Noisy sum over cells of |count in the file - count in the sets|, in units of
            1/`shares` of a record, as it was drawn.
        shares: Shares of a unit; 1 (the default) unless households are the units.
    """

    grant: Grant
    table: Clique
    distance: int
    shares: int = 1

    def __post_init__(self) -> None:
        # privacy: a figure about the data that was not paid for is internal.
        if not isinstance(self.grant, Grant) or self.grant.step.stage != "checks":
            raise TypeError("A charged figure needs the grant of a check that paid for it.")
        if list(self.table) not in self._tables():
            raise ValueError("The grant did not pay for the table of this charged figure.")

    def _tables(self) -> list[object]:
        asked = self.grant.step.asks.get("tables")
        return asked if isinstance(asked, list) else []


@dataclass(frozen=True, slots=True, eq=False)
class SparseTable(Paid):
    """Noisy counts of the cells that reached a threshold (a stability-based histogram).

    The other cells are not listed; no counts of them were released.

    Attributes:
        domain: Domain of the clique; it may have any number of cells.
        cells: Codes of the listed cells, shape (cells, columns), ascending.
        values: Noisy counts, shape (cells,), records; at least `threshold`.
        threshold: Least noisy count that was kept, records.
        capacity: Largest number of cells that the stored result can hold; public.
    """

    domain: Domain
    cells: Codes
    values: NDArray[np.int64]
    threshold: int
    capacity: int

    @property
    def clique(self) -> Clique:
        """Columns, in the order of the cells' codes."""
        return self.domain.columns


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Public records that a method made from paid choices or draws.

    Attributes:
        dataset: The records, with all columns.
        replicate: Index of the set that the records are for; 0 (the default) if shared.
    """

    dataset: Dataset
    replicate: int = 0


Released: TypeAlias = Measurement | Answers | SparseTable | Totals | Records
"""A result that crossed the wall; the public side knows nothing else about the data."""


ReleasedKind = Literal["tables", "answers", "sparse", "totals", "interactions", "records"]
"""Kinds of results; a method declares which kinds it returns or needs."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A public table of a fitted model: nonnegative, and consistent with the model's other tables.

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
