"""Audits of gradients and minimisers through the curator, on neighbouring files.

As in `test_moments_audit.py`: a lower bound on the privacy loss, which chance takes beyond what was
charged with probability FALSE_ALARM = 1e-9, and which a sensitivity wrong by a factor of 2 takes
well beyond it. Neighbours are as far apart as the proofs allow, or nearly. Entries of one gradient
get independent noise: where a record moves many by the same, all of them are looked at together.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounting.currency import Currency
from dp_core.curator import Curator
from dp_core.domain import Domain
from dp_core.ledger.session import Grant
from dp_core.privacy import Relation
from dp_core.sums.features import ONE, Features, Levels, Number
from dp_core.sums.gradients import PROBABILITY, ClassGradient, NumberGradient
from dp_core.sums.minimisers import ClassMinimiser
from tests.distributions.test_audit import gaussian_claim
from tests.statistical import delta_at_least, epsilon_at_least

pytestmark = pytest.mark.statistical

TIMES = 12_000  # fewer would let pass what is wrong more often than once in 1e7 runs


DOMAIN = Domain(("x", "g", "y", "b", "h"), (5, 2, 5, 2, 3))


class Observed:
    """A confidential file, given by the cells of one clique that hold a record."""

    def __init__(self, cells):
        self.cells = np.array([cell[:-1] for cell in cells], dtype=np.uint16)
        self.counts = np.array([cell[-1] for cell in cells], dtype=np.int64)

    def observed(self, _):
        return self.cells, self.counts


class PaysAlways:
    """A session that grants whatever it is asked."""

    def __init__(self, currency, neighbours):
        self.currency, self.relation = currency, Relation(neighbours)

    def perform(self, batch, steps, draw):  # noqa: ARG002
        grants = [Grant(1, step) for step in steps]
        return tuple(zip(grants, draw(grants), strict=True))


def noisy(sum, file, neighbours, patch, *, kind="pure", cost=Fraction(1)):
    """Return many noisy answers, shape (TIMES, length), each as if it were the only one.

    The exact values stand so often in one answer; the curator takes the sensitivity of one.
    """
    session = PaysAlways(Currency(kind, cost), neighbours)
    curator = Curator(DOMAIN, Observed(file), session)
    total = type(sum).total
    with patch.context() as inner:
        inner.setattr(type(sum), "total", lambda *given: np.tile(total(*given), TIMES))
        return curator.total("measure", "x", sum, cost).values.reshape(TIMES, -1)


def halve(patch, sum):
    """Let the curator believe in half of the sensitivity."""
    l1, l2_squared = type(sum).l1, type(sum).l2_squared
    patch.setattr(type(sum), "l1", lambda self, by: max(1, l1(self, by) // 2))
    patch.setattr(type(sum), "l2_squared", lambda self, by: max(1, l2_squared(self, by) // 4))


X = Number(name="x", positions=5, centre=0, reach=4)
FEATURES = Features((X, Levels(name="g", size=2)))
TARGET = Number(name="y", positions=5, centre=0, reach=4)

TWO = ClassGradient(column="b", classes=2, features=FEATURES, at=(0,) * 3)
ALONE = ClassGradient(column="h", classes=3, features=Features(), at=(0, 0))
SLOPED = ClassGradient(column="b", classes=2, features=FEATURES, at=(40 << 16, 0, 0))
NUMBER = NumberGradient(target=TARGET, features=Features((X,)), at=(0,) * 2)
# With a penalty that leaves the coefficients at 0, half of the proven distance is reached.
MINIMISER = ClassMinimiser(column="b", classes=2, features=Features(), ridge=2**20)

# sum, neighbours, two files as cells (codes in the clique's order, then records)
FAR = {
    "two classes, add": (TWO, "add-remove", [(4, 1, 0, 1)], [(4, 1, 0, 1), (4, 1, 1, 1)]),
    "two classes, replace": (TWO, "replace-one", [(4, 1, 0, 1)], [(4, 1, 1, 1)]),
    "sure, add": (SLOPED, "add-remove", [(4, 1, 1, 1)], [(4, 1, 0, 1), (4, 1, 1, 1)]),
    "no predictor, replace": (ALONE, "replace-one", [(1, 1)], [(2, 1)]),
    "number, add": (NUMBER, "add-remove", [(4, 5, 1)], [(4, 4, 1), (4, 5, 1)]),
    "minimiser, replace": (MINIMISER, "replace-one", [(0, 1)], [(1, 1)]),
}  # fmt: skip
REACHED = {"no predictor, replace": 0.6, "minimiser, replace": 0.5}
"""Part of the bound that the files are apart, where it is not all."""


def exact(sum, file):
    return sum.total(*Observed(file).observed(sum.clique))


@pytest.mark.parametrize("name", FAR)
def test_the_neighbours_of_the_audit_are_nearly_as_far_apart_as_the_proof_allows(name):
    sum, neighbours, before, after = FAR[name]
    change = np.abs(exact(sum, after) - exact(sum, before))
    part = change.sum() / sum.l1(neighbours)
    assert REACHED.get(name, 1) * 0.98 <= part <= 1


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("wrong", [False, True])
def test_a_release_keeps_the_epsilon_it_was_charged(name, wrong, monkeypatch):
    """Where half of the bound is reached, it must be wrong by more than 2 to be found."""
    sum, neighbours, before, after = FAR[name]
    low, high = exact(sum, before), exact(sum, after)
    part = np.abs(high - low).sum() / sum.l1(neighbours)
    if wrong:
        for _ in range(2 if part < 0.8 else 1):
            halve(monkeypatch, sum)
    first, second = (noisy(sum, file, neighbours, monkeypatch) for file in (before, after))
    # Every entry is on its own side: the most telling event of a Laplace vector.
    sign = np.sign(high - low)
    moved = sign != 0
    happened = [(sign * (values - high) >= 0)[:, moved].all(axis=1) for values in (second, first)]
    bound = epsilon_at_least(*happened)
    assert (bound > 1) if wrong else (0.2 < bound <= 1)


@pytest.mark.parametrize("kind", ["zcdp", "gaussian"])
@pytest.mark.parametrize("name", ["two classes, replace", "number, add"])
@pytest.mark.parametrize("wrong", [False, True])
def test_a_release_keeps_the_curve_it_was_charged(name, kind, wrong, monkeypatch):
    sum, neighbours, before, after = FAR[name]
    cost, epsilon = Fraction(1, 2), 1.0
    change = exact(sum, after) - exact(sum, before)
    if wrong:
        halve(monkeypatch, sum)
    variance = type(sum).l2_squared(sum, neighbours)
    first, second = (
        noisy(sum, file, neighbours, monkeypatch, kind=kind, cost=cost).astype(float)
        for file in (before, after)
    )
    # The direction in which the files differ tells them apart best.
    length = float(np.linalg.norm(change))
    middle = (exact(sum, after) + exact(sum, before)) @ change / 2 / length
    threshold = middle + epsilon * variance / length
    bound = delta_at_least(
        second @ change / length > threshold, first @ change / length > threshold, epsilon
    )
    claim = gaussian_claim(kind, cost, epsilon)
    assert (bound > claim + 0.05) if wrong else (bound <= claim)


def test_units_are_what_the_audit_takes_them_for():
    assert exact(TWO, [(4, 1, 1, 1)]).tolist() == [-PROBABILITY // 2 * ONE] * 3
