"""Charged checks: what is handed to the noise, and what is charged for it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.table_distance import TableChecks
from tests.added_noise import handed_over, loss
from tests.distributions.audited_files import Column, PaysAlways
from tests.full import RIGHT_OR_WRONG

pytestmark = pytest.mark.statistical

TABLE = ("a",)
REFERENCE = np.array([0, 20], dtype=np.int64)
FILES = {  # neighbours whose distances from the reference are as far apart as they can be
    "add-remove": (np.array([8, 25]), np.array([9, 25])),
    "replace-one": (np.array([8, 7]), np.array([9, 6])),
}
DISTANCES = {"add-remove": (13, 14), "replace-one": (21, 23)}


def asked(session, cost, counts, length):
    """Return the noisy distances of so many copies of a table."""
    curator = Curator(Kernel(Domain(TABLE, (2,)), Column(counts), session))
    statistic = TableChecks((TABLE,) * length, (REFERENCE,) * length)
    return np.array([each.distance for each in curator.check("distances", statistic, cost)])


def halve(patch):
    """Let the curator believe in half of the sensitivity."""
    change = TableChecks.change
    patch.setattr("dp_core.kernel.kernel.require_calibrated", lambda *_: None)
    patch.setattr(TableChecks, "change", lambda stated, by: change(stated, by) / 2)


@pytest.mark.parametrize("relation", [*FILES, Relation("add-remove", 3)])
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
def test_the_charge_is_what_the_formula_gives(kind, relation):
    """20 tables: L1 sensitivity 20 c k, squared L2 20 (c k)^2, of a row's c and a person's k."""
    cost, tables = Fraction(1, 10), 20
    of = relation if isinstance(relation, Relation) else Relation(relation)
    session = MemorySession(Currency(kind, cost), of.neighbours, max_rows=of.max_rows)
    asked(session, cost, [3, 4], tables)
    step = session.charges[0].step
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


@pytest.mark.parametrize("relation", FILES)
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
@pytest.mark.parametrize("halved", RIGHT_OR_WRONG)
def test_checks_keep_what_they_were_charged(kind, relation, halved, monkeypatch):
    """Exactly, by what is handed to the noise: the distances of four tables."""
    if halved:
        halve(monkeypatch)
    cost = Fraction(1, 10)

    session = PaysAlways(Currency(kind, cost), relation)

    def ask(counts):
        return lambda: asked(session, cost, counts, 4)

    for counts, distance in zip(FILES[relation], DISTANCES[relation], strict=True):
        values, *_ = handed_over(monkeypatch, ask(counts))
        assert values.tolist() == [distance] * 4
    found = loss(monkeypatch, *map(ask, FILES[relation]))
    charged = float(cost)
    # Under the Gaussian curve the variance is larger by 2, for smoothing.
    assert (found > 1.6 * charged) if halved else (0.8 * charged < found <= charged * (1 + 1e-9))
