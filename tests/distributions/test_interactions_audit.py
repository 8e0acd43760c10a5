"""Audits of interactions, through the curator, on neighbouring files.

Exactly, by what is handed to the noise (`tests/added_noise.py`): the loss must not pass what was
charged, and does with half of the sensitivity. Neighbours differ in the cells that are farthest
apart.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.schema.privacy import Relation
from dp_core.tables.domain import Domain
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.curator import Curator
from dp_core.wall.statistics.interactions import Interaction
from tests.added_noise import loss
from tests.distributions.audited_files import PaysAlways, Tables
from tests.full import RELATIONS_OF_AUDITS, RIGHT_OR_WRONG

pytestmark = pytest.mark.statistical


def farthest(sizes, neighbours, by, rows=1):
    """Return the two files of a pair of neighbours, and the change of the entries between them."""
    of = Interaction(tuple("abc"[: len(sizes)]), sizes)
    entries = np.stack([of.of_table(cell.reshape(sizes)) for cell in np.eye(of.cells, dtype=int)])

    def size(change):
        return np.abs(change).sum() if by == "l1" else (change**2).sum()

    files = np.full((2, *sizes), 40, dtype=np.int64)
    if neighbours == "add-remove":
        last = max(range(of.cells), key=lambda cell: size(entries[cell]))
        change = entries[last]
    else:
        pairs = [(one, other) for one in range(of.cells) for other in range(of.cells)]
        first, last = max(pairs, key=lambda pair: size(entries[pair[1]] - entries[pair[0]]))
        change = entries[last] - entries[first]
        files[0].flat[first] += rows
    files[1].flat[last] += rows
    return of, files, rows * change


def told(patch, of, files, relation, *, kind, cost):
    """Return the privacy loss between the two files, in the unit of the cost."""
    session = PaysAlways(Currency(kind, cost), relation)
    domain = Domain(of.columns, of.sizes)
    curators = [Curator(domain, Tables({of.columns: counts}), session) for counts in files]
    return loss(
        patch,
        *(lambda c=c: c.interactions("measure", [of.columns], [cost])[0].values for c in curators),
    )


def halve(patch):
    """Let the curator believe in half of the sensitivity."""
    l1, l2_squared = Interaction.l1, Interaction.l2_squared
    patch.setattr(Interaction, "l1", lambda self, by: l1(self, by) // 2)
    patch.setattr(Interaction, "l2_squared", lambda self, by: l2_squared(self, by) // 4)


@pytest.mark.parametrize("halved", RIGHT_OR_WRONG)
@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
@pytest.mark.parametrize("sizes", [(2, 2), (2, 3)])
def test_interactions_keep_the_epsilon_they_were_charged(sizes, neighbours, halved, monkeypatch):
    of, files, change = farthest(sizes, neighbours, "l1")
    assert np.abs(change).sum() == of.l1(neighbours)
    if halved:
        halve(monkeypatch)
    cost = Fraction(1)
    found = told(monkeypatch, of, files, Relation(neighbours), kind="pure", cost=cost)
    assert found == pytest.approx(2.0 if halved else 1.0, rel=1e-6)
    assert (found > cost) == halved


@pytest.mark.parametrize("halved", RIGHT_OR_WRONG)
@pytest.mark.parametrize(("kind", "rows"), [("zcdp", 1), ("zcdp", 3), ("gaussian", 1)])
@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
def test_interactions_keep_the_curve_they_were_charged(neighbours, kind, rows, halved, monkeypatch):
    """A person of k rows has them all in the cell that tells most."""
    cost = Fraction(1, 2)
    of, files, change = farthest((2, 3), neighbours, "l2", rows)
    squared = float((change**2).sum())
    assert 1 <= of.l2_squared(neighbours) * rows**2 / squared < 1.01
    if halved:
        halve(monkeypatch)
    found = told(monkeypatch, of, files, Relation(neighbours, rows), kind=kind, cost=cost)
    assert found == pytest.approx(2.0 if halved else 0.5, rel=1e-6)
    assert (found > cost) == halved
