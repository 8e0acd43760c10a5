"""Sequential regressions: each column by a private regression on the columns before it."""

from __future__ import annotations

from dataclasses import dataclass

from dp_core.methods.parametric.regressions.column_by_column import ChainedRegressions


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialRegression(ChainedRegressions):
    """Regress each column on those before it, and draw records in the same order.

    Bowen & Liu (2020), section 3.2.3: f(x1) f(x2|x1) and so on. Numeric columns have linear
    regressions with normal residuals, categorical columns logistic or multinomial ones; a
    categorical first column has a table. The paper leaves open how the regressions are made
    private. Here each releases a sum of gradients, whose sensitivity is proven for all data
    (`ClassGradient`, `NumberGradient`), or the minimiser of a penalised loss (`ClassMinimiser`).
    The functional mechanism (Zhang et al. 2012) asks for the same gradients at coefficients 0, and
    minimises a noisy polynomial. The choice of predictors or penalties by the data is not offered.

    *Objective perturbation* (Chaudhuri, Monteleoni & Sarwate 2011; Kifer, Smith & Thakurta 2012) is
    not offered: in finite precision its exact minimiser tells the true file from a neighbour,
    whatever epsilon is (docs/methods.md). `minimiser: gradient` is the form that keeps a proof: the
    loss's own linear term gets exact noise, and the rest comes from public model records.

    A regression is fitted to its noisy gradient with model records as predictors
    (`fitted_regressions`), so that one noisy question per regression is enough. For each set,
    coefficients are drawn around the estimate with the inverse Fisher information of the (public)
    model records as covariance, and residual variances from their posterior.

    A numeric column with missing values has two regressions on the columns before it: whether it is
    missing, and its value if it is not. As a predictor it is an indicator of missing and the value,
    or 0 if missing. A missing value of a categorical column is a level.

    The options are those of `ChainedRegressions`.
    """


METHOD = SequentialRegression
