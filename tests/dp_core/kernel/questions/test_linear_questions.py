"""What the names of linear questions mean: each record's vector by hand, and what is refused."""

import itertools
import math

import numpy as np
import pytest

from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.linear_questions import (
    GRID,
    MOST_WEIGHT,
    BinnedCounts,
    BoxCounts,
    CellCounts,
    CellSums,
    CosineSums,
    KernelCounts,
    MiddleProducts,
    cosines,
)
from dp_core.kernel.questions.statistic import Sum
from dp_core.kernel.questions.vetted import bounds, rebuilt, sum_from_json
from dp_core.kernel.questions.whole_numbers import MOST_CELLS
from dp_core.methods.parametric.dpcube import MOST_BOXES
from dp_core.methods.parametric.efpa import kept_histogram
from tests.dp_core.kernel.questions.neighbours import RELATIONS, random_rows, total

P, Q = 5, 4  # positions of x and y, whose last codes mean missing
SIZES = {"g": 2, "h": 3, "x": P + 1, "y": Q + 1}
BY = {"by": ("g", "h"), "sizes": (2, 3)}
EDGES = (0, 1, 3, 5)


def c(code, positions):
    """Return a number about the middle of its range, or None."""
    return 2 * code - (positions - 1) if code < positions else None


def at(place, shape, value=1):
    found = np.zeros(shape, dtype=np.int64)
    found[place] = value
    return found.ravel()


def in_bin(code, edges=EDGES):
    return sum(code >= edge for edge in edges) - 1


def kernel(row):
    weight = {0: 7, 1: 4, 2: 1}
    if row["x"] == P:
        return [0, 0, 0, 7]
    return [*(weight[abs(g - in_bin(row["x"]))] for g in range(3)), 0]


def cosine(row):
    if row["x"] == P:
        return [0, 0, GRID]
    b = in_bin(row["x"])
    return [*(round(GRID * math.cos(math.pi * j * (2 * b + 1) / 6)) for j in range(2)), 0]


BOXES = ((0, 1, 0, 2), (1, 2, 0, 3), (0, 1, 2, 3))
ALL = {
    "counts": (
        CellCounts(**BY, numbers=("x", "y"), positions=(P, Q)),
        lambda r: at((r["g"], r["h"], int(r["x"] == P), int(r["y"] == Q)), (2, 3, 2, 2)),
    ),
    "counts, no numbers": (
        CellCounts(**BY, numbers=(), positions=()),
        lambda r: at((r["g"], r["h"]), (2, 3)),
    ),
    "bins": (
        BinnedCounts(columns=("y", "g", "x"), sizes=(5, 2, 6), edges=((0, 2, 5), None, (0, 6))),
        lambda r: at((int(r["y"] >= 2), r["g"], 0), (2, 2, 1)),
    ),
    "boxes": (
        BoxCounts(columns=("g", "h"), sizes=(2, 3), boxes=BOXES[:2]),
        lambda r: [int(a <= r["g"] < b and d <= r["h"] < e) for a, b, d, e in BOXES[:2]],
    ),
    "sums": (
        CellSums(column="x", positions=P, **BY),
        lambda r: at((r["g"], r["h"]), (2, 3), c(r["x"], P) or 0),
    ),
    "squares": (
        MiddleProducts(columns=("x", "x"), positions=(P, P)),
        lambda r: [0 if r["x"] == P else 2 * c(r["x"], P) ** 2 - (P - 1) ** 2],
    ),
    "products": (
        MiddleProducts(columns=("x", "y"), positions=(P, Q)),
        lambda r: [(c(r["x"], P) or 0) * (c(r["y"], Q) or 0)],
    ),
    "kernel": (KernelCounts(column="x", positions=P, edges=EDGES, weights=(7, 4, 1)), kernel),
    "cosines": (CosineSums(column="x", size=P + 1, edges=EDGES, kept=2), cosine),
}
BOUNDS = {  # L1 and squared L2 under add-remove, then under replace-one
    "counts": (1, 1, 2, 2),
    "counts, no numbers": (1, 1, 2, 2),
    "bins": (1, 1, 2, 2),
    "boxes": (1, 1, 2, 2),
    "sums": (4, 16, 8, 64),
    "squares": (16, 256, 32, 1024),
    "products": (12, 144, 24, 576),
    "kernel": (15, 81, 22, 130),
}


def vector(name, codes):
    row = dict(zip(SIZES, map(int, codes), strict=True))
    return np.array(ALL[name][1](row), dtype=object)


@pytest.mark.parametrize("name", ALL)
def test_an_answer_is_the_sum_of_the_records_vectors(name):
    question, _ = ALL[name]
    rng = np.random.default_rng(3)
    for rows in (0, 1, 2, 60):
        data = random_rows(rng, rows, SIZES)
        found = total(question, data, SIZES)
        assert found.dtype == np.int64
        assert found.shape == (question.length,)
        assert found.tolist() == sum((vector(name, row) for row in data), 0 * found).tolist()


@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ALL)
def test_the_bounds_are_the_largest_change_of_a_unit(name, relation, max_rows):
    """A unit of k records moves most if they are alike, and are replaced by k others alike."""
    cells = list(itertools.product(*map(range, SIZES.values())))
    each = np.unique(np.stack([vector(name, cell) for cell in cells]).astype(np.int64), axis=0)
    apart = each if relation == "add-remove" else (each[:, None] - each).reshape(len(each) ** 2, -1)
    l1, l2_squared = np.abs(apart).sum(axis=1).max(), (apart**2).sum(axis=1).max()
    found = bounds(ALL[name][0], Relation(relation, max_rows))[1:]
    assert found == (max_rows * l1, max_rows**2 * l2_squared)
    if name in BOUNDS:
        replaced = relation == "replace-one"
        assert (l1, l2_squared) == BOUNDS[name][2 * replaced : 2 * replaced + 2]


def test_a_range_of_one_position_has_a_sensitivity_of_at_least_one():
    for question in (
        CellSums(column="x", positions=1),
        MiddleProducts(columns=("x", "x"), positions=(1, 1)),
        CosineSums(column="x", size=8, edges=(0, 8), kept=1),
    ):
        assert min(question.l1("replace-one"), question.l2_squared("replace-one")) == 1


@pytest.mark.parametrize("bins", [1, 2, 3, 12, 255, 256, 4096])
def test_cosines_are_the_nearest_whole_numbers(bins):
    found = cosines(bins, np.arange(min(bins, 300)))
    exact = np.cos(np.pi * np.outer(np.arange(len(found)), 2 * np.arange(bins) + 1) / (2 * bins))
    assert np.abs(found).max() <= GRID
    np.testing.assert_allclose(found, GRID * exact, atol=0.5 + 1e-3)


def test_all_coefficients_give_the_histogram_back():
    question = CosineSums(column="x", size=9, edges=(0, 1, 3, 4, 7, 8), kept=5)
    rows = np.random.default_rng(1).integers(0, 9, 200)
    found = kept_histogram(question, total(question, rows, {"x": 9}).astype(float))
    expected = np.histogram(rows[rows < 8], (*question.edges[:-1], 7.5))[0]
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_sums_beyond_64_bits_are_cut_and_do_not_overflow():
    cells, counts = np.array([[0], [12]], dtype=np.uint16), np.array([2**50, 2**50])
    question = KernelCounts(column="x", positions=12, edges=(0, 6, 12), weights=(MOST_WEIGHT, 1))
    assert question.total(cells, counts).tolist() == [2**62, 2**50, 2**62]
    large = 2**16
    squares = MiddleProducts(columns=("x", "x"), positions=(large, large))
    ends = np.array([[0], [large - 1]], dtype=np.uint16)
    for count in (2**29, 2**31):
        found = squares.total(ends, np.array([count, count]))
        assert found.tolist() == [min(2 * count * (large - 1) ** 2, 2**62)]


@pytest.mark.parametrize(
    ("name", "changes"),
    {
        "counts": [{"sizes": [2]}, {"numbers": ["g", "x"]}, {"positions": [5, 0]}],
        "sums": [{"positions": 0}, {"positions": 2**17}, {"by": ["g", "x"]}],
        "squares": [{"positions": [5, 2]}, {"about": "mean"}, {"by": ["g"], "sizes": [2]}],
        "products": [{"columns": ["x", "y", "z"]}, {"positions": [5]}],
        "bins": [
            {"columns": ["g", "x", "x"]},
            {"columns": ["g", "x"]},
            *({"sizes": wrong} for wrong in ([5, 2], [5, 0, 6], [5, 2**33, 6])),
            {"edges": [None, None]},
            *(
                {"edges": [wrong, None, [0, 6]]}
                for wrong in ([0, 4], [1, 5], [0, 3, 3, 5], [0, 4, 3, 5], [0])
            ),
        ],
        "boxes": [
            {"columns": ["h", "h"]},
            {"columns": [], "sizes": [], "boxes": [[]]},
            {"sizes": [2]},
            {"sizes": [0, 3]},
            *(
                {"boxes": wrong}
                for wrong in (
                    [],
                    [[0, 2, 0]],
                    [[0, 3, 0, 2]],
                    [[1, 1, 0, 2]],
                    [[1, 0, 0, 2]],
                    [[0, 2, 0, 2], [1, 2, 1, 3]],
                    [[0, 2, 0, 2], [0, 2, 0, 2]],
                )
            ),
        ],
        "kernel": [
            {"positions": 0},
            {"positions": 4},
            *({"edges": wrong} for wrong in ([0], [0, 3, 3, 5], [1, 5])),
            *({"weights": wrong} for wrong in ([], [0, 4], [7, -1], [MOST_WEIGHT + 1], [1] * 4)),
        ],
        "cosines": [
            *({"kept": wrong} for wrong in (0, 4)),
            *({"size": wrong} for wrong in (4, 7)),
            {"edges": [1, 5]},
        ],
    }.items(),
)
def test_what_is_no_question_is_refused(name, changes):
    question, _ = ALL[name]
    assert sum_from_json(question.to_json()) == question
    for change in changes:
        with pytest.raises((ValueError, TypeError)):
            sum_from_json({**question.to_json(), **change})


def test_an_overlap_is_found_wherever_it_is_among_many_boxes():
    apart = [(low, low + 1) for low in range(1000)]
    BoxCounts(columns=("x",), sizes=(1000,), boxes=tuple(apart))
    for first, second in ((0, 999), (255, 256), (300, 700)):
        changed = list(apart)
        changed[second] = apart[first]
        with pytest.raises(ValueError, match="overlap"):
            BoxCounts(columns=("x",), sizes=(1000,), boxes=tuple(changed))


def test_questions_have_a_largest_size():
    def boxes(number):
        return BoxCounts(
            columns=("x",), sizes=(5000,), boxes=tuple((b, b + 1) for b in range(number))
        )

    def smooth(bins):
        edges = tuple(range(bins + 1))
        return KernelCounts(column="x", positions=bins, edges=edges, weights=(1,))

    for question in (boxes, smooth):
        assert question(MOST_BOXES).length >= MOST_BOXES
        with pytest.raises(ValueError, match=r"at most 16,777,216 numbers"):
            question(MOST_BOXES + 1)


@pytest.mark.parametrize(
    "table",
    [
        lambda b: BinnedCounts(columns=("a", "b"), sizes=(2**13, b), edges=(None, None)),
        lambda b: CellCounts(by=("a", "b"), sizes=(2**13, b), numbers=(), positions=()),
        lambda b: CellSums(column="x", positions=5, by=("a", "b"), sizes=(2**13, b)),
    ],
)
def test_answers_have_a_largest_size(table):
    assert rebuilt(Sum, table(2**13)).length == MOST_CELLS
    document = table(2**13 + 1).to_json()
    for ask in (lambda: rebuilt(Sum, table(2**13 + 1)), lambda: sum_from_json(document)):
        with pytest.raises(ValueError, match="at most 67,108,864 entries"):
            ask()


def test_columns_of_one_level_are_counted_and_no_more_than_arrays_have_axes():
    names = tuple(f"c{number}" for number in range(64))
    of = {"numbers": ("x",), "positions": (3,)}
    question = CellCounts(by=names[:62], sizes=(1,) * 62, **of)
    assert bounds(question, Relation("replace-one")) == (2, 2, 2)
    cells = np.array([[0] * 62 + [code] for code in (0, 3)])
    np.testing.assert_array_equal(question.total(cells, np.array([7, 5])), [7, 5])
    with pytest.raises(ValueError, match="at most 63 columns"):
        CellCounts(by=names[:63], sizes=(1,) * 63, **of)
