from __future__ import annotations

import datetime
from fractions import Fraction

from dp_core.bundle.files.plain_values import plain


def test_plain_values_are_exact_text():
    assert plain({1: (Fraction(1, 3), datetime.date(2026, 1, 2), None, True, 0.5)}) == {
        "1": ["1/3", "2026-01-02", None, True, 0.5]
    }
    assert plain(float("inf")) == "inf"
