"""Sums within public limits: their values, their bounds, and what they refuse."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dp_core.kernel.questions.limited_sums import MOST_REACH, LimitedSums
from dp_core.kernel.questions.vetted import sum_from_json
from tests.dp_core.kernel.questions.neighbours import total

P = 5  # positions of x, which may be missing
SIZES = {"g": 2, "h": 4, "x": P + 1}
VALUES = (-6, -2, 2, 9, 30)
CELLS = {
    "lows": (-2, -6, 0, 9),
    "highs": (9, 2, 30, 9),
    "centres": (1, -2, 0, 4),
    "factors": (3, 5, 1, 2),
}
SUM = LimitedSums(
    by=("g", "h"),
    sizes=(2, 4),
    edges=(None, (0, 1, 4)),
    column="x",
    positions=P,
    runs=(0, -6, 4, 3, 9, 21),
    **CELLS,
)
ALONE = LimitedSums(
    by=(),
    sizes=(),
    edges=(),
    column="x",
    positions=P,
    runs=(0, -6, 4, 3, 9, 21),
    lows=(-6,),
    highs=(9,),
    centres=(2,),
    factors=(2,),
)
ROWS = [*itertools.product(range(2), range(4), range(P + 1))]


def by_hand(sum, rows):
    """Return the same, record by record."""
    found = [0] * sum.length
    for g, h, x in rows:
        if x < P:
            cell = 2 * g + (h > 0) if sum.by else 0
            value = min(max(VALUES[x], sum.lows[cell]), sum.highs[cell])
            found[cell] += sum.factors[cell] * (value - sum.centres[cell])
    return found


@pytest.mark.parametrize("sum", [SUM, ALONE], ids=["cells", "one cell"])
def test_each_record_adds_its_limited_value_to_its_cell(sum):
    rng = np.random.default_rng(4)
    for rows in (0, 1, 7, 60):
        file = [ROWS[place] for place in rng.integers(0, len(ROWS), rows)]
        assert total(sum, file, SIZES).tolist() == by_hand(sum, file)


@pytest.mark.parametrize("sum", [SUM, ALONE], ids=["cells", "one cell"])
def test_the_bounds_are_those_of_the_worst_pair_of_records_and_no_more(sum):
    added = [np.array(by_hand(sum, [row])) for row in ROWS]
    assert max(np.abs(each).sum() for each in added) == sum.l1("add-remove")
    assert max((each**2).sum() for each in added) == sum.l2_squared("add-remove")
    changes = [one - other for one, other in itertools.product(added, repeat=2)]
    assert max((each**2).sum() for each in changes) <= sum.l2_squared("replace-one")
    assert max(np.abs(each).sum() for each in changes) <= sum.l1("replace-one")
    # With several cells the bound takes two of the same largest reach.
    if sum is ALONE:
        assert max(np.abs(each).sum() for each in changes) == sum.l1("replace-one")
        assert max((each**2).sum() for each in changes) == sum.l2_squared("replace-one")


def test_the_bounds_under_replace_one_are_attained_by_cells_of_equal_reach():
    equal = replace(
        ALONE,
        by=("g",),
        sizes=(2,),
        edges=(None,),
        runs=(0, 0, 1),
        lows=(0, 0),
        highs=(4, 4),
        centres=(0, 2),
        factors=(1, 2),
    )
    changed = total(equal, [(0, 0, 4)], SIZES) - total(equal, [(1, 0, 4)], SIZES)
    assert np.abs(changed).sum() == equal.l1("replace-one") == 8
    within = total(equal, [(1, 0, 4)], SIZES) - total(equal, [(1, 0, 0)], SIZES)
    assert (within**2).sum() == equal.l2_squared("replace-one") == 64


@pytest.mark.parametrize("sum", [SUM, ALONE], ids=["cells", "one cell"])
def test_the_description_is_complete(sum):
    assert sum_from_json(sum.to_json()) == sum
    for key, value in sum.to_json().items():
        if key in ("name", "by", "column", "sizes", "edges"):
            continue
        for other in (None, [0.5], [*value, 0] if isinstance(value, list) else -1):
            with pytest.raises((ValueError, TypeError, KeyError)):
                sum_from_json({**sum.to_json(), key: other})
    with pytest.raises(ValueError, match="Expected"):
        sum_from_json({**sum.to_json(), "more": 1})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"lows": (10, -6, 0, 9)}, "at most the upper"),
        ({"factors": (0, 5, 1, 2)}, "factors of 1"),
        ({"factors": (MOST_REACH, 5, 1, 2)}, "may add at most"),
        ({"centres": (2**60, 0, 0, 0)}, "too large"),
        ({"highs": (9, 2, 30)}, "Every cell"),
        ({"edges": (None, (0, 1, 3))}, "ascend from 0"),
        ({"edges": (None, (0, 4, 4))}, "ascend from 0"),
        ({"runs": (1, -6, 4)}, "Runs must ascend"),
        ({"runs": (0, -6)}, "Runs must ascend"),
        ({"runs": (0, 2**60, 1)}, "too large"),
        ({"runs": (0, 1, 2**52)}, "too large"),
        ({"column": "g"}, "must be different"),
        ({"positions": 0}, "positions"),
    ],
)
def test_a_question_without_a_proven_bound_is_refused(change, told):
    with pytest.raises(ValueError, match=told):
        replace(SUM, **change)


def test_a_sum_of_many_records_does_not_overflow():
    limits = {"lows": (0,), "highs": (4,), "centres": (0,)}
    long = replace(ALONE, runs=(0, 0, 1), **limits, factors=(MOST_REACH // 4,))
    cells, counts = np.array([[4]], dtype=np.uint16), np.array([2**40], dtype=np.int64)
    assert long.total(cells, counts).tolist() == [2**62]
