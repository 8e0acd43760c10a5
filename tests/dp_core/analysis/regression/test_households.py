"""Regressions on linked sets: persons with households as clusters, or households."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.formula.api as smf

from dp_core.bundle.quality.relations import measured_cliques
from dp_core.errors import BadInput
from dp_core.public_data.memory_release import MemoryRelease
from tests.linked_release import outcome


@pytest.fixture(scope="module")
def release():
    made, _ = outcome(sets=2, epsilon="20")
    return MemoryRelease(made)


def persons(one):
    return one["people"].merge(one["homes"], left_on="home_id", right_on="home")


def test_persons_are_fitted_with_the_columns_of_their_households(release):
    answer = release.infer("age ~ work + tenure")
    for place, one in enumerate(release.sets):
        fit = smf.ols("age ~ work + tenure", persons(one)).fit()
        own = [row.by_set[place].estimate for row in answer.coefficients]
        assert own == pytest.approx(fit.params.tolist())


def test_standard_errors_within_a_set_are_clustered_by_household(release):
    answer = release.infer("age ~ work + tenure")
    for place, one in enumerate(release.sets):
        data = persons(one)
        groups = {"groups": data["home_id"], "use_correction": False}
        fit = smf.ols("age ~ work + tenure", data).fit(cov_type="cluster", cov_kwds=groups)
        clusters = data["home_id"].nunique()
        expected = fit.bse * np.sqrt(clusters / (clusters - 1))
        own = [row.by_set[place].std_error for row in answer.coefficients]
        assert own == pytest.approx(expected.tolist())
    assert "The clusters are households." in " ".join(answer.notes)
    assert answer.design.clusters == min(len(one["homes"]) for one in release.sets)


def test_formulas_of_household_columns_are_fitted_to_households(release):
    answer = release.infer("members ~ tenure")
    for place, one in enumerate(release.sets):
        homes = one["homes"].set_index("home")
        homes["members"] = one["people"].groupby("home_id").size()
        fit = smf.ols("members ~ tenure", homes).fit()
        for row, estimate, error in zip(answer.coefficients, fit.params, fit.bse, strict=True):
            assert row.by_set[place].estimate == pytest.approx(estimate)
            assert row.by_set[place].std_error == pytest.approx(error)
    assert answer.design is None


def test_how_alike_members_are_is_a_relation_that_standard_errors_need(release):
    answer = release.infer("age ~ 1")
    tables, _ = measured_cliques(release._bundle.measured)
    held = any({"age", "other.age"} <= {*clique} for clique in tables[0])
    named = any("other.age" in text for text in answer.warnings)
    assert named is not held


def test_columns_of_another_member_are_not_in_the_sets(release):
    with pytest.raises(BadInput, match=r"other\.age"):
        release.infer("age ~ Q('other.age')")
