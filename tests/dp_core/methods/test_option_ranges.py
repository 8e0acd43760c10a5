from __future__ import annotations

import math

import pytest

from dp_core.methods import registry


@pytest.mark.parametrize(
    ("family", "method", "option", "value"),
    [
        ("reconstruction", "gum", "sweeps", -1),
        ("reconstruction", "gum", "rounds", math.nan),
    ],
)
def test_a_number_out_of_its_range_is_refused_by_name(family, method, option, value):
    with pytest.raises(ValueError, match=rf"^{option} must be "):
        registry.find(family, method)(**{option: value})
