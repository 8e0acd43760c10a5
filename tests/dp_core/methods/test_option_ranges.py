from __future__ import annotations

import math

import pytest

from dp_core.methods import registry


@pytest.mark.parametrize(
    ("family", "method", "option", "value"),
    [
        ("reconstruction", "auto", "most_cells", -3),
        ("reconstruction", "auto", "smoothing", math.nan),
        ("reconstruction", "pgm", "smoothing", -1.0),
        ("reconstruction", "pgm", "sweeps", 0),
        ("reconstruction", "gum", "copies", -0.1),
        ("selection", "auto", "max_cells", 0),
    ],
)
def test_a_number_out_of_its_range_is_refused_by_name(family, method, option, value):
    with pytest.raises(ValueError, match=rf"^{option} must be "):
        registry.find(family, method)(**{option: value})
