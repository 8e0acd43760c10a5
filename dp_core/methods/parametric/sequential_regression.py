"""Sequential regressions: each column by a private regression on those before it."""

from __future__ import annotations

from dataclasses import dataclass

from dp_core.methods.parametric.regressions.chained_regressions import ChainedRegressions


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialRegression(ChainedRegressions):
    """Regress each column on those before it, and draw records in the same order.

    Bowen & Liu (2020), section 3.2.3: f(x1) f(x2|x1) and so on. Columns of numbers have linear
    regressions with normal residuals, columns of levels logistic or multinomial ones, the first
    column of levels a table. The paper leaves open how the regressions are made private. Here each
    is a sum of gradients, whose sensitivity is proven whatever the data are (`ClassGradient`,
    `NumberGradient`), or the minimiser of a penalised loss (`ClassMinimiser`). Left out are the
    functional mechanism, which perturbs a polynomial in the loss's place, and every choice of
    predictors or penalties by the data.

    Gradients are fitted with records of the model so far in the place of the predictors
    (`fitted_regressions`), so that one noisy question for each regression is enough. Coefficients
    of a set are drawn around the estimate from the Fisher information of the model's records,
    which is public, and residual variances from their posterior.

    A missing number is a regression of its own: first whether it is missing, by all columns before;
    then, where it is there, how large. As a predictor it is an indicator of missing, and the number
    or 0 beside it. A missing level is a level.

    Options are those of `ChainedRegressions`.
    """


METHOD = SequentialRegression
