from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.methods.reconstruction.joint.dense_answers import questions
from dp_core.methods.reconstruction.joint.walsh import even_mass, parity_mask, scale_even, walsh
from dp_core.methods.selection.mwem import cells, parities
from tests.exact_tables import query_counts

BINARY = Domain(("a", "b", "one", "c"), (2, 2, 1, 2))
MIXED = Domain(("a", "b", "c"), (3, 1, 4))


@settings(max_examples=30)
@given(st.lists(st.integers(1, 2), max_size=7), st.integers(0, 10**6))
def test_the_transform_is_the_sum_with_signs_and_its_own_inverse(sizes, seed):
    table = np.random.default_rng(seed).normal(size=sizes)
    found = walsh(table)
    cells_ = list(itertools.product(*map(range, sizes)))
    for entry in cells_:
        signs = [(-1) ** sum(np.multiply(entry, cell)) for cell in cells_]
        expected = sum(sign * table[cell] for sign, cell in zip(signs, cells_, strict=True))
        assert found[entry] == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(walsh(found), table * table.size, atol=1e-9)


def test_only_binary_tables_have_a_transform():
    with pytest.raises(ValueError, match="binary"):
        walsh(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("domain", "queries"),
    [
        (BINARY, parities(BINARY, (1, 2, 3))),
        (BINARY, cells(BINARY, (1, 2, 4))),
        (MIXED, cells(MIXED, (1, 2, 3))),
        (MIXED, Cells((("c",), ("a", "c")), ((2,), (1, 3)))),
    ],
)
def test_questions_are_answered_as_the_queries_are_and_spread_back(domain, queries):
    rng = np.random.default_rng(4)
    joint = rng.random(domain.sizes)
    asked = questions(domain, queries)
    assert asked.length == queries.length
    found = asked.ask(joint)
    np.testing.assert_allclose(found, query_counts(joint, domain, queries), rtol=1e-12)
    # To spread is the transpose of to ask.
    weights = rng.normal(size=asked.length)
    assert (asked.spread(weights) * joint).sum() == pytest.approx(weights @ found)
    np.testing.assert_allclose(asked.matrix() @ joint.ravel(), found)


def test_cells_in_another_order_are_refused():
    with pytest.raises(ValueError, match="ascending"):
        questions(MIXED, Cells((("a",), ("a",)), ((1,), (0,))))
    with pytest.raises(ValueError, match="ascending"):
        questions(MIXED, Cells((("a",), ("c",), ("a",)), ((0,), (0,), (1,))))


def test_weights_are_carried_to_the_questions_that_stay():
    before = questions(BINARY, parities(BINARY, (1,)))
    after = questions(BINARY, Parities((("a", "b"), ("c",), ("a",))))
    np.testing.assert_array_equal(after.carry(before, np.array([1.0, 2.0, 3.0])), [0, 3, 1])
    first = questions(MIXED, Cells((("a",), ("c",)), ((2,), (1,))))
    second = questions(MIXED, Cells((("c",), ("c",), ("a",)), ((0,), (1,), (2,))))
    np.testing.assert_array_equal(second.carry(first, np.array([5.0, 7.0])), [0, 7, 5])


@pytest.mark.parametrize("clique", [("a",), ("b", "c"), ("a", "b", "one", "c"), ("one",)])
def test_a_parity_is_found_cell_by_cell_as_well(clique):
    joint = np.random.default_rng(1).random(BINARY.sizes)
    mask = parity_mask(BINARY, clique)
    even = np.indices(BINARY.sizes)[list(BINARY.axes(clique))].sum(axis=0) % 2 == 0
    assert even_mass(joint.reshape(-1), mask) == pytest.approx(joint[even].sum())
    scaled = joint.copy()
    scale_even(scaled.reshape(-1), mask, 3.0, 0.5)
    np.testing.assert_allclose(scaled, joint * np.where(even, 3.0, 0.5))
