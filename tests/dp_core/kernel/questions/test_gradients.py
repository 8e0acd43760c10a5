from __future__ import annotations

import itertools
from decimal import Decimal, getcontext

import numpy as np
import pytest

from dp_core.kernel.questions.descriptions import fields_json
from dp_core.kernel.questions.regressions.features import ONE, Features, Levels, Number
from dp_core.kernel.questions.regressions.gradients import (
    COEFFICIENT,
    LARGEST_COEFFICIENT,
    PROBABILITY,
    ClassGradient,
    NumberGradient,
    probabilities,
)
from dp_core.kernel.questions.vetted import sum_from_json
from tests.dp_core.kernel.questions import neighbours

P, Q = 9, 6  # positions of x and y; both may be missing
X = Number.line(name="x", positions=P, centre=2, reach=5, missing=True)
G = Levels(name="g", size=3)
TARGET = Number.line(name="y", positions=Q, centre=0, reach=Q - 1)
FEATURES = Features((X, G))
COLUMNS = {"x": P + 1, "g": 3, "h": 4, "b": 2, "y": Q + 1}
WIDE = 3 * COEFFICIENT


def at(entries, size=WIDE, seed=1):
    return tuple(int(each) for each in np.random.default_rng(seed).integers(-size, size, entries))


ALL = {
    "two classes, at 0": ClassGradient(column="b", classes=2, features=FEATURES, at=(0,) * 5),
    "two classes": ClassGradient(column="b", classes=2, features=FEATURES, at=at(5)),
    "four classes, at 0": ClassGradient(column="h", classes=4, features=FEATURES, at=(0,) * 15),
    "four classes": ClassGradient(column="h", classes=4, features=FEATURES, at=at(15)),
    "sure of the wrong class": ClassGradient(
        column="h", classes=4, features=FEATURES, at=(*(0,) * 10, 40 * COEFFICIENT, *(0,) * 4)
    ),
    "what is missing": ClassGradient(
        column="y", classes=2, missing_from=Q, features=FEATURES, at=at(5, seed=2)
    ),
    "no predictor": ClassGradient(column="h", classes=4, features=Features(), at=(0,) * 3),
    "number, at 0": NumberGradient(target=TARGET, features=FEATURES, at=(0,) * 5),
    "number": NumberGradient(target=TARGET, features=FEATURES, at=at(5, COEFFICIENT)),
    "number, no predictor": NumberGradient(target=TARGET, features=Features(), at=(0,)),
}
CLASS_BOUNDS = {2: (1, 1), 4: (2, 2)}  # of r: L1, squared L2, away from 0


def total(sum, rows):
    """Return a sum of records, given as rows of codes in the clique's order."""
    return neighbours.total(sum, rows, {name: COLUMNS[name] for name in sum.clique})


def every_record(sum):
    return [list(row) for row in itertools.product(*(range(COLUMNS[n]) for n in sum.clique))]


def random_rows(sum, rows, seed=3):
    sizes = {name: COLUMNS[name] for name in sum.clique}
    return neighbours.random_rows(np.random.default_rng(seed), rows, sizes)


def features_by_hand(sum, row):
    found = [1.0]
    for predictor, code in zip(sum.features.all, row, strict=False):
        if isinstance(predictor, Levels):
            found += [float(code == level) for level in range(1, predictor.size)]
        else:
            found += number_by_hand(predictor, code)
    return np.array(found)


def number_by_hand(number, code):
    missing = code >= number.positions
    value = 0.0 if missing else float(np.interp(2 * code, *np.array(number.knots).T)) / ONE
    return [value, float(missing)] if number.missing else [value]


def by_hand(sum, rows):
    """Return the gradient record by record, in floating point and in its own definition."""
    result = np.zeros(sum.length)
    for row in rows:
        x = features_by_hand(sum, row)
        coefficients = np.array(sum.at).reshape(-1, x.size) / COEFFICIENT
        if isinstance(sum, NumberGradient):
            if row[-1] < Q:
                r = x @ coefficients[0] - number_by_hand(sum.target, row[-1])[0]
                r = min(1.0, max(-1.0, r))
                result += [*(r * x), 2 * r * r - 1]
            continue
        label = int(row[-1] >= sum.missing_from) if sum.missing_from else int(row[-1])
        weights = np.exp(np.array([0.0, *(coefficients @ x)]))
        r = weights / weights.sum() - (np.arange(sum.classes) == label)
        result += np.outer(r[1:], x).ravel()
    return result


@pytest.mark.parametrize("name", ALL)
def test_a_gradient_is_that_of_its_definition(name):
    sum = ALL[name]
    unit = ONE * (ONE if isinstance(sum, NumberGradient) else PROBABILITY)
    for rows in (0, 1, 2, 60):
        data = random_rows(sum, rows)
        found = total(sum, data)
        assert found.dtype == np.int64
        # Half a unit of each feature, number and probability, and rounded logits.
        assert found / unit == pytest.approx(by_hand(sum, data), abs=rows * 6 / ONE + 1e-12)


@pytest.mark.parametrize("name", ALL)
def test_what_a_record_adds_does_not_depend_on_the_others(name):
    """With a rounding that did, one record more would move the sum by much more than the bound."""
    sum = ALL[name]
    rows = random_rows(sum, 700)
    parts = np.sum([total(sum, [row]) for row in rows], axis=0)
    assert total(sum, rows).tolist() == parts.tolist()


@pytest.mark.parametrize("name", ALL)
def test_no_record_adds_more_than_the_bound_and_some_reach_it(name):
    sum = ALL[name]
    alone = np.array([total(sum, [row]) for row in every_record(sum)], dtype=object)
    l1, l2_squared = sum.l1("add-remove"), sum.l2_squared("add-remove")
    far, far_squared = abs(alone).sum(axis=1).max(), (alone**2).sum(axis=1).max()
    assert far <= l1
    assert far_squared <= l2_squared
    if "at 0" in name or "no predictor" in name:
        # The largest residual, all parts of the features at their ends.
        assert far == l1
        assert far_squared == l2_squared
    if "sure" in name:
        # A probability of 1, but for what is rounded down.
        assert far > 0.9999 * l1
        assert far_squared > 0.9999 * l2_squared


@pytest.mark.parametrize("name", ALL)
def test_no_replaced_record_moves_more_than_the_bound_and_some_reach_it(name):
    sum = ALL[name]
    alone = np.array([total(sum, [row]) for row in every_record(sum)])
    l1, l2_squared = sum.l1("replace-one"), sum.l2_squared("replace-one")
    far = far_squared = 0
    for one in alone:
        change = np.abs(alone - one)
        far = max(far, int(change.sum(axis=1).max()))
        # Of sizes below 2^29 squares fit.
        far_squared = max(far_squared, int((change.astype(object) ** 2).sum(axis=1).max()))
    assert far <= l1
    assert far_squared <= l2_squared
    if name == "two classes, at 0":
        assert (far, far_squared) == (l1, l2_squared)


def test_bounds_are_those_of_the_docstrings():
    for sum in ALL.values():
        norm = len(sum.features.all) + 1
        if isinstance(sum, NumberGradient):
            l1, l2_squared = (norm + 1) * ONE**2, (norm + 1) * ONE**4
        else:
            c, c_squared = CLASS_BOUNDS[sum.classes]
            if not any(sum.at):
                # Residuals at even chances: half, or 3/4 and twice 1/4.
                c, c_squared = (1 / 2, 1 / 4) if sum.classes == 2 else (5 / 4, 11 / 16)
            unit = PROBABILITY * ONE
            l1, l2_squared = int(c * norm * unit), int(c_squared * norm * unit**2)
        assert (sum.l1("add-remove"), sum.l2_squared("add-remove")) == (l1, l2_squared)
        assert (sum.l1("replace-one"), sum.l2_squared("replace-one")) == (2 * l1, 4 * l2_squared)


def test_probabilities_are_never_negative_nor_more_than_one_together():
    rng = np.random.default_rng(5)
    matrix = rng.integers(-ONE, ONE + 1, (5_000, 4))
    for size in (1, COEFFICIENT, LARGEST_COEFFICIENT):
        for classes in (2, 3, 7):
            entries = tuple(int(e) for e in rng.integers(-size, size + 1, 4 * (classes - 1)))
            found = probabilities(matrix, entries, classes)
            assert found.min() >= 0
            together = found.sum(axis=1)
            assert together.max() <= PROBABILITY
            assert together.min() > PROBABILITY - classes


def test_the_table_of_exponentials_is_that_of_decimals():
    getcontext().prec = 40
    for logit in (0, 1, 17, 4_000, 60_000):
        # One class whose logit is so many units below the first's.
        matrix = np.array([[ONE]], dtype=np.int64)
        found = probabilities(matrix, (-logit * (COEFFICIENT // ONE),), 2)[0, 1]
        weight = (Decimal(-logit) / ONE).exp()
        assert abs(found - int(PROBABILITY * weight / (1 + weight))) <= 1


def test_features_are_within_their_bound():
    for predictor in (X, G, Number.line(name="z", positions=4, centre=-7, reach=2)):
        codes = np.arange(10)
        matrix = predictor.matrix(codes)
        assert matrix.shape == (10, predictor.width)
        assert np.abs(matrix).sum(axis=1).max() <= ONE
    assert X.matrix(np.array([0, 5, P]))[:, 0].tolist() == [-ONE, 0, 0]
    assert X.matrix(np.array([0, 5, P]))[:, 1].tolist() == [0, 0, ONE]
    assert FEATURES.width == 5
    assert FEATURES.norm == 3


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("two classes", {"classes": 1}),
        ("two classes", {"classes": True}),
        ("two classes", {"classes": 3}),
        ("four classes", {"missing_from": 5}),
        ("two classes", {"at": [0, 0]}),
        ("two classes", {"at": [0.0] * 5}),
        ("two classes", {"at": [LARGEST_COEFFICIENT + 1, 0, 0, 0, 0]}),
        ("two classes", {"column": "x"}),
        ("two classes", {"features": "x"}),
        ("two classes", {"features": [{"name": "x", "size": 2.0}]}),
        ("two classes", {"features": [{**fields_json(X), "reach": 0}, fields_json(G)]}),
        ("two classes", {"features": [{**fields_json(X), "missing": 1}, fields_json(G)]}),
        ("two classes", {"features": [fields_json(G), fields_json(G)]}),
        ("two classes", {"l1": 1}),
        ("number", {"target": {**fields_json(TARGET), "positions": 0}}),
        ("number", {"target": fields_json(X)}),
    ],
)
def test_a_description_that_is_none_is_refused(name, change):
    assert sum_from_json(ALL[name].to_json()) == ALL[name]
    with pytest.raises((ValueError, TypeError)):
        sum_from_json({**ALL[name].to_json(), **change})


def test_sums_that_could_overflow_are_added_exactly_and_cut_at_the_end():
    sum = ClassGradient(column="b", classes=2, features=Features(), at=(0,))
    counts = np.array([2**20, 2**40], dtype=np.int64)
    cells = np.array([[0], [1]], dtype=np.uint16)
    half = PROBABILITY // 2 * ONE
    assert sum.total(cells[:1], counts[:1])[0] == 2**20 * half
    assert sum.total(cells, counts)[0] == -(2**62)
    near = np.array([2**40 - 5, 2**40], dtype=np.int64)
    assert sum.total(cells, near)[0] == -5 * half
