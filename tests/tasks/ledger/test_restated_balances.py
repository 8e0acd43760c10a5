"""How accounts stand as if they were restated: exactly as they stand once they are."""

from dataclasses import replace
from datetime import date
from fractions import Fraction

import pytest

from dp_core.errors import BadInput
from dp_core.kernel.cost.composition import NO_CHARGES, NOTHING
from tests.ledgers import (
    CURVE,
    GAUSSIAN,
    LAPLACE,
    WHO,
    basic,
    monthly,
    on,
    open_town,
    reserve,
    spend,
    zcdp,
)
from tests.specs import plan_of

pytestmark = pytest.mark.any_database


def curve(folder, release, account):
    return plan_of(folder, GAUSSIAN, privacy=CURVE, release=release, account=account)


def use_it(ledger, folder, monkeypatch, account):
    """Finish one release, abandon one and reserve one, in two months."""
    on(monkeypatch, "2026-11-20")
    spend(ledger, curve(folder, "first", account))
    pure = plan_of(folder, LAPLACE, privacy="{epsilon: 1/4}", release="second", account=account)
    spend(ledger, pure, "abandoned", stages=("one_way",))
    on(monkeypatch, "2026-12-01")
    reserve(ledger, curve(folder, "third", account))


@pytest.mark.parametrize(("terms", "other"), [(basic("9", "1e-4"), "zcdp"), (zcdp("9"), "basic")])
def test_an_account_stands_as_it_will_once_restated(ledger, tmp_path, monkeypatch, terms, other):
    on(monkeypatch, "2026-11-20")
    open_town(ledger, terms=terms, calendar=monthly("3", "1e-5" if terms.is_basic else "0"))
    use_it(ledger, tmp_path, monkeypatch, "town")
    (supposed,) = ledger.balances("town", other)
    (now,) = ledger.balances("town")
    assert now.terms == terms
    assert supposed.used != now.used
    # Supposed is the most that the new terms can allow a period of delta.
    delta = Fraction(0) if other == "zcdp" else terms.delta
    ledger.restate_account(
        "town", composition=other, own_delta=Fraction(0), period_delta=delta, **WHO
    )
    (then,) = ledger.balances("town")
    # What it used in periods before this one is not asked any more.
    this = then.calendar.index(date(2026, 12, 1))
    assert supposed.used_in_period[this] == then.used_in_period[this]
    same = replace(supposed, used_in_period=then.used_in_period)
    assert same == then
    assert ledger.balances("town", other) == (then,)
    ledger.verify()


def test_accounts_above_stand_with_what_is_used_below(ledger, tmp_path, monkeypatch):
    on(monkeypatch, "2026-11-20")
    open_town(ledger, "city", basic("9", "1e-4"))
    open_town(ledger, "ward", basic("5", "1e-4"), within="city")
    use_it(ledger, tmp_path, monkeypatch, "ward")
    ward, city = ledger.balances("ward", "zcdp")
    assert (ward.name, city.name) == ("ward", "city")
    assert ward.used == city.used != NOTHING
    assert ward.terms.composition == city.terms.composition == "zcdp"
    tallies = ledger.tallies("city")
    assert tallies == ledger.tallies("ward")
    assert [currency.kind for currency, _ in tallies] == ["gaussian", "pure", "gaussian"]
    assert tallies[0][1].charges > 0
    assert tallies[2][1] == NO_CHARGES


def test_an_account_that_cannot_be_restated_does_not_stand_so(ledger, tmp_path):
    open_town(ledger, "pure", basic("1", "0"))
    with pytest.raises(BadInput, match="account 'pure' has delta 0"):
        ledger.balances("pure", "zcdp")
    open_town(ledger, "full", zcdp("2"))
    for number in range(3):
        spend(ledger, curve(tmp_path, f"r{number}", "full"))
    with pytest.raises(BadInput, match="exceeds its total"):
        ledger.balances("full", "basic")
    with pytest.raises(BadInput, match="Did you mean 'full'"):
        ledger.balances("ful")
