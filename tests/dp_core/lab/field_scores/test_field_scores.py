"""Each score of SDNist's report against numbers worked out by hand, or by another library."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.lab.field_scores.code_values import CodeValues, random_records, records_at
from dp_core.lab.field_scores.correlations import (
    component_errors,
    correlation_errors,
    distribution_distance,
    group_regression,
    kendall,
    pearson,
    slope_errors,
)
from dp_core.lab.field_scores.file_scores import (
    MOST_RECORDS,
    ScoredColumns,
    default_columns,
    equivalent_sample,
    file_scores,
    k_marginal_score,
    mean_headline,
    sample_scores,
)
from dp_core.lab.field_scores.propensity import propensity
from dp_core.lab.field_scores.record_matches import (
    apparent_matches,
    consistency,
    unique_exact_matches,
)
from dp_core.lab.field_scores.subgroup_equity import subgroup_equity
from dp_core.metrics.marginal_error import average_tvd, tvd
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros


def dataset(*columns, sizes=None):
    codes = np.array(columns, dtype=np.uint16)
    sizes = sizes or tuple(int(column.max()) + 1 for column in codes)
    return Dataset(Domain(tuple("abcdefgh"[: len(columns)]), sizes), codes)


def numbered(data, names=None):
    sizes = dict(zip(data.domain.columns, data.domain.sizes, strict=True))
    chosen = data.domain.columns if names is None else names
    return CodeValues(data.domain, {name: np.arange(float(sizes[name])) for name in chosen})


def random_file(rows, seed, sizes=(5, 4, 3, 2)):
    rng = np.random.default_rng(seed)
    hidden = rng.random(rows)
    return dataset(
        *((0.6 * hidden + 0.4 * rng.random(rows)) * size for size in sizes), sizes=tuple(sizes)
    )


# -- k-marginal


def test_the_score_is_that_of_sdnist_s_formula():
    """500 (2 - mean sum of absolute differences of densities), by a loop over cells."""
    real, drawn = random_file(300, 1), random_file(200, 2)
    totals = []
    for one, two in itertools.combinations(range(4), 2):
        gap = 0.0
        for x in range(real.domain.sizes[one]):
            for y in range(real.domain.sizes[two]):
                shares = [
                    np.mean((data.codes[one] == x) & (data.codes[two] == y))
                    for data in (real, drawn)
                ]
                gap += abs(shares[0] - shares[1])
        totals.append(gap)
    expected = 500 * (2 - sum(totals) / len(totals))
    assert k_marginal_score(average_tvd(real, drawn, 2).mean) == pytest.approx(expected, rel=1e-12)


def test_a_larger_sample_scores_more_and_the_whole_file_a_thousand():
    found = sample_scores(random_file(2_000, 1))
    assert found[0.05] < found[0.3] < found[0.9] < 1000
    found = {share: found[share] for share in (0.05, 0.3)}
    assert equivalent_sample(found[0.3], found) == pytest.approx(0.3)
    assert equivalent_sample(found[0.05] - 1, found) is None
    assert equivalent_sample(1000.0, found) == 1
    assert equivalent_sample(math.nan, found) is None


# -- propensity


def test_a_tree_that_tells_every_record_has_c_times_one_minus_c():
    real, drawn = dataset([0] * 30, sizes=(2,)), dataset([1] * 10, sizes=(2,))
    assert propensity(real, drawn)[0] == pytest.approx(0.25 * 0.75)
    assert propensity(real, real)[0] == 0


def test_one_split_by_hand():
    """a < 1 has 3 real and 1 synthetic, a >= 1 has 1 and 3: ((1/4-1/2)² 4 + (3/4-1/2)² 4)/8."""
    real, drawn = dataset([0, 0, 0, 1]), dataset([0, 1, 1, 1])
    assert propensity(real, drawn, depth=1)[0] == pytest.approx(1 / 16)


@pytest.mark.parametrize("seed", range(3))
def test_the_tree_is_that_of_scikit_learn(seed):
    from sklearn.tree import DecisionTreeClassifier

    sizes = (90, 70, 50, 40)
    real = random_file(1_500, seed, sizes)
    rng = np.random.default_rng(seed)
    drawn = dataset(*(rng.integers(0, size, 1_000) for size in sizes), sizes=sizes)
    rows = np.concatenate([real.codes, drawn.codes], axis=1).T.astype(float)
    labels = np.arange(2_500) >= 1_500
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(rows, labels)
    expected = np.mean((tree.predict_proba(rows)[:, 1] - 0.4) ** 2)
    assert propensity(real, drawn, depth=3)[0] == pytest.approx(expected, rel=1e-9)


def test_the_ratio_is_near_one_for_files_of_one_population_and_large_otherwise():
    real, other = random_file(2_000, 1), random_file(2_000, 2)
    flat = dataset(*(np.random.default_rng(1).integers(0, size, 2_000) for size in (5, 4, 3, 2)))
    assert 0.3 < propensity(real, other)[1] < 3
    assert propensity(real, flat)[1] > 10
    assert propensity(dataset([0, 0], sizes=(1,)), dataset([0, 0], sizes=(1,))) == (0, None)


# -- correlations


def test_correlations_of_a_table_are_those_of_its_records():
    from scipy import stats

    table = np.random.default_rng(3).integers(0, 9, (4, 5))
    x, y = (
        np.repeat(np.arange(4), table.sum(axis=1)),
        np.concatenate([np.repeat(np.arange(5), row) for row in table]),
    )
    assert kendall(table) == pytest.approx(stats.kendalltau(x, y).statistic)
    values = np.array([0.0, 1.0, 5.0, 7.0])
    expected = stats.pearsonr(values[x], y).statistic
    assert pearson(table, values, np.arange(5)) == pytest.approx(expected)
    assert math.isnan(kendall([[3, 4]]))
    assert math.isnan(pearson([[3, 4]], [1.0], [0.0, 1.0]))


def test_a_reversed_column_turns_the_correlation():
    real = dataset([0, 1, 2, 3], [0, 1, 2, 3])
    drawn = dataset([0, 1, 2, 3], [3, 2, 1, 0])
    found = correlation_errors(real, drawn, numbered(real))
    assert found["pearson"] == found["kendall"] == pytest.approx(2)
    assert correlation_errors(real, drawn, numbered(real, ["a"])) == {}


def test_missing_values_are_left_out_of_correlations():
    data = dataset([0, 1, 2, 3, 4], [0, 1, 2, 3, 0])
    values = dict(numbered(data).values)
    values["a"] = np.array([0.0, 1, 2, 3, math.nan])
    other = dataset([0, 1, 2, 3, 4], [0, 1, 2, 3, 3])
    found = correlation_errors(data, other, CodeValues(data.domain, values))
    assert found["pearson"] == pytest.approx(0)


# -- principal components


def test_two_equal_columns_are_one_component():
    data = dataset([0, 1, 2, 3] * 5, [0, 1, 2, 3] * 5, [0, 1] * 10)
    first = component_errors(data, data, numbered(data, ["a", "b"]))[0]
    # a and b correlate by 1, each with c by 1/sqrt(5): largest eigenvalue of that matrix.
    matrix = np.array([[1, 1, 5**-0.5], [1, 1, 5**-0.5], [5**-0.5, 5**-0.5, 1]])
    assert first.real_variance == pytest.approx(np.linalg.eigvalsh(matrix)[-1] / 3)
    assert first.synthetic_variance == pytest.approx(first.real_variance)
    assert first.distance == 0
    assert {each["column"] for each in first.columns[:2]} == {"a", "b"}


def test_a_lost_correlation_shows_in_the_variance_along_the_component():
    real = dataset([0, 1] * 50, [0, 1] * 50)
    drawn = dataset([0, 1] * 50, [0, 0, 1, 1] * 25)
    first = component_errors(real, drawn, numbered(real))[0]
    assert (first.real_variance, first.synthetic_variance) == (pytest.approx(1), pytest.approx(0.5))
    assert first.distance == pytest.approx(0.25)
    assert (
        component_errors(
            dataset([0] * 4, sizes=(1,)),
            dataset([0], sizes=(1,)),
            numbered(dataset([0], sizes=(1,))),
        )
        == ()
    )
    assert distribution_distance(np.array([1.0]), np.array([1.0])) == 0


# -- regression by group


def test_lines_by_group_are_least_squares_lines():
    real = dataset([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [0, 1, 2, 2, 1, 0])
    drawn = dataset([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [0, 1, 2, 1, 1, 1], sizes=(2, 3, 3))
    lines = group_regression(real, drawn, numbered(real), outcome="c", predictor="b", by=("a",))
    whole, first, second = lines
    assert (whole.group, whole.real.slope, whole.real.records) == ((), pytest.approx(0), 6)
    assert (first.real.slope, first.real.intercept) == (pytest.approx(1), pytest.approx(0))
    assert (second.real.slope, second.synthetic.slope) == (pytest.approx(-1), pytest.approx(0))
    assert slope_errors(lines)[1,] == pytest.approx(1)
    with pytest.raises(ValueError, match="different columns"):
        group_regression(real, drawn, numbered(real), outcome="c", predictor="c")
    with pytest.raises(ValueError, match="no order"):
        group_regression(real, drawn, numbered(real, ["b"]), outcome="c", predictor="b")


# -- matches


def test_unique_exact_matches_by_hand():
    real = dataset([0, 0, 1, 2], [1, 1, 0, 1])  # (0, 1) twice; (1, 0) and (2, 1) once
    drawn = dataset([1, 1, 0, 2], [0, 0, 1, 0])
    assert unique_exact_matches(real, drawn) == 0.5
    assert unique_exact_matches(dataset([0, 0]), dataset([0, 1])) == 0


def test_apparent_matches_agree_in_quasi_identifiers_and_are_unique_by_them():
    # By (a, b): real (0, 0) and (1, 1) are unique, (2, 0) is not.
    real = dataset([0, 1, 2, 2], [0, 1, 0, 0], [0, 1, 2, 1], [0, 0, 0, 1], sizes=(4, 2, 3, 2))
    # Synthetic (0, 0) and (2, 0) are unique, (1, 1) is not.
    drawn = dataset([0, 1, 1, 2], [0, 1, 1, 0], [0, 1, 1, 2], [1, 0, 0, 0], sizes=(4, 2, 3, 2))
    found = apparent_matches(real, drawn, ("a", "b"))
    assert (found.matches, found.share) == (1, 0.25)
    assert found.mean_agreement == 50  # c agrees, d does not
    assert found.agreement == (0, 0, 0, 0, 0, 1, 0, 0, 0, 0)
    assert apparent_matches(real, real, ("a", "b")).agreement[9] == 2
    with pytest.raises(ValueError, match="at least one"):
        apparent_matches(real, drawn, ())


# -- consistency


def test_contradictions_and_new_pairs_are_shares_of_records():
    real = dataset([0, 0, 1], [0, 1, 1])
    drawn = dataset([0, 1, 1, 1], [0, 0, 0, 1])  # (1, 0) is new, twice
    rule = Rule(("a", "b"), ((1,), (0,)), "a: 1, b: 0")
    assert consistency(real, drawn, StructuralZeros((rule,))) == (0.5, 0.5)
    assert consistency(dataset([0]), dataset([0]), StructuralZeros()) == (0, 0)


# -- subgroups


# -- all together


def test_a_copy_has_the_best_scores_and_another_population_worse_ones():
    real = random_file(3_000, 1)
    flat = dataset(*(np.random.default_rng(1).integers(0, size, 3_000) for size in (5, 4, 3, 2)))
    asked = ScoredColumns(quasi=("a", "b"), by=("d",), groups=("d",))
    copy, other = (
        file_scores(real, data, numbered(real), asked=asked).headline for data in (real, flat)
    )
    assert copy["k_marginal"] == copy["k_marginal_3"] == 1000
    assert copy["unique_matched"] in (0, 1)
    for name in ("worst_density", "propensity", "pearson", "kendall", "components", "slope"):
        assert copy[name] == pytest.approx(0, abs=1e-12)
        assert other[name] > 0.01
    assert copy["contradictions"] == copy["new_pairs"] == 0


def test_the_cost_is_bounded_by_a_sample_of_the_records():
    real = random_file(MOST_RECORDS + 5_000, 1, sizes=(4, 3))
    found = file_scores(real, real, numbered(real))
    assert found.records == {"real": MOST_RECORDS, "synthetic": MOST_RECORDS}
    assert file_scores(real, real, numbered(real)).to_json() == found.to_json()


def test_one_column_has_scores_too_and_an_empty_file_none():
    real = dataset([0, 1, 1], sizes=(2,))
    found = file_scores(real, dataset([1, 1], sizes=(2,)), numbered(real))
    assert found.headline["k_marginal"] is None
    assert found.headline["worst_density"] == pytest.approx(2 / 3)
    assert found.regression is found.apparent_matches is None
    with pytest.raises(ValueError, match="both files"):
        file_scores(real, Dataset(real.domain, np.empty((1, 0), np.uint16)), numbered(real))


def test_a_random_sample_takes_each_record_once_in_its_order():
    data = dataset(np.arange(50))
    rng = np.random.default_rng(1)

    found = random_records(data, 20, rng).codes[0]
    assert found.size == 20
    assert (np.diff(found.astype(int)) > 0).all()
    assert random_records(data, 50, rng) is data


def test_what_is_asked_without_a_word_follows_a_public_rule():
    domain = Domain(tuple("abcde"), (50, 3, 2, 13, 12))
    found = default_columns(domain)
    assert (found.quasi, found.by, found.groups) == (tuple("abcd"), tuple("bce"), ("b",))


def test_means_leave_out_what_a_set_does_not_have():
    real = random_file(500, 1)
    scores = [file_scores(real, random_file(500, seed), numbered(real)) for seed in (2, 3)]
    found = mean_headline(scores)
    values = [one.headline["propensity"] for one in scores]
    assert found["propensity"] == pytest.approx(sum(values) / 2)
    assert mean_headline([]) == {}


def test_scores_of_samples_are_those_of_each_sample_by_itself():
    real = random_file(500, 5)
    order = np.random.default_rng(20_261_123).permutation(500)
    for share, score in sample_scores(real).items():
        alone = records_at(real, np.sort(order[: round(share * 500)]))
        assert score == k_marginal_score(average_tvd(real, alone, 2).mean)


def test_errors_by_level_are_those_of_each_level_by_itself():
    real, drawn = random_file(400, 6), random_file(300, 7)
    noise = {frozenset("ab"): 0.02, frozenset("ac"): 0.3}
    found = subgroup_equity(real, drawn, "a", noise=noise)
    for level in found.levels:
        errors, expected = [], []
        own = int((drawn.column("a") == level.code).sum())
        for name, size in zip("bcd", real.domain.sizes[1:], strict=True):
            true, other = (
                np.bincount(data.column(name)[data.column("a") == level.code], minlength=size)
                for data in (real, drawn)
            )
            shares = true / true.sum()
            drawing = np.sqrt(2 * shares * (1 - shares) / (math.pi * own)).sum() / 2
            part = noise.get(frozenset(("a", name)), 0.0) * 400 / 5 / true.sum()
            errors.append(tvd(true, other))
            expected.append(min(1.0, math.hypot(drawing, part)))
        assert level.error == np.mean(errors)
        assert level.expected == pytest.approx(np.mean(expected), rel=1e-12)
    assert found.noise
    assert found.worst.error == max(level.error for level in found.levels)
    assert found.spread == found.worst.error / min(level.error for level in found.compared)
    equal = subgroup_equity(real, real, "a")
    assert (equal.spread, equal.noise) == (None, False)  # the best level has no error
