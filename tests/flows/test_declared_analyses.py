"""Releases that measure declared analyses, from the spec to the answer of `infer`."""

import html
import json
import shutil
from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pyarrow.parquet as pq
import pytest

from dp_core.analysis.regression import declared_estimates, regression_inference
from dp_core.analysis.regression.regression_inference import infer
from dp_core.bundle.reading import read_bundle
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.cost.composition import Terms
from dp_core.methods.declared import declared_questions
from dp_core.methods.declared.declared_questions import PARTS
from tests.dp_core.bundle.forgery import edit_column, resealed, statement_of
from tests.flows.corpus import only_read
from tests.flows.releases.test_resume import assert_complete, fail_at, noisy
from tests.flows.test_reuse import Second
from tests.full import some
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("quick")

FORMULAS = ["income ~ sex + age", "sex ~ income + moved"]
TEXT = f"analyses: {json.dumps(FORMULAS)}\nsynthesize: {{sets: 2}}\n"
STEPS = [f"analysis-{number}-{part}" for number in (1, 2) for part in PARTS]


@pytest.fixture
def project(gaussian_project):
    gaussian_project.write_spec(TEXT)
    return gaussian_project


def release_twice(project):
    """Make a release and one that uses its measurements.

    With this epsilon no noise hides all coefficients of a formula, whatever is drawn: it is more
    than thirty times what hides them now and then.
    """
    rich = Terms("basic", Fraction(200), Fraction("1e-5"))
    project.open_account("rich", terms=rich)
    project.write_spec(TEXT, privacy="{epsilon: 100, delta: 1e-6}", account="rich")
    project.release()
    second = Second(project)
    second.write("synthesize: {sets: 3, seed: 9}\n", account="rich")
    second.make()


both = only_read(TEXT, release_twice, measure="{noise: gaussian}")


@pytest.fixture
def made(both):
    """The project of a finished release, and of one that uses its measurements."""
    return both, Second(both)


def questions(project):
    """Return the charged questions by step, as JSON."""
    ledger = project.ledger()
    receipts = ledger.receipts(ledger.reservation("town"))
    charges = [each.body for each in receipts if each.kind == "charge"]
    return {
        each["step"]: canonical_json(each["asks"])
        for each in charges
        if each["stage"] == "analyses"
    }


def charged(project):
    """Return the charges of the stage, by step."""
    ledger = project.ledger()
    charges = ledger.charges(ledger.reservation("town"))
    return {charge.step: charge.cost for charge in charges if charge.stage == "analyses"}


# -- what is measured


def test_each_sum_is_paid_by_its_part_of_the_share(made):
    project, _ = made
    found, total = charged(project), project.ledger().reservation("town").currency.limit
    share = total * Fraction(3, 10) / len(FORMULAS)
    assert [*found.items()] == [
        *zip(STEPS, [share * part for part in PARTS.values()] * 2, strict=True)
    ]
    assert sum(found.values()) == total * Fraction(3, 10)
    assert {*questions(project)} == {*STEPS}
    assert project.faults() == {}


@pytest.mark.parametrize(
    "formula",
    ["income ~ sex + age", "income ~ age + sex", "income~sex+age", "income ~ age + C(sex)"],
)
def test_a_declared_formula_is_answered_from_its_sums_however_it_is_typed(made, formula):
    bundle = read_bundle(made[0].out)
    found, first = infer(bundle, formula), infer(bundle, FORMULAS[0])
    assert (found.answered_from, first.answered_from) == ("declared", "declared")

    def numbers(answer):
        return {
            row.name.replace("C(sex)", "sex"): (row.combined.estimate, row.combined.std_error)
            for row in answer.coefficients
        }

    assert numbers(found).keys() == numbers(first).keys()
    for name, values in numbers(first).items():
        assert numbers(found)[name] == pytest.approx(values, rel=1e-9)


@pytest.mark.parametrize(
    "formula",
    ["income ~ age", "income ~ age + sex - 1", "age ~ income + sex"],
)
def test_another_formula_is_answered_from_the_sets(made, formula):
    assert infer(read_bundle(made[0].out), formula).answered_from == "sets"


def test_a_release_that_uses_the_sums_answers_from_them_too(made):
    project, second = made
    assert verify(second.out).passed
    assert verify(second.out, measurements=project.out).passed
    for formula in FORMULAS:
        found = infer(read_bundle(second.out), formula)
        assert found.answered_from == "declared"
        assert found.sets == 3


def without_a_level(frames):
    """Return frames whose first set has one sex only."""
    first, *others = frames
    kept = first.data.sex == first.data.sex.iloc[0]
    return (replace(first, data=first.data[kept].reset_index(drop=True)), *others)


def without_a_level_anywhere(frames):
    return tuple(without_a_level([frame])[0] for frame in frames)


def separated(frames):
    """Return frames in whose first set the income determines the sex."""
    first, *others = frames
    levels = first.data.sex.cat.categories
    codes = (first.data.income > first.data.income.median()).to_numpy().astype(int)
    data = first.data.assign(sex=pd.Categorical.from_codes(codes, levels))
    return (replace(first, data=data), *others)


@pytest.mark.parametrize(
    ("formula", "change"),
    [
        (FORMULAS[0], without_a_level),
        (FORMULAS[0], without_a_level_anywhere),
        (FORMULAS[1], without_a_level),
        (FORMULAS[1], separated),
    ],
)
def test_the_sums_answer_if_the_sets_cannot(made, monkeypatch, formula, change):
    bundle = read_bundle(made[0].out)
    monkeypatch.setattr(declared_estimates, "frequent_levels", lambda *_: {"sex": "male"})
    usual = infer(bundle, formula)
    read = regression_inference.read_frames
    monkeypatch.setattr(
        regression_inference, "read_frames", lambda *given, **how: change(read(*given, **how))
    )

    found = infer(bundle, formula)

    assert found.answered_from == "declared"
    given = {row.name: row for row in found.coefficients}
    # What only the sums tell is not given if their noise hides it.
    every, usually = (
        {name for e in each.not_given for name in e.coefficients}
        | {row.name for row in each.coefficients}
        for each in (found, usual)
    )
    assert every == usually
    assert all(each.kind == "noise" for each in found.not_given)
    for row, other in (
        (given[each.name], each) for each in usual.coefficients if each.name in given
    ):
        assert row.one_set is None
        assert row.by_set == ()
        # Both have noise of their own draws, and their standard errors are estimated.
        assert 0.1 < row.combined.std_error / other.combined.std_error < 10
        away = abs(row.combined.estimate - other.combined.estimate)
        assert away < 10 * (row.combined.std_error + other.combined.std_error)
    assert "set 1 alone" not in str(found)
    assert found.to_json()["coefficients"][0]["one_set"] is None
    assert list(found.frame.estimate) == [row.combined.estimate for row in found.coefficients]


def test_a_note_says_that_sets_had_no_part_in_the_answer(made, monkeypatch):
    bundle = read_bundle(made[0].out)
    monkeypatch.setattr(
        regression_inference, "analyse", raising(BadInput("No set can be analysed."))
    )
    found = infer(bundle, FORMULAS[0])
    assert found.answered_from == "declared"
    assert any("cannot be fitted on every set" in note for note in found.notes)


def test_statement_and_report_name_the_declared_analyses(made, tmp_path):
    for project in made:
        stated = statement_of(project.out)["method"]["analyses"]
        assert stated["formulas"] == FORMULAS
        assert all(formula in stated["in_words"] for formula in FORMULAS)
        assert stated["in_words"] in html.unescape(
            (project.out / "report.html").read_text(encoding="utf-8")
        )
    first, _ = made
    for number, change in enumerate(
        (
            lambda method: method.pop("analyses"),
            lambda method: method["analyses"]["formulas"].pop(),
            lambda method: method["analyses"].update(in_words="Nothing was measured."),
        )
    ):
        copy = shutil.copytree(first.out, tmp_path / str(number))
        document = statement_of(copy)
        change(document["method"])
        assert "method.analyses" in resealed(copy, document)["wording"]


def test_sets_of_another_mode_are_made_of_the_tables_alone(made, monkeypatch):
    """The sums say nothing about sets that are no draws; `infer` then has the sets' own answer."""
    project, _ = made
    monkeypatch.setenv("DP_RELEASE_HOME", str(project.home))
    other = Second(project)
    other.spec, other.out = project.folder / "shared.yaml", project.folder / "shared"
    other.write("synthesize: {sets: 2, mode: shared}\n", release="shared", account="rich")
    other.make()
    assert verify(other.out).passed
    assert infer(read_bundle(other.out), FORMULAS[0]).answered_from == "sets"


# -- failures and crashes


@pytest.mark.slow
@pytest.mark.parametrize("after", some([False, True], lambda after: after), ids=str)
def test_a_release_goes_on_with_the_same_sums(project, work_done, after):
    """One release fails in each of these stages in turn."""
    measured, asked = {}, {}
    for name in ("measure", "analyses", "reconstruct", "publish"):
        fail_at(project, name, after=after)
        found = noisy(project)
        assert {kept: found[kept] for kept in measured} == measured
        measured = found
        assert {kept: questions(project)[kept] for kept in asked} == asked
        asked = questions(project)

    project.release()

    assert_complete(project)
    assert {name: noisy(project)[name] for name in measured} == measured
    assert questions(project) == asked
    assert [*charged(project)] == STEPS
    assert project.redraws() == 0
    assert work_done["analyses"] == 1 + after


@pytest.fixture
def stopped(project):
    """A project whose release stopped after stage `analyses`."""
    fail_at(project, "reconstruct")
    return project


@pytest.mark.parametrize("content", some([None, b"garbled"], lambda content: content is None))
def test_a_lost_file_of_noisy_results_is_written_again(stopped, content):
    path, before, asked = stopped.run_folder / "public/marginals.parquet", noisy(stopped), None
    whole, asked = path.read_bytes(), questions(stopped)
    path.unlink() if content is None else path.write_bytes(content)

    stopped.release()

    assert_complete(stopped)
    assert (path.read_bytes(), noisy(stopped), questions(stopped)) == (whole, before, asked)
    assert stopped.redraws() == 0


@pytest.mark.parametrize("committed", some([True, False], lambda committed: not committed))
def test_a_charged_question_is_asked_whatever_would_be_asked_now(project, committed, monkeypatch):
    """Another machine may round otherwise: the ledger says what is asked."""
    place = "reconstruct" if committed else "analyses"
    fail_at(project, place)
    if not committed:
        # Charged, but the draw fails.
        with pytest.raises(StageFailed):
            failing_draw("analysis-1-scores-1")(project)
    asked = questions(project)
    (project.run_folder / "public/marginals.parquet").unlink()
    limit = declared_questions._limit
    monkeypatch.setattr(declared_questions, "_limit", lambda *given: limit(*given) // 2)

    project.release()

    assert_complete(project)
    assert {step: questions(project)[step] for step in asked} == asked


def test_questions_follow_from_committed_tables_only(project):
    fail_at(project, "analyses")
    path = project.run_folder / "public/marginals.parquet"

    def multiply(counts):
        counts[:] = [5 * count for count in counts]

    edit_column(path, "count", multiply)

    with pytest.raises(StageFailed, match="is not what the ledger committed"):
        project.release()

    assert questions(project) == {}
    path.unlink()
    project.release()
    assert_complete(project)


def failing_draw(step):
    """Return a function that makes a release whose draw of a step fails."""
    from dp_core.kernel.mechanisms import additive_noise

    def make(project):
        right = additive_noise.add

        def broken(values, grant):
            if grant.step.name == step:
                raise OSError("outside")
            return right(values, grant)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(additive_noise, "add", broken)
            project.release()

    return make


# -- what anyone can check


@pytest.fixture
def forged(made, tmp_path):
    return shutil.copytree(made[0].out, tmp_path / "forged")


def change(bundle, name, to):
    """Change one column of the sums' rows; return the sentence of each check that then fails."""
    path = bundle / "marginals.parquet"
    stages = pq.read_table(path)["stage"].to_pylist()
    rows = [place for place, stage in enumerate(stages) if stage == "analyses"]

    def edit(values):
        for row in rows[:1] if name == "count" else rows:
            values[row] = to(values[row])

    edit_column(path, name, edit)
    return resealed(bundle, statement_of(bundle))


def halved(of):
    document = json.loads(of)
    document["length_limit"] //= 2
    return canonical_json(document).decode()


def other_column(of):
    return of.replace('"name":"age"', '"name":"moved"')


@pytest.mark.parametrize(
    ("name", "to"),
    [("count", lambda value: value + 1), ("of", halved), ("of", other_column)],
    ids=["value", "limit", "column"],
)
def test_changed_sums_do_not_verify(forged, name, to):
    assert verify(forged).passed
    found = change(forged, name, to)
    assert found
    assert "files" not in found


def test_a_statement_that_leaves_its_analyses_out_does_not_verify(forged):
    document = statement_of(forged)
    del document["method"]["plan"]["spec"]["analyses"]
    assert resealed(forged, document)
