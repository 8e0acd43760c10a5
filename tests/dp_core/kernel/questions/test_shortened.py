from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.descriptions import fields_json
from dp_core.kernel.questions.regressions import gradients, shortened
from dp_core.kernel.questions.regressions.features import (
    MOST_KNOTS,
    ONE,
    Features,
    Levels,
    Number,
    Product,
)
from dp_core.kernel.questions.regressions.gradients import (
    COEFFICIENT,
    LARGEST_COEFFICIENT,
    PROBABILITY,
)
from dp_core.kernel.questions.regressions.shortened import (
    LONGEST,
    MOST_PREDICTORS,
    UNIT,
    Scores,
    SecondMoments,
)
from dp_core.kernel.questions.vetted import rebuilt, required, sum_from_json
from tests.dp_core.kernel.questions.neighbours import total as total_of

X = Number.line(name="x", positions=9, centre=2, reach=5)
G = Levels(name="g", size=3)
Y = Number.line(name="y", positions=6, centre=0, reach=5)
FEATURES = Features((X, G))
CURVE = Number(name="x", positions=9, knots=((-3, ONE), (4, -ONE // 3), (5, 7), (30, -ONE)))
INTERACTION = Features((X, Product((X, G, CURVE)), CURVE, G))
"""A number, a function of it, levels, and the products of all three: 1 + 1 + 2 + 1 + 2 features."""
CODES = {"x": 10, "g": 4, "y": 7, "h": 5, "b": 3, "k": 2}
"""Codes of each column; the last means missing."""
C = COEFFICIENT


def drawn(entries, size=2 * C, seed=1):
    return tuple(int(each) for each in np.random.default_rng(seed).integers(-size, size, entries))


IDENTITY = tuple(C * (row == column) for row in range(4) for column in range(4))
EXTREME = tuple(LARGEST_COEFFICIENT * (-1) ** (n // 3) for n in range(12))


def moments(transform, limit, features=FEATURES):
    return SecondMoments(features=features, transform=transform, length_limit=limit)


def scores(outcome, transform, at, limit, features=FEATURES):
    return Scores(
        outcome=outcome, features=features, transform=transform, at=at, length_limit=limit
    )


NONE, FOUR = Features(), Levels(name="h", size=4)
ALL = {
    "moments": moments(IDENTITY, 2 * UNIT**2),
    "moments, other predictors": moments(drawn(12), UNIT**2),
    "moments, cut to 5": moments(IDENTITY, 5),
    "moments, largest": moments(EXTREME, LONGEST),
    "moments, no column": moments((C, -C), 99, NONE),
    "moments, products": moments(drawn(14), UNIT**2, INTERACTION),
    "moments, one level": moments((C, 3), UNIT, Features((Levels(name="k", size=1),))),
    "number": scores(Y, drawn(8), drawn(4), ONE * UNIT),
    "number, at 0": scores(Y, IDENTITY, (0,) * 4, ONE * UNIT),
    "number, products": scores(Y, drawn(14), drawn(7), ONE * UNIT, INTERACTION),
    "number, largest": scores(Y, EXTREME, EXTREME[:4], LONGEST),
    "two levels": scores(Levels(name="b", size=2), drawn(8), drawn(4, seed=2), ONE * UNIT // 2),
    "four levels": scores(FOUR, drawn(12), drawn(12, seed=2), ONE * UNIT // 2),
    "four levels, largest": scores(FOUR, EXTREME, EXTREME, LONGEST // 2),
    "levels, no column": scores(FOUR, (C,), (0,) * 3, 7, NONE),
}
BLUNT = {"moments, cut to 5", "moments, no column", "levels, no column"}
"""Limits so small that rounding towards 0 changes the direction."""


def every_record(sum):
    records = itertools.product(*(range(CODES[name]) for name in sum.clique))
    found = [*records]
    return np.array(found, dtype=np.uint16).reshape(len(found), len(sum.clique))


def total(sum, rows):
    """Return a sum of records, given as rows of codes in the clique's order."""
    return total_of(sum, rows, {name: CODES[name] for name in sum.clique})


# -- the same, record by record in Python's integers, from the definitions


def added(values):
    return sum(values)  # in the tests `sum` is a statistic


def nearest(fraction):
    return math.floor(fraction + Fraction(1, 2))


def towards_zero(numerator, denominator):
    found = abs(numerator) // denominator
    return found if numerator >= 0 else -found


def is_there(column, code):
    return code < (column.positions if isinstance(column, Number) else column.size)


def scaled(number, code):
    at = min(max(2 * int(code), number.knots[0][0]), number.knots[-1][0])
    for (left, low), (right, high) in itertools.pairwise(number.knots):
        if left <= at <= right:
            return nearest(low + Fraction((high - low) * (at - left), right - left))
    raise AssertionError


def factor_by_hand(factor, code):
    if isinstance(factor, Number):
        return [scaled(factor, code) if is_there(factor, code) else 0]
    return [ONE * (code == level) for level in range(1, factor.size)]


def features_by_hand(features, row):
    codes, found = dict(zip(features.names, row, strict=True)), [ONE]
    for predictor in features.all:
        products = [ONE]
        for factor in getattr(predictor, "factors", [predictor]):
            own = factor_by_hand(factor, codes[factor.name])
            products = [nearest(Fraction(a * b, ONE)) for a in products for b in own]
        found += products
    return found


def predictors_by_hand(sum, x):
    width, most = sum.predictors, 2**15 - 1
    columns = [sum.transform[each::width] for each in range(width)]
    found = [added(a * b for a, b in zip(x, column, strict=True)) for column in columns]
    return [max(-most, min(most, nearest(Fraction(each * UNIT, ONE * C)))) for each in found]


def linear_by_hand(x, coefficients):
    return nearest(Fraction(added(a * b for a, b in zip(x, coefficients, strict=True)), C))


@cache
def weight(below):
    """Return 2^34 e^(-below/ONE), rounded down."""
    with localcontext() as context:
        context.prec = 60
        return int(2**34 * (-Decimal(below) / ONE).exp())


def residuals_by_hand(sum, x, code):
    at = [sum.at[start : start + len(x)] for start in range(0, len(sum.at), len(x))]
    if isinstance(sum.outcome, Number):
        return [linear_by_hand(x, at[0]) - scaled(sum.outcome, code)]
    logits = [0, *(linear_by_hand(x, each) for each in at)]
    weights = [weight(min(max(logits) - each, 22 * ONE)) for each in logits]
    chances = [each * PROBABILITY // added(weights) for each in weights]
    own = [PROBABILITY * (code == level) for level in range(len(chances))]
    return [
        nearest(Fraction((chance - one) * ONE, PROBABILITY))
        for chance, one in zip(chances[1:], own[1:], strict=True)
    ]


def root_above(value):
    return 0 if value == 0 else math.isqrt(value - 1) + 1


def uncut_by_hand(sum, row):
    """Return a record's vector before it is cut, and a number that is at least its length."""
    scores = isinstance(sum, Scores)
    row = [int(code) for code in row]
    if not all(code < each.codes for each, code in zip(sum.claimed_codes(), row, strict=True)):
        return [0] * sum.length, 0
    x = features_by_hand(sum.features, row[:-1] if scores else row)
    w = predictors_by_hand(sum, x)
    if scores:
        r = [max(-(2**18) + 1, min(2**18 - 1, e)) for e in residuals_by_hand(sum, x, row[-1])]
        lengths = [root_above(added(each**2 for each in factor)) for factor in (r, w)]
        return [a * b for a in r for b in w], lengths[0] * lengths[1]
    pairs = itertools.combinations_with_replacement(range(len(w)), 2)
    found = [w[i] * w[j] if i == j else towards_zero(181 * w[i] * w[j], 128) for i, j in pairs]
    return found, added(each**2 for each in w)


def by_hand(sum, row):
    found, length = uncut_by_hand(sum, row)
    if length <= sum.length_limit:
        return found
    return [towards_zero(each * sum.length_limit, length) for each in found]


def total_by_hand(sum, rows):
    vectors = [by_hand(sum, row) for row in rows]
    return [added(vector[entry] for vector in vectors) for entry in range(sum.length)]


@pytest.mark.parametrize("name", ALL)
def test_what_a_record_adds_is_that_of_its_definition(name):
    sum = ALL[name]
    rows = every_record(sum)
    found = sum.vectors(rows)
    assert found.dtype == np.int64
    assert found.tolist() == [by_hand(sum, row) for row in rows]


@pytest.mark.parametrize("name", ALL)
def test_a_sum_is_the_sum_of_what_its_records_add(name):
    sum = ALL[name]
    rng = np.random.default_rng(3)
    rows = every_record(sum)
    for size in (0, 1, 2, 700):
        data = rows[rng.integers(0, len(rows), size)]
        expected = total_by_hand(sum, data)
        if sum.clique:
            found = total(sum, data)
        else:
            found = sum.total(data[:1], np.array([size], dtype=np.int64)[: len(data)])
        assert found.tolist() == expected


def test_what_a_record_adds_does_not_depend_on_how_many_are_in_memory(monkeypatch):
    for sum in (ALL["moments, other predictors"], ALL["four levels"]):
        rows = every_record(sum)
        counts = np.arange(1, len(rows) + 1, dtype=np.int64)
        whole = sum.total(rows, counts)
        for cells, entries in ((3, 1 << 20), (1 << 12, 2 * sum.length)):
            monkeypatch.setattr(gradients, "_MOST_CELLS", cells)
            monkeypatch.setattr(gradients, "_MOST_IN_MEMORY", entries)
            assert sum.total(rows, counts).tolist() == whole.tolist()


# -- its length


@pytest.mark.parametrize("name", ALL)
def test_no_record_adds_more_than_the_bounds_and_some_nearly_reach_them(name):
    sum = ALL[name]
    found = sum.vectors(every_record(sum)).astype(object)
    l1, l2_squared = sum.l1("add-remove"), sum.l2_squared("add-remove")
    assert abs(found).sum(axis=1).max() <= l1
    longest = (found**2).sum(axis=1).max()
    assert longest <= l2_squared == sum.length_limit**2
    if name not in BLUNT:
        # Off the diagonal 181/128 stands for the root of 2.
        assert longest > 0.999 * l2_squared


@pytest.mark.parametrize("name", ALL)
def test_a_vector_that_is_not_long_stays_and_a_long_one_keeps_its_direction(name):
    sum = ALL[name]
    longs = 0
    for row in every_record(sum):
        before, length = uncut_by_hand(sum, row)
        after = sum.vectors(row[None, :])[0].tolist()
        if length <= sum.length_limit:
            assert after == before
            continue
        longs += 1
        # Every entry is that of the scaled vector, less what rounding takes.
        for one, other in zip(before, after, strict=True):
            exact = Fraction(one * sum.length_limit, length)
            assert 0 <= abs(exact) - abs(other) < 1
            assert one * other >= 0
    assert longs


@pytest.mark.parametrize("limit", [1, 2, 1000, 2**20, LONGEST - 1, LONGEST])
def test_no_accepted_parameters_make_a_vector_longer_than_its_limit(limit):
    """The largest predictors, residuals and widths: nothing overflows."""
    rng = np.random.default_rng(limit)
    width = MOST_PREDICTORS
    features = Features(
        tuple(Number.line(name=f"x{n}", positions=3, centre=0, reach=2) for n in range(width - 1))
    )
    codes = np.where(rng.random((6, width)) < 0.5, 0, 2).astype(np.uint16)
    codes[0] = 2
    for predictors in (1, 7, width):
        size = width * predictors
        steep = np.where(rng.random(size) < 0.5, 1, -1) * LARGEST_COEFFICIENT
        steep[rng.random(size) < 0.1] = 1
        for transform in ((LARGEST_COEFFICIENT,) * size, tuple(map(int, steep))):
            sums = [moments(transform, limit, features)]
            for outcome in (Y, Levels(name="h", size=51)):
                residuals = 1 if outcome is Y else 50
                at = (LARGEST_COEFFICIENT, -LARGEST_COEFFICIENT) * (width * residuals // 2)
                sums.append(scores(outcome, transform, at, limit, features))
            for sum in sums:
                cells = codes[:, : len(sum.clique)]
                assert_none_is_longer(sum.vectors(cells), limit)
                w = sum.transformed(cells[:, : width - 1])
                assert abs(w).max() == 2**15 - 1


def assert_none_is_longer(vectors, limit):
    assert vectors.dtype == np.int64
    for vector in vectors.tolist():
        assert added(each**2 for each in vector) <= limit**2


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("name", ["number", "four levels", "four levels, largest"])
def test_no_other_residuals_make_a_vector_longer_than_its_limit(name, kind):
    """Squares of narrow integers would overflow, and a long vector seem short."""
    sum = ALL[name]
    cells = every_record(sum)[:40]
    ends = np.iinfo(kind)
    for value in (ends.min, ends.max, ends.min + 1, min(2**18, ends.max), 1, 0):
        residual = np.full((len(cells), sum.residuals), value, dtype=kind)
        assert_none_is_longer(sum.vectors_of(cells, residual), sum.length_limit)


def test_other_residuals_are_taken_in_the_place_of_the_records_own():
    sum = ALL["number"]
    cells = every_record(sum)
    matrix = sum.features.matrix(cells[:, :-1])
    own = sum.residual(matrix, cells[:, -1])
    assert sum.vectors_of(cells, own).tolist() == sum.vectors(cells).tolist()
    assert sum.vectors_of(cells, -own).tolist() == (-sum.vectors(cells)).tolist()
    assert not sum.vectors_of(cells, 0 * own).any()
    assert sum.vectors_of(cells[:0], own[:0]).shape == (0, sum.length)
    with pytest.raises(ValueError, match="reshape"):
        sum.vectors_of(cells, np.hstack([own, own]))


@pytest.mark.parametrize("values", [range(9), [2**52 - 1, 2**50, 2**50 + 1, (2**26 - 1) ** 2 + 1]])
def test_a_root_is_rounded_up(values):
    found = shortened._root_above(np.array(values, dtype=np.int64))
    assert found.tolist() == [root_above(each) for each in values]


@pytest.mark.parametrize("name", ALL)
def test_no_replaced_record_moves_a_sum_by_more_than_the_bounds(name):
    sum = ALL[name]
    found = np.unique(sum.vectors(every_record(sum)), axis=0).astype(object)
    far = max(int(((found - one) ** 2).sum(axis=1).max()) for one in found)
    assert far <= sum.l2_squared("replace-one")
    assert max(int(abs(found - one).sum(axis=1).max()) for one in found) <= sum.l1("replace-one")
    if name in ("number, at 0", "four levels, largest"):
        assert far > 0.99 * sum.l2_squared("replace-one")


def moments_of(predictors, limit):
    """Return the vectors of some predictors, each those of one code; and the sum."""
    transform = (*(0,) * len(predictors[0]), *(each * C // UNIT for w in predictors for each in w))
    sum = moments(transform, limit, Features((Levels(name="x", size=len(predictors) + 1),)))
    codes = np.arange(1, len(predictors) + 1, dtype=np.uint16)
    assert sum.transformed(codes[:, None]).tolist() == predictors
    return sum, sum.vectors(codes[:, None])


def test_a_replaced_record_moves_moments_by_the_root_of_2_limits():
    """By as much, if the predictors are orthogonal: no two matrices w w' are opposite."""
    limit = UNIT**2
    sum, (one, other, third) = moments_of([[2000, 0], [0, 3000], [-2000, 2000]], limit)
    assert added((one - other) ** 2) == 2 * limit**2
    assert added((one - third) ** 2) < 2 * limit**2
    assert 2 * limit**2 < sum.l2_squared("replace-one") < 2.0001 * limit**2


def test_rounding_moves_moments_by_more_than_the_root_of_2_limits():
    """Of short vectors rounding changes the direction; the bound has a term for it."""
    rng = np.random.default_rng(0)
    beyond = 0
    for limit in (2, 5, 10, 30, 100):
        for width in (2, 3, 5):
            for size in (1, 5, 20, 200):
                predictors = rng.integers(-size, size + 1, (99, width))
                predictors[rng.random(predictors.shape) < 0.4] = 0
                sum, found = moments_of(predictors.tolist(), limit)
                products = found @ found.T
                own = products.diagonal()
                far = int((own[:, None] + own - 2 * products).max())
                assert far <= sum.l2_squared("replace-one") <= 4 * limit**2
                beyond += far > 2 * limit**2
    assert beyond


# -- missing values


@pytest.mark.parametrize("name", ALL)
def test_a_record_without_one_of_the_values_adds_0(name):
    sum = ALL[name]
    for axis, claimed in enumerate(sum.claimed_codes()):
        rows = every_record(sum)
        assert sum.vectors(rows[rows[:, axis] < claimed.codes]).any()
        for beyond in (CODES[claimed.column] - 1, CODES[claimed.column], 2**16 - 1):
            rows[:, axis] = beyond
            assert not sum.vectors(rows).any()


def test_a_column_with_as_many_positions_as_codes_has_no_missing_value():
    full = Number.line(name="x", positions=2**16, centre=0, reach=2**16)
    sum = scores(full, (C,), (0,), LONGEST, NONE)
    found = sum.vectors(np.array([[0], [2**15], [2**16 - 1]], dtype=np.uint16))
    assert found[:, 0].tolist() == [4096 * UNIT, 0, -4096 * UNIT]


# -- sums at the edge of 64 bits


def test_sums_that_could_overflow_are_added_exactly_and_cut_at_the_end():
    sum = scores(Y, (C,), (0,), ONE * UNIT, NONE)
    cells = np.array([[0], [5]], dtype=np.uint16)  # y at its ends
    one = ONE * UNIT  # 2^22
    for counts, expected in (
        ([2**40 - 1, 0], (2**40 - 1) * one),
        ([2**40, 0], 2**62),
        ([2**40 + 1, 0], 2**62),
        ([3 * 2**40, 0], 2**62),
        ([2**41 + 3, 2**41], 3 * one),
        ([2**41, 2**41 + 2**40 + 1], -(2**62)),
        ([2**61, 2**61 - 1], one),
    ):
        found = sum.total(cells, np.array(counts, dtype=np.int64))
        assert found.dtype == np.int64
        assert found.tolist() == [expected]


def test_the_longest_vectors_are_added_exactly():
    sum = ALL["four levels, largest"]
    rows = every_record(sum)
    for each in (2**20, 2**40):
        counts = np.full(len(rows), each, dtype=np.int64)
        exact = [each * entry for entry in total_by_hand(sum, rows)]
        cut = [max(-(2**62), min(2**62, entry)) for entry in exact]
        assert sum.total(rows, counts).tolist() == cut
    assert cut != exact


# -- bounds and descriptions


@pytest.mark.parametrize("name", ALL)
def test_bounds_are_those_of_the_docstrings(name):
    sum = ALL[name]
    limit = sum.length_limit
    replaced = 4 * limit**2
    if isinstance(sum, SecondMoments):
        replaced = min(replaced, 2 * limit**2 + 8 * limit * root_above(sum.length))
    document = json.loads(json.dumps(sum.to_json()))
    assert sum_from_json(document) == sum
    for neighbours, l2_squared in (("add-remove", limit**2), ("replace-one", replaced)):
        l1 = root_above(l2_squared * sum.length)
        assert (sum.l1(neighbours), sum.l2_squared(neighbours)) == (l1, l2_squared)
        assert required(document, Relation(neighbours)) == (l1, l1, l2_squared)


MOMENTS, NUMBER, LEVELS = ALL["moments"], ALL["number"], ALL["two levels"]
WIDE = Features((Levels(name="x", size=MOST_PREDICTORS + 1),))


@pytest.mark.parametrize(
    ("sum", "change"),
    [
        (MOMENTS, {"length_limit": 0}),
        (MOMENTS, {"length_limit": -5}),
        (MOMENTS, {"length_limit": LONGEST + 1}),
        (MOMENTS, {"length_limit": True}),
        (MOMENTS, {"length_limit": 1.0}),
        (MOMENTS, {"transform": []}),
        (MOMENTS, {"transform": [1] * 5}),
        (MOMENTS, {"transform": [LARGEST_COEFFICIENT + 1] * 4}),
        (MOMENTS, {"transform": [-LARGEST_COEFFICIENT - 1] * 4}),
        (MOMENTS, {"transform": [True] * 4}),
        (MOMENTS, {"transform": [1.0] * 4}),
        (MOMENTS, {"transform": [[1, 1, 1, 1]]}),
        (MOMENTS, {"transform": [1] * 4 * (MOST_PREDICTORS + 1)}),
        (MOMENTS, {"features": fields_json(WIDE), "transform": [1] * WIDE.width}),
        (
            MOMENTS,
            {"features": {"all": [{**fields_json(X), "missing": True}]}, "transform": [1] * 3},
        ),
        (MOMENTS, {"features": {"all": [fields_json(X), fields_json(X)]}, "transform": [1] * 3}),
        (MOMENTS, {"features": {"all": [{**fields_json(G), "size": 0}]}, "transform": [1]}),
        (MOMENTS, {"features": {"all": [fields_json(X)] * 2}, "transform": [1] * 3}),
        *(
            (MOMENTS, {"features": {"all": [fields_json(X), wrong]}, "transform": [1] * 3})
            for wrong in (
                {**fields_json(X), "positions": 8},
                {**fields_json(X), "knots": [[0, 1]]},
                {**fields_json(X), "knots": [[0, 0], [3, ONE + 1]]},
                {**fields_json(X), "knots": [[0, -ONE - 1], [3, 0]]},
                {**fields_json(X), "knots": [[0, 0], [3, 1.0]]},
                {**fields_json(X), "knots": [[0, 0], [0, 1]]},
                {**fields_json(X), "knots": [[3, 0], [0, 1]]},
                {**fields_json(X), "knots": [[0, 0], [1 << 19, 1]]},
                {**fields_json(X), "knots": [[at, 0] for at in range(MOST_KNOTS + 1)]},
                {"name": "x", "size": 9},
                {"factors": [fields_json(Y)]},
                {"factors": [fields_json(Y)] * 9},
                {"factors": [fields_json(Y), {"name": "k", "size": 1}]},
                {"factors": [{"factors": [fields_json(Y), fields_json(G)]}, fields_json(Y)]},
            )
        ),
        (MOMENTS, {"at": [0]}),
        (NUMBER, {"outcome": fields_json(X)}),
        (NUMBER, {"outcome": {**fields_json(Y), "missing": True}}),
        (NUMBER, {"outcome": {**fields_json(Y), "size": 2}}),
        (NUMBER, {"outcome": [fields_json(Y)]}),
        (NUMBER, {"at": [0] * 5}),
        (NUMBER, {"at": [0] * 8}),
        (NUMBER, {"at": [0] * 3 + [LARGEST_COEFFICIENT + 1]}),
        (NUMBER, {"at": [0] * 3 + [False]}),
        (LEVELS, {"outcome": {"name": "b", "size": 1}, "at": []}),
        (LEVELS, {"outcome": {"name": "b", "size": 101}, "at": [0] * 400}),
        (
            LEVELS,
            {
                "outcome": {"name": "b", "size": 100},
                "at": [0] * 4 * 99,
                "transform": [1] * 4 * 52,
            },
        ),
    ],
)
def test_a_description_that_is_none_is_refused(sum, change):
    with pytest.raises((ValueError, TypeError)):
        sum_from_json({**sum.to_json(), **change})


class _EqualToAll(type):
    __hash__ = type.__hash__

    def __eq__(cls, other):
        return True


def test_a_list_whose_class_equals_every_class_is_no_pair_of_whole_numbers():
    class Pair(list, metaclass=_EqualToAll):
        __hash__ = object.__hash__

    number = Number(name="x", positions=9, knots=(Pair([0, -ONE]), Pair([16, ONE])))
    with pytest.raises(ValueError, match="Expected a list"):
        rebuilt(SecondMoments, moments((C, C), 99, Features((number,))))


@pytest.mark.parametrize(
    "change",
    [
        {"length_limit": LONGEST + 1},
        {"length_limit": float(LONGEST)},
        {"transform": (0.5,) * 8},
        {"at": (0.5,) * 4},
    ],
)
def test_numbers_whose_squares_could_overflow_or_be_rounded_are_refused(change):
    values = {"outcome": Y, "features": FEATURES, "transform": drawn(8), "at": drawn(4)}
    with pytest.raises(ValueError, match=r"limit|Expected"):
        rebuilt(Scores, Scores(**{**values, "length_limit": LONGEST, **change}))


def test_numbers_of_numpy_become_those_whose_squares_never_overflow():
    values = {"outcome": Y, "features": FEATURES, "transform": drawn(8), "at": drawn(4)}
    found = rebuilt(Scores, Scores(**values, length_limit=np.int64(LONGEST)))
    assert found == Scores(**values, length_limit=LONGEST)
    assert type(found.length_limit) is int
