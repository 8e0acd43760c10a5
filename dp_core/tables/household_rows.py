"""Pair rows from the codes of two linked tables.

The pair rows of a file are in the order of its households. The rows of a household are its ordered
pairs (i, j) of different members, sorted by i and then by j. Everything takes and returns arrays,
so that a file can be translated piece by piece; each piece has whole households.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import LinkedColumns, pair_rows

_BLOCK = 1 << 18
"""Approximate number of pair rows that are made at a time."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HouseholdRows:
    """Codes of a table of households and of the persons in them, confidential or synthetic.

    Attributes:
        households: Codes of the household columns, shape (household columns, households).
        sizes: Number of members of each household, `int64`, shape (households,).
        persons: Codes of the person columns, shape (person columns, persons), household
            by household in the order of `households`.
        units: Hash of each household, shape (households,); empty (the default) if none is needed.
    """

    households: Codes
    sizes: NDArray[np.int64]
    persons: Codes
    units: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def __post_init__(self) -> None:
        if self.sizes.shape != self.households.shape[1:]:
            raise ValueError("Every household needs its number of members.")
        if self.persons.shape[1] != self.sizes.sum():
            raise ValueError("The numbers of members do not add up to the persons.")

    @property
    def household_of(self) -> NDArray[np.int64]:
        """Position of each person's household, shape (persons,)."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Number of each person within the household, from 1, shape (persons,)."""
        return places_within(self.sizes) + 1

    def __repr__(self) -> str:
        return f"HouseholdRows({len(self.households)} and {len(self.persons)} columns)"

    def take(self, places: NDArray[np.int64]) -> HouseholdRows:
        """Return the households at some places, each with its members.

        Args:
            places: Positions of households, in the new order; a position may be repeated.
        """
        taken, first = self.sizes[places], _starts(self.sizes)[:-1]
        persons = np.repeat(first[places], taken) + places_within(taken)
        units = self.units[places] if self.units.size else self.units
        return HouseholdRows(self.households[:, places], taken, self.persons[:, persons], units)


def to_pair_rows(linked: LinkedColumns, domain: Domain, rows: HouseholdRows) -> Dataset:
    """Return the pair rows of households.

    Args:
        linked: The columns of pair rows.
        domain: The wide domain. The last code of an `other.` column is for no other member; if
            households may be empty, the last code of a person column is for no member.
        rows: The households with their members, of sizes that are in the domain.

    Returns:
        The pair rows, in the order that the module states.
    """
    least, most = linked.min_members, linked.max_members
    if rows.sizes.size and not (least <= rows.sizes.min() and rows.sizes.max() <= most):
        raise ValueError(f"A household has {least} to {most} members.")
    pairs = pair_counts(linked)[rows.sizes - least]
    starts = _starts(pairs)
    first = _starts(rows.sizes)
    codes = np.empty((len(domain), int(starts[-1])), dtype=domain.code_type)
    persons = rows.persons.astype(domain.code_type, copy=False)
    middle = len(linked.household_columns)
    count = len(linked.person_columns)
    none = np.array(domain.sizes[middle + 1 :], dtype=np.int64) - 1
    for block in _blocks(starts):
        own, members = pairs[block], rows.sizes[block]
        part = codes[:, starts[block.start] : starts[block.stop]]
        of = np.repeat(np.arange(block.start, block.stop), own)
        for axis in range(middle):
            part[axis] = rows.households[axis].take(of)
        part[middle] = (members - least).repeat(own)
        # The pair of number p is that of member p // (s - 1) with the p % (s - 1)-th of the others.
        number, others = places_within(own), np.maximum(members - 1, 1).repeat(own)
        one = number // others
        two = number - one * others
        two += two >= one
        base = first[of]
        has_one, has_two = (members >= 1).repeat(own), (members >= 2).repeat(own)
        for axis in range(count):
            column = persons[axis]
            for place, index, there, code in (
                (middle + 1 + axis, base + one, has_one, none[axis]),
                (middle + 1 + count + axis, base + two, has_two, none[count + axis]),
            ):
                if there.all():
                    column.take(index, out=part[place])
                else:
                    part[place] = code
                    part[place][there] = column[index[there]]
    return Dataset(domain, codes)


def pair_row_pieces(
    linked: LinkedColumns, domain: Domain, rows: HouseholdRows
) -> Iterator[tuple[Dataset, NDArray[np.uint64], float]]:
    """Yield the pair rows of households in pieces, at least one.

    Args:
        linked: The columns of pair rows.
        domain: The wide domain.
        rows: The households with their members.

    Yields:
        The pair rows of whole households, the hash of each row's household if `rows` have hashes,
        and the part of the work that is then done, 0 to 1.
    """
    pairs = pair_counts(linked)[rows.sizes - linked.min_members]
    starts = _starts(pairs)
    households = rows.sizes.size
    for block in _blocks(starts) if households else [slice(0, 0)]:
        part = rows.take(np.arange(block.start, block.stop))
        units = np.repeat(part.units, pairs[block]) if part.units.size else part.units
        yield to_pair_rows(linked, domain, part), units, block.stop / max(households, 1)


def pair_counts(linked: LinkedColumns) -> NDArray[np.int64]:
    """Return the number of pair rows of a household, for each code of `members`."""
    return np.array([pair_rows(members) for members in linked.sizes])


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(lengths)))


def places_within(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, ... for each of several lengths, one after the other."""
    starts = _starts(lengths)
    return np.arange(starts[-1]) - starts[:-1].repeat(lengths)


def _blocks(starts: NDArray[np.int64]) -> Iterator[slice]:
    """Yield slices of whole households with about `_BLOCK` pair rows each."""
    at, end = 0, starts.size - 1
    while at < end:
        stop = int(np.searchsorted(starts, starts[at] + _BLOCK, side="right")) - 1
        stop = min(max(stop, at + 1), end)
        yield slice(at, stop)
        at = stop
