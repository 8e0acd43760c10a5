"""The choices of PrivBayes and DualQuery on neighbouring files: what an onlooker learns.

Exactly, by the law of the noise and what it is handed (`tests/choices.py`): at each statistic the
loss must not pass what was charged, and must with half of the sensitivity.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import dp_core.kernel.kernel as kernel_module
from dp_core.client.curator import Curator
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.f_score import FScore
from dp_core.kernel.extensions.indif import RScore
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.kernel.questions.query_scores import SignedQueries
from tests.choices import chances, loss
from tests.distributions.audited_files import PaysAlways, Tables

EPSILON = Fraction(2)
COLUMNS = Domain(("a", "b", "c", "d"), (3, 3, 3, 3))
EDGES = RScore((("a", ("b",)), ("c", ("d",))))
FILES = {
    # One row more: the first score goes from 0 to 4, the second from 10 to 7.
    "add-remove": (
        (np.diag([34, 0, 0]), np.array([[16, 9, 0], [9, 0, 0], [0, 0, 0]])),
        (np.diag([34, 1, 0]), np.array([[16, 9, 0], [9, 1, 0], [0, 0, 0]])),
    ),
    # One row replaced: from 6 to 11, and from 16 to 11.
    "replace-one": (
        (
            np.array([[0, 0, 0], [12, 1, 0], [4, 3, 0]]),
            np.array([[0, 10, 0], [6, 3, 0], [0, 0, 1]]),
        ),
        (
            np.array([[0, 0, 1], [12, 0, 0], [4, 3, 0]]),
            np.array([[1, 10, 0], [6, 3, 0], [0, 0, 0]]),
        ),
    ),
}
SCORES = {"add-remove": ([0, 10], [4, 7]), "replace-one": ([6, 16], [11, 11])}


def told(patch, kind, neighbours, statistic, files, domain):
    """Return the privacy loss of a choice between two files, given by their tables."""
    cost = EPSILON if kind == "pure" else EPSILON**2 / 8
    session = PaysAlways(Currency(kind, cost), neighbours)
    return loss(
        *(
            chances(patch, Curator(Kernel(domain, Tables(tables), session)), statistic, cost)
            for tables in files
        )
    )


def halve(patch, kind):
    change = kind.change
    patch.setattr(kernel_module, "require_calibrated", lambda *_: None)
    patch.setattr(kind, "change", lambda stated, by: change(stated, by) // 2)


def by_clique(tables):
    return dict(zip(EDGES.cliques, tables, strict=True))


@pytest.mark.parametrize("neighbours", FILES)
def test_the_edges_of_the_audit_are_of_neighbours_and_move_apart(neighbours):
    for before, after in zip(*FILES[neighbours], strict=True):
        moved = after - before
        assert np.abs(moved).sum() == (1 if neighbours == "add-remove" else 2)
        assert moved.sum() == (1 if neighbours == "add-remove" else 0)
    for tables, scores in zip(FILES[neighbours], SCORES[neighbours], strict=True):
        assert EDGES.compute(Tables(by_clique(tables)).count(EDGES.cliques)).tolist() == scores


KINDS = ["pure", "zcdp"]
HALVED = [False, True]
ROUNDED = EPSILON * (1 + Fraction(1, 10**12))  # chances are floats


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", FILES)
@pytest.mark.parametrize("halved", HALVED)
def test_an_edge_of_a_network_is_chosen_at_the_epsilon_that_was_charged(
    halved, kind, neighbours, monkeypatch
):
    if halved:
        halve(monkeypatch, RScore)
    files = [by_clique(tables) for tables in FILES[neighbours]]
    found = told(monkeypatch, kind, neighbours, EDGES, files, COLUMNS)
    assert found > 1.3 * EPSILON if halved else 1.1 < found <= ROUNDED


PAIRS = Domain(("a", "b", "c", "d"), (2, 2, 2, 2))
CANDIDATES = (("a", ("b",)), ("c", ("d",)))
OTHER_SCORES = [
    # Statistic, relation, tables before and after, scores before and after.
    (
        FScore(CANDIDATES),
        "add-remove",
        ([[0, 0], [0, 12]], [[0, 2], [6, 4]]),
        ([[1, 0], [0, 12]], [[1, 2], [6, 4]]),
        ([-12, -8], [-11, -10]),
    ),
    (
        FScore(CANDIDATES),
        "replace-one",
        ([[0, 0], [0, 12]], [[0, 3], [6, 3]]),
        ([[1, 0], [0, 11]], [[1, 2], [6, 3]]),
        ([-12, -6], [-10, -8]),
    ),
    (
        MutualInformation(CANDIDATES, rows=12, grid=1000, binary=True),
        "replace-one",
        ([[0, 0], [0, 12]], [[6, 0], [0, 6]]),
        ([[1, 0], [0, 11]], [[6, 0], [1, 5]]),
        ([0, 1000], [414, 655]),
    ),
]


@pytest.mark.parametrize("halved", HALVED)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("statistic", "neighbours", "before", "after", "scores"), OTHER_SCORES)
def test_an_edge_is_chosen_at_that_epsilon_by_the_other_scores_too(
    halved, kind, statistic, neighbours, before, after, scores, monkeypatch
):
    files = [
        {clique: np.array(table) for clique, table in zip(statistic.cliques, tables, strict=True)}
        for tables in (before, after)
    ]
    found = [statistic.compute(Tables(file).count(statistic.cliques)).tolist() for file in files]
    assert found == list(scores)
    if halved:
        halve(monkeypatch, type(statistic))
    found = told(monkeypatch, kind, neighbours, statistic, files, PAIRS)
    assert found > 1.3 * EPSILON if halved else 1.1 < found <= ROUNDED


CELL = ("a",)
ONE = Domain(CELL, (2,))
ROUND = 4
MORE = {  # one row more in the first cell, and one row moved into it
    "add-remove": (np.array([10, 10]), np.array([11, 10])),
    "replace-one": (np.array([10, 10]), np.array([11, 9])),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", MORE)
@pytest.mark.parametrize("halved", HALVED)
def test_a_query_and_its_complement_are_chosen_at_the_epsilon_that_was_charged(
    halved, kind, neighbours, monkeypatch
):
    # The score of the cell rises by the round's factor, and that of its complement falls by it.
    offset = 11 * ROUND
    statistic = SignedQueries(
        Cells((CELL, CELL), ((0,), (0,))),
        ROUND,
        np.array([offset, -offset]),
        np.array([1, -1]),
    )
    before, after = (
        statistic.compute(Tables({CELL: table}).count([CELL])).tolist()
        for table in MORE[neighbours]
    )
    assert (before, after) == ([-ROUND, ROUND], [0, 0])
    if halved:
        halve(monkeypatch, SignedQueries)
    files = [{CELL: table} for table in MORE[neighbours]]
    found = told(monkeypatch, kind, neighbours, statistic, files, ONE)
    assert found > 1.3 * EPSILON if halved else 1.1 < found <= ROUNDED
