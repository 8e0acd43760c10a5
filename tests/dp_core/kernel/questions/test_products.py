from __future__ import annotations

import builtins
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.kernel.questions.products import Products
from dp_core.kernel.questions.vetted import sum_from_json
from tests.dp_core.kernel.questions.neighbours import random_rows, total
from tests.full import some

P, Q = 5, 4  # positions of x and y; both may be missing
SIZES = {"g": 2, "h": 3, "x": P + 1, "y": Q + 1}
BY = {"by": ("g", "h"), "sizes": (2, 3)}

ALL = {
    "squares, cells": Products(columns=("x", "x"), positions=(P, P), about="cells", **BY),
    "products, cells": Products(columns=("x", "y"), positions=(P, Q), about="cells", **BY),
    "squares, one cell": Products(columns=("y", "y"), positions=(Q, Q), about="cells"),
    "products, one cell": Products(columns=("y", "x"), positions=(Q, P), about="cells"),
}
BOUNDS = {  # add-remove, replace-one; r = 4 and s = 3; nearly reached
    "squares, cells": (64, 64),
    "products, cells": (48, 96),
    "squares, one cell": (36, 36),
    "products, one cell": (48, 48),
}


def by_hand(sum, rows):
    """Return the same, record by record, in fractions."""
    axis = {"g": 0, "h": 1, "x": 2, "y": 3}
    size = {"x": P, "y": Q}

    def number(row, name):
        code = int(row[axis[name]])
        return None if code >= size[name] else 2 * code - (size[name] - 1)

    def cell(row):
        where = 0
        for name, levels in zip(sum.by, sum.sizes, strict=True):
            where = where * levels + int(row[axis[name]])
        return where

    pairs = {}
    for row in rows:
        pair = tuple(number(row, name) for name in sum.columns)
        if None not in pair:
            pairs.setdefault(cell(row) if sum.by else 0, []).append(pair)
    result = 0
    for inside in pairs.values():
        x, y = (Fraction(int(np.sum(part)), len(inside)) for part in zip(*inside, strict=True))
        result += math.floor(builtins.sum((c - x) * (d - y) for c, d in inside))
    return [result]


@pytest.mark.parametrize("name", ALL)
def test_a_sum_is_what_a_sum_record_by_record_gives(name):
    rng = np.random.default_rng(3)
    for rows in (0, 1, 2, 7, 60):
        for _ in range(5):
            data = random_rows(rng, rows, SIZES)
            found = total(ALL[name], data, SIZES)
            assert found.dtype == np.int64
            assert found.tolist() == by_hand(ALL[name], data)


def neighbouring(neighbours):
    """Yield pairs of neighbouring files: random ones, and ones where a row is far from all."""
    rng = np.random.default_rng(8)
    corners = [*itertools.product((0, P - 1), (0, Q - 1)), (P, 0), (0, Q)]
    shared = [random_rows(rng, rows, SIZES) for rows in rng.integers(0, 12, 30)]
    choices = [random_rows(rng, 4, SIZES) for _ in shared]
    for first, second in itertools.product(corners[:4], repeat=2):
        shared.append(np.repeat([(0, 0, *first), (1, 0, *second)], 300, axis=0))
        choices.append(np.array([(g, 0, *corner) for g in (0, 1) for corner in corners]))
    for rows, rest in zip(shared, choices, strict=True):
        for one, other in itertools.combinations(rest, 2):
            more = np.vstack([rows, one])
            yield more, np.vstack([rows, other]) if neighbours == "replace-one" else rows
            if neighbours == "add-remove" and other is rest[-1]:
                break


@pytest.mark.parametrize("neighbours", some(["add-remove", "replace-one"], "replace-one".__eq__))
@pytest.mark.parametrize("name", ALL)
def test_neighbouring_files_are_no_farther_apart_than_the_bound_and_reach_it(name, neighbours):
    sum = ALL[name]
    l1, l2_squared = sum.l1(neighbours), sum.l2_squared(neighbours)
    assert l1 == BOUNDS[name][neighbours == "replace-one"]
    totals = {}

    def of(rows):
        key = rows.tobytes()
        if key not in totals:
            totals[key] = total(sum, rows, SIZES)
        return totals[key]

    far, far_squared = 0, 0
    for one, other in neighbouring(neighbours):
        change = np.abs(of(one) - of(other))
        far, far_squared = max(far, change.sum()), max(far_squared, (change**2).sum())
    assert far <= l1
    assert far_squared <= l2_squared
    # A record that is far from the mean of many moves it a little.
    assert far >= l1 - 2
    assert far_squared >= (l1 - 2) ** 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("squares, cells", {"positions": [5, 2]}),
        ("squares, cells", {"about": "mean"}),
        ("squares, cells", {"sizes": [2]}),
        ("squares, cells", {"by": ["g", "x"]}),
        ("products, cells", {"columns": ["x", "y", "z"]}),
    ],
)
def test_a_description_that_is_none_is_refused(name, change):
    assert sum_from_json(ALL[name].to_json()) == ALL[name]
    with pytest.raises((ValueError, TypeError)):
        sum_from_json({**ALL[name].to_json(), **change})


def test_sums_that_could_overflow_are_added_exactly_and_cut_at_the_end():
    large = 2**16
    cells = np.array([[0], [large - 1]], dtype=np.uint16)
    about = Products(columns=("x", "x"), positions=(large, large), about="cells")
    counts = np.array([2**29, 2**29], dtype=np.int64)
    assert about.total(cells, counts)[0] == 2**30 * (large - 1) ** 2
