import math

import numpy as np
import pytest

from dp_core.client.released import Records, SparseTable
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.lab.comparison.judging import Task, judge, noisy_numbers, seen_by_classifiers, split
from dp_core.lab.field_scores.code_values import resample
from tests.measured import noisy_table

PAIR = Domain(("a", "b"), (2, 2))


def data(domain, *rows):
    return Dataset(domain, np.array(rows, dtype=np.uint16).T.reshape(len(domain), -1).copy())


REAL = data(PAIR, (0, 0), (0, 1), (1, 0), (1, 1))
MADE = data(PAIR, (0, 0), (0, 0), (1, 0), (1, 1))


def test_the_figures_of_a_small_case_are_those_by_hand():
    found = judge(REAL, MADE)
    # a: 2 2 against 2 2; b: 2 2 against 3 1
    assert found["tvd1"] == pytest.approx((0 + 0.25) / 2, rel=1e-12)
    # 1 1 1 1 against 2 0 1 1, a quarter each
    assert found["tvd2"] == pytest.approx(0.25, rel=1e-12)
    assert found["cell"] == pytest.approx(0.25, rel=1e-12)
    # one record more, spread over four cells: 2.25 .25 1.25 1.25 of 5
    by_hand = sum(0.25 * math.log(0.25 / (count / 5)) for count in (2.25, 0.25, 1.25, 1.25))
    assert found["kl2"] == pytest.approx(by_hand, rel=1e-12)
    assert found["kl"] == pytest.approx(by_hand, rel=1e-12)
    assert found["tvd3"] is None
    assert "svm" not in found


def test_of_several_pairs_the_largest_cell_and_the_average_distance_count():
    triple = Domain(("a", "b", "c"), (2, 2, 2))
    real = data(triple, (0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1))
    made = data(triple, (0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 1))
    found = judge(real, made)
    # ab: one of four records moved; ac: none; bc: one moved; abc: one moved
    assert found["tvd2"] == pytest.approx((0.25 + 0 + 0.25) / 3, rel=1e-12)
    assert found["tvd3"] == pytest.approx(0.25, rel=1e-12)
    assert found["cell"] == pytest.approx(0.25, rel=1e-12)


def test_a_file_is_at_no_distance_from_itself_but_for_smoothing():
    found = judge(REAL, REAL)
    assert [found[name] for name in ("tvd1", "tvd2", "cell", "kl2", "ranges")] == [0] * 5


def test_a_file_without_records_is_judged_all_the_same():
    found = judge(REAL, Dataset(PAIR, REAL.codes[:, :0]), task=Task("a", ()), test=REAL)
    assert found["tvd2"] == 1.0
    assert "misclassified" not in found


def test_classifiers_learn_from_the_synthetic_records_unless_told_otherwise():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, 200)
    right, wrong = (Dataset(PAIR, np.stack([a, b]).astype(np.uint16)) for b in (a, 1 - a))
    task = Task("b", ())
    assert judge(right, wrong, task=task, test=right)["svm"] == 0.0
    assert judge(right, wrong, task=task, test=right)["misclassified"] == 1.0
    assert judge(right, wrong, task=task, test=right, learn=right)["svm"] == 1.0


def test_a_large_domain_has_no_joint_entropy():
    domain = Domain(("a", "b", "c"), (300, 300, 300))
    many = Dataset(domain, np.zeros((3, 5), dtype=np.uint16))
    assert judge(many, many)["kl"] is None
    assert judge(many, many)["tvd3"] is None or judge(many, many)["tvd3"] == 0


def test_one_column_has_no_pairs():
    single = Dataset(Domain(("a",), (2,)), np.array([[0, 1]], dtype=np.uint16))
    found = judge(single, single)
    assert (found["tvd1"], found["tvd2"], found["cell"], found["kl2"]) == (0.0, None, None, None)


def test_records_held_out_are_never_seen_and_always_the_same():
    whole = Dataset(Domain(("id",), (100,)), np.arange(100, dtype=np.uint16)[None, :])
    seen, test = split(whole, 0.2)
    assert (seen.rows, test.rows) == (80, 20)
    assert sorted([*seen.codes[0], *test.codes[0]]) == list(range(100))
    assert np.array_equal(split(whole, 0.2)[1].codes, test.codes)


def test_without_holding_out_methods_see_all_and_a_fifth_is_tested_on():
    whole = Dataset(Domain(("id",), (100,)), np.arange(100, dtype=np.uint16)[None, :])
    seen, test = split(whole, 0)
    assert seen is whole
    assert test.rows == 20
    # what real records teach is judged on others
    assert sorted([*seen_by_classifiers(whole).codes[0], *test.codes[0]]) == list(range(100))


def test_a_resample_has_as_many_records_and_none_that_is_new():
    whole = Dataset(Domain(("id",), (1000,)), np.arange(500, dtype=np.uint16)[None, :])
    again = resample(whole, rng=np.random.default_rng(1))
    assert again.rows == 500
    assert again.codes.max() < 500
    # 1 - 1/e of the records are there: 316 of 500, standard deviation 7
    assert 270 < np.unique(again.codes).size < 360


def test_the_cost_is_the_number_of_noisy_numbers():
    table = noisy_table(PAIR, np.zeros((2, 2), np.int64), noise="laplace")
    sparse = SparseTable(
        PAIR,
        np.zeros((3, 2), np.uint16),
        np.ones(3, np.int64),
        1,
        9,
        noise="laplace",
        scale=1.0,
        stage="m",
        replicate=0,
        grant=2,
    )
    assert noisy_numbers([table, sparse]) == 7
    assert noisy_numbers([table, Records(REAL)]) is None
