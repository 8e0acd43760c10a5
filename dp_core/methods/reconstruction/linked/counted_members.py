"""Rules that count members: as arrays for the compiled loops, and first values that obey them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.schema.structure.member_rules import MemberRule

_ROUNDS = 3
"""Rounds over all rules. A change for one rule may break an earlier one, so one is too few."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedMembers:
    """Rules that count members, listed by the person column whose value is changed.

    Rule r has conditions on the columns `columns[k]`, for k from `first[r]` to `first[r + 1] - 1`.
    It counts a member if `inside[base[k] + code]` is true for the member's code in each of them.

    Attributes:
        of_column: Start of each person column's entries, shape (person columns + 1,).
        rule: Rule of each entry.
        first: Start of each rule's columns, shape (rules + 1,).
        columns: Numbers of the person columns.
        base: Start of the column's codes in `inside`, same shape.
        inside: Whether a code is counted.
        least: Fewest counted members of a household, shape (rules,).
        most: Most counted members, shape (rules,).
    """

    of_column: NDArray[np.int64]
    rule: NDArray[np.int64]
    first: NDArray[np.int64]
    columns: NDArray[np.int64]
    base: NDArray[np.int64]
    inside: NDArray[np.bool_]
    least: NDArray[np.int64]
    most: NDArray[np.int64]

    @classmethod
    def of(cls, domain: Domain, rules: Sequence[MemberRule]) -> CountedMembers:
        """Return the listing of some rules.

        Args:
            domain: Domain of pair rows.
            rules: The rules.
        """
        linked = domain.linked
        assert linked is not None
        first, columns, base = [0], [], []
        inside: list[NDArray[np.bool_]] = [np.zeros(0, np.bool_)]
        entries: list[list[int]] = [[] for _ in linked.person_columns]
        end = 0
        for number, rule in enumerate(rules):
            for name, codes in zip(rule.columns, rule.codes, strict=True):
                column, size = linked.person_columns.index(name), domain.size((name,))
                entries[column].append(number)
                columns.append(column)
                base.append(end)
                inside.append(np.isin(np.arange(size), codes))
                end += size
            first.append(len(columns))
        # No household has more members than this, so it is no limit.
        most = [linked.max_members if rule.most is None else rule.most for rule in rules]
        return cls(
            of_column=_numbers(np.cumsum([0, *map(len, entries)])),
            rule=_numbers([number for own in entries for number in own]),
            first=_numbers(first),
            columns=_numbers(columns),
            base=_numbers(base),
            inside=np.concatenate(inside),
            least=_numbers([rule.least for rule in rules]),
            most=_numbers(most),
        )


def _numbers(values: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)


def with_counts(
    persons: NDArray[np.int64],
    sizes: NDArray[np.int64],
    rules: Sequence[MemberRule],
    names: Clique,
    shares: Sequence[NDArray[np.float64]],
    *,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return codes of persons that obey rules that count members.

    In a household that breaks a rule, random members get other codes. If a change for one rule
    breaks another rule every time, some households still break a rule.

    Args:
        persons: Codes, shape (columns, persons), household by household.
        sizes: Number of members of each household.
        rules: The rules.
        names: Names of the columns.
        shares: Shares of the codes of each column, from which new codes are drawn.
        rng: Generator for post-processing.
    """
    persons = persons.copy()
    household_of = np.repeat(np.arange(sizes.size), sizes)
    start = np.cumsum(sizes) - sizes
    for _ in range(_ROUNDS):
        changed = False
        for rule in rules:
            counted = rule.counts(names, persons)
            number = np.bincount(household_of[counted], minlength=sizes.size)
            below = np.maximum(rule.least - number, 0)[household_of]
            most = number if rule.most is None else np.minimum(number, rule.most)
            above = (number - most)[household_of]
            if not (below.any() or above.any()):
                continue
            changed = True
            # The place of each person among the members that are counted, or that are not.
            order = np.lexsort((rng.random(household_of.size), counted, household_of))
            place = np.empty(household_of.size, dtype=np.int64)
            place[order] = np.arange(household_of.size) - start[household_of[order]]
            place -= np.where(counted, (sizes - number)[household_of], 0)
            joining = np.flatnonzero(~counted & (place < below))
            leaving = np.flatnonzero(counted & (place < above))
            for name, codes in zip(rule.columns, rule.codes, strict=True):
                axis = names.index(name)
                outside = joining[~np.isin(persons[axis, joining], codes)]
                persons[axis, outside] = _drawn(shares[axis], codes, outside.size, rng=rng)
            if leaving.size:
                axis = names.index(rule.columns[-1])
                gone = _outside(rule, rules, shares[axis].size)
                persons[axis, leaving] = _drawn(shares[axis], gone, leaving.size, rng=rng)
        if not changed:
            break
    return persons


def _outside(rule: MemberRule, rules: Sequence[MemberRule], size: int) -> list[int]:
    """Return the codes of a rule's last column that the rule does not count.

    If possible, they are codes that no other rule limits by themselves.
    """
    name, codes = rule.columns[-1], rule.codes[-1]
    found = [code for code in range(size) if code not in codes]
    limited = {
        code
        for other in rules
        if other.columns == (name,) and other.most is not None
        for code in other.codes[0]
    }
    return [code for code in found if code not in limited] or found


def _drawn(
    shares: NDArray[np.float64], codes: Sequence[int], number: int, *, rng: np.random.Generator
) -> NDArray[np.int64]:
    among = np.asarray(codes, dtype=np.int64)
    weights = np.maximum(shares[among], 0.0)
    if weights.sum() <= 0:
        weights = np.ones(among.size)
    return rng.choice(among, size=number, p=weights / weights.sum())
