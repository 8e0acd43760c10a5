"""Results that crossed the wall, as methods and bundles tell them apart. Safe to release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.kernel.released import Answers, Measurement, Paid, Totals


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
