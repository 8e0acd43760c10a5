import asyncio
import re

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dp_core.errors import BadInput
from dp_core.inference.formulas.formula import check_formula, named_columns
from dp_core.lab.comparison.formula_comparison import analyse, compare_formulas
from dp_core.lab.measures.inference_agreement import Coefficient
from dp_core.schema.reading.schema_file import load_schema

SCHEMA = """\
version: 1
title: Wages
columns:
  wage: {type: number, min: 0, max: 100, bins: 4}
  age: {type: integer, min: 0, max: 99, bins: 5}
  sex: {type: category, levels: [f, m]}
  town: {type: category, levels: [a, b, c]}
"""
X = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
Y = np.array([2.0, 4.0, 5.0, 4.0, 5.0])


@pytest.fixture
def schema(tmp_path):
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return load_schema(tmp_path / "schema.yaml")


def table(wage, age, sex="fm", town="abc"):
    rows = len(wage)

    def labels(texts):
        return pa.array([texts[row % len(texts)] for row in range(rows)])

    ages = pa.array(np.asarray(age, dtype=np.int64))
    columns = [pa.array(np.asarray(wage, float)), ages, labels(sex), labels(town)]
    return pa.table(columns, names=["wage", "age", "sex", "town"])


def test_file_and_sets_are_fitted_alike_and_the_sets_combined(schema):
    """Slope .6, intercept 2.2, s^2 .8 (by hand): variance of the slope .8/10, t(3) 3.182446."""
    sets = [table(Y, X), table(Y + X, X)]

    before, after = analyse("wage ~ age", table(Y, X), sets, schema, "split")

    slope = before[1]
    assert slope.name == "age"
    assert slope.estimate == pytest.approx(0.6, rel=1e-12)
    assert slope.high - slope.estimate == pytest.approx(3.182446 * 0.08**0.5, rel=1e-6)
    # Slopes .6 and 1.6: B = .5, W = .08 with 3 degrees of freedom, T = .25 + .08.
    df = 0.33**2 / (0.08**2 / 3 + 0.25**2)
    assert after[1].estimate == pytest.approx(1.1, rel=1e-12)
    assert after[1].width == pytest.approx(2 * stats.t.ppf(0.975, df) * 0.33**0.5, rel=1e-9)
    assert after[0].name == "Intercept"


def test_a_set_of_twice_the_records_counts_for_those_of_the_file(schema):
    twice = table(np.tile(Y, 2), np.tile(X, 2))

    _, small = analyse("wage ~ age", table(Y, X), [twice, twice], schema, "split")
    _, same = analyse("wage ~ age", twice, [twice, twice], schema, "split")

    # W is twice as large, and has 3 degrees of freedom instead of 8.
    quantiles = stats.t.ppf(0.975, 3) / stats.t.ppf(0.975, 8)
    assert small[1].width == pytest.approx(same[1].width * 2**0.5 * quantiles, rel=1e-12)


def test_a_level_that_no_set_has_is_lost(schema):
    rng = np.random.default_rng(1)
    real = table(rng.normal(50, 9, 30), rng.integers(20, 60, 30))

    def made(town):
        return [table(rng.normal(50, 9, 30), rng.integers(20, 60, 30), town=town) for _ in "12"]

    (lost,) = compare_formulas(real, made("ab"), ["wage ~ town"], schema, "split", analyse=analyse)
    (none,) = compare_formulas(real, made("bc"), ["wage ~ town"], schema, "split", analyse=analyse)

    assert [pair.name for pair in lost.pairs] == ["Intercept", "town[T.b]"]
    assert lost.lost == ("town[T.c]",)
    # Both are compared with the most frequent level of the sets.
    assert none.lost == ("town[T.a]",)
    assert none.problem == ""


def test_a_problem_of_the_file_speaks_of_the_file_and_one_of_a_set_of_the_set(schema):
    exact = table(2 * np.arange(6), np.arange(6))
    fine = table([1, 5, 2, 8, 3, 1], np.arange(6))

    with pytest.raises(BadInput, match="the file"):
        analyse("wage ~ age", exact, [fine], schema, "shared")
    with pytest.raises(BadInput, match="set 2"):
        analyse("wage ~ age", fine, [fine, exact], schema, "split")


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("wage", "'~'"),
        ("wage ~ heigth", "heigth"),
        ("wage ~ center(age)", "learns from the rows"),
        ("wage ~ bs(age, df=4)", "learns from the rows"),
    ],
)
def test_a_formula_that_cannot_be_compared_is_one_sentence(schema, formula, said):
    with pytest.raises(BadInput, match=re.escape(said)):
        check_formula(formula, schema)


def test_the_columns_of_formulas_are_those_they_name(schema):
    assert named_columns(schema, ["wage ~ I(age**2)", "sex ~ wage"]) == ["wage", "age", "sex"]
    assert named_columns(schema, ["town ~ ."]) == ["wage", "age", "sex", "town"]


def test_what_cannot_be_fitted_is_told_and_stops_nothing(schema):
    def gives_up(formula, *_):
        if formula == "a":
            raise ZeroDivisionError("42 is a value of the file")
        if formula == "b":
            raise BadInput("There is no column b.")
        return [Coefficient("x", 1, 0, 2)], [Coefficient("x", 1, 0, 2)]

    found = compare_formulas(
        table(Y, X), [table(Y, X)], ["a", "b", "c"], schema, "shared", analyse=gives_up
    )

    assert [one.problem for one in found] == [
        "The fit stopped with ZeroDivisionError.",
        "There is no column b.",
        "",
    ]
    assert found[2].pairs


def test_an_exit_out_of_a_fit_ends_its_formula_alone_and_the_keyboard_everything(schema):
    def leaves(formula, *_):
        raise {
            "a": SystemExit(7),
            "b": GeneratorExit(),
            "c": KeyboardInterrupt(),
            "d": asyncio.CancelledError(),  # as a runner cancels
        }[formula]

    def run(formulas):
        return compare_formulas(table(Y, X), [], formulas, schema, "shared", analyse=leaves)

    assert [one.problem for one in run(["a", "b"])] == [
        "The fit stopped with SystemExit.",
        "The fit stopped with GeneratorExit.",
    ]
    with pytest.raises(KeyboardInterrupt):
        run(["a", "c"])
    with pytest.raises(asyncio.CancelledError):
        run(["a", "d"])
