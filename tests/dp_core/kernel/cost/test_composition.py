from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.accounts.largest_release import epsilon_of, largest_epsilon, most_sets, of_kind
from dp_core.kernel.cost.composition import NO_CHARGES, NOTHING, Amount, Terms
from dp_core.kernel.cost.currency import Currency, choice_event, largest_limit
from dp_core.kernel.cost.curves import zcdp_epsilon, zcdp_limit
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent

NANO = Fraction(1, 10**9)
BASIC = Terms("basic", Fraction(10), Fraction(1, 10**6))
ZCDP = Terms("zcdp", Fraction(10), Fraction(1, 10**6), Fraction(1, 10**7))
KINDS = ("pure", "zcdp", "gaussian")

parts = st.fractions(min_value=-5, max_value=5, max_denominator=10**6)
amounts = st.builds(Amount, parts, parts)
shares = st.lists(st.integers(1, 100), min_size=1, max_size=12)


def tally_of(charges):
    """Return the sums over charges, each with its cost and its event."""
    tally = NO_CHARGES
    for cost, event in charges:
        tally = tally.plus(cost, event)
    return tally


def charges_of(currency, weights, *, kinds):
    """Charges that take the currency's whole limit, of events of alternating kinds."""
    found = []
    for index, weight in enumerate(weights):
        cost = currency.limit * weight / sum(weights)
        event = currency.noise_event(cost, l1=1, l2_squared=1)
        other = kinds[index % len(kinds)]
        if currency.kind == "pure" and other != "noise":
            event = NoisyMaxEvent(2 * event.scale, 1, other == "gumbel")
        found.append((cost, event))
    return found


# -- amounts


@given(first=amounts, second=amounts)
def test_amounts_add_up_part_by_part(first, second):
    assert first + second - second == first
    assert first.times(3) == first + first + first
    assert first + NOTHING == first


def test_an_amount_is_within_another_only_in_both_parts():
    amount = Amount(Fraction(1), NANO)
    assert amount.within(amount)
    assert not amount.within(Amount(Fraction(2), NANO / 2))
    assert not amount.within(Amount(Fraction(1, 2), NANO * 2))


@given(amount=amounts)
def test_amounts_survive_being_written_down(amount):
    assert Amount.from_json(amount.to_json()) == amount


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        ["1"],
        ["1", "2", "3"],
        ["1", 0],
        ["1", "x"],
        ["1", "1/0"],
        ["0.5", "0"],
        ("1", "0"),
    ],
)
def test_what_is_not_an_amount_is_not_read_as_one(values):
    with pytest.raises(ValueError, match="two exact fractions"):
        Amount.from_json(values)


# -- terms


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("other", "1", "0", "0"), "basic or zcdp"),
        (("basic", "0", "0", "0"), "epsilon must be positive"),
        (("basic", "1", "1", "0"), "below 1"),
        (("basic", "1", "-1e-9", "0"), "below 1"),
        (("basic", "1", "1e-6", "1e-9"), "Only a zcdp account"),
        (("zcdp", "1", "0", "0"), "positive delta"),
        (("zcdp", "1", "1e-6", "1e-6"), "positive delta"),
        (("zcdp", "1", "1e-6", "-1e-9"), "positive delta"),
    ],
)
def test_terms_that_no_account_can_have_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Terms(values[0], *map(Fraction, values[1:]))


def test_the_total_of_an_account():
    assert Terms("basic", Fraction(1), Fraction(0)).limit == Amount(Fraction(1), Fraction(0))
    assert BASIC.limit == Amount(Fraction(10), Fraction(1, 10**6))
    # Rho is converted at what is left of delta: 1e-6 - 1e-7.
    assert ZCDP.limit == Amount(zcdp_limit(Fraction(10), Fraction(9, 10**7)), Fraction(1, 10**7))
    assert ZCDP.limit.main < zcdp_limit(Fraction(10), Fraction(1, 10**6))
    assert epsilon_of(ZCDP, ZCDP.limit) <= 10 * (1 + Fraction(1, 10**9))
    assert epsilon_of(ZCDP, ZCDP.limit) > Fraction("9.999")


def test_an_amount_is_shown_to_people_as_the_epsilon_it_comes_to():
    amount = Amount(Fraction(1, 100), Fraction(0))
    assert epsilon_of(BASIC, amount) == Fraction(1, 100)
    assert epsilon_of(ZCDP, amount) == zcdp_epsilon(Fraction(1, 100), Fraction(9, 10**7))
    for terms in (BASIC, ZCDP):
        assert epsilon_of(terms, NOTHING) == epsilon_of(terms, NOTHING - amount) == 0


# -- promises


def test_a_basic_account_promises_epsilon_and_delta_themselves():
    for kind in KINDS:
        currency = Currency(kind, largest_limit(kind, Fraction(1), NANO))
        assert BASIC.promised(currency, Fraction(1), NANO) == Amount(Fraction(1), NANO)


def test_a_zcdp_account_promises_rho():
    promised = {}
    for kind in KINDS:
        currency = Currency(kind, largest_limit(kind, Fraction(1), NANO))
        promised[kind] = ZCDP.promised(currency, Fraction(1), NANO)
        assert promised[kind].delta == 0
    assert promised["pure"].main == Fraction(1, 2)
    assert promised["zcdp"].main == zcdp_limit(Fraction(1), NANO)
    assert promised["zcdp"].main < promised["gaussian"].main < Fraction(2, 100)


@given(
    kind=st.sampled_from(KINDS),
    epsilon=st.fractions(min_value=Fraction(1, 100), max_value=5, max_denominator=100),
    weights=shares,
    kept=st.integers(0, 12),
    kinds=st.permutations(["noise", "gumbel", "flip"]),
    seen=st.booleans(),
)
def test_what_a_release_spent_is_within_its_promise_and_at_least_what_its_events_cost(
    kind, epsilon, weights, kept, kinds, seen
):
    currency = Currency(kind, largest_limit(kind, epsilon, NANO))
    every = charges_of(currency, weights, kinds=kinds)
    charges = every[:kept] or every[:1]

    for terms in (BASIC, ZCDP):
        promised = terms.promised(currency, epsilon, NANO)
        spent = terms.spent(tally_of(charges), currency, epsilon, NANO, seen=seen)
        assert spent.within(promised)

    true = sum(event.rho() for _, event in charges)
    assert min(true, promised.main) <= spent.main < true + len(charges) * Fraction(1, 10**15)
    assert spent.main == promised.main or spent.main.denominator <= 10**15


# -- settling a basic account


def test_pure_epsilon_stays_spent_exactly_as_charged():
    currency = Currency("pure", Fraction(1))
    charges = charges_of(currency, [1, 2, 4], kinds=["noise"])
    for seen in (False, True):
        part = BASIC.spent(tally_of(charges[:2]), currency, Fraction(1), NANO, seen=seen)
        assert part == Amount(Fraction(3, 7), Fraction(0))
        whole = BASIC.spent(tally_of(charges), currency, Fraction(1), NANO, seen=seen)
        assert whole == Amount(Fraction(1), Fraction(0))


@pytest.mark.parametrize("kind", ["zcdp", "gaussian"])
def test_on_a_curve_a_release_that_was_seen_returns_nothing(kind):
    currency = Currency(kind, largest_limit(kind, Fraction(1), NANO))
    charges = charges_of(currency, [1, 1, 2], kinds=["noise"])
    whole = Amount(Fraction(1), NANO)

    assert BASIC.spent(tally_of([]), currency, *_release(), seen=False) == NOTHING
    assert BASIC.spent(tally_of(charges), currency, *_release(), seen=False) == whole
    assert BASIC.spent(tally_of(charges[:1]), currency, *_release(), seen=True) == whole
    unseen = BASIC.spent(tally_of(charges[:1]), currency, *_release(), seen=False)
    assert unseen == Amount(currency.epsilon(currency.limit / 4, NANO), NANO)
    assert Fraction(4, 10) < unseen.main < Fraction(6, 10)


@pytest.mark.parametrize("delta", [NANO, Fraction(1, 100), Fraction(1, 10)])
def test_a_choice_that_nobody_saw_takes_an_epsilon_that_it_keeps_without_what_follows(delta):
    currency = Currency("mixed", largest_limit("mixed", Fraction(1), delta))
    cost = currency.limit / 9
    event = choice_event(currency, cost, 1)
    assert currency.allows(event, currency.limit - cost)

    tally = tally_of([(cost, event)])
    spent = BASIC.spent(tally, currency, Fraction(1), delta, seen=False)

    # Two candidates, whose likelihood ratios are e^-down and e^up: every choice of this range is a
    # mixture of such pairs.
    reach = float(event.epsilon())
    down = np.linspace(0.001, 0.999, 999) * reach
    high = np.exp(reach - down)
    chance = -np.expm1(-down) / (high - np.exp(-down))
    assert (chance * np.maximum(high - np.exp(float(spent.main)), 0)).max() <= delta
    assert BASIC.spent(tally, currency, Fraction(1), delta, seen=True).main == 1


def test_in_a_zcdp_account_a_release_that_was_seen_returns_the_rest():
    currency = Currency("zcdp", largest_limit("zcdp", Fraction(1), NANO))
    charges = charges_of(currency, [1, 1, 2], kinds=["noise"])
    for seen in (False, True):
        spent = ZCDP.spent(tally_of(charges[:1]), currency, *_release(), seen=seen)
        assert 0 <= spent.main - charges[0][1].rho() < Fraction(1, 10**15)
        assert float(spent.main) == pytest.approx(float(currency.limit) / 4)


def test_in_a_zcdp_account_events_pay_their_true_rho_and_not_their_cost():
    pure = Currency("pure", Fraction(1))
    gumbel = [(Fraction(1, 2), NoisyMaxEvent(Fraction(4), 1, True))]
    assert ZCDP.spent(tally_of(gumbel), pure, *_release(), seen=True).main == Fraction(1, 32)

    limit = largest_limit("gaussian", Fraction(1), NANO)
    curve = Currency("gaussian", limit)
    event = curve.noise_event(limit, l1=1, l2_squared=1)
    spent = ZCDP.spent(tally_of([(limit, event)]), curve, *_release(), seen=True)
    assert event.rho() <= spent.main < curve.cost(event)


@pytest.mark.parametrize("terms", [BASIC, ZCDP])
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_without_a_charge_keeps_the_whole_promise(terms, kind):
    currency = Currency(kind, largest_limit(kind, Fraction(1), NANO))
    promised = terms.promised(currency, *_release())
    assert terms.spent(tally_of([]), currency, *_release(), seen=True) == promised
    assert terms.spent(tally_of([]), currency, *_release(), seen=False) == NOTHING


def test_charges_beyond_the_promise_are_an_error_and_not_cut_off():
    currency = Currency("pure", Fraction(1))
    event = LaplaceEvent(Fraction(1), 1)
    for terms in (BASIC, ZCDP):
        with pytest.raises(ValueError, match="exceed the total of its plan"):
            terms.spent(tally_of([(Fraction(1), event)] * 2), currency, *_release(), seen=True)
    loud = (Fraction(1, 2), LaplaceEvent(Fraction(1, 2), 1))
    with pytest.raises(ValueError, match="what was reserved"):
        ZCDP.spent(tally_of([loud]), currency, *_release(), seen=True)


def test_own_delta_that_was_not_promised_is_refused():
    currency = Currency("zcdp", Fraction(1, 100))
    tally = tally_of([(Fraction(1, 1000), GaussianEvent(Fraction(1000), 1))])
    assert tally.own_delta == 0
    failing = replace(tally, own_delta=Fraction(1, 10**12))
    with pytest.raises(ValueError, match="what was reserved"):
        ZCDP.spent(failing, currency, *_release(), seen=True)


@given(
    terms=st.sampled_from([BASIC, ZCDP]),
    releases=st.lists(
        st.tuples(
            st.sampled_from(KINDS), st.integers(1, 40), shares, st.integers(0, 12), st.booleans()
        ),
        max_size=12,
    ),
)
def test_an_account_that_promises_only_what_fits_never_spends_more_than_its_total(terms, releases):
    used, true_rho = NOTHING, Fraction(0)
    for kind, tenths, weights, kept, seen in releases:
        epsilon = Fraction(tenths, 10)
        currency = Currency(kind, largest_limit(kind, epsilon, NANO))
        promised = terms.promised(currency, epsilon, NANO)
        if not (used + promised).within(terms.limit):
            continue
        charges = charges_of(currency, weights, kinds=["noise", "gumbel"])[:kept]
        used += terms.spent(tally_of(charges), currency, epsilon, NANO, seen=seen)
        if charges and not terms.is_basic:
            true_rho += sum(event.rho() for _, event in charges)
    assert used.within(terms.limit)
    assert true_rho <= terms.limit.main


# -- what still fits


@settings(max_examples=30)
@given(
    terms=st.sampled_from([BASIC, ZCDP]),
    kind=st.sampled_from(KINDS),
    left=st.fractions(min_value=Fraction(1, 10**4), max_value=2, max_denominator=10**6),
)
def test_the_largest_epsilon_fits_and_a_little_more_does_not(terms, kind, left):
    room = Amount(left, NANO)
    currency_of = of_kind(kind, NANO)
    found = largest_epsilon(terms, room, NANO, currency_of)

    assert found > 0
    assert terms.promised(currency_of(found), found, NANO).within(room)
    more = found * Fraction(1001, 1000)
    assert not terms.promised(currency_of(more), more, NANO).within(room)
    assert len(str(float(found)).replace(".", "").strip("0").split("e")[0]) <= 6


def test_the_largest_epsilon_of_a_basic_account_is_what_is_left():
    pure = of_kind("pure", Fraction(0))
    long = Amount(Fraction(100_001, 300_001), Fraction(0))
    assert largest_epsilon(BASIC, long, Fraction(0), pure) == Fraction("0.333335")
    third = Amount(Fraction(1, 3), Fraction(0))
    assert largest_epsilon(BASIC, third, Fraction(0), pure) == Fraction(1, 3)
    exact = Amount(Fraction("0.25"), Fraction(0))
    assert largest_epsilon(BASIC, exact, Fraction(0), pure) == Fraction("0.25")


def test_the_largest_epsilon_of_a_zcdp_account():
    half = Amount(Fraction(1, 2), Fraction(0))
    assert largest_epsilon(ZCDP, half, NANO, of_kind("pure", NANO)) == 1
    rho = Amount(zcdp_limit(Fraction(2), NANO), Fraction(0))
    assert largest_epsilon(ZCDP, rho, NANO, of_kind("zcdp", NANO)) == 2


def test_no_epsilon_fits_where_nothing_is_left():
    for terms in (BASIC, ZCDP):
        for kind in KINDS:
            currency_of = of_kind(kind, NANO)
            assert largest_epsilon(terms, NOTHING, NANO, currency_of) == 0
            below = Amount(Fraction(1), -NANO)
            assert largest_epsilon(terms, below, NANO, currency_of) == 0
    # The delta of the spec is more than is left of it: no epsilon helps.
    short = Amount(Fraction(1), NANO / 2)
    assert largest_epsilon(BASIC, short, NANO, of_kind("pure", NANO)) == 0
    # So small that no Gaussian noise gives it.
    tiny = Amount(NANO, NANO)
    assert largest_epsilon(BASIC, tiny, NANO, of_kind("gaussian", NANO)) == 0
    nothing = Amount(Fraction(1, 10**30), Fraction(0))
    assert largest_epsilon(ZCDP, nothing, NANO, of_kind("pure", NANO)) == 0


def test_the_largest_epsilon_fits_also_where_a_smaller_one_changes_the_currency():
    curve, pure = of_kind("zcdp", NANO), of_kind("pure", NANO)

    def currency_of(epsilon):
        return (curve if epsilon <= Fraction(1, 2) else pure)(epsilon)

    room = Amount(Fraction(1, 10), Fraction(0))
    found = largest_epsilon(ZCDP, room, NANO, currency_of)
    assert found == Fraction(1, 2)
    assert ZCDP.promised(currency_of(found), found, NANO).within(room)


@pytest.mark.parametrize("terms", [BASIC, ZCDP])
@pytest.mark.parametrize("kind", KINDS)
def test_fewer_sets_keep_the_noise_of_each(terms, kind):
    currency_of = of_kind(kind, NANO)
    asked = currency_of(Fraction(1))
    promised = terms.promised(asked, Fraction(1), NANO)
    left = replace(promised, main=promised.main / 2)
    sets = most_sets(terms, left, asked, NANO, 20)

    # In pure epsilon a set takes its part of epsilon; on a curve of its square, about.
    wanted = {
        ("basic", "pure"): 10,
        ("basic", "zcdp"): 5,
        ("basic", "gaussian"): 5,
        ("zcdp", "pure"): 14,
        ("zcdp", "zcdp"): 9,
        ("zcdp", "gaussian"): 9,
    }
    # Six digits of epsilon are rounded down, so ten sets need a little more than half of rho.
    assert sets == wanted[terms.composition, kind]
    epsilon = largest_epsilon(terms, left, NANO, currency_of)
    assert currency_of(epsilon).limit / sets >= asked.limit / 20
    assert currency_of(epsilon).limit / (sets + 1) < asked.limit / 20


def test_sets_of_pure_epsilon_are_counted_from_exactly_what_is_left():
    asked = Currency("pure", Fraction(1))
    # Six digits of it, rounded down, would be less than two thirds.
    for room in (Fraction(2, 3), Fraction(2, 3) + Fraction(1, 10**9)):
        assert most_sets(BASIC, Amount(room, NANO), asked, NANO, 3) == 2
    less = Fraction(2, 3) - Fraction(1, 10**9)
    assert most_sets(BASIC, Amount(less, NANO), asked, NANO, 3) == 1
    assert most_sets(ZCDP, Amount(Fraction(2, 9), NANO), asked, NANO, 3) == 2
    assert most_sets(ZCDP, Amount(Fraction(2, 9) - NANO, NANO), asked, NANO, 3) == 1


def test_no_set_fits_where_nothing_is_left_and_never_more_than_were_asked_for():
    asked = Currency("pure", Fraction(1))
    assert most_sets(BASIC, NOTHING, asked, NANO, 5) == 0
    assert most_sets(BASIC, BASIC.limit, asked, NANO, 5) == 5


def _release():
    return Fraction(1), NANO
