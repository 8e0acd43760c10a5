"""Changes one value of one member at a time until the households add up to the tables, compiled.

The error is the sum of `worth * (held - wanted)^2` over the cells of all tables. A member of a
household of s counts 1 / s in the tables of a member, and each ordered pair of two members
1 / (s (s - 1)) in the tables of two members. A member's value is taken out of all tables, and the
value that adds least to the error is put in. Rules may limit how many members of a household meet
a condition; no change makes a household break such a rule, or break it more.
"""

from __future__ import annotations

import numba
import numpy as np

_BROKEN = 1e12  # cost of a value that a rule forbids
# Cost of each member too many or too few. A forbidden combination of one member's values can be
# mended by changing another of its columns, a number of members often only by several changes.
_COUNTED = 64 * _BROKEN


@numba.njit(inline="always")
def _rest(entry, first, columns, strides, households, household, persons, member, before):  # type: ignore[no-untyped-def]
    """Return the part of a cell's index that the member's other values decide."""
    index = 0
    for place in range(first[entry], first[entry + 1]):
        column = columns[place]
        if column < before:
            index += strides[place] * households[column, household]
        else:
            index += strides[place] * persons[column - before, member]
    return index


@numba.njit(nogil=True, cache=True)
def add_member(  # type: ignore[no-untyped-def]
    households, persons, member, household, start, size, own, pairs, once, gap, worth, sign
):
    """Add a member to the counts (sign 1) or remove it (-1); return the change of the error.

    With `once` the pairs in which it is the other member are left out: they are those of others.
    """
    of_column, base, stride, first, columns, strides = own
    pair_of, pair_base, pair_other, pair_stride, pair_other_stride, nobody = pairs
    before = households.shape[0]
    single = sign / size
    double = sign / (size * (size - 1)) if size > 1 else sign
    change = 0.0
    for column in range(persons.shape[0]):
        value = persons[column, member]
        for entry in range(of_column[column], of_column[column + 1]):
            # A table is listed under each of its person columns; count it under the first.
            earlier = False
            for place in range(first[entry], first[entry + 1]):
                if before <= columns[place] < before + column:
                    earlier = True
            if earlier:
                continue
            cell = base[entry] + stride[entry] * value
            cell += _rest(
                entry, first, columns, strides, households, household, persons, member, before
            )
            change += (2.0 * gap[cell] + single) * single * worth[cell]
            gap[cell] += single
        for entry in range(pair_of[column], pair_of[column + 1]):
            if nobody[entry] < 0 and (once or size == 1):
                continue
            begin = pair_base[entry] + pair_stride[entry] * value
            if size == 1:
                cell = begin + pair_other_stride[entry] * nobody[entry]
                change += (2.0 * gap[cell] + double) * double * worth[cell]
                gap[cell] += double
                continue
            for other in range(start, start + size):
                if other != member:
                    cell = begin + pair_other_stride[entry] * persons[pair_other[entry], other]
                    change += (2.0 * gap[cell] + double) * double * worth[cell]
                    gap[cell] += double
    return change


@numba.njit(nogil=True, cache=True)
def add_members(  # type: ignore[no-untyped-def]
    households, persons, household_of, start, sizes, own, pairs, gap
):
    """Add all members to the counts of all tables.

    Args:
        households: Codes of the household columns and `members`, shape (columns, households).
        persons: Codes of the person columns, shape (columns, persons), household by household.
        household_of: Household of each person.
        start: First person of each household.
        sizes: Number of persons of each household.
        own: Fields of `Listed`: tables of one member.
        pairs: Fields of `ListedPairs`: tables of two members.
        gap: Counts of all cells; changed.
    """
    for member in range(persons.shape[1]):
        home = household_of[member]
        # The change of the error is not used, so neither is the worth of a cell.
        add_member(
            households, persons, member, home, start[home], sizes[home], own, pairs, True, gap,
            gap, 1.0,
        )  # fmt: skip


@numba.njit(nogil=True, cache=True)
def move_members(  # type: ignore[no-untyped-def]
    households, persons, household_of, start, sizes, order, width, own, pairs, rules, forbidden,
    counted, gap, worth,
):  # fmt: skip
    """Visit every value of the members once and change it if that reduces the error.

    Args:
        households: Codes of the household columns and `members`, shape (columns, households).
        persons: Codes of the person columns, shape (columns, persons); changed.
        household_of: Household of each person.
        start: First person of each household.
        sizes: Number of persons of each household.
        order: Persons in the order in which they are visited.
        width: Number of codes of each person column.
        own: Fields of `Listed`: tables of one member.
        pairs: Fields of `ListedPairs`: tables of two members.
        rules: Fields of `Listed`: masks of one member.
        forbidden: Whether each cell of the masks cannot occur.
        counted: Fields of `CountedMembers`: rules that count members.
        gap: Held minus wanted counts of all cells; changed.
        worth: Weight of the squared error of each cell.

    Returns:
        The reduction of the error, and whether a value is left that a rule forbids. The reduction
        is approximate: if several pairs of a member are in the same cell, each is treated as if it
        were the only one.
    """
    of_column, base, stride, first, columns, strides = own
    pair_of, pair_base, pair_other, pair_stride, pair_other_stride, nobody = pairs
    rule_of, rule_base, rule_stride, rule_first, rule_columns, rule_strides = rules
    counted_of, counted_rule, first_of, columns_of, base_of, inside, least, most = counted
    before = households.shape[0]
    cost = np.empty(width.max() if width.size else 1)
    gained, broken = 0.0, False
    for turn in range(order.size):
        member = order[turn]
        household = household_of[member]
        size = sizes[household]
        single = 1.0 / size
        double = 1.0 / (size * (size - 1)) if size > 1 else 1.0
        for column in range(persons.shape[0]):
            old, many = persons[column, member], width[column]
            for value in range(many):
                cost[value] = 0.0
            for entry in range(rule_of[column], rule_of[column + 1]):
                cell = rule_base[entry] + _rest(
                    entry, rule_first, rule_columns, rule_strides,
                    households, household, persons, member, before,
                )  # fmt: skip
                for value in range(many):
                    if forbidden[cell + rule_stride[entry] * value]:
                        cost[value] += _BROKEN
            for entry in range(counted_of[column], counted_of[column + 1]):
                rule = counted_rule[entry]
                number = 0
                for other in range(start[household], start[household] + size):
                    if other != member:
                        number += 1
                        for place in range(first_of[rule], first_of[rule + 1]):
                            if not inside[base_of[place] + persons[columns_of[place], other]]:
                                number -= 1
                                break
                own_base, met = 0, True
                for place in range(first_of[rule], first_of[rule + 1]):
                    if columns_of[place] == column:
                        own_base = base_of[place]
                    elif not inside[base_of[place] + persons[columns_of[place], member]]:
                        met = False
                for value in range(many):
                    now = number
                    if met and inside[own_base + value]:
                        now += 1
                    cost[value] += _COUNTED * max(least[rule] - now, now - most[rule], 0)
            # Take the old value out, then add up what each value would cost.
            for entry in range(of_column[column], of_column[column + 1]):
                cell = base[entry] + _rest(
                    entry, first, columns, strides,
                    households, household, persons, member, before,
                )  # fmt: skip
                step = stride[entry]
                gap[cell + step * old] -= single
                for value in range(many):
                    at = cell + step * value
                    cost[value] += (2.0 * gap[at] + single) * single * worth[at]
            # Several others may have the same code, so take all pairs out before costs are added.
            for entry in range(pair_of[column], pair_of[column + 1]):
                cell, step = pair_base[entry], pair_stride[entry]
                if size == 1:
                    if nobody[entry] >= 0:
                        gap[cell + pair_other_stride[entry] * nobody[entry] + step * old] -= double
                    continue
                for other in range(start[household], start[household] + size):
                    if other != member:
                        code = persons[pair_other[entry], other]
                        gap[cell + pair_other_stride[entry] * code + step * old] -= double
            for entry in range(pair_of[column], pair_of[column + 1]):
                cell, step = pair_base[entry], pair_stride[entry]
                if size == 1:
                    if nobody[entry] >= 0:
                        begin = cell + pair_other_stride[entry] * nobody[entry]
                        for value in range(many):
                            at = begin + step * value
                            cost[value] += (2.0 * gap[at] + double) * double * worth[at]
                    continue
                for other in range(start[household], start[household] + size):
                    if other != member:
                        begin = cell + pair_other_stride[entry] * persons[pair_other[entry], other]
                        for value in range(many):
                            at = begin + step * value
                            cost[value] += (2.0 * gap[at] + double) * double * worth[at]
            new = old
            for value in range(many):
                if cost[value] < cost[new] - 1e-9:
                    new = value
            gained += cost[old] - cost[new]
            # Such a value may reduce the error, so that its cost is a little below _BROKEN.
            broken = broken or cost[new] > 0.5 * _BROKEN
            persons[column, member] = new
            for entry in range(of_column[column], of_column[column + 1]):
                cell = base[entry] + _rest(
                    entry, first, columns, strides,
                    households, household, persons, member, before,
                )  # fmt: skip
                gap[cell + stride[entry] * new] += single
            for entry in range(pair_of[column], pair_of[column + 1]):
                cell, step = pair_base[entry], pair_stride[entry]
                if size == 1:
                    if nobody[entry] >= 0:
                        gap[cell + pair_other_stride[entry] * nobody[entry] + step * new] += double
                    continue
                for other in range(start[household], start[household] + size):
                    if other != member:
                        code = persons[pair_other[entry], other]
                        gap[cell + pair_other_stride[entry] * code + step * new] += double
    return gained, broken
