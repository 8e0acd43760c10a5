"""Losses and currencies where a household of S shares or a person of k rows is the unit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.guarantee import PLD, second, shown, tightest
from dp_core.accounts.loss_distribution import tightest_epsilon
from dp_core.accounts.losses import MOST_MOVED, Gaussian, Response, loss_of
from dp_core.accounts.requested import Privacy, words_of
from dp_core.client.noise_scale import noise_for
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.cost.curves import MOST_CELLS
from dp_core.kernel.cost.sensitivity import count_bounds, in_shares
from dp_core.kernel.counting.linked_columns import household_shares
from dp_core.kernel.document import ProtectedUnit
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.privacy import Relation

TABLE = {"name": "table"}
RELATIONS = ("add-remove", "replace-one")
BILLIONTH = Fraction(1, 10**9)
SPREADS = {
    "add-remove": [(6,), (3, 3), (2, 2, 2), (4, 2), (1,) * 6],
    "replace-one": [(6, -6), (3, 3, -6), (2, 2, 2, -3, -3), (4, 2, -5, -1), (3, -3)],
}
"""How the shares of a household can change cells, K = 3: of one pair of members or of several."""


def delta_of(event, changes, epsilon):
    """Return the exact delta at epsilon of noise on cells that change by these whole numbers."""
    reach = math.ceil(14 * float(event.scale))
    z, scale = np.arange(-reach, reach + 1), float(event.scale)
    log_mass = -np.abs(z) / scale if isinstance(event, LaplaceEvent) else -(z**2) / (2 * scale**2)
    mass = np.exp(log_mass)
    mass /= mass.sum()
    grid = 1 / scale if isinstance(event, LaplaceEvent) else 1 / (2 * scale**2)
    # Losses are whole multiples of the grid: |z - m| - |z|, or m^2 - 2 m z.
    total, lowest = np.ones(1), 0
    for m in changes:
        losses = np.abs(z - m) - np.abs(z) if isinstance(event, LaplaceEvent) else m**2 - 2 * m * z
        low = int(losses.min())
        own = np.bincount(losses - low, weights=mass)
        total, lowest = np.convolve(total, own), lowest + low
    loss = (lowest + np.arange(len(total))) * grid
    above = loss > epsilon
    return float(total[above] @ -np.expm1(epsilon - loss[above]))


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_loss_of_a_table_covers_every_way_in_which_a_households_shares_lie(kind, neighbours):
    relation, delta = Relation(neighbours, shares=6), Fraction(1, 10**4)
    _, l1, l2_squared = in_shares(relation, count_bounds(relation))
    event = (
        LaplaceEvent(Fraction(2 * l1), l1)
        if kind == "laplace"
        else GaussianEvent(Fraction(20), l2_squared)
    )
    epsilon = float(tightest_epsilon([(event, TABLE)], relation, delta))
    found = [delta_of(event, changes, epsilon) for changes in SPREADS[neighbours]]
    assert max(found) <= float(delta) * (1 + 1e-6)
    # That of one cell, which is right where a unit is one row, would be too small.
    as_rows = float(tightest_epsilon([(event, TABLE)], Relation(neighbours), delta))
    assert as_rows < epsilon / 2
    assert delta_of(event, SPREADS[neighbours][0], as_rows) > 10 * float(delta)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(
    "unit",
    [
        ProtectedUnit("person", "id", 4),
        *(ProtectedUnit("household", "home", most) for most in (2, 4, 10, 13, 20)),
    ],
    ids=words_of,
)
def test_tables_have_the_guarantee_of_their_noise_in_units(unit, neighbours):
    """The losses cover every spread of a unit's records, so they are those of no single cell."""
    privacy = Privacy(epsilon=Fraction(1), delta=BILLIONTH, neighbours=neighbours, protects=unit)
    _, l1, l2_squared = in_shares(privacy.relation, count_bounds(privacy.relation))
    zcdp = Currency("zcdp", largest_limit("zcdp", Fraction(1), BILLIONTH))
    event = zcdp.noise_event(zcdp.limit / 20, l1=l1, l2_squared=l2_squared)
    found = tightest(zcdp, privacy, [(event, TABLE)] * 20)
    assert found.theorem == PLD
    # zCDP's conversion loses 5 %, as it does for a row.
    assert float(found.epsilon) == pytest.approx(0.949, abs=2e-3)
    pure = Currency("pure", Fraction(1))
    event = pure.noise_event(Fraction(1, 100), l1=l1, l2_squared=l2_squared)
    also = second(pure, privacy, [(event, TABLE)] * 100)
    assert also is not None
    assert float(also.epsilon) == pytest.approx(0.520, abs=2e-3)


@pytest.mark.parametrize("unit", [{"max_rows": 2}, {"shares": 6}], ids=str)
@pytest.mark.parametrize("kind", ["pure", "gaussian"])
def test_noise_for_a_record_shows_nothing_of_a_unit_of_several(kind, unit):
    currency = Currency(kind, Fraction(1, 100))
    charges = [(currency.noise_event(Fraction(1, 100), l1=1, l2_squared=1), TABLE)]
    assert shown(charges, Relation("add-remove"), Fraction(1), BILLIONTH)
    assert not shown(charges, Relation("add-remove", **unit), Fraction(100), BILLIONTH)


def test_only_a_unit_of_one_share_has_the_loss_of_a_single_cell():
    laplace, gaussian = LaplaceEvent(Fraction(60), 6), GaussianEvent(Fraction(60), 36)
    assert loss_of(gaussian, TABLE, Relation("add-remove")) == (Gaussian(60.0), 1)
    assert loss_of(gaussian, TABLE, Relation("add-remove", shares=6)) == (Gaussian(60.0, 36), 1)
    found, copies = loss_of(laplace, TABLE, Relation("add-remove", shares=6))
    assert (copies, type(found)) == (1, Response)
    assert found.largest == pytest.approx(0.1)
    two = loss_of(LaplaceEvent(Fraction(9), 2), TABLE, Relation("add-remove", shares=2))
    assert (two[0].moved, two[1]) == (2, 1)


def test_the_entries_that_a_household_changes_are_covered_by_the_slack():
    shares = household_shares(20)
    relation = Relation("replace-one", shares=shares)
    squared = in_shares(relation, count_bounds(relation))[2]
    # A share changes one cell, or two if it is replaced.
    assert squared // shares == 2 * shares <= MOST_MOVED
    loss, _ = loss_of(GaussianEvent(Fraction(shares), squared), TABLE, relation)
    assert loss.slack < 1e-7
    # Of all cells, a household changes those of its pair rows only.
    assert 2 * 20 * 19 <= 2 * 1000 < MOST_CELLS
    with pytest.raises(ValueError, match="No privacy loss distribution"):
        loss_of(GaussianEvent(Fraction(shares), 40 * squared), {"name": "indif"}, relation)


@pytest.mark.parametrize("most", [2, 4, 10, 20])
@pytest.mark.parametrize("kind", ["gaussian", "mixed"])
def test_noise_in_shares_loses_less_to_its_grid_than_noise_in_records(kind, most):
    shares, cost = household_shares(most), Fraction(1, 50)
    currency = Currency(kind, Fraction(1))
    of_records = noise_for(currency, cost, l1=1, l2_squared=1).scale
    in_households = noise_for(currency, cost, l1=shares, l2_squared=shares**2).scale / shares
    continuous = math.sqrt(1 / (2 * float(cost)))
    assert continuous < in_households < of_records
    assert in_households**2 - continuous**2 == pytest.approx(2 / shares**2, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_the_scale_in_households_is_that_of_a_record_at_the_same_cost(kind):
    currency, cost, shares = Currency(kind, Fraction(1)), Fraction(1, 50), household_shares(10)
    of_records = noise_for(currency, cost, l1=2, l2_squared=2).scale
    in_households = (
        noise_for(currency, cost, l1=2 * shares, l2_squared=2 * shares**2).scale / shares
    )
    assert in_households == pytest.approx(of_records, rel=1e-12)
