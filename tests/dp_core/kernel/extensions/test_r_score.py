from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.kernel.extensions.indif import InDif, RScore
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.vetted import required
from tests.dp_core.kernel.questions.neighbours import (
    RELATIONS,
    all_tables,
    furthest,
    says_what_it_needs,
    values,
)

COLUMNS = ("x", "p", "q")
SCORE = RScore((("x", ("p", "q")), ("q", ("x",)), ("p", ())))
files = st.lists(st.integers(0, 12), min_size=12, max_size=12).map(
    lambda cells: np.array(cells).reshape(2, 3, 2)
)
# The largest known changes: two parents of two codes each make the four codes of one column.
FAR = {
    "add-remove": [np.array([[60, 0, 0, 0]] + [[0] * 4] * 2), (1, 1), None],
    "replace-one": [
        np.array([[0, 0, 0, 0], [0, 400, 20, 0], [0, 20, 1, 0]]),
        (0, 0),
        (2, 2),
    ],
}


def score(table):
    """Return the R score of a table of a child by two binary parents."""
    only = RScore((("x", ("p", "q")),))
    return int(values(only, np.asarray(table).reshape(-1, 2, 2), COLUMNS)[0])


@given(table=files)
def test_it_is_the_rounded_distance_of_the_child_from_its_parents(table):
    n = int(table.sum())
    exact = [Fraction(0)] * 3
    for index, joint in enumerate((table.reshape(2, -1), table.sum(axis=1).T)):
        product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        if n:
            exact[index] = Fraction(int(np.abs(n * joint - product).sum()), n)
    found = values(SCORE, table, COLUMNS).tolist()
    assert all(abs(a - b) <= Fraction(1, 2) for a, b in zip(found, exact, strict=True))


@given(table=files)
def test_one_parent_makes_it_the_pair_s_indif(table):
    assert values(SCORE, table, COLUMNS)[1] == values(InDif((("q", "x"),)), table, COLUMNS)[0]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_no_small_file_moves_it_further_than_proven(relation, rows):
    far = furthest(SCORE, all_tables((2, 2, 2), rows), COLUMNS, relation)
    assert far <= SCORE.largest_change(relation)


@settings(max_examples=60)
@given(table=files)
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_file_moves_it_further_than_proven(relation, table):
    assert furthest(SCORE, [table], COLUMNS, relation) <= SCORE.largest_change(relation)


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_bound_is_reached_so_one_smaller_would_be_wrong(relation):
    before, added, removed = FAR[relation]
    after = before.copy()
    after[added] += 1
    if removed:
        after[removed] -= 1
    assert abs(score(after) - score(before)) == SCORE.largest_change(relation)


def test_sensitivities_follow_from_what_a_receipt_says():
    says_what_it_needs(SCORE)
    assert required({"name": "r-score", "length": 2}, Relation("replace-one")) == (6, 12, 72)


def test_a_column_that_is_its_own_parent_is_refused():
    with pytest.raises(ValueError, match="repeated"):
        RScore((("x", ("p", "x")),))
