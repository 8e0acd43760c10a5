"""Assigns values to records so that counts are close to the expected ones, compiled."""

from __future__ import annotations

import numba
import numpy as np

_RARE = 0.03  # expected records; below it a cell gets a record as rarely as it should


@numba.njit(nogil=True, cache=True)
def deal(order, group, share, claim, owed):  # type: ignore[no-untyped-def]
    """Return a value for each record, each group's values in nearly the shares given.

    Records take turns; every value's claim grows by its share, and the largest claim wins and is
    lowered by one. So of any stretch of records of a group the count of each value is within about
    one of what is expected, and not only that of the group as a whole.

    Args:
        order: Records in the order of their turns; those of a group stand together.
        group: Group of each record.
        share: Shape (groups, values), not negative; a row of zeros is even.
        claim: Of each value at the start, shape (values,), random and around 0; changed.
        owed: Random parts of a record, same shape; changed.
    """
    values = share.shape[1]
    dealt = np.zeros(order.size, dtype=np.uint16)
    possible = np.empty(values, dtype=np.int64)
    part = np.empty(values)
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
                # None, or rarely one: a claim left from other groups must not decide.
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
        for record in order[turn:end]:
            best = 0
            for place in range(some):
                value = possible[place]
                claim[value] += part[place] / total
                if claim[value] > claim[possible[best]]:
                    best = place
            dealt[record] = possible[best]
            claim[possible[best]] -= 1.0
        turn = end
    return dealt
