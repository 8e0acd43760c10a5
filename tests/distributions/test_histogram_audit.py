"""Audits of what histograms of mixed data ask, through the curator, on neighbouring files.

By the law of the noise and what it is handed: the loss must not pass what was charged, and does
with a sensitivity wrong by a factor of 2. Neighbours are as far apart as the proofs allow.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from dp_core.tables.domain import Domain
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.curator import Curator
from dp_core.wall.statistics import Quantile
from dp_core.wall.statistics.binned_counts import BinnedCounts
from dp_core.wall.statistics.box_counts import BoxCounts
from dp_core.wall.statistics.kernel_counts import KernelCounts
from tests.added_noise import loss as added_loss
from tests.choices import chances, loss
from tests.distributions.audited_files import Column, Observed, PaysAlways
from tests.full import RELATIONS_OF_AUDITS, RIGHT_OR_WRONG

pytestmark = pytest.mark.statistical

DOMAIN = Domain(("g", "x"), (3, 6))
BINS = BinnedCounts(columns=("g", "x"), sizes=(3, 6), edges=(None, (0, 2, 6)))
BOXES = BoxCounts(
    columns=("g", "x"), sizes=(3, 6), boxes=((0, 1, 0, 2), (0, 1, 2, 6), (1, 3, 0, 6))
)
KERNEL = KernelCounts(column="x", positions=6, edges=tuple(range(7)), weights=(16, 4))
# A question, a cell of both files, one more of the second, and under replace-one one of the first.
QUESTIONS = {
    "bins": (BINS, (1, 3), (0, 1), (0, 5)),
    "boxes": (BOXES, (1, 3), (0, 1), (0, 5)),
    "kernel": (KERNEL, (0,), (1,), (4,)),
}


@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("twice", RIGHT_OR_WRONG)
@pytest.mark.parametrize("name", QUESTIONS)
def test_counts_keep_what_they_were_charged(name, kind, neighbours, twice, monkeypatch):
    """Exactly, by what is handed to the noise (`tests/added_noise.py`)."""
    question, both, more, other = QUESTIONS[name]
    if twice:
        # Half of a sensitivity of 1 is none, so the record is counted twice instead.
        right = type(question).total
        monkeypatch.setattr(type(question), "total", lambda self, *file: 2 * right(self, *file))
    cost = Fraction(1, 2)

    def asked(*cells):
        file = Observed([(*cell, 1) for cell in cells])
        curator = Curator(DOMAIN, file, PaysAlways(Currency(kind, cost), neighbours))
        return curator.total("measure", "x", question, cost).values

    before = [both, other] if neighbours == "replace-one" else [both]
    found = added_loss(monkeypatch, lambda: asked(*before), lambda: asked(both, more))
    assert (found > 1.9 * cost) if twice else (0.4 < found <= cost)


# Two cuts of three positions, at the median: a row that comes to the first position, or goes there
# from the last, lets the first cut gain as much as it can and the second lose as much.
HALF = Quantile(column="x", low=0, high=3, part=2, of=4)
RIVALS = {
    "add-remove": ((0, 3, 1), (1, 3, 1)),
    "replace-one": ((0, 4, 2), (1, 4, 1)),
}


@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
def test_the_cuts_of_the_audit_move_apart_as_far_as_they_can(neighbours):
    before, after = (
        HALF.compute(Column(column).count(HALF.cliques)) for column in RIVALS[neighbours]
    )
    change = HALF.largest_change(neighbours)
    assert (after - before).tolist() == [change, -change]
    assert before[0] - before[1] == -2 * change
    rows = [sum(column) for column in RIVALS[neighbours]]
    assert rows[1] - rows[0] == (1 if neighbours == "add-remove" else 0)


# Of two entries that start 2 changes apart and end even, permute-and-flip tells all that it may,
# e^epsilon; the exponential mechanism e^1.43 at epsilon 2. With half of the sensitivity they tell
# e^(2 epsilon), and e^3.33. Exactly, by the law of the noise (`tests/choices.py`).
@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize(
    ("halved", "told"),
    [(False, {"pure": 2.0, "zcdp": 1.434}), (True, {"pure": 4.0, "zcdp": 3.325})],
)
def test_a_choice_of_a_cut_keeps_the_epsilon_it_was_charged(
    kind, neighbours, halved, told, monkeypatch
):
    change, epsilon = HALF.largest_change(neighbours), Fraction(2)
    if halved:
        monkeypatch.setattr(Quantile, "largest_change", lambda *_: change // 2)
    cost = epsilon if kind == "pure" else epsilon**2 / 8
    session = PaysAlways(Currency(kind, cost), neighbours)
    found = loss(
        *(
            chances(monkeypatch, Curator(Domain(("x",), (3,)), Column(c), session), HALF, cost)
            for c in RIVALS[neighbours]
        )
    )
    assert found == pytest.approx(told[kind], abs=0.0005)
