"""`dp-release infer`: right numbers, the report's code beside them, a sentence for a mistake."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import dp_core as dp
from dp_core.inference.combine import combine
from dp_core.inference.combining_rules import OFF
from tests.dp_core.bundle.conftest import NASTY, make_published, write
from tests.flows.cli.test_cli import assert_refused

MODES = ("shared", "split", "posterior")


def build(folder, *, change=lambda data: data, tables=None, **options):
    """Write a bundle of public values; `change` works on its sets, `tables` picks cliques."""
    usual = {"sets": 3, "rows": 400, "planned_rows": 400, "records": 400.0}
    published, data = make_published(**(usual | options))
    if tables is not None:
        measured = tuple(item for item in published.released if item.clique in tables)
        published = dataclasses.replace(published, released=measured)
    return write(folder / "bundle", published, change(data), folder / "scratch")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """One bundle of each mode, and a small one, each made when it is first asked for."""
    made = {}
    kinds = {mode: {"mode": mode} for mode in MODES}
    kinds["single"] = {"sets": 1}
    kinds["other size"] = {"mode": "split", "rows": 300, "planned_rows": 300, "records": 1003.25}

    def get(kind):
        if kind not in made:
            made[kind] = build(tmp_path_factory.mktemp("infer"), **kinds[kind])
        return made[kind]

    return get


@pytest.fixture
def sentence(command):
    """Return a function that runs a command which must be refused, and what it said."""

    def run(*words):
        answer = command(*words)
        assert_refused(answer, 2)
        return answer.err

    return run


FORMULA = "height ~ C(sex, Treatment('male'))"


def by_hand(folder, sets=3):
    """Fit `FORMULA` on each set without any of the program."""
    fits = []
    for number in range(1, sets + 1):
        data = pq.read_table(folder / f"synthetic/set-{number}.parquet").to_pandas()
        data = data[data["sex"].notna()]
        sex = data["sex"].astype(str)
        x = np.column_stack([np.ones(len(data)), sex == "female", sex == NASTY]).astype(float)
        y = data["height"].to_numpy()
        q = np.linalg.solve(x.T @ x, x.T @ y)
        s2 = ((y - x @ q) ** 2).sum() / (len(y) - 3)
        fits.append((q, s2 * np.linalg.inv(x.T @ x), len(y) - 3))
    return fits


# -- numbers


@pytest.mark.parametrize("mode", MODES)
def test_the_numbers_are_those_of_the_release_s_own_rule(bundles, command, mode):
    """Besides the rule, intervals have the errors of bins and, in mode posterior, of the prior."""
    answer = command("infer", bundles(mode), FORMULA, "--json").json
    fits = by_hand(bundles(mode))
    complete = min(df for *_, df in fits)
    wanted = combine([q for q, *_ in fits], [u for _, u, _ in fits], mode, complete_df=complete)
    rows = answer["coefficients"]

    assert [row["name"].split("))", 1)[-1] for row in rows] == [
        *("Intercept", "[T.female]", f"[T.{NASTY}]")
    ]
    for place, row in enumerate(rows):
        alone = [(each["estimate"], each["std_error"]) for each in row["by_set"]]
        hand = [(q[place], u[place, place] ** 0.5) for q, u, _ in fits]
        np.testing.assert_allclose(alone, hand, rtol=1e-7)
        np.testing.assert_allclose(row["one_set"]["estimate"], hand[0][0], rtol=1e-7)
        assert row["within"] == pytest.approx(wanted.within[place, place])
        variance = row["added"] + row["within"] + row["between"] / 3
        if mode == "posterior":  # whose noise is known
            variance = row["added"] + row["within"] * 4 / 3
        assert (
            row["std_error"] ** 2 == pytest.approx(variance) == answer["covariance"][place][place]
        )
        assert variance >= wanted.within[place, place] * (1 - 1e-9)
        assert row["low"] < row["estimate"] < row["high"]
    assert answer["rule"]["name"] == mode
    assert answer["all_terms"]["numerator_df"] == 2


def test_what_was_not_measured_is_not_given(bundles, command):
    for mode in MODES:
        answer = command("infer", bundles(mode), "height ~ sex + age", "--json").json
        assert "age" not in [row["name"] for row in answer["coefficients"]]
        (missing,) = (each for each in answer["not_given"] if "age" in each["coefficients"])
        assert "height with age" in missing["reason"]
        assert len(answer["covariance"]) == len(answer["coefficients"])


# -- words


def test_people_get_a_table_the_rule_and_what_to_beware_of(bundles, command):
    text = command("infer", bundles("shared"), "height ~ sex + age").out
    words = " ".join(text.split())

    assert "height ~ sex + age (linear: the mean of height)" in words
    assert "coefficient estimate std. error t df p 95 % interval set 1 alone (naive)" in words
    assert f"sex[T.{NASTY}]" in text
    assert "Rule shared: all sets come from one noisy measurement" in words
    assert "T = W + B/m" in words
    assert "All these terms together: F = " in words
    assert re.search(r"Sets +3 of [\d,]+ to [\d,]+ rows", text)
    # Why the intervals are not valid comes before everything else, and is said once.
    assert words.startswith("Not valid These intervals are too narrow")
    assert words.count("These intervals are too narrow") == 1
    assert "Not given age: this needs a noisy table of height with age" in words
    assert "Reference levels (the most frequent): sex 'male'" in words


@pytest.mark.parametrize(
    ("select", "origin"), [("dualquery", "chosen"), ("pegs", "drawn"), ("sbhg", "cut")]
)
def test_what_no_model_gave_has_no_valid_interval(tmp_path, command, select, origin):
    folder = build(tmp_path, mode="split", select=select)
    answer = command("infer", folder, "age ~ sex", "--json").json
    assert answer["rule"]["invalid_because"] is not None
    assert answer["rule"]["covers"] == f"Nothing: {OFF[origin]}"
    assert answer["warnings"][0] == f"No interval from these sets is valid: {OFF[origin]}"


def test_one_set_has_a_naive_interval_only(bundles, command, sentence):
    said = sentence("infer", bundles("single"), "height ~ age")
    assert "one set" in said
    assert "--naive" in said
    answer = command("infer", bundles("single"), "height ~ age", "--naive", "--json").json
    assert "estimate" not in answer["coefficients"][0]
    assert answer["coefficients"][0]["one_set"]["std_error"] > 0
    assert answer["rule"]["invalid_because"] is not None
    out = command("infer", bundles("single"), "height ~ age", "--naive").out
    assert "naive 95 % interval" in out
    assert "is too narrow" in " ".join(out.split())


# -- bad input


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["height ~ agee"], "has no column 'agee'. Did you mean 'age'?"),
        (["height", "~", "age"], "put it in quotes"),
        ([], "Missing argument 'FORMULA"),
        (["height ~ age + I(2 * age)"], "The design is collinear: I(2 * age)"),
        (["height ~ age", "--family", "logit"], "--family logistic needs a category"),
        (["height ~ age", "--family", "poison"], "Did you mean 'poisson'?"),
        (["height ~ age", "--family", "poisson"], "--family poisson"),
        (["height ~ age", "--level", "95"], "--level"),
        (["height ~ age", "--level", "0"], "--level must be above 0"),
        (["height ~ age", "--level", "95%"], "'95%'"),
        (["age > 200 ~ height"], "age > 200"),
        (["height ~ np.savetxt('leak.csv', age)"], "no function 'np.savetxt'"),
    ],
)
def test_a_mistake_is_one_sentence(bundles, sentence, words, said):
    assert said in sentence("infer", bundles("split"), *words)


# -- the command


def measured_as(*items):
    """A bundle of which only what was measured matters."""
    from types import SimpleNamespace

    from benchmarks.trial import codes_schema
    from dp_core.bundle.reading import Bundle
    from dp_core.kernel.counting.domain import Domain
    from dp_core.schema.structure.structural_zeros import StructuralZeros

    schema = codes_schema(Domain(("pay", "age", "sex"), (9, 9, 2)), StructuralZeros())
    claims = SimpleNamespace(schema=schema)
    return Bundle(Path(), claims, "split", 1000.0, items)  # type: ignore[arg-type]


def sum_of(kind, **about):
    from dp_core.client.released import Totals

    of = kind(**about)
    values = np.zeros(of.length, dtype=np.int64)
    return Totals(of=of, values=values, noise="laplace", scale=1.0, stage="m", replicate=0, grant=1)


def test_relations_that_only_sums_hold_are_told_as_such():
    from dp_core.analysis.regression.interval_warnings import lost_relations, relation_warnings
    from dp_core.inference.formulas.formula import read_formula
    from dp_core.kernel.questions.linear_questions import BinnedCounts, MiddleProducts

    formula = read_formula("pay ~ age", ("pay", "age", "sex"))
    product = sum_of(MiddleProducts, by=(), sizes=(), columns=("pay", "age"), positions=(9, 9))
    binned = sum_of(BinnedCounts, columns=("pay", "age"), sizes=(9, 9), edges=(None, (0, 9)))

    (said,) = relation_warnings(measured_as(), formula)
    assert "no noisy table" in said
    (said,) = relation_warnings(measured_as(product), formula)
    assert "noisy sums" in said
    assert list(relation_warnings(measured_as(binned), formula)) == []
    both = read_formula("pay ~ age + sex", ("pay", "age", "sex"))
    (some,) = relation_warnings(measured_as(product), both)
    assert lost_relations(measured_as(product), both) == (("pay", "sex"), ("age", "sex"))
    assert lost_relations(measured_as(product), formula) == ()
    assert "noisy sums" in some


def test_few_degrees_of_freedom_are_warned_of_wherever_the_answer_is_read(bundles, command):
    answer = command("infer", bundles("split"), "height ~ sex + age", "--json").json
    few = [
        row["combined"]["degrees_of_freedom"] if "combined" in row else row["degrees_of_freedom"]
        for row in answer["coefficients"]
    ]
    few = [df is not None and df < 5 for df in few]
    assert [("few-sets" in row["concerns"]) for row in answer["coefficients"]] == few
    said = [text for text in answer["warnings"] if "degrees of freedom" in text]
    assert len(said) == any(few)
    found = dp.read_bundle(bundles("split")).infer("height ~ sex + age")
    assert [text for text in found.warnings if "degrees of freedom" in text] == said
    assert ["few-sets" in text for text in found.frame["concerns"]] == few
    words = command("infer", bundles("split"), "height ~ sex + age").out
    assert ("Fewer than 5 degrees" in words) is any(few)
