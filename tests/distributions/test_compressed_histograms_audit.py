"""What histograms of few coefficients or few bins tell of a record, exactly.

By the law of the noise and what it is handed (`tests/choices.py`, `tests/added_noise.py`): the loss
must not pass what was charged, and must with half of the sensitivity.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.tables.domain import Domain
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.curator import Curator
from dp_core.wall.statistics import CosineSums, CosineTails, CutDeviations
from tests import added_noise
from tests.choices import chances, loss
from tests.distributions.audited_files import Column, PaysAlways

EPSILON = Fraction(2)
KINDS = ["pure", "zcdp"]
RELATIONS = ["add-remove", "replace-one"]


def curators(kind, neighbours, files, epsilon=EPSILON):
    cost = epsilon if kind == "pure" else epsilon**2 / 8
    session = PaysAlways(Currency(kind, cost), neighbours)
    domain = Domain(("x",), (len(files[0]),))
    return cost, [Curator(domain, Column(counts), session) for counts in files]


# Cutting before the second bin or before the third: a record that comes to the second bin (from the
# third, if it is replaced) raises the score of the first cut and lowers that of the second.
CUT = CutDeviations(column="x", edges=(0, 1, 2, 3), low=0, high=3)
CUT_FILES = {"add-remove": ([0, 1, 4], [0, 2, 4]), "replace-one": ([0, 1, 5], [0, 2, 4])}
CUT_MOVES = {"add-remove": [1, -1], "replace-one": [2, -1]}
# A record that lengthens the tail of one coefficient and shortens that of three; a high price makes
# the rare choice of three tell all that it can.
TAIL = CosineTails(column="x", edges=(0, 1, 2, 3, 4), prices=(0, 0, 2**25))
TAIL_FILES = {
    "add-remove": ([0, 2, 3, 0], [0, 3, 3, 0]),
    "replace-one": ([0, 3, 2, 1], [0, 3, 3, 0]),
}


def told(patch, kind, neighbours, statistic, files, epsilon=EPSILON):
    cost, found = curators(kind, neighbours, files, epsilon)
    return loss(*(chances(patch, curator, statistic, cost) for curator in found))


def test_the_cuts_of_the_audit_move_apart():
    for neighbours, files in CUT_FILES.items():
        before, after = (CUT.compute(Column(counts).count(CUT.cliques)) for counts in files)
        assert (after - before).tolist() == CUT_MOVES[neighbours]
        assert after[0] == after[1]


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("asked", "files"), [(CUT, CUT_FILES), (TAIL, TAIL_FILES)])
def test_a_choice_keeps_the_epsilon_it_was_charged(kind, neighbours, asked, files, monkeypatch):
    right = told(monkeypatch, kind, neighbours, asked, files[neighbours])
    assert float(EPSILON) / 2 < right <= float(EPSILON)
    # Half of the sensitivity would mean half of the scale, as for twice the epsilon.
    wrong = told(monkeypatch, kind, neighbours, asked, files[neighbours], 2 * EPSILON)
    assert wrong > float(EPSILON)


SUMS = {
    "add-remove": CosineSums(column="x", size=64, edges=tuple(range(65)), kept=5),
    "replace-one": CosineSums(column="x", size=64, edges=tuple(range(65)), kept=2),
}


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_cosines_keep_what_they_were_charged(kind, neighbours, monkeypatch):
    asked, first, second = SUMS[neighbours], np.ones(64, np.int64), np.ones(64, np.int64)
    first[0] += 1
    second[63] += neighbours == "replace-one"
    cost, found = curators(kind, neighbours, [first, second])

    def told_by_noise():
        return added_noise.loss(
            monkeypatch,
            *(lambda each=each: each.total("measure", "x", asked, cost).values for each in found),
        )

    charged = float(cost)
    assert 0.9 * charged < told_by_noise() <= charged * (1 + 1e-9)
    l1, l2_squared = asked.l1(neighbours), asked.l2_squared(neighbours)
    monkeypatch.setattr(CosineSums, "l1", lambda *_: l1 // 2)
    monkeypatch.setattr(CosineSums, "l2_squared", lambda *_: l2_squared // 4)
    assert told_by_noise() > 1.8 * charged
