import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.guarantee import implied, theorem_of, tightest
from dp_core.accounts.requested import Privacy
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.extensions.thresholds import StabilityEvent, kept_by_chance
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.methods.drawn_events import threshold_for

MICRO = Fraction(1, 10**6)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(4), Fraction(80), Fraction(12345, 67)])
@pytest.mark.parametrize("threshold", [1, 2, 35, 500])
def test_the_probability_is_that_of_the_noise_rounded_up(scale, threshold):
    alpha = math.exp(-1 / scale)
    true = alpha ** (threshold - 1) / (1 + alpha)
    found = kept_by_chance(scale, threshold, 1)
    assert float(found) == pytest.approx(true, rel=1e-12)
    assert len(str(found.numerator)) < 40 or threshold > 100
    # The sum over the noise itself: 1 + Z >= threshold.
    noise = np.arange(threshold - 1, threshold + math.ceil(50 * scale))
    tail = (alpha**noise).sum() * (1 - alpha) / (1 + alpha)
    assert float(found) == pytest.approx(tail, rel=1e-9)


def test_rounding_is_up_and_small():
    for scale, threshold in ((Fraction(4), 36), (Fraction(0.1), 5), (Fraction(10**6), 20_030_121)):
        with localcontext() as context:
            context.prec = 120
            rate = Decimal(scale.denominator) / scale.numerator
            true = Fraction((-(threshold - 1) * rate).exp() / (1 + (-rate).exp()))
        assert true <= kept_by_chance(scale, threshold, 1) <= true * (1 + Fraction(1, 10**18))


@pytest.mark.parametrize("delta", ["1/3", "1e-4", "1e-6", "1e-15", "1e-400"])
@pytest.mark.parametrize("scale", ["1/1000", "1/3", "2", "4", "80", "99999"])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_the_threshold_is_the_least_that_keeps_to_delta(rows, scale, delta):
    scale, delta = Fraction(scale), Fraction(delta)
    found = threshold_for(scale, delta, rows)
    assert kept_by_chance(scale, found, rows) <= delta
    assert found == rows or kept_by_chance(scale, found - 1, rows) > delta


def test_thresholds_of_the_worked_examples():
    """Epsilon .5, delta 1e-4, replace-one: continuous 35.068773, and 433.79 split 10 ways."""
    assert threshold_for(Fraction(4), Fraction("1e-4")) == 36
    assert threshold_for(Fraction(40), Fraction("1e-5")) == 435
    assert threshold_for(Fraction(12), Fraction("1e-4") / 3) == 117


def test_what_there_is_no_threshold_for_is_refused():
    for scale, delta in ((0, "1e-6"), (1, "0"), (1, "1"), (-1, "1e-6")):
        with pytest.raises(ValueError, match="threshold needs"):
            threshold_for(Fraction(scale), Fraction(delta))
    with pytest.raises(ValueError, match="at least 1"):
        kept_by_chance(Fraction(1), 0, 1)
    with pytest.raises(ValueError, match="at least 1"):
        StabilityEvent(Fraction(1), 1, 0)
    assert kept_by_chance(Fraction(1, 10**9), 10**9, 1) > 0


def test_the_event_tells_its_costs():
    event = StabilityEvent(Fraction(4), 2, 36)
    assert event.epsilon() == Fraction(1, 2)
    assert event.rho() == Fraction(1, 8)
    assert event.own_delta() == kept_by_chance(Fraction(4), 36, 1)
    assert event_from_json(event.to_json()) == event
    with pytest.raises(ValueError, match="does not define"):
        event_from_json({**event.to_json(), "more": 1})
    for wrong in ("36", True, 36.0, None):
        with pytest.raises(ValueError, match="whole number"):
            event_from_json({**event.to_json(), "threshold": wrong})


def test_a_currency_pays_for_its_own_delta_beside_its_total():
    event = StabilityEvent(Fraction(4), 2, 36)
    pure = Currency("pure", Fraction(1), event.own_delta())
    assert pure.cost(event) == Fraction(1, 2)
    assert pure.implies(Fraction(1), event.own_delta())
    assert not pure.implies(Fraction(1), event.own_delta() * Fraction(999, 1000))
    assert not pure.implies(Fraction(1), Fraction(0))
    assert not pure.implies(Fraction("0.999"), Fraction(1, 2))
    assert Currency("zcdp", Fraction(1)).cost(event) == event.rho()
    with pytest.raises(ValueError, match="has no cost"):
        Currency("gaussian", Fraction(1)).cost(event)


@pytest.mark.parametrize("kind", ["zcdp", "gaussian"])
def test_a_total_on_a_curve_is_converted_at_what_is_left_of_delta(kind):
    limit = largest_limit(kind, Fraction(1), MICRO / 2)
    currency = Currency(kind, limit, MICRO / 2)
    assert currency.implies(Fraction(1), MICRO)
    assert not currency.implies(Fraction(1), MICRO * Fraction(99, 100))
    assert not currency.implies(Fraction(1), MICRO / 2)
    whole = Currency(kind, largest_limit(kind, Fraction(1), MICRO), MICRO / 2)
    assert not whole.implies(Fraction(1), MICRO)
    plain = Currency(kind, limit)
    assert currency.epsilon(limit, MICRO) == plain.epsilon(limit, MICRO / 2)
    assert not Currency(kind, limit, -MICRO).implies(Fraction(1), MICRO)


def test_a_release_with_a_threshold_is_stated_with_its_delta():
    privacy = Privacy(epsilon=Fraction(1), delta=MICRO, neighbours="add-remove")
    scale = Fraction(1)
    event = StabilityEvent(scale, 1, threshold_for(scale, MICRO))
    currency = Currency("pure", Fraction(1), MICRO)
    stated = tightest(currency, privacy, [(event, {"name": "sparse-table"})])
    assert (stated.epsilon, stated.delta) == (1, MICRO)
    assert stated == implied(currency, privacy)
    assert "thresholds" in stated.theorem
    assert "thresholds" not in theorem_of(Currency("pure", Fraction(1)))
