"""The tightest statement of a zcdp account: when it holds, and that it is never below the truth."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from dp_core.accounts.account_curve import gaussian_statement
from dp_core.kernel.cost.composition import NO_CHARGES, Terms
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from tests.gaussian_curve import gaussian_delta

ZCDP = Terms("zcdp", Fraction(2), Fraction("1e-6"))
GAUSSIAN = Currency("gaussian", ZCDP.limit.main)


def tally(currency, part, event=None):
    """Return the charge of one event that costs a part of the currency's limit."""
    cost = currency.limit * part
    made = event or currency.noise_event(cost, l1=1, l2_squared=1)
    return NO_CHARGES.plus(cost, made)


def test_gaussian_releases_are_stated_on_the_exact_curve():
    stated = gaussian_statement(ZCDP, [(GAUSSIAN, tally(GAUSSIAN, Fraction(1, 2)))] * 2)
    assert stated is not None
    assert stated < ZCDP.epsilon
    # One Gaussian mechanism with the account's whole total: nothing smaller can be true.
    mu = math.sqrt(2 * float(ZCDP.limit.main))
    assert gaussian_delta(mu, float(stated)) <= float(ZCDP.delta)
    assert gaussian_delta(mu, float(stated) * (1 - 1e-4)) > float(ZCDP.delta)


def test_it_states_the_total_and_not_what_was_used_of_it():
    little = gaussian_statement(ZCDP, [(GAUSSIAN, tally(GAUSSIAN, Fraction(1, 100)))])
    assert little == gaussian_statement(ZCDP, [(GAUSSIAN, tally(GAUSSIAN, Fraction(99, 100)))])


@pytest.mark.parametrize(
    "other",
    [
        (Currency("zcdp", Fraction(1, 100)), NoisyMaxEvent(Fraction(100), 1, gumbel=True)),
        (Currency("zcdp", Fraction(1, 100)), GaussianEvent(Fraction(100), 1)),
        (Currency("pure", Fraction(1, 100)), LaplaceEvent(Fraction(200), 1)),
    ],
)
def test_a_release_that_may_hold_another_mechanism_leaves_the_filter(other):
    currency, event = other
    mixed = [(GAUSSIAN, tally(GAUSSIAN, Fraction(1, 2))), (currency, tally(currency, 1, event))]
    assert gaussian_statement(ZCDP, mixed) is None
    # A release that was charged nothing did nothing.
    assert gaussian_statement(ZCDP, [mixed[0], (currency, NO_CHARGES)]) is not None


HALF = tally(GAUSSIAN, Fraction(1, 2))


@pytest.mark.parametrize(
    ("terms", "charged"),
    [
        (ZCDP, []),
        (ZCDP, [NO_CHARGES]),
        (Terms("basic", Fraction(2), Fraction("1e-6")), [HALF]),
        (ZCDP, [replace(HALF, own_delta=Fraction("1e-9"))]),
    ],
    ids=["nothing", "no charges", "a basic account", "a mechanism that fails by itself"],
)
def test_what_the_filter_does_not_hold_for_is_not_stated(terms, charged):
    assert gaussian_statement(terms, [(GAUSSIAN, each) for each in charged]) is None


def test_more_smoothed_noise_than_the_total_leaves_the_filter():
    # True rho goes back when a release is settled, so its smoothed sum can pass the total.
    used = [(GAUSSIAN, tally(GAUSSIAN, Fraction(1, 2)))] * 2
    assert gaussian_statement(ZCDP, used) is not None
    assert gaussian_statement(ZCDP, [*used, (GAUSSIAN, tally(GAUSSIAN, Fraction(1, 99)))]) is None


def test_very_many_charges_pay_for_the_rounding_of_their_noise():
    few = tally(GAUSSIAN, Fraction(1, 2))
    many = replace(few, charges=1_000_000)
    once = gaussian_statement(ZCDP, [(GAUSSIAN, few)])
    often = gaussian_statement(ZCDP, [(GAUSSIAN, many)])
    assert once is not None
    assert often is not None
    assert once < often < once + Fraction("1e-3")
