from __future__ import annotations

from fractions import Fraction

import pytest

from dp_core.kernel.cost.composition import Amount
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.mechanisms.event_reading import event_from_json


@pytest.mark.parametrize("value", [Fraction(0), Fraction(-3, 7), Fraction(10**400, 3)])
def test_what_a_fraction_prints_is_read_back(value):
    assert exact_fraction(str(value)) == value


@pytest.mark.parametrize(
    "text", ["1e999999999", "0.5", " 1", "1_000", "1/-2", "", "nan", "+1", "٣", "9" * 2001, 1, None]
)
def test_other_spellings_are_refused_at_once(text):
    with pytest.raises(ValueError, match="not an exact fraction"):
        exact_fraction(text)


def test_amounts_and_events_of_a_hostile_ledger_are_refused_at_once():
    with pytest.raises(ValueError, match="exact"):
        Amount.from_json(["1e999999999", "0"])
    event = {"mechanism": "discrete-laplace", "scale": "1e999999999", "l1_sensitivity": 1}
    with pytest.raises(ValueError, match="exact"):
        event_from_json(event)
