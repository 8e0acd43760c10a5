"""Records in codes: what codes mean to scores that need an order or a number, and samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.tables.household_rows import to_pair_rows
from dp_core.tables.linked_records import from_pair_rows


@dataclass(frozen=True, slots=True, eq=False)
class CodeValues:
    """Numbers that the codes of ordered columns stand for.

    Attributes:
        domain: All columns.
        values: For each column whose codes have an order, the number of each code, shape (size,);
            NaN for the code that means missing. Other columns are nominal.
    """

    domain: Domain
    values: Mapping[str, NDArray[np.float64]]

    def __post_init__(self) -> None:
        for name, numbers in self.values.items():
            if numbers.shape != self.domain.project((name,)).sizes:
                raise ValueError(f"Column {name!r} has not one number for each code.")

    @property
    def ordered(self) -> tuple[str, ...]:
        """The columns with an order, in the order of the domain."""
        return tuple(name for name in self.domain.columns if name in self.values)

    @property
    def nominal(self) -> tuple[str, ...]:
        """The columns without one."""
        return tuple(name for name in self.domain.columns if name not in self.values)


def random_records(data: Dataset, most: int, rng: np.random.Generator) -> Dataset:
    """Return at most this many records in their order, a simple random sample.

    Args:
        data: The records.
        most: Largest number of records; if there are no more, all are returned and `rng` is unused.
        rng: Source of randomness.
    """
    if data.rows <= most:
        return data
    return records_at(data, np.sort(rng.choice(data.rows, most, replace=False)))


def resample(data: Dataset, rng: np.random.Generator) -> Dataset:
    """Return as many records drawn with replacement, which have sampling error only.

    If the records are pair rows, whole households are drawn with their members.
    """
    linked = data.domain.linked
    if linked is not None:
        households = from_pair_rows(linked, data)
        number = households.sizes.size
        return to_pair_rows(linked, data.domain, households.take(rng.integers(0, number, number)))
    return records_at(data, rng.integers(0, data.rows, data.rows))


def records_at(data: Dataset, places: NDArray[np.int64] | NDArray[np.bool_]) -> Dataset:
    """Return some records, by their numbers or by a mark of each."""
    return Dataset(data.domain, np.ascontiguousarray(data.codes[:, places]))
