"""Audits of what histograms of mixed data ask, through the curator, on neighbouring files.

As in `test_audit.py`: a lower bound on the privacy loss, which chance takes beyond what was charged
with probability FALSE_ALARM = 1e-9, and which a sensitivity wrong by a factor of 2 takes well
beyond it: more than 5 standard errors. Neighbours are as far apart as the proofs allow.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.tables.domain import Domain
from dp_core.tables.marginal import Marginal
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.curator import Curator
from dp_core.wall.statistics import Quantile
from dp_core.wall.statistics.binned_counts import BinnedCounts
from dp_core.wall.statistics.box_counts import BoxCounts
from dp_core.wall.statistics.kernel_counts import KernelCounts
from tests.added_noise import loss as loss_of_noise
from tests.choices import chances, loss
from tests.distributions.audited_files import PaysAlways
from tests.distributions.test_audit import gaussian_claim
from tests.full import RELATIONS_OF_AUDITS, RIGHT_OR_WRONG
from tests.statistical import delta_at_least, epsilon_at_least

pytestmark = pytest.mark.statistical

GROUPS = 15_000
DOMAIN = Domain(("g", "x"), (GROUPS, 6))


class File:
    """A confidential file, given by the cells that hold a record, or by one column's counts."""

    def __init__(self, cells=(), counts=(), column=()):
        self.cells, self.counts = cells, counts
        self.column = np.array(column, dtype=np.int64)

    def observed(self, _):
        return self.cells, self.counts

    def count(self, cliques):
        return {
            clique: Marginal(Domain(clique, self.column.shape), self.column) for clique in cliques
        }


# In every group the same experiment: a record in the first bin or not (replaced: in the second).
TABLE = BinnedCounts(columns=("g", "x"), sizes=(GROUPS, 6), edges=(None, (0, 2, 6)))


def noisy(kind, neighbours, cost, *, there, twice):
    """Return noisy counts of both bins, shape (groups, 2); every group holds four records more."""
    place = [(0, 1)] if there else [(5, 1)] if neighbours == "replace-one" else []
    positions, counts = np.array([(1, 2), (4, 2), *place]).T
    groups = np.repeat(np.arange(GROUPS), len(positions))
    cells = np.column_stack([groups, np.tile(positions, GROUPS)]).astype(np.uint16)
    file = File(cells, np.tile(counts * (1 + twice), GROUPS))
    curator = Curator(DOMAIN, file, PaysAlways(Currency(kind, cost), neighbours))
    return curator.total("measure", "x", TABLE, cost).values.reshape(GROUPS, 2) - 2 * (1 + twice)


@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
@pytest.mark.parametrize("twice", RIGHT_OR_WRONG)
def test_counts_of_bins_keep_the_epsilon_they_were_charged(neighbours, twice):
    """A row that is counted twice is a sensitivity that is wrong by a factor of 2."""
    first, second = (
        noisy("pure", neighbours, Fraction(1), there=there, twice=twice) for there in (False, True)
    )

    def event(values):
        happened = values[:, 0] >= 1 + twice
        return happened & (values[:, 1] <= 0) if neighbours == "replace-one" else happened

    bound = epsilon_at_least(event(second), event(first))
    assert (bound > 1.5) if twice else (0.6 < bound <= 1)


@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
@pytest.mark.parametrize("twice", RIGHT_OR_WRONG)
def test_counts_of_bins_keep_the_curve_they_were_charged(neighbours, twice):
    """At a variance of 1 or 2; what the Gaussian curve adds for smoothing would hide an error."""
    cost, epsilon = Fraction(1, 2), 1.0
    first, second = (
        noisy("zcdp", neighbours, cost, there=there, twice=twice) for there in (False, True)
    )
    moved, variance = 1 + twice, TABLE.l2_squared(neighbours)

    def event(values):
        # The log-likelihood ratio of the two neighbours exceeds epsilon.
        lean = values[:, 0] - moved / 2
        if neighbours == "replace-one":
            lean = lean - (values[:, 1] - moved / 2)
        return moved * lean > epsilon * variance

    bound = delta_at_least(event(second), event(first), epsilon)
    claim = gaussian_claim("zcdp", cost, epsilon)
    assert (bound > claim + 0.05) if twice else (0 < bound <= claim)


BOXES = BoxCounts(
    columns=("g", "x"), sizes=(GROUPS, 6), boxes=((0, 1, 0, 2), (0, 1, 2, 6), (1, GROUPS, 0, 6))
)


@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("twice", RIGHT_OR_WRONG)
def test_counts_of_boxes_keep_what_they_were_charged(kind, neighbours, twice, monkeypatch):
    """Exactly, by what is handed to the noise: a record in the first box or not (in the second)."""
    if twice:
        # Half of a sensitivity of 1 is none, so the record is counted twice instead.
        right = BoxCounts.total
        monkeypatch.setattr(BoxCounts, "total", lambda self, *file: 2 * right(self, *file))
    cost = Fraction(1, 2)
    place = (0, 5) if neighbours == "replace-one" else None

    def asked(first):
        cells = [(1, 3), *([first] if first else [])]
        file = File(np.array(cells, dtype=np.uint16), np.ones(len(cells), dtype=np.int64))
        curator = Curator(DOMAIN, file, PaysAlways(Currency(kind, cost), neighbours))
        return curator.total("measure", "x", BOXES, cost).values

    found = loss_of_noise(monkeypatch, lambda: asked(place), lambda: asked((0, 1)))
    assert (found > 1.9 * cost) if twice else (0.4 < found <= cost)


KERNEL = KernelCounts(column="x", positions=6, edges=tuple(range(7)), weights=(16, 4))


@pytest.mark.parametrize("neighbours", RELATIONS_OF_AUDITS)
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("twice", RIGHT_OR_WRONG)
def test_kernel_weights_keep_what_they_were_charged(kind, neighbours, twice, monkeypatch):
    """Exactly, by what is handed to the noise: a record inside the grid, or at the other end."""
    if twice:
        right = KernelCounts.total
        monkeypatch.setattr(KernelCounts, "total", lambda self, *file: 2 * right(self, *file))
    cost = Fraction(1, 2)

    def asked(*codes):
        file = File(np.array([(each,) for each in codes], np.uint16), np.ones(len(codes), np.int64))
        curator = Curator(DOMAIN, file, PaysAlways(Currency(kind, cost), neighbours))
        return curator.total("measure", "x", KERNEL, cost).values

    other = (4,) if neighbours == "replace-one" else ()
    found = loss_of_noise(monkeypatch, lambda: asked(0, *other), lambda: asked(0, 1))
    assert (found > 1.9 * cost) if twice else (0.9 * cost < found <= cost)


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
        HALF.compute(File(column=column).count(HALF.cliques)) for column in RIVALS[neighbours]
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
            chances(monkeypatch, Curator(Domain(("x",), (3,)), File(column=c), session), HALF, cost)
            for c in RIVALS[neighbours]
        )
    )
    assert found == pytest.approx(told[kind], abs=0.0005)
