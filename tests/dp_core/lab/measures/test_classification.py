import numpy as np
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.lab.measures.classification import misclassification, svm_accuracy

DOMAIN = Domain(("x", "kind", "class"), (4, 3, 2))


def made(rows, seed, *, rule):
    rng = np.random.default_rng(seed)
    x, kind = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    return Dataset(DOMAIN, np.stack([x, kind, rule(x, kind)]).astype(np.uint16))


def threshold(x, _kind):
    return x >= 2


def middle(_x, kind):
    """Not linear in the code: the level in the middle differs from both others."""
    return kind == 1


def opposite(x, kind):
    return 1 - threshold(x, kind)


def test_a_rule_that_was_learnt_is_never_wrong():
    train, test = made(400, 1, rule=threshold), made(200, 2, rule=threshold)
    assert misclassification(train, test, "class") == 0.0
    assert svm_accuracy(train, test, "class") == 1.0


def test_the_opposite_rule_is_always_wrong():
    train, test = made(400, 1, rule=opposite), made(200, 2, rule=threshold)
    assert misclassification(train, test, "class") == 1.0
    assert svm_accuracy(train, test, "class") == 0.0


def test_a_linear_machine_needs_to_know_which_columns_have_no_order():
    train, test = made(400, 1, rule=middle), made(300, 2, rule=middle)
    share = float(np.mean(test.column("kind") == 1))
    assert svm_accuracy(train, test, "class", nominal=["kind"]) == 1.0
    assert svm_accuracy(train, test, "class") <= 1 - share / 2
    assert misclassification(train, test, "class", nominal=["kind"]) == 0.0


def test_one_class_to_learn_from_is_predicted_always():
    train = made(50, 1, rule=lambda x, _kind: np.zeros_like(x))
    test = made(200, 2, rule=threshold)
    zeros = float(np.mean(test.column("class") == 0))
    assert misclassification(train, test, "class") == pytest.approx(1 - zeros, rel=1e-12)
    assert svm_accuracy(train, test, "class") == pytest.approx(zeros, rel=1e-12)


def test_without_another_column_it_is_the_commonest_class():
    domain = Domain(("class",), (3,))
    train = Dataset(domain, np.array([[2, 2, 1, 0, 2]], dtype=np.uint16))
    test = Dataset(domain, np.array([[2, 0, 0, 0]], dtype=np.uint16))
    assert misclassification(train, test, "class") == 0.75
    assert svm_accuracy(train, test, "class") == 0.25


def test_empty_files_and_other_domains_are_refused():
    train = made(50, 1, rule=threshold)
    empty = Dataset(DOMAIN, train.codes[:, :0])
    other = Dataset(Domain(("x", "kind", "class"), (4, 3, 3)), train.codes)
    with pytest.raises(ValueError, match="records"):
        misclassification(empty, train, "class")
    with pytest.raises(ValueError, match="same domain"):
        svm_accuracy(train, other, "class")
