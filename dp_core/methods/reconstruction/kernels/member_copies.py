"""Copies all values of one member to another if that reduces the error, compiled.

Rules may tie several columns of a person. For example, a child has a relation and an activity that
no adult has. Then every single change from an adult towards a child breaks a rule, and
`member_moves` makes none. A copy changes all values of a member at once. It is judged by the same
error as a single change, and never makes a household break more rules.
"""

from __future__ import annotations

import numba
import numpy as np

from dp_core.methods.reconstruction.kernels.member_moves import _BROKEN, _COUNTED, _rest, add_member


@numba.njit(nogil=True, cache=True)
def _breaks(households, persons, member, household, start, size, rules, forbidden, counted):  # type: ignore[no-untyped-def]
    """Return how much a member breaks the rules, and its household those that count members."""
    rule_of, rule_base, rule_stride, rule_first, rule_columns, rule_strides = rules
    _, _, first_of, columns_of, base_of, inside, least, most = counted
    before = households.shape[0]
    found = 0.0
    for column in range(persons.shape[0]):
        for entry in range(rule_of[column], rule_of[column + 1]):
            cell = rule_base[entry] + rule_stride[entry] * persons[column, member]
            cell += _rest(
                entry, rule_first, rule_columns, rule_strides,
                households, household, persons, member, before,
            )  # fmt: skip
            if forbidden[cell]:
                found += _BROKEN
    for rule in range(least.size):
        number = 0
        for other in range(start, start + size):
            number += 1
            for place in range(first_of[rule], first_of[rule + 1]):
                if not inside[base_of[place] + persons[columns_of[place], other]]:
                    number -= 1
                    break
        found += _COUNTED * max(least[rule] - number, number - most[rule], 0)
    return found


@numba.njit(nogil=True, cache=True)
def copy_members(  # type: ignore[no-untyped-def]
    households, persons, household_of, start, sizes, order, donors, own, pairs, rules, forbidden,
    counted, gap, worth,
):  # fmt: skip
    """Give each member all values of another one if that reduces the error or mends a rule.

    The arguments are those of `move_members`, and `donors`: the person whose values each person of
    `order` may get, same shape. The reduction of the error is returned.
    """
    old, new = np.empty((2, persons.shape[0]), dtype=persons.dtype)
    gained = 0.0
    for turn in range(order.size):
        member, donor = order[turn], donors[turn]
        household = household_of[member]
        begin, size = start[household], sizes[household]
        same = True
        for column in range(persons.shape[0]):
            old[column], new[column] = persons[column, member], persons[column, donor]
            same = same and old[column] == new[column]
        if same:
            continue
        broken = _breaks(
            households, persons, member, household, begin, size, rules, forbidden, counted
        )
        persons[:, member] = new
        left = _breaks(
            households, persons, member, household, begin, size, rules, forbidden, counted
        )
        persons[:, member] = old
        if left > broken:
            continue
        change = add_member(
            households, persons, member, household, begin, size, own, pairs, False, gap, worth, -1.0
        )
        persons[:, member] = new
        change += add_member(
            households, persons, member, household, begin, size, own, pairs, False, gap, worth, 1.0
        )
        if left < broken or change < -1e-9:
            gained -= change
            continue
        add_member(
            households, persons, member, household, begin, size, own, pairs, False, gap, worth, -1.0
        )
        persons[:, member] = old
        add_member(
            households, persons, member, household, begin, size, own, pairs, False, gap, worth, 1.0
        )
    return gained
