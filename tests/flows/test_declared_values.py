"""Declared analyses without noise: what is counted does not change, and what is answered is exact.

The releases are of one file, whose noise is switched off. So tables can be compared with those of a
release without analyses, and coefficients with those of the file.
"""

import csv
import datetime
import io
import json
from fractions import Fraction

import numpy as np
import pytest

from dp_core.analysis.regression import declared_estimates, regression_inference
from dp_core.analysis.regression.frames import levels_of
from dp_core.analysis.regression.regression_inference import infer
from dp_core.bundle.reading import read_bundle
from dp_core.kernel.cost.composition import Terms
from dp_core.kernel.mechanisms import additive_noise
from tests.flows.conftest import Project
from tests.full import at_full_size, some
from tests.plain_judge import PlainJudge, users

pytestmark = pytest.mark.slow

ROWS = 3000
SCHEMA = """\
version: 1
title: Town
unit: row
rows_about: 3000
missing_values: ["", "NA"]
columns:
  age:     {type: integer, min: 0, max: 99, edges: [0, 15, 30, 45, 60, 75, 100], out_of_range: clip}
  income:  {type: number, min: 0, max: 1000, bins: 10, decimals: 2, missing: level}
  far:     {type: number, min: 1000000, max: 1000200, bins: 8, decimals: 1}
  moved:   {type: date, min: 1990-01-01, max: 2009-12-31, bins: year, missing: level}
  sex:     {type: category, levels: {1: male, 2: female}}
  state:   {type: category, levels: [single, married, widowed], missing: level}
  region:  {type: category, levels: [r1, r2, r3, r4, r5, r6, r7, r8]}
  works:   {type: category, levels: ["yes", "no"]}
  flag:    {type: integer, min: 0, max: 1}
  grown:   {type: ordinal, levels: [child, adult], follows: age, edges: [15]}
impossible:
  - {age: "<15", state: [married, widowed]}
"""
PRIVATE = SCHEMA.replace("bins: 10, decimals: 2", "bins: {private: 12}, decimals: 2")
LEVELS = {
    "sex": ("male", "female"),
    "state": ("single", "married", "widowed"),
    "region": tuple(f"r{number}" for number in range(1, 9)),
    "works": ("yes", "no"),
}
FORMULAS = (
    "income ~ far + moved",
    "age ~ region + state",
    "works ~ age + income + sex",
    "flag ~ far + region",
    "state ~ age + sex",
)
"""Outcomes of every type, and of two levels and more, by columns of every type."""
if at_full_size():
    FORMULAS += (
        "income ~ sex + age",
        "far ~ age + moved",
        "moved ~ age",
        "sex ~ state + flag",
        "income ~ flag + works",
        "income ~ 1",
    )
EPOCH = (datetime.date(1990, 1, 1) - datetime.date(1970, 1, 1)).days


def make_people():
    """Return columns of numbers, NaN where missing, and levels as their positions, from 0."""
    rng = np.random.default_rng(7)
    age = np.clip(rng.gamma(4, 10, ROWS).astype(int), 0, 99)
    sex = rng.integers(0, 2, ROWS)
    days = rng.integers(0, 7304, ROWS)
    state = np.where(age < 15, 0, rng.choice(3, ROWS, p=[0.3, 0.5, 0.2]))
    region = rng.choice(8, ROWS, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.06, 0.05, 0.04])
    far = np.round(np.clip(1000080 + 20 * rng.normal(size=ROWS) + age / 2, 1000000, 1000200), 1)
    income = 300 + 4 * (age - 40) - 60 * sex + 0.02 * days + 100 * rng.normal(size=ROWS)
    income = np.round(np.clip(income, 0, 1000), 2)
    chance = 1 / (1 + np.exp(0.5 - 0.04 * (age - 40) + 0.8 * sex - 0.003 * (income - 300)))
    works = (rng.random(ROWS) > chance).astype(int)
    chance = 1 / (1 + np.exp(-0.02 * (far - 1000100) + 0.5 * (region > 3)))
    flag = (rng.random(ROWS) < chance).astype(int)
    found = {"age": age, "income": income, "far": far, "moved": days + EPOCH, "sex": sex}
    found |= {"state": state, "region": region, "works": works, "flag": flag}
    found = {name: values.astype(float) for name, values in found.items()}
    for name in ("income", "moved", "state"):
        found[name][rng.random(ROWS) < 0.05] = np.nan
    return found


PEOPLE = make_people()


def texts(people):
    """Return the rows of a CSV file with columns of `make_people`; some ages are to be clipped."""
    rows = []
    for place in range(ROWS):
        row = {name: values[place] for name, values in people.items()}
        day = datetime.date(1970, 1, 1)
        age = 130 if row["age"] == 99 else int(row["age"])
        moved = row["moved"]
        rows.append(
            {
                "age": age,
                "income": "" if np.isnan(row["income"]) else f"{row['income']:.2f}",
                "far": f"{row['far']:.1f}",
                "moved": "NA" if np.isnan(moved) else day + datetime.timedelta(days=int(moved)),
                "sex": "12"[int(row["sex"])],
                "state": "" if np.isnan(row["state"]) else LEVELS["state"][int(row["state"])],
                "region": LEVELS["region"][int(row["region"])],
                "works": LEVELS["works"][int(row["works"])],
                "flag": int(row["flag"]),
                "grown": "child" if age < 15 else "adult",
            }
        )
    return rows


def as_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Return a function that makes a project in which noise is switched off."""
    with pytest.MonkeyPatch.context() as patch:
        for module in users():
            patch.setattr(module, "SuiteJudge", PlainJudge)
        patch.setattr(additive_noise, "add", lambda values, _grant: values.copy())
        patch.delenv("DP_RELEASE_LEDGER", raising=False)

        def make(schema=SCHEMA, rows=None, unit="row"):
            folder = tmp_path_factory.mktemp("exact")
            patch.setenv("DP_RELEASE_HOME", str(folder / "home"))
            patch.setenv("DP_RELEASE_STATE", str(folder / "state"))
            project = Project(folder, folder / "home")
            (folder / "town.csv").write_text(as_csv(rows or texts(PEOPLE)))
            (folder / "town.schema.yaml").write_text(schema)
            project.open_account(unit=unit, terms=Terms("basic", Fraction(10**6), Fraction("1e-5")))
            return project

        yield make


def declaring(formulas, epsilon=1000, sets=2):
    """Return what `write_spec` is given."""
    return {
        "text": f"analyses: {{formulas: {json.dumps(list(formulas))}, share: 1/2}}\n"
        f"synthesize: {{sets: {sets}}}\n",
        "privacy": f"{{epsilon: {epsilon}, delta: 1e-6}}",
        "method": "auto",
    }


# -- what is answered


def from_sums_alone(patch):
    """Let the sums answer without the sets, and compare levels with the schema's first."""

    def first_levels(formula, _, schema):
        columns = [schema.column(name) for name in formula.by_level]
        return {column.name: levels_of(column)[0] for column in columns if column.levels}

    patch.setattr(declared_estimates, "frequent_levels", first_levels)
    patch.setattr(regression_inference, "combined_by_precision", lambda _, declared, *__: declared)


@pytest.fixture(scope="module")
def answer(exact):
    """Return a function that answers a formula from the sums, however wide their intervals."""
    project = exact()
    project.write_spec(**declaring(FORMULAS))
    project.release()
    bundle = read_bundle(project.out)

    def ask(formula):
        with pytest.MonkeyPatch.context() as patch:
            from_sums_alone(patch)
            found = infer(bundle, formula)
        assert found.answered_from == "declared"
        return found

    return ask


def of_file(formula, people=None):
    """Return coefficients and standard errors of the file's regression, by name.

    A linear regression by least squares; of levels the likelihood's maximum, by Newton's method.
    """
    people = people or PEOPLE
    outcome, _, right = formula.partition(" ~ ")
    names = [name for name in right.split(" + ") if name != "1"]
    used = np.all([~np.isnan(people[name]) for name in (outcome, *names)], axis=0)
    y, columns, told = people[outcome][used], [np.ones(used.sum())], ["Intercept"]
    for name in names:
        values = people[name][used]
        for code, level in enumerate(LEVELS.get(name, ("", ""))[1:], start=1):
            columns.append(values == code if level else values)
            told.append(f"{name}[T.{level}]" if level else name)
    x = np.column_stack(columns).astype(float)
    # In standard units, so that large offsets do no harm.
    move = np.eye(x.shape[1])
    centre, scale = x[:, 1:].mean(axis=0), x[:, 1:].std(axis=0)
    move[0, 1:], move[1:, 1:] = -centre / scale, np.diag(1 / scale)
    w = x @ move
    if outcome not in LEVELS and outcome != "flag":
        found = np.linalg.solve(w.T @ w, w.T @ y)
        residual = y - w @ found
        covariance = residual @ residual / (len(y) - len(found)) * np.linalg.inv(w.T @ w)
        blocks = [""]
    else:
        levels = LEVELS.get(outcome, ("0", "1"))
        blocks = [f"{level}: " for level in levels[1:]] if len(levels) > 2 else [""]
        found, covariance = newton(w, y, len(levels))
    every = np.kron(np.eye(len(blocks)), move)
    errors = np.sqrt(np.diag(every @ covariance @ every.T))
    full = [block + name for block in blocks for name in told]
    return dict(zip(full, zip(every @ found, errors, strict=True), strict=True))


def newton(w, y, levels):
    """Return the maximum of a multinomial likelihood, and its covariance."""
    width, kinds = w.shape[1], np.arange(1, levels)
    found = np.zeros((levels - 1, width))
    for _ in range(50):
        odds = np.exp(w @ found.T)
        chances = odds / (1 + odds.sum(axis=1, keepdims=True))
        slope = ((y[:, None] == kinds) - chances).T @ w
        weight = chances[:, :, None] * (np.eye(levels - 1) - chances[:, None, :])
        information = np.einsum("nab,ni,nj->aibj", weight, w, w).reshape(2 * (found.size,))
        found = found + np.linalg.solve(information, slope.ravel()).reshape(found.shape)
    return found.ravel(), np.linalg.inv(information)


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_sums_give_the_file_s_own_coefficients(answer, formula):
    found = {row.name: row.combined for row in answer(formula).coefficients}
    wanted = of_file(formula)
    assert found.keys() == wanted.keys()
    # `infer` models the level that is not the reference of its own choice.
    sign = -1 if formula.startswith("works") else 1
    for name, (estimate, error) in wanted.items():
        assert abs(found[name].estimate - sign * estimate) < 0.2 * error, name
        assert found[name].std_error == pytest.approx(error, rel=0.1), name


ORDINARY = ("income ~ sex + age", "works ~ age + income + sex", "state ~ age + sex")


@pytest.fixture(scope="module")
def ordinary(exact):
    """The bundle of a release with an ordinary budget."""
    project = exact()
    project.write_spec(**declaring(ORDINARY, epsilon=2))
    project.release()
    return project.out


def test_an_ordinary_budget_causes_no_bias_beyond_part_of_a_standard_error(ordinary, monkeypatch):
    """The length limits then cut many records, and the sets tell what was taken."""
    from_sums_alone(monkeypatch)
    bundle = read_bundle(ordinary)
    for formula in ORDINARY:
        sign = -1 if formula.startswith("works") else 1
        rows = {row.name: row.combined for row in infer(bundle, formula).coefficients}
        for name, (estimate, _) in of_file(formula).items():
            off = rows[name].estimate - sign * estimate
            assert abs(off) < 0.5 * rows[name].std_error, (formula, name)


# -- what is counted

FIXED = (
    "select: {method: fixed, cliques: [[age, state], [income, moved], [far, sex], [flag, works]]}\n"
)


def tables_of(project):
    """Return the counts of every table of a release, by columns."""
    found = {}
    for item in read_bundle(project.out).measured:
        if getattr(item, "stage", "") != "analyses" and hasattr(item, "clique"):
            found[item.stage, item.clique] = np.asarray(item.values).tolist()
    return found


@pytest.mark.parametrize("unit", some(["row", "person"], lambda unit: unit == "person"))
def test_tables_are_the_same_with_and_without_analyses(exact, unit):
    """Bins, missing values, clipped values, impossible rows, a dependent column, persons."""
    schema, rows = SCHEMA, texts(PEOPLE)
    if unit == "person":
        schema = SCHEMA.replace("unit: row", "unit: {column: person, max_rows: 2}")
        # None has too many rows, of which a key that differs between homes would choose.
        rows = [row | {"person": f"p{place // 2}"} for place, row in enumerate(rows)]
    spec = declaring(["income ~ age + moved + far", "flag ~ age"], epsilon=2)
    made = []
    for text in ("", spec["text"].partition("synthesize")[0]):
        project = exact(schema, rows, unit)
        text += FIXED + "synthesize: {sets: 2, mode: posterior}\n"
        project.write_spec(text, privacy=spec["privacy"], method="fixed")
        project.release()
        assert project.faults() == {}
        made.append(tables_of(project))
    without, declared = made
    assert ("measure", ("income", "moved")) in without
    assert declared == without


def test_an_outcome_with_private_bins_is_summed_by_its_own_values(exact, monkeypatch):
    from_sums_alone(monkeypatch)
    project = exact(PRIVATE)
    spec = declaring(["income ~ sex + age", "sex ~ income"]) | {"method": "fixed"}
    # Tables of these columns alone, which a release by `auto` would have among others.
    spec["text"] = (
        spec["text"].replace("sets: 2", "sets: 2, mode: posterior")
        + "select: {method: fixed, cliques: [[income, sex], [income, age], [sex, age]]}\n"
    )
    project.write_spec(**spec)
    project.release()
    assert project.faults() == {}
    bundle = read_bundle(project.out)
    for formula in ("income ~ sex + age", "sex ~ income"):
        answer = infer(bundle, formula)
        assert answer.answered_from == "declared"
        rows = {row.name: row.combined for row in answer.coefficients}
        for name, (estimate, error) in of_file(formula).items():
            assert abs(rows[name].estimate - estimate) < 0.25 * error, name
