"""Values of rules in whole units."""

import numpy as np
import pytest

from dp_core.schema.rules.column_rules import Units
from dp_core.schema.rules.unit_bounds import MOST_NUMBER_UNITS


@pytest.mark.parametrize("decimals", [0, 1, 2, 3, 4])
def test_a_32_bit_float_gives_back_every_decimal_up_to_the_limit(decimals):
    units = np.arange(MOST_NUMBER_UNITS - 100_000, MOST_NUMBER_UNITS + 1)
    stored = (units / 10**decimals).astype(np.float32)
    assert (Units("x", decimals).of(stored.astype(np.float64)) == units).all()
    assert (Units("x", decimals).of(-stored) == -units).all()
