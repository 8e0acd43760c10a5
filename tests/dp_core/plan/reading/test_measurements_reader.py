"""The key `measurements`: what was measured is read back exactly, for every method."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from dp_core.errors import BadInput
from dp_core.kernel.canonical import digest
from dp_core.kernel.ledger.receipts import START, make_receipt
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.plan import make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading.measurements_reader import MEASURING
from dp_core.plan.reading.spec_file import load_spec
from tests.specs import FIXED, SCHEMA, plan_of, write_spec

OPTIONS = {
    "fixed": FIXED,
    "cipher": "",
    "sbhg": "",
}
TABLES = [
    name
    for name, preset in PRESETS.items()
    if preset.select and preset.select not in ("dualquery", "pegs")
]
PRIVACY = {"fdh": "{epsilon: 1}", "cipher": "{epsilon: 1}", "mwem": "{epsilon: 1}"}


def earlier(plan):
    """Return a release with a plan, as the ledger would have it."""
    end = make_receipt(
        number=1, kind="settle", account="town", release="first", at="2026-01-01", body={},
        previous=START,
    )  # fmt: skip
    document = json.loads(json.dumps(plan.document()))
    return EarlierRelease("first", "town", document, (end,))


def reused(folder, plan, text="", **lines):
    """Return the spec of a release that uses the tables of a plan."""
    stated = {"release": "second", "schema": "schema.yaml", "account": "town", **lines}
    path = folder / "second.yaml"
    body = "".join(f"{key}: {value}\n" for key, value in stated.items())
    path.write_text(f"version: 1\nmeasurements: first\n{body}{text}")
    return load_spec(path, find=lambda _name: earlier(plan))


@pytest.mark.parametrize("method", TABLES)
def test_what_was_measured_is_read_back_exactly(tmp_path, method):
    privacy = "{epsilon: 1, delta: 1e-9}"
    schema = SCHEMA.replace("levels: [r, s, t]", "levels: [r, s]").replace("[k, l, m, n]", "[k, l]")
    plan = plan_of(tmp_path, OPTIONS.get(method, ""), method=method, privacy=privacy, schema=schema)

    spec = reused(tmp_path, plan)

    before = plan.spec.document
    for key in ("schema", *MEASURING):
        assert spec.document.get(key) == before.get(key), key
    assert spec.selector == plan.spec.selector
    assert spec.shares == plan.spec.shares
    made = make_plan(spec)
    assert made.promise == (0, 0)
    assert made.currency.limit == 0
    assert sum(made.costs.values(), Fraction(0)) == 0
    assert made.tables == plan.tables
    assert made.fixed_beforehand == plan.fixed_beforehand
    assert made.hash != plan.hash


@pytest.mark.parametrize("sets", [0, 1])
@pytest.mark.parametrize("method", ["auto", "fixed"])
def test_wanted_tables_are_read_back_exactly(tmp_path, method, sets):
    text = "tables:\n  - {of: [a, b], weight: 3}\n  - {of: [b, c]}\n"
    text += f"synthesize: {{sets: {sets}}}\n"
    plan = plan_of(tmp_path, text, method=method, privacy="{epsilon: 1, delta: 1e-9}")

    spec = reused(tmp_path, plan)

    for key in ("schema", *MEASURING):
        assert spec.document.get(key) == plan.spec.document.get(key), key
    assert make_plan(spec).tables == plan.tables
    with pytest.raises(BadInput, match="0 sets would"):
        reused(tmp_path, plan, "synthesize: {sets: 0}\n")


def test_the_hash_of_the_plan_covers_the_release_that_measured(tmp_path):
    plan, other = plan_of(tmp_path), plan_of(tmp_path, f"{FIXED}synthesize: {{seed: 2}}\n")

    one, two = (make_plan(reused(tmp_path, each)).hash for each in (plan, other))

    assert one != two


def test_without_a_ledger_the_key_is_refused_with_its_line(tmp_path):
    write_spec(tmp_path)
    path = tmp_path / "second.yaml"
    path.write_text(
        "version: 1\nrelease: second\nschema: schema.yaml\naccount: town\nmeasurements: first\n"
    )

    with pytest.raises(BadInput, match="line 5, measurements"):
        load_spec(path)


@pytest.mark.parametrize(
    "same",
    [
        "privacy: {epsilon: 1.000}",
        "privacy: {epsilon: 1/1, delta: 0, neighbours: add-remove}",
        "select: {method: fixed, cliques: [[a, b], [b, c]]}",
        "data: data.csv",
        "method: fixed",
        "measure: {noise: auto}",
        "one_way: {share: 0.1}",
    ],
)
def test_a_repeated_value_is_the_same_however_it_is_typed(tmp_path, same):
    assert reused(tmp_path, plan_of(tmp_path), f"{same}\n").measurements is not None


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ("privacy: {epsilon: 1.001}", "privacy.epsilon"),
        ("privacy: {delta: 1e-9}", "privacy.delta"),
        ("privacy: 1", "privacy"),
        ("select: {cliques: [[a, b]]}", "select.cliques"),
        ("select: {cliques: [[a, b], [c, b]]}", "select.cliques"),
        ("select: {method: densemarg}", "select.method"),
        ("select: {clique: [[a, b]]}", "'cliques'"),
        ("data: {database: DB, table: t}", "data"),
        ("measure: {noise: laplace}", "measure.noise"),
        ("domain: {share: 0.1}", "domain"),
        ("measurement: first", "'measurements'"),
    ],
)
def test_another_value_is_refused_by_its_key(tmp_path, other, named):
    with pytest.raises(BadInput) as refused:
        reused(tmp_path, plan_of(tmp_path), f"{other}\n")

    assert named in refused.value.message
    assert "second.yaml, line" in refused.value.message


@pytest.mark.parametrize("typed", ["[first]", "{release: first}", "", "../first"])
def test_what_is_no_name_of_a_release_is_refused_in_one_place(tmp_path, typed):
    (tmp_path / "second.yaml").write_text(f"version: 1\nrelease: second\nmeasurements: {typed}\n")

    with pytest.raises(BadInput) as refused:
        load_spec(tmp_path / "second.yaml", find=lambda name: pytest.fail(name))

    assert refused.value.message.count("second.yaml, line 3, measurements") == 1


LEVELS = ", ".join(f"l{number}" for number in range(62))
ANALYSED_SCHEMA = f"""\
version: 1
title: Survey
rows_about: 1000
columns:
  age:    {{type: integer, min: 0, max: 99, edges: [0, 15, 40, 100]}}
  sex:    {{type: category, levels: {{1: male, 2: female}}}}
  state:  {{type: category, levels: [single, married, widowed], missing: level}}
  income: {{type: number, min: 0, max: 1000, bins: 4, missing: level}}
  born:   {{type: date, min: 1990-01-01, max: 2009-12-31, bins: year}}
  flag:   {{type: integer, min: 0, max: 1}}
  home town: {{type: category, levels: [s, t]}}
  grown:  {{type: ordinal, levels: [child, adult], follows: age, edges: [15]}}
  one:    {{type: category, levels: [only]}}
  fixed:  {{type: integer, min: 3, max: 3}}
  many:   {{type: category, levels: [{LEVELS}]}}
  odd:    {{type: number, min: 0, max: 1, edges: [0, 0.123456789, 1]}}
  pay:    {{type: number, min: 0, max: 500, bins: {{private: 5}}}}
  town:   {{type: category, levels: {{private: 2}}, groups: {{u: [r, s], v: [t, q]}}}}
ignore: [interview]
"""


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a spec with a text for `analyses` and more."""

    def loaded(text, method="auto"):
        (tmp_path / "s.yaml").write_text(ANALYSED_SCHEMA)
        path = tmp_path / "r.yaml"
        path.write_text(
            "version: 1\nrelease: r\ndata: d.csv\nschema: s.yaml\naccount: a\n"
            f"privacy: {{epsilon: 1, delta: 1e-6}}\nmethod: {method}\n{text}\n"
        )
        return load_spec(path)

    return loaded


@pytest.mark.parametrize(
    ("text", "outcome", "predictors"),
    [
        ('["income ~ age + sex"]', "income", ("age", "sex")),
        ("[income ~ age + sex]", "income", ("age", "sex")),
        ("income ~ sex + age", "income", ("sex", "age")),
        ("{formulas: income ~ age}", "income", ("age",)),
        ('["income~age+age"]', "income", ("age",)),
        ("[\"income ~ Q('age') + C(sex)\"]", "income", ("age", "sex")),
        ('["income ~ `age`"]', "income", ("age",)),
        ("[\"income ~ Q('home town')\"]", "income", ("Q('home town')",)),
        ('["income ~ 1"]', "income", ()),
        ('["flag ~ born"]', "flag", ("born",)),
        ('["state ~ pay"]', "state", ("pay",)),
        ("[\"np.log(income + 1) ~ C(sex, Treatment('male'))\"]", "log(income + 1)", ("sex",)),
        ('["income ~ np.square(age) + C(sex, Sum)"]', "income", ("np.square(age)", "sex")),
        ('["income ~ I(age == 40)"]', "income", ("I(age == 40)",)),
        ('["income ~ I(age**2) + age"]', "income", ("I(age ** 2)", "age")),
    ],
)
def test_a_formula_is_read_however_it_is_written(read, text, outcome, predictors):
    (found,) = read(f"analyses: {text}").analyses
    assert found.outcome.code == outcome
    assert tuple(each.code for (each,) in found.terms) == predictors
    assert found.columns == (
        *dict.fromkeys(each.column for (each,) in found.terms),
        found.outcome.column,
    )


def test_an_interaction_has_the_terms_of_its_parts(read):
    (found,) = read('analyses: ["income ~ sex * log(age + 1)"]').analyses
    codes = [":".join(each.code for each in term) for term in found.terms]
    assert codes == ["sex", "log(age + 1)", "sex:log(age + 1)"]
    assert found.columns == ("sex", "age", "income")


def test_several_formulas_keep_their_order(read):
    formulas = ["income ~ age", "sex ~ age + income", "age ~ income"]
    spec = read(f"analyses: {formulas}")
    assert [each.formula for each in spec.analyses] == formulas
    assert spec.document["analyses"]["formulas"] == formulas


# -- the budget


def test_analyses_have_three_tenths_of_the_budget_unless_another_share_is_stated(read):
    without, usual = read("").shares, read('analyses: ["income ~ age"]').shares
    assert usual["analyses"] * (1 - usual["domain"]) ** -1 == Fraction(3, 10)
    assert sum(usual.values()) == 1
    assert "analyses" not in without
    # The others keep their proportions.
    assert usual["measure"] / usual["select"] == without["measure"] / without["select"]
    stated = read('analyses: {formulas: ["income ~ age"], share: 1/7}').shares
    assert stated["analyses"] == Fraction(1, 7)
    assert sum(stated.values()) == 1


def test_the_resolved_spec_states_formulas_and_share(read):
    spec = read('analyses: {formulas: ["income ~ age + sex"], share: 0.25}')
    assert spec.document["analyses"] == {"formulas": ["income ~ age + sex"], "share": "1/4"}
    assert "analyses" not in read("").document


def test_the_plan_s_hash_covers_what_is_declared_and_not_how_it_is_written(read):
    def hashed(text):
        spec = read(text)
        plan = make_plan(spec)
        assert plan.costs.get("analyses", 0) == plan.currency.limit * spec.shares.get("analyses", 0)
        return plan.hash, digest(spec.document)

    usual = hashed('analyses: ["income ~ age + sex"]')
    assert hashed("analyses: income ~ age + sex") == usual
    share = read('analyses: ["income ~ age + sex"]').shares["analyses"]
    assert hashed(f"analyses: {{formulas: [income ~ age + sex], share: {share}}}") == usual
    others = [
        "",
        'analyses: ["income ~ age"]',
        'analyses: ["income ~ age + sex", "sex ~ age"]',
        'analyses: {formulas: ["income ~ age + sex"], share: 0.2}',
    ]
    assert usual not in map(hashed, others)
    assert len({*map(hashed, others)}) == len(others)


# -- mistakes

MISTAKES = {
    "unknown column": ('["incom ~ age"]', ["analyses[1]", "incom", "Did you mean 'income'"]),
    "ignored column": ('["income ~ interview"]', ["analyses[1]", "interview"]),
    "interaction alone": ('["income ~ sex + age:sex"]', ["analyses[1]", "age:sex without age"]),
    "function without a value": ('["income ~ log(age)"]', ["log(age) has no value", "age is 0"]),
    "of the outcome": ('["log(income) ~ age"]', ["log(income) has no value", "income is 0"]),
    "no value inside": ('["income ~ I(1/(age - 50))"]', ["analyses[1]", "no value", "is 50"]),
    "constant": ('["income ~ I(age > 99)"]', ["analyses[1]", "the same for all values"]),
    "same function": ('["income ~ age + I(age/12)"]', ["analyses[1]", "a combination of age"]),
    "nearly": ('["income ~ age + I((age + 9)**1.0001)"]', ["analyses[1]", "a combination of age"]),
    "too many turns": ('["sex ~ np.sin(income * 1000)"]', ["analyses[1]", "too often"]),
    "two numbers": ('["income ~ I(age * flag)"]', ["analyses[1]", "a function of age and flag"]),
    "learning": ('["income ~ center(age)"]', ["analyses[1]", "center, which learns"]),
    "an event": ('["age > 40 ~ sex"]', ["analyses[1]", "the event age > 40"]),
    "own levels, unnamed": (
        "[\"income ~ C(sex, Treatment, ['male'])\"]",
        ["analyses[1]", "the levels of sex"],
    ),
    "two spellings": (
        "[\"income ~ sex + age + age:C(sex, Treatment('male'))\"]",
        ["analyses[1]", "writes sex as C(sex, Treatment('male')) and as sex"],
    ),
    "a text": ("[\"income ~ I(born > '2000-01-01')\"]", ["analyses[1]", "born has numbers"]),
    "a power": ('["income ~ age**2"]', ["analyses[1]", "written I(age**2)"]),
    "a level beside its column": (
        "[\"income ~ sex + age + age:C(sex == 'male')\"]",
        ["analyses[1]", "the levels of sex"],
    ),
    "a level": ("[\"income ~ I(sex == 'male')\"]", ["analyses[1]", "the levels of sex"]),
    "no level": ("[\"income ~ C(sex, Treatment('men'))\"]", ["no level 'men'", "female, male"]),
    "number as levels": ('["income ~ C(age)"]', ["analyses[1]", "the number age as levels"]),
    "own levels": (
        "[\"income ~ C(sex, levels=['male', 'female'])\"]",
        ["analyses[1]", "the levels of sex"],
    ),
    "no intercept": ('["income ~ age - 1"]', ["analyses[1]", "no intercept"]),
    "one level": ('["income ~ one"]', ["analyses[1]", "'one'", "one level"]),
    "one value": ('["fixed ~ age"]', ["analyses[1]", "'fixed'", "one bin"]),
    "derived column": ('["income ~ grown"]', ["analyses[1]", "derived from 'age'", "use 'age'"]),
    "private levels": ('["income ~ town"]', ["analyses[1]", "'town'", "chosen privately"]),
    "twice": ('["income ~ age + sex", "income ~ sex + age"]', ["analyses[2]", "declared twice"]),
    "column twice": ("[\"income ~ age + Q('age')\"]", ["analyses[1]", "has age twice"]),
    "both sides": ('["income ~ income + age"]', ["analyses[1]", "both sides"]),
    "too many formulas": (f"{['income ~ age'] * 21}", ["21 analyses", "at most 20"]),
    "no formula": ("[]", ["analyses", "is empty"]),
    "nothing": ("", ["analyses", "has no value; write a list"]),
    "empty formula": ('[""]', ["analyses[1]", "empty"]),
    "true": ("true", ["analyses", "'true'", "neither a formula nor"]),
    "list in a list": ('[["income ~ age"]]', ["analyses[1]", "single value"]),
    "misspelt key": ('{formula: ["income ~ age"]}', ["'formula'", "Did you mean 'formulas'"]),
    "share only": ("{share: 0.3}", ["analyses", "'formulas' is missing"]),
    "no share": ('{formulas: ["income ~ age"], share: 0}', ["analyses", "no budget"]),
    "whole share": ('{formulas: ["income ~ age"], share: 1}', ["needs a share of the budget"]),
    "shares above 1": (
        '{formulas: ["income ~ age"], share: 0.5}\nmeasure: {share: 0.6}',
        ["sum to 11/10", "analyses 1/2"],
    ),
    "too many coefficients": ('["income ~ many"]', ["analyses[1]", "62 coefficients", "60"]),
    "too many classes": ('["state ~ many"]', ["analyses[1]", "124 coefficients", "60"]),
    "no grid": ('["income ~ odd"]', ["analyses", "'odd'", "65,534"]),
    "shared sets": ('["income ~ age"]\nsynthesize: {sets: 2, mode: shared}', ["mode: shared"]),
    "no sets": ('["income ~ age"]\nsynthesize: {sets: 0}', ["analyses", "has sets: 0"]),
    "one set": ('["income ~ age"]\nsynthesize: {sets: 1}', ["analyses", "has sets: 1"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_a_sentence_with_its_place(read, mistake):
    text, parts = MISTAKES[mistake]
    with pytest.raises(BadInput) as caught:
        read(f"analyses: {text}")
    message = caught.value.message
    assert message.startswith("r.yaml")
    assert len(message) < 500
    for part in parts:
        assert part in message


@pytest.mark.parametrize("method", ["modips", "mst", "aim", "dualquery", "multinomial-dirichlet"])
def test_a_method_without_posterior_sets_is_named(read, method):
    with pytest.raises(BadInput, match=rf"analyses: .*method: {method}"):
        read('analyses: ["income ~ age"]', method)
