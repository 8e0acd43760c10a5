"""How near the sets come to what was measured, as public facts that the check leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dp_core.bundle.fit import TableFit

MOST = 30
"""Tables and interactions that are left for people; the report has all."""


def fit_facts(fits: Sequence[TableFit]) -> list[dict[str, object]]:
    """Return the fit of the worst tables and interactions, the worst first.

    Args:
        fits: Of all; made of noisy tables, interactions and synthetic sets alone.
    """
    judged = [fit for fit in fits if not math.isnan(fit.ratio)]
    worst = sorted(judged, key=lambda fit: (-fit.ratio, fit.clique))[:MOST]
    return [
        {
            "columns": list(fit.clique),
            "cells": fit.cells,
            "within": fit.half_width,
            "tvd": math.fsum(fit.set_tvd) / len(fit.set_tvd),
            "expected_tvd": math.fsum(fit.expected_tvd) / len(fit.expected_tvd),
            "ratio": fit.ratio,
            "beyond": fit.beyond,
        }
        for fit in worst
    ]
