"""What links a table of households to a table of persons, and what a pair row weighs.

The *wide domain* has the household columns, `members` (the number of persons of the household), the
person columns (one member) and a column `other.x` for each person column `x` (another member of
the same household). A household with s >= 2 members has s(s - 1) pair rows, one for each ordered
pair of different members. A household with one member has one pair row, whose `other.` columns have
the code for no other member. A household without members has one pair row, too; in addition, its
person columns have the code for no member.

A pair row of a household with s members weighs S / (s(s - 1)) shares, and S shares if s is 0 or 1.
S is the least common multiple of s(s - 1) over all s from 2 to `max_members`, so that every weight
is a whole number and every household has exactly S shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dp_core.kernel.counting.linked_columns import MEMBERS, MOST_MEMBERS, OTHER, LinkedColumns
from dp_core.schema.structure.member_rules import MemberRule

Larger = Literal["reject", "clip"]
"""What happens to a household with more than `max_members` members."""

NO_MEMBER = "(no member)"
"""Label of the last level of a person column, if households may be without members."""
NO_OTHER = "(no other member)"
"""Label of the last level of a column of another member."""


def other(name: str) -> str:
    """Return the name of a person column for another member of the same household.

    >>> other("age")
    'other.age'
    """
    return OTHER + name


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedTables(LinkedColumns):
    """A table of households and a table of persons that belong to them. Public.

    The columns of `LinkedColumns` are the released ones, in the schema's order.

    Attributes:
        households: Name of the table of households.
        persons: Name of the table of persons.
        key: Column of the household table that identifies a household.
        link: Column of the person table that holds the household's key.
        person_key: Column of the person table that identifies a person within the household.
        larger: Whether a household with more members is refused, or only its first `max_members`
            members by person key are kept.
        household_ignore: Columns of the household table that are neither read nor released.
        person_ignore: Columns of the person table that are neither read nor released.
        rules: Rules about how many members of a household meet a condition; none by default.
    """

    households: str
    persons: str
    key: str
    link: str
    person_key: str
    larger: Larger = "reject"
    household_ignore: tuple[str, ...] = ()
    person_ignore: tuple[str, ...] = ()
    rules: tuple[MemberRule, ...] = ()

    def __post_init__(self) -> None:
        if self.min_members not in (0, 1):
            raise ValueError(f"A household has at least 0 or 1 members, not {self.min_members!r}.")
        if type(self.max_members) is not int or not 1 <= self.max_members <= MOST_MEMBERS:
            raise ValueError(
                f"A household has at most 1 to {MOST_MEMBERS} members, not {self.max_members!r}."
            )
        names = (*self.household_columns, MEMBERS, *self.person_columns, *self.others)
        if len(set(names)) != len(names):
            raise ValueError("A column of linked tables is repeated.")

    @property
    def wide(self) -> LinkedColumns:
        """The columns of pair rows."""
        return LinkedColumns(
            household_columns=self.household_columns,
            person_columns=self.person_columns,
            min_members=self.min_members,
            max_members=self.max_members,
        )

    @property
    def household_reads(self) -> tuple[str, ...]:
        """Columns of the household table that are read: its key, then the released ones."""
        return (self.key, *self.household_columns)

    @property
    def person_reads(self) -> tuple[str, ...]:
        """Columns of the person table that are read: its two keys, then the released ones."""
        return (self.link, self.person_key, *self.person_columns)
