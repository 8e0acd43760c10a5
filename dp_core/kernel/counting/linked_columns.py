"""The columns of pair rows: how a file of households and persons becomes one table. Public.

A household of s >= 2 members has s (s - 1) pair rows, one for each ordered pair of different
members: the household's columns, `members`, the columns of one member, and the same columns of the
other member. A household of fewer members has one pair row, in which the other member is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MEMBERS = "members"
"""Column of the number of members of a household."""
OTHER = "other."
"""Beginning of the name of each column of the other member."""

MOST_MEMBERS = 20
"""Most members of a household; its pair rows (20 x 19) are fewer than the most rows of a person."""


def pair_rows(members: int) -> int:
    """Return the number of pair rows of a household.

    >>> [pair_rows(members) for members in range(5)]
    [1, 1, 2, 6, 12]
    """
    return max(1, members * (members - 1))


def household_shares(max_members: int) -> int:
    """Return the number of shares of every household: the least common multiple of 1 to K.

    It is that of s(s - 1) for s = 2 to K, too, because s and s - 1 have no common factor: so the
    shares of a household of s members are divided evenly among its s(s - 1) ordered pairs of
    different members.

    Args:
        max_members: Most members K of a household, 1 to `MOST_MEMBERS`.

    Raises:
        ValueError: if it is another number.

    >>> [household_shares(most) for most in (1, 2, 3, 4, 10, 20)]
    [1, 2, 6, 12, 2520, 232792560]
    """
    if type(max_members) is not int or not 1 <= max_members <= MOST_MEMBERS:
        raise ValueError(
            f"A household has at most 1 to {MOST_MEMBERS} members, not {max_members!r}."
        )
    return math.lcm(*range(1, max_members + 1))


def with_members(clique: tuple[str, ...]) -> tuple[str, ...]:
    """Return a clique with the column `members`, as it is counted on pair rows."""
    return clique if MEMBERS in clique else (*clique, MEMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedColumns:
    """The columns of pair rows.

    Attributes:
        household_columns: Columns of the household, without `members`.
        person_columns: Columns of a person.
        min_members: Fewest members of a household, 1 (the default) or 0.
        max_members: Most members of a household.
    """

    household_columns: tuple[str, ...]
    person_columns: tuple[str, ...]
    min_members: int = 1
    max_members: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of members that each code of `members` stands for."""
        return tuple(range(self.min_members, self.max_members + 1))

    @property
    def shares(self) -> int:
        """The number of shares of every household."""
        return household_shares(self.max_members)

    @property
    def weights(self) -> tuple[int, ...]:
        """Shares of one pair row, for each code of `members`; all at least 1.

        A household of s members has `pair_rows(s)` pair rows, so that `pair_rows(s)` times this
        weight is `shares` for every s.
        """
        return tuple(self.shares // pair_rows(members) for members in self.sizes)

    @property
    def others(self) -> tuple[str, ...]:
        """Columns of the other member, in the order of the person columns."""
        return tuple(OTHER + name for name in self.person_columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of pair rows, in the order of their domain."""
        return (*self.household_columns, MEMBERS, *self.person_columns, *self.others)
