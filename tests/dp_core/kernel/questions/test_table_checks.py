"""Distances of tables from reference counts: what one row can do to them, and what receipts say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.client.noise_scale import sensitivities
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.table_distance import TableChecks
from dp_core.kernel.questions.vetted import rebuilt, required
from tests.dp_core.kernel.questions.neighbours import (
    RELATIONS,
    all_tables,
    furthest,
    neighbours_of,
    says_what_it_needs,
    values,
)

COLUMNS = ("a", "b")
CLIQUES = (("a",), ("b",), ("b", "a"))
files = st.lists(st.integers(0, 9), min_size=6, max_size=6).map(
    lambda cells: np.array(cells).reshape(2, 3)
)
SOME = ([2, 0], [0, 1, 3], [[1, 0], [0, 1], [2, 0]])


def checks(references=SOME):
    return TableChecks(CLIQUES, tuple(np.array(each, dtype=np.int64) for each in references))


@given(table=files, reference=st.lists(st.integers(0, 20), min_size=6, max_size=6))
def test_it_is_the_sum_of_distances_cell_by_cell(table, reference):
    pair = np.array(reference).reshape(3, 2)
    statistic = checks((pair.sum(axis=0), pair.sum(axis=1), pair))
    assert values(statistic, table, COLUMNS).tolist() == [
        np.abs(table.sum(axis=1) - pair.sum(axis=0)).sum(),
        np.abs(table.sum(axis=0) - pair.sum(axis=1)).sum(),
        np.abs(table.T - pair).sum(),
    ]


@pytest.mark.parametrize(("relation", "change"), [("add-remove", 1), ("replace-one", 2)])
def test_a_row_moves_every_table_by_as_much_as_is_proven_and_no_more(relation, change):
    statistic = checks()
    assert furthest(statistic, all_tables((2, 3), 2), COLUMNS, relation) == change
    assert statistic.largest_change(relation) == change
    # All tables move at once, so neither norm can be smaller than that of the largest changes.
    l1, l2_squared = sensitivities(statistic, Relation(relation))
    far = [0, 0]
    for table in all_tables((2, 3), 2):
        before = values(statistic, table, COLUMNS)
        for other in neighbours_of(table, relation):
            moved = np.abs(values(statistic, other, COLUMNS) - before)
            far = [max(far[0], int(moved.sum())), max(far[1], int((moved**2).sum()))]
    assert far == [l1, l2_squared] == [3 * change, 3 * change**2]


@pytest.mark.parametrize("rows", [2**41, 2**61])
def test_it_is_exact_for_any_number_of_rows(rows):
    table = np.array([[rows, 0, 1], [0, 0, rows // 2]])
    nothing = checks(([0, 0], [0, 0, 0], [[0, 0]] * 3))
    whole = rows + 1 + rows // 2
    assert values(nothing, table, COLUMNS).tolist() == [min(whole, 2**62)] * 3


def test_a_person_of_several_rows_moves_it_as_often():
    statistic = checks()
    assert sensitivities(statistic, Relation("add-remove", 4)) == (12, 48)
    assert sensitivities(statistic, Relation("replace-one", 4)) == (24, 192)


def test_sensitivities_follow_from_what_a_receipt_says():
    says_what_it_needs(checks())
    assert set(checks().asks()) == {"name", "tables", "question"}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("tables", [[], "ab", [("a",)], 3, None, {"a": 1}])
def test_what_it_never_says_is_refused(tables, relation):
    with pytest.raises(ValueError, match="list of lists"):
        required(checks().to_json() | {"tables": tables}, Relation(relation))


@pytest.mark.parametrize(
    "references",
    [([0.5, 0], [0, 0, 0], [[0, 0]] * 3), ([-1, 0], [0, 0, 0], [[0, 0]] * 3), SOME[:2]],
)
def test_reference_counts_are_whole_and_one_for_each_table(references):
    with pytest.raises(ValueError, match=r"[rR]eference counts|whole"):
        rebuilt(TableChecks, TableChecks(CLIQUES, tuple(np.array(each) for each in references)))
