"""How the budget of declared analyses is divided, and how wide their intervals will be."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dp_core.inference.formulas.declared_analysis import DeclaredAnalysis
from dp_core.methods.declared.declared_questions import PARTS, SCORES, USUAL_LIMITS
from dp_core.methods.declared.declared_regression import DeclaredRegression
from dp_core.methods.declared.whitening import whole
from dp_core.spec.plan import Plan
from dp_core.spec.steps.statistics_measurement import declared_pieces
from dp_core.wall.statistics import sensitivities
from dp_core.wall.statistics.regressions.shortened import Scores

_LIMIT = 1000
_MEAN_RESIDUAL = 0.8  # mean size of a normal residual in standard deviations


def parts(pieces: int) -> dict[str, Fraction]:
    """Return the part of the stage's budget that each sum of one regression gets.

    Args:
        pieces: How many declared analyses divide the budget (`declared_pieces`).
    """
    return {name: part / pieces for name, part in PARTS.items()}


def expected_width(plan: Plan, analysis: DeclaredAnalysis) -> float | None:
    """Return the expected width of a declared analysis's intervals relative to the file's own.

    The forecast is for a typical file and depends on the budget and on `rows_about`. It is None
    without `rows_about`, or if the stage has no budget.
    """
    rows, spec = plan.spec.schema.rows_about, plan.spec
    if not rows or not plan.costs.get("analyses"):
        return None
    regression = DeclaredRegression.of(analysis, spec.schema)
    width = regression.features.width
    question = Scores(
        outcome=regression.outcome,
        features=regression.features,
        transform=whole(np.eye(width)),
        at=(0,) * regression.coefficients,
        length_limit=_LIMIT,
    )
    l1, l2_squared = sensitivities(question, spec.privacy.relation)
    cost = plan.costs["analyses"] * parts(declared_pieces(spec))[SCORES[-1]]
    noise = plan.currency.noise(cost, l1=l1, l2_squared=l2_squared).stddev / _LIMIT
    times = USUAL_LIMITS["linear" if regression.linear else "levels"]
    # The mean length of a record's scores, in standard deviations of the residual.
    length = _MEAN_RESIDUAL * math.sqrt(width)
    return math.hypot(1.0, noise * times * length / math.sqrt(rows))
