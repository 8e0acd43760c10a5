"""The columns of pair rows: how a file of households and persons becomes one table. Public.

A household of s >= 2 members has s (s - 1) pair rows, one for each ordered pair of different
members: the household's columns, `members`, the columns of one member, and the same columns of the
other member. A household of one member has one pair row, in which the other member is missing.

Every household has the same number of *shares*, which its pair rows divide equally. So a table of
household columns counts households, and a table of a member's columns counts each of the s members
of a household as 1/s of a household.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MEMBERS = "members"
"""Column of the number of members of a household."""
OTHER = "other."
"""Beginning of the name of each column of the other member."""


@dataclass(frozen=True, slots=True)
class LinkedColumns:
    """The columns of pair rows.

    Attributes:
        household: Columns of the household, without `members`.
        person: Columns of a person.
        most: Most members of a household; the codes of `members` stand for 1 to `most`.
    """

    household: tuple[str, ...]
    person: tuple[str, ...]
    most: int

    @property
    def others(self) -> tuple[str, ...]:
        """Columns of the other member, in the order of `person`."""
        return tuple(OTHER + name for name in self.person)

    @property
    def shares(self) -> int:
        """Number of shares of each household, the least that pair rows of every size divide evenly.

        >>> LinkedColumns((), ("age",), 4).shares, LinkedColumns((), ("age",), 10).shares
        (12, 2520)
        """
        return math.lcm(*(size * (size - 1) for size in range(2, self.most + 1)))

    @property
    def weights(self) -> NDArray[np.int64]:
        """Shares of one pair row for each code of `members`, shape (most,)."""
        rows = [max(1, size * (size - 1)) for size in range(1, self.most + 1)]
        return np.array([self.shares // each for each in rows], dtype=np.int64)


def pair_rows(
    sizes: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the pair rows of households, household by household.

    Args:
        sizes: Number of members of each household, shape (households,), at least 1. Members are
            numbered household by household.

    Returns:
        Household, member and other member of each pair row, each of shape (pair rows,). The other
        member is -1 in a household of one member.

    >>> [each.tolist() for each in pair_rows(np.array([1, 2]))]
    [[0, 1, 1], [0, 1, 2], [-1, 2, 1]]
    """
    rows = np.maximum(sizes * (sizes - 1), 1)
    household = np.repeat(np.arange(sizes.size), rows)
    start = np.concatenate(([0], np.cumsum(sizes)[:-1])) if sizes.size else sizes
    place = np.arange(household.size) - np.repeat(np.cumsum(rows) - rows, rows)
    others = np.maximum(sizes - 1, 1)[household]
    member, other = place // others, place % others
    # The other members are those before the member, then those after it.
    other += other >= member
    first = start[household]
    alone = sizes[household] == 1
    return household, first + member, np.where(alone, -1, first + other)
