"""Assigns values to records so that counts are close to the expected ones, compiled."""

from __future__ import annotations

import numba
import numpy as np

_RARE = 0.03  # expected records of a cell below which it gets a record at random
_ROUNDING = 1e-6  # records


@numba.njit(nogil=True, cache=True)
def deal(order, group, share, claim, owed, dealt):  # type: ignore[no-untyped-def]
    """Deal a value to each record, so that values have nearly the given shares in each group.

    Records are processed in order. For each record, the claim of every value grows by its share;
    the value with the largest claim is assigned, and its claim decreases by 1. So in any run of
    consecutive records of a group, each value's count is within about one of its expectation. In a
    whole group without rare values it is at most its expectation, rounded up, so whole expectations
    are met exactly.

    Args:
        order: Indices of the records in processing order; records of a group are consecutive.
        group: Group of each record.
        share: Shares of the values in each group, shape (groups, values), nonnegative; a row of
            zeros means uniform.
        claim: Start claim of each value, shape (values,), random and around 0; changed.
        owed: Random fractions of a record, same shape; changed.
        dealt: The value of each record, shape (records,); filled.
    """
    values = share.shape[1]
    possible = np.empty(values, dtype=np.int64)
    part = np.empty(values)
    room = np.empty(values, dtype=np.int64)
    turn = 0
    while turn < order.size:
        now = group[order[turn]]
        end = turn + 1
        while end < order.size and group[order[end]] == now:
            end += 1
        total = 0.0
        for value in range(values):
            total += share[now, value]
        some = 0
        for value in range(values):
            expected = share[now, value] / total * (end - turn) if total > 0 else 1.0
            if expected < _RARE:
                # Usually no record, rarely one; a claim carried over from other groups must not
                # decide.
                owed[value] += expected
                if owed[value] < 1.0:
                    continue
                owed[value] -= 1.0
                expected = 1.0
            possible[some] = value
            part[some] = expected
            some += 1
        if some == 0:
            for value in range(values):
                if share[now, value] > 0:
                    possible[some] = value
                    part[some] = share[now, value]
                    some += 1
        total = part[:some].sum()
        for place in range(some):
            room[place] = np.ceil(part[place] / total * (end - turn) - _ROUNDING)
        for record in order[turn:end]:
            best = -1  # if rounding leaves no value room, the first gets the record
            for place in range(some):
                value = possible[place]
                claim[value] += part[place] / total
                if room[place] > 0 and (best < 0 or claim[value] > claim[possible[best]]):
                    best = place
            best = max(best, 0)
            dealt[record] = possible[best]
            claim[possible[best]] -= 1.0
            room[best] -= 1
        turn = end
