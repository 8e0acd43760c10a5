"""Regressions by the sample design: against another package, by brute force, and what is warned."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dp_core.analysis.regression.analysis import analyse, combine_fits
from dp_core.analysis.regression.design import Design, Outcome
from dp_core.analysis.regression.fitting import coefficient_columns, fit_sets
from dp_core.analysis.regression.frames import frame_of, with_design
from dp_core.analysis.regression.survey_answer import cluster_concerns, design_used, widened
from dp_core.analysis.regression.survey_sample import Sample
from dp_core.bundle.reading import Bundle
from dp_core.inference.design_variance import replicate_factors
from dp_core.inference.formulas.formula import read_formula
from dp_core.inference.intervals import degrees_of_sum
from dp_core.methods.replicates.survey_weights import Raking
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.survey.survey_design import NO_SURVEY, Replicates, Survey
from tests.measured import noisy_table

PLACES = np.arange(60)
PSU = PLACES % 8
STRATA = np.repeat(np.arange(4), 2)
WEIGHTS = 1.0 + PLACES % 4
X = np.column_stack([np.ones(60), PLACES * 5 % 7]).astype(float)
Y = PLACES * 7 % 11 + 0.5 * PSU
EVENT = (PLACES * 3 % 5 + PSU % 3 > 2).astype(float)
KIND = (PLACES * 3 % 5 + PSU % 3 - 1).clip(0, 2).astype(float)
COUNT = PLACES * 3 % 5 + PSU % 2.0


def sample_of(rule=None, **changed):
    fields = {
        "weights": WEIGHTS,
        "kept": np.ones(60, bool),
        "units": PSU,
        "strata": STRATA,
        "clustered": True,
        "survey": Survey(replicates=rule),
        "raking": None,
    }
    return Sample(**fields | changed)


def fit(family, y, x, sample, levels=()):
    return fitted(family, y, x, levels, weights=sample.weights[sample.kept], sample=sample)


def fitted(family, y, x, levels, *, weights, sample=None):
    names, outcome = ("Intercept", "x")[: x.shape[1]], Outcome("y", family, levels, "")
    samples = () if sample is None else (sample,)
    (found,) = fit_sets(Design(names, outcome, (y,), (x,), (), (weights,), (), samples))
    return found


def errors(found):
    return np.sqrt(np.diag(found.covariance))


def test_figures_of_another_package():
    """The same data in samplics 0.6.0: `TaylorEstimator` and `SurveyGLM` with stratum and psu."""
    mean = fit("linear", Y, X[:, :1], sample_of())
    assert mean.coefficients == pytest.approx([7.04])
    assert errors(mean) == pytest.approx([0.6781662070941344], rel=1e-9)
    linear = fit("linear", Y, X, sample_of())
    assert linear.coefficients == pytest.approx([7.322639790328571, -0.09570196060786783])
    assert errors(linear) == pytest.approx([0.32398581757770656, 0.3245469454963017], rel=1e-9)
    logistic = fit("logistic", EVENT, X, sample_of(), ("0", "1"))
    # It has no prior, which moves estimates of 60 rows by a small part of their errors.
    theirs = np.array([-0.18706822907525433, 0.1372096345046598])
    error = np.array([0.49297955095602836, 0.10838137016636584])
    assert logistic.coefficients == pytest.approx(theirs, abs=0.03)
    assert errors(logistic) == pytest.approx(error, rel=0.05)


FAMILIES = [
    ("linear", Y, ()),
    ("logistic", EVENT, ("0", "1")),
    ("poisson", COUNT, ()),
    ("multinomial", KIND, ("0", "1", "2")),
]


@pytest.mark.parametrize(("family", "y", "levels"), FAMILIES)
def test_rows_as_clusters_of_one_stratum_are_the_weighted_analysis(family, y, levels):
    sample = sample_of(units=PLACES, strata=np.zeros(60, dtype=int), clustered=False)
    found = fit(family, y, X, sample, levels)
    wanted = fitted(family, y, X, levels, weights=WEIGHTS)

    assert np.array_equal(found.coefficients, wanted.coefficients)
    assert np.allclose(found.covariance, wanted.covariance, rtol=1e-9)


@pytest.mark.parametrize(("family", "y", "levels"), FAMILIES)
@pytest.mark.parametrize(
    "rule",
    [
        Replicates(method="jkn", number=8),
        Replicates(method="jk1", number=8),
        Replicates(method="brr", number=8, fay=Fraction(7, 10)),
        Replicates(method="bootstrap", number=40),
    ],
    ids=lambda rule: rule.method,
)
def test_replicates_are_those_of_complete_fits(family, y, levels, rule):
    strata = np.zeros(8, dtype=int) if rule.method == "jk1" else STRATA
    found = fit(family, y, X, sample_of(rule, strata=strata), levels)
    wanted = np.zeros_like(found.covariance)
    for part, factors in replicate_factors(rule, strata):
        own = WEIGHTS * factors[PSU]
        one = fitted(family, y, X, levels, weights=own).coefficients
        wanted += part * np.outer(one - found.coefficients, one - found.coefficients)

    # One Newton step is exact for a linear model; 60 rows in 8 clusters is a hard case for others.
    near = 1e-9 if family == "linear" else 0.25
    assert np.allclose(errors(found), np.sqrt(np.diag(wanted)), rtol=near)


def test_a_replicate_without_a_level_uses_the_full_information():
    only = np.column_stack([np.ones(60), PSU == 3]).astype(float)
    found = fit("linear", Y, only, sample_of(Replicates(method="jkn", number=8)))

    assert np.isfinite(found.covariance).all()
    assert (errors(found) > 0).all()


def test_rows_that_are_left_out_stay_in_the_design():
    """A subpopulation: the other rows have a score of 0, and their clusters still count."""
    kept = PSU != 0
    sample = sample_of(kept=kept)
    found = fit("linear", Y[kept], X[kept], sample)

    # By hand: cluster 0 has a total of 0, its stratum still has two clusters.
    weights = WEIGHTS[kept] / WEIGHTS[kept].mean()
    residuals = Y[kept] - X[kept] @ found.coefficients
    scores = X[kept] * (weights * residuals)[:, None]
    totals = np.array([scores[PSU[kept] == one].sum(axis=0) for one in range(8)])
    inner = sum(2 * np.cov(totals[stratum == STRATA].T) for stratum in range(4))
    bread = np.linalg.inv(X[kept].T @ (X[kept] * weights[:, None]))
    assert np.allclose(found.covariance, bread @ inner @ bread, rtol=1e-8)
    assert not totals[0].any()
    assert sample.degrees == 3  # 7 clusters with rows, 4 strata
    assert sample_of().degrees == 4


def test_stated_numbers_limit_the_degrees_of_freedom():
    rows = {"units": PLACES, "strata": np.zeros(60, dtype=int), "clustered": False}

    assert sample_of(**rows).degrees == 59
    assert sample_of(**rows, survey=Survey(strata=15, clusters=30)).degrees == 15
    assert sample_of(**rows, survey=Survey(strata=15)).degrees == 45
    assert (
        sample_of(survey=Survey(replicates=Replicates(method="bootstrap", number=3))).degrees == 2
    )


SCHEMA = {
    "version": "1",
    "title": "x",
    "columns": {
        "psu": {
            "type": "category",
            "levels": [f"c{one}" for one in range(8)],
            "role": "cluster",
        },
        "stratum": {
            "type": "category",
            "levels": ["a", "b", "c", "d"],
            "follows": "psu",
            "map": {f"c{one}": "abcd"[one // 2] for one in range(8)},
            "role": "stratum",
        },
        "sex": {"type": "category", "levels": ["f", "m"]},
        "y": {"type": "integer", "min": "0", "max": "20"},
        "weight": {"type": "number", "min": "0", "max": "10", "bins": "5", "role": "weight"},
    },
    "calibrate": [{"sex": {"f": "70", "m": "90"}}],
}


def schema_of(**survey):
    return parse_schema(SCHEMA | ({"survey": survey} if survey else {}))


def table_of(shift=0):
    """Return a set; its weights meet the totals."""
    table = pa.table(
        {
            "psu": [f"c{one}" for one in PSU],
            "stratum": ["abcd"[one // 2] for one in PSU],
            "sex": ["fm"[one] for one in (PLACES + PLACES // 7 + shift) % 2],
            "y": pa.array(np.floor(Y).astype(int)),
        }
    )
    weights = Raking(schema_of(), table).rake(WEIGHTS)
    return table.append_column("weight", pa.array(weights))


def analysis(schema, text, tables):
    formula = read_formula(text, schema.names)
    columns = [schema.column(name) for name in formula.columns]
    frames = [frame_of(number, one, columns) for number, one in enumerate(tables, start=1)]
    frames = [with_design(*each, schema) for each in zip(frames, tables, strict=True)]
    return analyse(formula, frames, schema, "posterior"), frames


def test_replicates_are_raked_to_the_public_totals():
    jackknife = {"replicates": {"method": "jkn"}}
    text = "y ~ sex"
    (sample,) = analysis(schema_of(**jackknife), text, [table_of()])[0].design.samples
    women = np.array(table_of()["sex"]) == "f"
    found = [weights for _, weights in sample.replicates()]

    assert len(found) == 8
    for weights in found:
        assert weights[women].sum() == pytest.approx(70)
        assert weights[~women].sum() == pytest.approx(90)
    # A share that the totals fix has no variance; linearization does not know the totals.
    share = "I(sex == 'f') ~ 1"
    raked, plain = (
        analysis(schema, share, [table_of()])[0].fits[0].covariance.item()
        for schema in (schema_of(**jackknife), schema_of())
    )
    assert raked < 1e-20
    assert plain > 1e-3


def test_the_combined_analysis_has_the_designs_degrees_of_freedom():
    schema = schema_of(replicates={"method": "brr"})
    found, _ = analysis(schema, "y ~ sex", [table_of(), table_of(1), table_of(2)])
    used = design_used(schema, found.design.samples, ())

    assert found.combined.design_df == 4
    between = np.diag(found.combined.between)
    wanted = degrees_of_sum(np.diag(found.combined.within), 4 / 3 * between, 3, 4)
    assert np.allclose(found.combined.degrees_of_freedom, wanted)
    assert (used.method, used.replicates, used.strata, used.clusters) == ("brr", 8, 4, 8)
    assert used.calibrated
    assert "8 brr replicates, each raked" in used.in_words()


def bundle_of(schema, *cliques, scale=0.5):
    found = []
    for clique in cliques:
        domain = schema.domain.project(clique)
        found.append(noisy_table(domain, np.zeros(domain.sizes, dtype=np.int64), scale=scale))
    claims = type("Claims", (), {"schema": schema})()
    return Bundle(Path(), claims, "posterior", 60.0, found)


def concerned(schema, bundle, text="y ~ sex"):
    found, _ = analysis(schema, text, [table_of(), table_of(1)])
    return cluster_concerns(bundle, found.formula, coefficient_columns(found.formula, found.design))


def test_clusters_that_no_table_holds_are_named():
    schema = schema_of()
    (both,) = concerned(schema, bundle_of(schema, ("psu",), ("sex", "y")))
    (slope,) = concerned(schema, bundle_of(schema, ("psu", "y")))

    assert (both.kind, both.coefficients) == ("clusters", ("Intercept", "sex[T.m]"))
    assert "psu with y" in both.text
    assert slope.coefficients == ("sex[T.m]",)
    assert "psu with sex" in slope.text
    assert concerned(schema, bundle_of(schema, ("psu", "y", "sex"), scale=0.05)) == ()


def test_clusters_that_drown_in_noise_are_named():
    schema = schema_of()
    (found,) = concerned(schema, bundle_of(schema, ("psu", "y"), ("psu", "sex"), scale=20))

    assert (found.kind, found.coefficients) == ("cluster-noise", ("Intercept", "sex[T.m]"))


def test_clusters_that_are_not_released_are_named_if_the_schema_knows_them():
    columns = {name: SCHEMA["columns"][name] for name in ("sex", "y", "weight")}
    plain = SCHEMA | {"columns": columns}
    known = parse_schema(plain | {"survey": {"strata": "4", "clusters": "8"}})
    strata = parse_schema(plain | {"survey": {"strata": "4"}})

    assert [each.kind for each in concerned(known, bundle_of(known))] == ["clusters"]
    assert concerned(strata, bundle_of(strata)) == ()


def test_a_design_effect_widens_to_that_of_a_simple_sample_and_never_narrows():
    schema = schema_of()
    found, _ = analysis(schema, "y ~ sex", [table_of(), table_of(1)])
    plain = found.fits[0]
    wide = widened(found.fits, [1], 50.0)[0]
    same = widened(found.fits, [0, 1], 1e-9)[0]

    assert np.diag(wide.covariance)[1] == pytest.approx(50 * plain.simple[1, 1])
    assert np.diag(wide.covariance)[0] == plain.covariance[0, 0]
    deviations = np.sqrt(np.diag(wide.covariance) / np.diag(plain.covariance))
    assert wide.covariance[0, 1] == pytest.approx(plain.covariance[0, 1] * deviations[1])
    assert np.allclose(same.covariance, plain.covariance)
    # The simple variance of a mean, weighted: S^2 / n, with S^2 from the weights.
    mean = fit("linear", Y, X[:, :1], sample_of())
    square = np.average((Y - np.average(Y, weights=WEIGHTS)) ** 2, weights=WEIGHTS)
    assert mean.simple.item() == pytest.approx(square / 59)


def test_a_smaller_set_keeps_the_clusters_variance():
    schema = schema_of()
    found, _ = analysis(schema, "y ~ sex", [table_of(), table_of(1)])
    same = combine_fits(found.fits, "posterior", size_factor=0.5)
    larger = combine_fits(found.fits, "posterior", size_factor=2)

    assert np.allclose(same.within, found.combined.within)
    assert np.allclose(larger.within, 2 * found.combined.within)
    assert same.design_df == larger.design_df == 4
    assert same.complete_df is None


def test_a_sample_of_groups_of_rows_has_their_degrees_of_freedom():
    columns = {name: SCHEMA["columns"][name] for name in ("sex", "y", "weight")}
    rule = {"survey": {"replicates": {"method": "jk1", "number": "12"}}}
    schema = parse_schema(SCHEMA | {"columns": columns} | rule)
    (sample,) = analysis(schema, "y ~ sex", [table_of()])[0].design.samples

    assert np.bincount(sample.units).tolist() == [5] * 12
    assert sample.degrees == 11
    assert sample.fixed
    assert not sample.clustered
    assert NO_SURVEY.replicates is None
