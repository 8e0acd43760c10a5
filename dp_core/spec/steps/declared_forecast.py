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
from dp_core.wall.statistics.regressions.shortened import Scores, SecondMoments

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

    The forecast follows the three sums. The error of the second moments gives that of the public
    coefficients of the first scores; their noise gives the error of those of the last scores. The
    variance of the answer has the sampling error of the file, the noise of the last scores, and the
    error of the second moments, which grows with the distance between the answer and the last
    public coefficients. For few records or a small epsilon this last part is the largest.

    The forecast is for a typical file and depends on the budget, the schema and `rows_about` only.
    It is None without `rows_about`, or if the stage has no budget.
    """
    rows, spec = plan.spec.schema.rows_about, plan.spec
    if not rows or not plan.costs.get("analyses"):
        return None
    regression = DeclaredRegression.of(analysis, spec.schema)
    predictors, coefficients = regression.features.width, regression.coefficients
    noise = {part: each / rows for part, each in _noise(plan, regression).items()}
    # Of a number, in standard deviations of the residual; of levels, in log odds.
    size, sampling = _size(regression)
    limit = USUAL_LIMITS["linear" if regression.linear else "levels"]
    length = limit * size * math.sqrt(predictors)
    moments = noise["moments"] * USUAL_LIMITS["moments"] * regression.together.width
    # Squared error of the public coefficients, as a sum over the coefficients.
    error = coefficients * sampling * moments**2 / 2
    for part in SCORES[:-1]:
        of_scores = coefficients * (noise[part] * length) ** 2 * _longer(regression, error)
        error = of_scores + coefficients * moments**2 / 2 * (error + of_scores)
    last = (noise[SCORES[-1]] * length) ** 2 * _longer(regression, error)
    move = error + coefficients * last
    return math.sqrt(1 + rows * (last + moments**2 * move) / sampling)


def _noise(plan: Plan, regression: DeclaredRegression) -> dict[str, float]:
    """Return the standard deviation of the noise of each sum, relative to its length limit."""
    spec = plan.spec
    scores = Scores(
        outcome=regression.outcome,
        features=regression.features,
        transform=whole(np.eye(regression.features.width)),
        at=(0,) * regression.coefficients,
        length_limit=_LIMIT,
    )
    moments = SecondMoments(
        features=regression.together,
        transform=whole(np.eye(regression.together.width)),
        length_limit=_LIMIT,
    )
    found = {}
    for part, share in parts(declared_pieces(spec)).items():
        question = scores if part in SCORES else moments
        l1, l2_squared = sensitivities(question, spec.privacy.relation)
        cost = plan.costs["analyses"] * share
        noise = plan.currency.noise(cost, l1=l1, l2_squared=l2_squared)
        found[part] = noise.stddev / _LIMIT
    return found


def _size(regression: DeclaredRegression) -> tuple[float, float]:
    """Return the size of a residual, and the file's sampling variance of a coefficient.

    For features with unit second moments. Levels are taken to be equally frequent.

    Returns:
        The mean length of a record's residuals, times the factor by which an error of the mean
        score enters a coefficient; and the variance of a coefficient times the number of records.
    """
    if regression.linear:
        return _MEAN_RESIDUAL, 1.0
    others = regression.residuals
    part = 1 / (others + 1)
    # If the first level occurs, all residuals are `part`; otherwise one is `part` - 1.
    first = math.sqrt(others) * part
    other = math.sqrt((1 - part) ** 2 + (others - 1) * part**2)
    mean = part * first + (1 - part) * other
    # The inverse information is (others + 1) (I + 11'), for a reference level as frequent.
    return mean * (others + 1) * math.sqrt(others + 3), 2.0 * (others + 1)


def _longer(regression: DeclaredRegression, error: float) -> float:
    """Return the factor by which an error of coefficients lengthens squared residuals.

    Those of levels are bounded.
    """
    return 1 + error if regression.linear else 1.0
