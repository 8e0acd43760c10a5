"""Answers from declared statistics: exact without noise, and within their intervals with it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dp_core as dp
from dp_core.errors import BadInput
from dp_core.kernel.mechanisms import additive_noise

INDUSTRIES = [f"i{place}" for place in range(6)]
SCHEMA = {
    "version": 1,
    "title": "Firms",
    "rows_about": 6000,
    "columns": {
        "industry": {"type": "category", "levels": INDUSTRIES},
        "staff": {"type": "integer", "min": 0, "max": 9999, "edges": [0, 5, 50, 10000]},
        "turnover": {
            "type": "integer",
            "min": 0,
            "max": 1_000_000_000,
            "edges": [0, 10_000, 1_000_000, 50_000_000, 1_000_000_001],
            "missing": "level",
        },
        "profit": {
            "type": "number",
            "min": -1_000_000,
            "max": 9_000_000,
            "bins": 4,
            "decimals": 2,
        },
        "year": {"type": "integer", "min": 1900, "max": 2020, "bins": 4},
    },
}
MORE = [
    "mean of turnover by industry, staff",
    "median of turnover by industry",
    "quantile 0.9 of turnover by staff",
    "total of profit by industry",
    "mean of year by industry",
    "median of profit",
]


def firms(rows, seed, spread=1.5):
    rng = np.random.default_rng(seed)
    place = rng.integers(0, len(INDUSTRIES), rows)
    log = 10 + 0.3 * place + spread * rng.standard_normal(rows)
    turnover = np.clip(np.exp(log), 0, 10**9).astype(np.int64)
    found = pd.DataFrame(
        {
            "industry": np.array(INDUSTRIES)[place],
            "staff": np.clip(turnover // 20_000, 0, 9999),
            "turnover": turnover.astype(float),
            "profit": np.round(np.clip(0.2 * (turnover - 30_000), -1e6, 9e6), 2),
            "year": np.clip(2020 - rng.exponential(15, rows), 1900, 2020).astype(int),
        }
    )
    found.loc[rng.random(rows) < 0.05, "turnover"] = np.nan
    return found


FIRMS = firms(6000, 1)


@pytest.fixture(scope="module")
def exact():
    """A release without noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additive_noise, "add", lambda values, _grant: values.copy())
        return dp.release(
            FIRMS,
            SCHEMA,
            epsilon=1000,
            delta=1e-6,
            sets=0,
            analyses=MORE,
        )


def numbers(answer):
    """Return estimates, ends and group labels."""
    frame = answer.frame
    return frame, [frame[name].to_numpy(dtype=float) for name in ("estimate", "low", "high")]


@pytest.mark.parametrize(
    ("question", "of", "measure"),
    [
        ("mean of turnover by industry", "turnover", "mean"),
        ("total of turnover by industry", "turnover", "sum"),
        ("total of profit by industry", "profit", "sum"),
        ("mean of profit by industry", "profit", "mean"),
        ("mean of year by industry", "year", "mean"),
        ("total of year by industry", "year", "sum"),
        ("median of turnover by industry", "turnover", "median"),
    ],
)
def test_without_noise_the_file_s_own_statistic_is_found(exact, question, of, measure):
    answer = exact.query(question)
    assert answer.answered_from == answer.to_json()["answered_from"] == "declared"
    frame, (values, lows, highs) = numbers(answer)
    wanted = FIRMS.groupby("industry")[of].agg(measure)
    # The estimate of what is beyond the limits adds up to a hundredth; ranges are wider.
    off = 0.05 if measure == "median" else 0.01
    assert frame["industry"].tolist() == wanted.index.tolist()
    assert np.allclose(values, wanted, rtol=off)
    assert (lows <= wanted * (1 + 0.002)).all()
    assert (highs >= wanted * (1 - 0.002)).all()


def test_fewer_groups_and_conditions_on_groups_are_answered_from_the_same_sums(exact):
    whole = exact.query("total of turnover")
    assert whole.answered_from == "declared"
    assert whole.frame["estimate"][0] == pytest.approx(FIRMS["turnover"].sum(), rel=0.01)
    some = exact.query("mean of turnover by staff where industry in (i1, i3)")
    assert some.answered_from == "declared"
    own = FIRMS[FIRMS["industry"].isin(["i1", "i3"])]
    wanted = own.groupby(pd.cut(own["staff"], [-1, 4, 49, 9999]), observed=True)["turnover"].mean()
    assert np.allclose(some.frame["estimate"].to_numpy(dtype=float), wanted, rtol=0.01)
    at = exact.query("quantile 0.75 of turnover by staff")
    assert at.answered_from == "declared"


@pytest.mark.parametrize(
    "question",
    [
        "mean of turnover by industry where profit > 1500000",
        "mean of turnover by year",
        "mean of staff by industry",
        "share of industry = i1",
        "difference in mean of turnover between industry = i1 and industry = i2",
    ],
)
def test_another_question_is_answered_from_the_tables(exact, question):
    answer = exact.query(question)
    assert answer.answered_from is None
    assert "answered_from" not in answer.to_json()


def test_the_note_says_what_the_answer_is_from_and_what_it_cannot_show(exact):
    first, second, tables = exact.query("mean of turnover by industry").notes
    assert "declared mean of turnover by industry, staff" in first
    assert "cannot reveal" in second
    assert "combined with the answer from the tables" in tables
    first, _ = exact.query("median of turnover by industry").notes
    assert "declared quantiles of turnover by industry" in first


@pytest.fixture(scope="module")
def ordinary():
    """Answers of releases of files from one population, with the files' own numbers."""
    found = []
    for seed in range(24):
        own = firms(4000, 100 + seed)
        made = dp.release(
            own,
            SCHEMA,
            epsilon=2,
            delta=1e-6,
            sets=0,
            analyses=["mean of turnover by industry", "median of turnover by industry"],
        )
        found.append((own, made))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "measure"),
    [
        ("mean of turnover by industry", "mean"),
        ("total of turnover by industry", "sum"),
        ("median of turnover by industry", "median"),
        ("quantile 0.9 of turnover by industry", "q"),
    ],
)
def test_intervals_contain_the_file_s_statistic(ordinary, question, measure):
    inside = []
    for own, made in ordinary:
        _, (_, lows, highs) = numbers(made.query(question))
        groups = own.groupby("industry")["turnover"]
        wanted = groups.quantile(0.9) if measure == "q" else groups.agg(measure)
        inside += [*((lows <= wanted) & (wanted <= highs))]
    # With a coverage of .9, fewer are inside with a probability below 1e-6.
    assert sum(inside) >= stats.binom.ppf(1e-6, len(inside), 0.9)


@pytest.mark.slow
def test_intervals_are_narrower_than_those_from_bins(ordinary):
    for own, made in ordinary[:3]:
        plain = dp.release(own, SCHEMA, epsilon=2, delta=1e-6, sets=0)
        for question in ("mean of turnover by industry", "median of turnover by industry"):
            widths = []
            for each in (made, plain):
                _, (_, lows, highs) = numbers(each.query(question))
                widths.append(np.median(highs - lows))
            assert widths[0] < widths[1] / 2, question


def test_sampling_errors_are_answered_from_the_tables_and_a_note_says_so(exact):
    answer = exact.query("mean of turnover by industry", sampling=True)
    assert answer.answered_from is None
    assert "although statistics of turnover were declared" in answer.notes[-1]
    assert "--sampling" in answer.notes[-1]


def test_the_interval_of_a_mean_is_within_the_range_of_the_column(ordinary):
    for _, made in ordinary[:6]:
        frame = made.query("mean of turnover by industry").frame
        known = frame[np.isfinite(frame["low"])]
        assert (known["low"] >= 0).all()
        assert (known["estimate"] >= known["low"]).all()


def test_a_formula_and_a_statistic_of_one_column_are_both_answered():
    made = dp.release(
        FIRMS,
        SCHEMA,
        epsilon=20,
        sets=2,
        analyses=["year ~ staff", "mean of year by industry", "total of year by industry"],
    )
    assert made.query("mean of year by industry").answered_from == "declared"
    assert made.infer("year ~ staff").answered_from == "declared"


@pytest.mark.parametrize("method", ["fixed", "aim", "mst", "privsyn", "independent", "privbayes"])
def test_methods_that_measure_tables_measure_statistics(method):
    stages = {"select": {"cliques": [["industry", "staff"]]}} if method == "fixed" else None
    made = dp.release(
        FIRMS[["industry", "turnover"]].assign(staff=FIRMS["staff"]),
        {**SCHEMA, "columns": {n: SCHEMA["columns"][n] for n in ("industry", "turnover", "staff")}},
        method=method,
        analyses=["mean of turnover by industry"],
        stages=stages,
        neighbours="replace-one",
        sets=1,
    )
    assert made.query("mean of turnover by industry").answered_from == "declared"


def test_a_method_without_tables_is_refused():
    with pytest.raises(BadInput, match="measures no tables"):
        dp.release(FIRMS, SCHEMA, method="dpcopula", analyses=["mean of year by industry"])


def test_a_change_between_releases_says_that_statistics_were_declared(ordinary):
    (_, first), (_, second) = ordinary[:2]
    answer = second.query("mean of turnover by industry", since=first)
    assert "changes between releases are answered from the tables" in answer.notes[-1]
