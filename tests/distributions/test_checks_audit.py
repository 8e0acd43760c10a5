"""Charged checks: exact without noise, with the noise that was charged, and private as claimed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.schema.privacy import Relation
from dp_core.tables.domain import Domain
from dp_core.tables.marginal import Marginal
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.curator import Curator
from dp_core.wall.ledger.session import MemorySession
from dp_core.wall.statistics import TableChecks
from tests.full import RIGHT_OR_WRONG, some
from tests.statistical import (
    FALSE_ALARM,
    delta_at_least,
    discrete_gaussian,
    discrete_laplace,
    epsilon_at_least,
    fits,
)

pytestmark = pytest.mark.statistical

TABLE = ("a",)
REFERENCE = np.array([0, 20], dtype=np.int64)
FILES = {  # neighbours whose distances from the reference are as far apart as they can be
    "add-remove": (np.array([8, 25]), np.array([9, 25])),
    "replace-one": (np.array([8, 7]), np.array([9, 6])),
}
DISTANCES = {"add-remove": (13, 14), "replace-one": (21, 23)}


class File:
    """A confidential file of one table."""

    def __init__(self, counts):
        self.marginal = Marginal(Domain(TABLE, (2,)), np.asarray(counts, dtype=np.int64))

    def count(self, cliques):
        return dict.fromkeys(cliques, self.marginal)


def asked(kind, relation, cost, counts, length):
    """Return the noisy distances of so many copies of a table, and what was charged."""
    rows = relation.max_rows if isinstance(relation, Relation) else 1
    neighbours = relation.neighbours if isinstance(relation, Relation) else relation
    session = MemorySession(Currency(kind, cost), neighbours, max_rows=rows)
    curator = Curator(Domain(TABLE, (2,)), File(counts), session)
    figures = curator.check(
        "distances", TableChecks((TABLE,) * length, (REFERENCE,) * length), cost
    )
    return np.array([figure.distance for figure in figures]), session.charges[0].step


def halve(patch):
    """Let the curator believe in half of the sensitivity."""
    change = TableChecks.largest_change
    patch.setattr(TableChecks, "largest_change", lambda self, by: change(self, by) / 2)


@pytest.mark.parametrize("relation", FILES)
def test_without_noise_they_are_the_distances(relation, monkeypatch):
    from dp_core.wall import curator

    monkeypatch.setattr(curator.granted_noise, "add", lambda exact, _: exact)
    for counts, distance in zip(FILES[relation], DISTANCES[relation], strict=True):
        found, _ = asked("pure", relation, Fraction(1), counts, 2)
        assert found.tolist() == [distance, distance]


@pytest.mark.parametrize("relation", [*FILES, Relation("add-remove", 3)])
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
def test_the_charge_is_what_the_formula_gives(kind, relation):
    """20 tables: L1 sensitivity 20 c k, squared L2 20 (c k)^2, of a row's c and a person's k."""
    cost, tables = Fraction(1, 10), 20
    _, step = asked(kind, relation, cost, [3, 4], tables)
    change = {"add-remove": 1, "replace-one": 2}.get(relation, 3)
    assert Currency(kind, cost).cost(step.event) <= cost
    scale = float(step.event.scale)
    if kind == "pure":
        assert step.event.l1_sensitivity == tables * change
        assert scale == pytest.approx(tables * change / 0.1, rel=1e-12)
    else:
        assert step.event.l2_sensitivity_squared == tables * change**2
        more = 2 if kind == "gaussian" else 0
        assert scale**2 == pytest.approx(tables * change**2 / 0.2 + more, rel=1e-12)
    assert step.stage == "checks"


@pytest.mark.parametrize("wrong", some([0.8, 1.25], lambda wrong: wrong < 1))
def test_the_noise_is_that_of_the_charge(wrong):
    for kind, mass in (("pure", discrete_laplace), ("zcdp", discrete_gaussian)):
        length = 20_000
        cost = Fraction(length, 3) if kind == "pure" else Fraction(length, 18)
        found, step = asked(kind, "add-remove", cost, [8, 25], length)
        scale = float(step.event.scale)
        assert scale == pytest.approx(3)
        assert fits(found - 13, mass(scale, 12)) > FALSE_ALARM
        assert fits(found - 13, mass(scale * wrong, 12)) < FALSE_ALARM


@pytest.mark.parametrize("relation", FILES)
@pytest.mark.parametrize("halved", RIGHT_OR_WRONG)
def test_checks_under_laplace_noise_keep_the_epsilon_they_were_charged(
    relation, halved, monkeypatch
):
    """Every table gets an equal part of the cost, here an epsilon of 1."""
    if halved:
        halve(monkeypatch)
    length, high = 12_000, DISTANCES[relation][1]
    first, second = (
        asked("pure", relation, Fraction(length), counts, length)[0] for counts in FILES[relation]
    )
    bound = epsilon_at_least(second >= high, first >= high)
    if halved:
        assert bound > 1.25
    else:
        assert 0.5 < bound <= 1


@pytest.mark.parametrize("halved", RIGHT_OR_WRONG)
def test_checks_under_gaussian_noise_keep_the_curve_they_were_charged(halved, monkeypatch):
    """Mu 1 for each table: delta at epsilon 1 is 0.1269 (Balle & Wang 2018, Theorem 8)."""
    if halved:
        halve(monkeypatch)
    length, (low, high) = 15_000, DISTANCES["replace-one"]
    first, second = (
        asked("zcdp", "replace-one", Fraction(length, 2), counts, length)[0]
        for counts in FILES["replace-one"]
    )
    scale = (1 if halved else 2) ** 2
    threshold = (low + high) / 2 + scale / (high - low)
    bound = delta_at_least(second > threshold, first > threshold, 1.0)
    if halved:
        assert bound > 0.1269 + 0.05
    else:
        assert 0 < bound <= 0.1269
