"""The names of coefficients, each with the number that statsmodels has under that name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dp_core.analysis.regression.design import Design, Outcome
from dp_core.analysis.regression.fitting import coefficient_names, fit_sets

LEVELS = ("poor", "fair", "good", "very good")


def test_a_multinomial_s_names_are_those_of_their_numbers():
    """Shares, slopes and errors of every level differ, so that no two numbers can be exchanged."""
    import statsmodels.api as sm

    rng = np.random.default_rng(3)
    x = pd.DataFrame({"Intercept": 1.0, "age": rng.normal(size=600), "sex": rng.random(600) < 0.5})
    x = x.astype(float)
    slopes = np.array([[0, 0, 0], [0.5, 1, -1], [-0.3, 0.3, 0.7], [0.2, -0.8, 0.1]])
    chances = np.exp(x.to_numpy() @ slopes.T)
    chances /= chances.sum(axis=1, keepdims=True)
    y = (chances.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    design = Design(
        tuple(x.columns),
        Outcome("health", "multinomial", LEVELS, ""),
        (y.astype(float),),
        (x.to_numpy(),),
        (),
    )

    (found,) = fit_sets(design)
    named = dict(zip(coefficient_names(design), found.coefficients, strict=True))
    errors = dict(zip(named, np.sqrt(np.diag(found.covariance)), strict=True))
    theirs = sm.MNLogit(y, x).fit(disp=0)

    assert len(named) == 9
    for column, level in enumerate(LEVELS[1:]):
        for term in x.columns:
            name = f"{level}: {term}"
            assert named[name] == pytest.approx(theirs.params.loc[term, column], rel=1e-5)
            assert errors[name] == pytest.approx(theirs.bse.loc[term, column], rel=1e-4)
