"""The columns of a release as a parametric method sees them: levels, and numbers on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes, code_type
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.bin_pieces import Pieces, spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One column. Public.

    Attributes:
        name: Name of the column.
        size: Number of codes.
        positions: Number of grid positions of a numeric column, whose codes are 0 to
            positions - 1; 0 for a categorical column, whose codes are levels.
        low, high: Ends of a numeric column, in its unit (dates: day ordinals); position i
            represents low + (i + 1/2) (high - low)/positions.
        bins: The schema's bin edges of a numeric column as positions, from 0 to `positions`.
        missing: Whether the last code means missing.
        pieces: Distribution of records within bins that were chosen privately; otherwise empty,
            and the distribution is uniform.
    """

    name: str
    size: int
    positions: int = 0
    low: float = 0.0
    high: float = 1.0
    bins: tuple[int, ...] = ()
    missing: bool = False
    pieces: Pieces = ()

    def __post_init__(self) -> None:
        if self.numeric and self.size != self.positions + self.missing:
            raise ValueError(f"{self.name} has {self.size} codes for {self.positions} positions.")

    @property
    def numeric(self) -> bool:
        """Whether its codes are positions on a grid."""
        return self.positions > 0

    @property
    def step(self) -> float:
        """Distance of two positions, in the column's unit."""
        return (self.high - self.low) / self.positions

    def value(self, position: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of positions, also between two of them, in the column's unit."""
        return np.asarray(self.low + (position + 0.5) * self.step)

    def within(
        self, bins: NDArray[Any], edges: Sequence[int], *, rng: np.random.Generator
    ) -> Codes:
        """Return a position drawn within the bin of each code.

        Args:
            bins: Bin of each row, shape (rows,).
            edges: Edges of the bins, the column's own or others. The bin of missing, if any, is one
                code wide, so that missing stays missing.
            rng: Generator for post-processing.
        """
        if self.pieces:
            missing = ((self.positions, 1),) if self.missing else ()
            bins, edges = spread(bins, edges, (*self.pieces, *missing), rng=rng)
        ends = np.asarray(edges)
        drawn: NDArray[np.int64] = rng.integers(ends[bins], ends[bins + 1])
        return drawn.astype(code_type(self.size))

    def position(self, value: NDArray[np.float64]) -> Codes:
        """Return the nearest position of each value; values are in the unit of the column."""
        nearest = np.rint((value - self.low) / self.step - 0.5)
        return np.clip(nearest, 0, self.positions - 1).astype(code_type(self.size))


@dataclass(frozen=True, slots=True)
class Variables(Sequence[Variable]):
    """All columns, in the schema's order. Public."""

    all: tuple[Variable, ...]

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.all[index]

    @property
    def domain(self) -> Domain:
        """Names and numbers of codes."""
        return Domain(
            tuple(variable.name for variable in self.all),
            tuple(variable.size for variable in self.all),
        )

    @property
    def numeric(self) -> tuple[Variable, ...]:
        """Columns that are numbers."""
        return tuple(variable for variable in self.all if variable.numeric)

    @property
    def categorical(self) -> tuple[Variable, ...]:
        """Columns that are levels."""
        return tuple(variable for variable in self.all if not variable.numeric)

    def variable(self, name: str) -> Variable:
        """Return the column of that name.

        Raises:
            KeyError: if there is no such column.
        """
        for variable in self.all:
            if variable.name == name:
                return variable
        raise KeyError(name)
