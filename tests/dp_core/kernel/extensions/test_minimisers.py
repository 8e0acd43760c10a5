from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dp_core.kernel.extensions import exact_minimum
from dp_core.kernel.extensions.exact_minimum import minimise
from dp_core.kernel.extensions.minimisers import ClassMinimiser
from dp_core.kernel.questions.regressions.features import ONE, Features, Levels, Number
from dp_core.kernel.questions.vetted import sum_from_json
from tests.dp_core.kernel.questions import neighbours

COLUMNS = {"x": 6, "g": 2, "h": 3, "b": 2}
FEATURES = Features(
    (Number.line(name="x", positions=6, centre=0, reach=5), Levels(name="g", size=2))
)
BINARY = ClassMinimiser(column="b", classes=2, features=FEATURES, ridge=2)
THREE = ClassMinimiser(column="h", classes=3, features=FEATURES, ridge=5)
ALONE = ClassMinimiser(column="b", classes=2, features=Features(), ridge=1)
ALL = {"two classes": BINARY, "three classes": THREE, "no predictor": ALONE}


def sizes_of(sum):
    return {name: COLUMNS[name] for name in sum.clique}


def total(sum, rows):
    return neighbours.total(sum, rows, sizes_of(sum))


def random_rows(sum, rows, rng):
    return neighbours.random_rows(rng, rows, sizes_of(sum))


def slope(sum, rows, point):
    """Return the gradient of the penalised loss, record by record."""
    found = sum.ridge * np.array(point, dtype=float).reshape(sum.classes - 1, -1)
    for row in rows:
        x = sum.features.matrix(np.array([row[:-1]]))[0] / ONE
        weights = np.exp(np.array([0.0, *(point.reshape(sum.classes - 1, -1) @ x)]))
        r = weights / weights.sum() - (np.arange(sum.classes) == row[-1])
        found += np.outer(r[1:], x)
    return found


@pytest.mark.parametrize("name", ALL)
def test_the_gradient_at_what_is_returned_is_as_small_as_the_proof_needs(name):
    sum, rng = ALL[name], np.random.default_rng(2)
    for size in (0, 1, 5, 80):
        rows = random_rows(sum, size, rng)
        point = total(sum, rows) * float(sum.unit)
        # Half a unit by the stopping rule, and half a unit in each entry by the grid.
        curvature = sum.ridge + 2 * size * sum.features.norm
        grid = curvature * math.sqrt(sum.length) / 2
        allowed = (sum.ridge / 2 + grid) * float(sum.unit)
        assert np.linalg.norm(slope(sum, rows, point)) <= allowed


def neighbouring(sum, relation):
    rng = np.random.default_rng(9)
    for size in (0, 0, 0, 1, 2, 5, 30, 30):
        rows = random_rows(sum, size, rng).reshape(size, len(sum.clique))
        for _ in range(4):
            one, other = random_rows(sum, 2, rng)
            more = np.vstack([rows, one])
            replaced = np.vstack([rows, other])
            yield more, replaced if relation == "replace-one" else rows
    # One record of each kind against none, or against another.
    records = [*itertools.product(*(range(COLUMNS[n]) for n in sum.clique))]
    for record in records:
        if relation == "add-remove":
            yield [record], []
        else:
            yield [record], [(*record[:-1], (record[-1] + 1) % COLUMNS[sum.column])]


@pytest.mark.parametrize("relation", neighbours.RELATIONS)
@pytest.mark.parametrize("name", ALL)
def test_neighbouring_minimisers_are_no_farther_apart_than_the_bound(name, relation):
    sum = ALL[name]
    l1, l2_squared = sum.l1(relation), sum.l2_squared(relation)
    far, far_squared = neighbours.farthest(sum, neighbouring(sum, relation), sizes_of(sum))
    assert far <= l1
    assert far_squared <= l2_squared
    # A loss as steep as the bound would need a coefficient without end; a third is reached.
    assert far_squared > l2_squared / 12


def test_the_bound_is_that_of_a_minimiser_without_a_grid_and_little_more():
    for sum in ALL.values():
        records = {"add-remove": 1, "replace-one": 2}
        steepest = math.sqrt((1 if sum.classes == 2 else 2) * sum.features.norm)
        for relation, s in records.items():
            exact = s * steepest / (sum.ridge * sum.unit)
            assert exact + 1 < math.sqrt(sum.l2_squared(relation)) < 1.01 * exact
            least = math.sqrt(sum.length) * exact
            assert least < sum.l1(relation) < 1.01 * least


def test_the_loss_is_so_steep_where_coefficients_are_large():
    """With many records that pull one way, one that pulls the other reaches the bound nearly.

    J(b) = n log(1 + e^b) + b^2/2 for n of class 0; one of class 1 more adds -1 to the gradient.
    """
    strong = ClassMinimiser(column="b", classes=2, features=Features(), ridge=2**20)
    few = total(strong, [(0,)] * 3)
    more = total(strong, [(0,)] * 3 + [(1,)])
    # Here b is about 0 and the gradient 1/2: half of the bound, as it must be.
    assert (more - few)[0] == pytest.approx(
        math.sqrt(strong.l2_squared("add-remove")) / 2, rel=0.01
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_decimals_end_where_floating_point_ends(monkeypatch, classes):
    rng = np.random.default_rng(4)
    features = np.column_stack([np.ones(40), rng.uniform(-1, 1, (40, 2))])
    labels, counts = rng.integers(0, classes, 40), rng.integers(1, 50, 40)
    asked = {"classes": classes, "ridge": 3, "gradient": 1e-7, "bits": 20}
    quick = minimise(features, labels, counts, **asked)
    monkeypatch.setattr(exact_minimum, "_ROUNDS", 0)
    slow = minimise(features, labels, counts, **asked)
    assert np.abs(quick - slow).max() <= 1


def test_a_file_that_floating_point_cannot_do_is_minimised_all_the_same(monkeypatch):
    """Ten billion records on the one side, and a penalty of next to nothing."""
    used = []
    decimals = exact_minimum._in_decimals
    monkeypatch.setattr(
        exact_minimum, "_in_decimals", lambda *args: used.append(1) or decimals(*args)
    )
    features, counts = np.ones((1, 1)), np.array([10**15])
    found = minimise(features, np.array([1]), counts, classes=2, ridge=1, gradient=1e-5, bits=30)
    assert used
    b = float(found[0]) / 2**30
    # n/(1 + e^b) = b
    assert 10**15 / (1 + math.exp(b)) == pytest.approx(b, rel=1e-6)


def test_a_penalty_that_is_stronger_moves_less():
    weak, strong = (
        ClassMinimiser(column="b", classes=2, features=FEATURES, ridge=ridge) for ridge in (1, 100)
    )
    rows = random_rows(weak, 50, np.random.default_rng(1))
    far, near = (np.abs(total(sum, rows) * float(sum.unit)).sum() for sum in (weak, strong))
    assert near < far / 2


@pytest.mark.parametrize(
    "change",
    [{"ridge": 0}, {"ridge": 2.0}, {"classes": 1}, {"column": "x"}, {"missing_from": 3}, {"a": 1}],
)
def test_a_description_that_is_none_is_refused(change):
    assert sum_from_json(THREE.to_json()) == THREE
    document = {**THREE.to_json(), **change}
    with pytest.raises((ValueError, TypeError)):
        sum_from_json(document)
