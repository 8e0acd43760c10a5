"""Rules about how many members of a household may meet a condition. Public.

`exactly one relation == reference` counts the members of a household whose code of `relation` is
that of the reference person; a household obeys the rule if this number is 1. Such a rule is about
households with members: one without members, such as a vacant dwelling, obeys every rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.tables.household_rows import HouseholdRows


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRule:
    """A rule about how many members of a household meet a condition.

    Attributes:
        text: The rule as written in the schema.
        columns: Person columns of the condition.
        codes: For each column the codes, ascending, that meet the condition. A member is counted if
            its code of every column is among them.
        least: Smallest number of counted members in a household.
        most: Largest number of counted members; None if there is no limit.
    """

    text: str
    columns: Clique
    codes: tuple[tuple[int, ...], ...]
    least: int = 0
    most: int | None = None

    def counts(self, names: Clique, persons: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which persons are counted, shape (persons,).

        Args:
            names: Names of the person columns.
            persons: Their codes, shape (columns, persons).
        """
        counted = np.ones(persons.shape[1], dtype=bool)
        for name, codes in zip(self.columns, self.codes, strict=True):
            counted &= np.isin(persons[names.index(name)], codes)
        return counted

    def allows(self, number: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which numbers of counted members obey the rule, in the same shape."""
        obeyed = number >= self.least
        return obeyed if self.most is None else obeyed & (number <= self.most)


def households_that_break(
    rule: MemberRule, names: Clique, rows: HouseholdRows
) -> NDArray[np.bool_]:
    """Return which households break a rule, shape (households,); none without members.

    Args:
        rule: The rule.
        names: Names of the person columns, in the order of the codes.
        rows: The households with their members.
    """
    counted = rule.counts(names, rows.persons)
    number = np.bincount(rows.household_of[counted], minlength=rows.sizes.size)
    return ~rule.allows(number) & (rows.sizes > 0)


def broken_households(
    rules: Sequence[MemberRule], names: Clique, rows: HouseholdRows
) -> NDArray[np.bool_]:
    """Return which households break some rule, shape (households,)."""
    broken = np.zeros(rows.sizes.size, dtype=bool)
    for rule in rules:
        broken |= households_that_break(rule, names, rows)
    return broken
