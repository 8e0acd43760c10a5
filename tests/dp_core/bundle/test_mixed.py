"""Receipts of a release with choices on the Gaussian curve, and receipts that leave too little."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import pytest

from dp_core.bundle.verification.charges_check import check_charges
from dp_core.bundle.verification.claims import currency, read_charge
from dp_core.bundle.verification.guarantee_check import check_guarantee
from dp_core.schema.privacy import Relation
from dp_core.wall.accounting.guarantee import Guarantee
from dp_core.wall.ledger.receipts import Receipt
from tests.vectors.make import receipt_case


def claims_of(receipts, stated):
    """Return what the checks of charges and guarantee read of a statement."""
    reserve, settled = receipts[0], receipts[-1]
    paid = reserve.body["currency"]
    return SimpleNamespace(
        reserve=reserve,
        settled=settled,
        charges=tuple(read_charge(row) for row in receipts if row.kind == "charge"),
        currency=currency(paid["kind"], paid["limit"], paid["own_delta"]),
        relation=Relation("add-remove"),
        unit="row",
        records=None,
        sets=1,
        enforced=(Fraction(1), Fraction(1, 10**9)),
        tightest=Guarantee(
            epsilon=Fraction(stated["epsilon"]),
            delta=Fraction(stated["delta"]),
            theorem=stated["theorem"],
        ),
        also=None,
        max_members=1,
        schema=SimpleNamespace(unit=SimpleNamespace(word="row", max_rows=1, max_members=None)),
        program="dp_release 0.1.0",
        plan={
            "spec": {"synthesize": {"mode": "shared"}, "select": {"method": "mst"}},
            "costs": reserve.body["costs"],
        },
    )


@pytest.fixture
def made():
    case = receipt_case("mixed")
    return [Receipt.from_json(row) for row in case["receipts"]], case["claims"]["tightest"]


def test_a_release_whose_choices_leave_enough_is_shown(made):
    claims = claims_of(*made)
    assert check_charges(claims).startswith("8 charges cover")
    assert "reserved total implies epsilon 1 at delta 1e-09" in check_guarantee(claims)


def test_choices_after_everything_else_leave_too_little(made):
    """The same charges in another order: the bound does not cover them."""
    claims = claims_of(*made)
    claims.charges = claims.charges[2:] + claims.charges[:2]
    wrong = check_charges(claims)
    numbers = [charge.number for charge in claims.charges[-2:]]
    assert wrong == tuple(
        f"Receipt {number} leaves too little of what was reserved." for number in numbers
    )


def test_the_theorem_of_zcdp_does_not_carry_the_claim(made):
    receipts, stated = made
    claims = claims_of(receipts, {**stated, "theorem": "zero-concentrated composition"})
    (wrong,) = check_guarantee(claims)
    assert wrong.startswith("Neither the reserved total")
