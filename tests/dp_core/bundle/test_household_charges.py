"""Verification holds each receipt of a release of households to the bounds in shares."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import pytest

from dp_core.bundle.verification.charges_check import check_charges
from dp_core.schema.privacy import Relation
from dp_core.tables.domain import Domain
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.events import (
    GaussianEvent,
    LaplaceEvent,
    NoisyMaxEvent,
    PerturbedDrawsEvent,
    StabilityEvent,
)
from dp_core.wall.ledger.session import TABLE, drawn_asks, sparse_asks

SHARES = 12
PAIRS = {"name": "indif", "length": 3}
SMALLER = "smaller effect of one household"
UNKNOWN = "whose sensitivity this program does not know"


def checked(event, asks, neighbours="add-remove", kind="pure"):
    """Return what the check says of a release of one charge."""
    currency = Currency(kind, Fraction(10), Fraction(1, 10))
    charge = SimpleNamespace(
        number=1, stage="measure", step="x", cost=currency.cost(event), event=event, asks=asks
    )
    claims = SimpleNamespace(
        reserve=SimpleNamespace(body={"costs": {"measure": "10"}, "mode": "shared"}),
        charges=[charge],
        currency=currency,
        relation=Relation(neighbours, shares=SHARES),
        unit="household",
        records=None,
        settled=SimpleNamespace(body={"outcome": "finished", "spent": str(charge.cost)}),
        plan={"spec": {"synthesize": {"mode": "shared"}}},
        sets=1,
    )
    return " ".join(found) if isinstance(found := check_charges(claims), tuple) else found


@pytest.mark.parametrize(("neighbours", "factor"), [("add-remove", 1), ("replace-one", 2)])
def test_a_table_is_charged_for_all_shares_of_a_household(neighbours, factor):
    l1, squared = factor * SHARES, factor * SHARES**2
    scale = Fraction(100)
    good = [(LaplaceEvent(scale, l1), "pure"), (GaussianEvent(scale, squared), "zcdp")]
    less = [
        (LaplaceEvent(scale, l1 - 1), "pure"),
        (LaplaceEvent(scale, factor), "pure"),
        (GaussianEvent(scale, squared - 1), "zcdp"),
        (GaussianEvent(scale, factor), "zcdp"),
    ]
    for event, kind in good:
        assert checked(event, TABLE, neighbours, kind).startswith("1 charges cover their events")
    for event, kind in less:
        assert SMALLER in checked(event, TABLE, neighbours, kind)


@pytest.mark.parametrize(("neighbours", "change"), [("add-remove", 4), ("replace-one", 6)])
def test_scores_and_choices_are_charged_for_all_shares_of_a_household(neighbours, change):
    scale, change = Fraction(1000), SHARES * change
    assert "cover their events" in checked(LaplaceEvent(scale, 3 * change), PAIRS, neighbours)
    assert "cover their events" in checked(NoisyMaxEvent(scale, change, False), PAIRS, neighbours)
    assert SMALLER in checked(LaplaceEvent(scale, 3 * change - 1), PAIRS, neighbours)
    assert SMALLER in checked(NoisyMaxEvent(scale, change - 1, False), PAIRS, neighbours)


def test_questions_that_have_no_proof_in_shares_are_unknown():
    scale = Fraction(1000)
    sparse = sparse_asks(Domain(("a",), (9,)), 4)
    asked = [
        (StabilityEvent(scale, SHARES, 10**5, SHARES), sparse),
        (PerturbedDrawsEvent(scale, 2), drawn_asks([("a",), ("b", "a")], 1, 1)),
        (LaplaceEvent(scale, 10**4), {"name": "f-score", "length": 1}),
        (
            LaplaceEvent(scale, 10**4),
            {"name": "mutual-information", "length": 1, "rows": 9, "grid": 4, "binary": False},
        ),
    ]
    for event, asks in asked:
        for neighbours in ("add-remove", "replace-one"):
            assert UNKNOWN in checked(event, asks, neighbours)
