"""A release with an earlier release or a public file as its prior: from the spec to `verify`."""

import shutil

import pandas as pd
import pytest

from dp_core.bundle.statement.sections import prior_in_words, prior_statement
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, BudgetRefused, StageFailed
from dp_core.plan.plan import make_plan
from flows.answers.forecast_answers import plan_answer
from tasks.run.earlier_releases import load_release
from tests.confidential_side import raises_inside
from tests.dp_core.bundle.forgery import resealed
from tests.flows.conftest import stopping
from tests.flows.corpus import Later, lent

pytestmark = pytest.mark.usefixtures("quick")

FIRST = "synthesize: {sets: 2, mode: posterior}\n"
BUNDLE = "prior: bundle\n"
FILE = "prior: {file: public.csv, by: officer, reason: open data}\n"


def Second(project):
    """Return the release of the next year."""
    privacy, sets = "{epsilon: 1, delta: 1e-6}", "{sets: 2, mode: posterior}"
    return Later(project, "next", data="town.csv", privacy=privacy, synthesize=sets)


last_year = lent(FIRST)


@pytest.fixture
def second(last_year):
    return Second(last_year)


def public_file(second, rows=100):
    """Write a public file that the ledger does not know: some columns of some records."""
    frame = pd.read_csv(second.project.folder / "town.csv", dtype=str, keep_default_na=False)
    frame.iloc[:rows, :3].to_csv(second.project.folder / "public.csv", index=False)


@pytest.mark.parametrize("mode", ["posterior", "shared"])
def test_a_release_with_a_prior_verifies_and_names_it(second, mode):
    second.write(BUNDLE, synthesize=f"{{sets: 2, mode: {mode}}}")
    second.make()

    found = verify(second.out)
    assert found.passed, [check.sentence for check in found.failures]
    stated = second.statement()["method"]["prior"]
    assert stated["release"] == "town"
    assert "protected by the sum" in stated["in_words"]
    assert stated["sha256"] == second.statement()["method"]["plan"]["spec"]["prior"]["sha256"]
    assert "published release town" in (second.out / "report.html").read_text()


def test_the_statement_names_the_prior_of_its_prior_and_another_unit(second):
    second.write(BUNDLE)
    second.make()
    third = Second(second.project)
    third.spec, third.out = second.project.folder / "third.yaml", second.project.folder / "third"
    third.write("prior: next\n", release="third")
    stated = prior_statement(make_plan(load_release(third.spec)).document())

    assert stated["protects"] == "add-remove, unit row"
    assert "Release next was itself made with release town (epsilon 1, " in stated["in_words"]
    other = prior_in_words(stated, protects="add-remove, unit person, max_rows 4")
    assert "do not add up" in other
    assert "protected by the sum" not in other


def test_a_file_of_the_input_is_no_prior_and_the_attempt_is_counted(second):
    town = second.project.folder / "town.csv"
    text = town.read_text()
    own = second.project.folder / "own.csv"
    own.write_text(text + text.splitlines()[-1] + "\n")
    second.write("prior: {file: own.csv, by: officer, reason: open data}\n", data="own.csv")

    before = len(second.project.ledger().entries())
    with raises_inside(BadInput, match="a file of this release's own input"):
        second.make()
    entries = second.project.ledger().entries()[before:]
    assert [one.body["verdict"] for one in entries if one.kind == "verdict"] == ["refused"]
    assert not {"input", "charge"} & {one.kind for one in entries}
    assert not second.out.exists()


def test_verify_finds_a_changed_sentence_about_the_prior(second):
    second.write(BUNDLE)
    second.make()
    stated = second.statement()
    stated["method"]["prior"]["release"] = "another"

    assert any("prior" in sentence for sentence in resealed(second.out, stated).values())


def test_a_bundle_that_does_not_verify_is_no_prior(second):
    path = second.project.folder / "bundle" / "synthetic" / "set-1.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    second.write(BUNDLE)

    with pytest.raises(BadInput, match=r"next\.yaml, line \d+, prior: .* not a release as it was"):
        load_release(second.spec)


def test_a_release_that_stopped_does_not_go_on_with_another_prior(second):
    public_file(second)
    second.write(FILE)

    with pytest.raises(StageFailed, match="stopped here"):
        second.make(stopping("reconstruct", StageFailed("stopped here")))
    public_file(second, rows=99)
    with pytest.raises((BadInput, BudgetRefused, StageFailed), match=r"plan|spec"):
        second.make()
    public_file(second)
    second.make()
    assert verify(second.out).passed


def test_a_confidential_file_is_no_public_file_and_the_attempt_is_counted(second):
    shutil.copy(second.project.folder / "town.csv", second.project.folder / "public.csv")
    second.write(FILE)
    before = second.project.kinds()

    with pytest.raises(BadInput, match="belong to account 'town'"):
        load_release(second.spec)
    assert second.project.kinds()[len(before) :] == ["declare-public", "refuse-public"]


@pytest.mark.parametrize("confidential", [False, True])
def test_a_plan_with_a_public_file_writes_nothing(second, command, monkeypatch, confidential):
    """It does not look the file up either: an unrecorded look-up would be an answer."""
    monkeypatch.setenv("DP_RELEASE_HOME", str(second.project.home))
    if confidential:
        shutil.copy(second.project.folder / "town.csv", second.project.folder / "public.csv")
    else:
        public_file(second)
    second.write(FILE)
    before = second.project.ledger().entries()

    planned = command("plan", second.spec)
    assert planned.code == 0, planned.err
    assert "checks in the ledger" in " ".join(planned.out.split())
    assert second.project.ledger().entries() == before
    if not confidential:
        plan = command("plan", second.spec, "--json").json["plan_hash"]
        second.make()
        assert second.project.ledger().reservation("next").plan == plan


def test_a_public_file_is_named_with_who_declared_it_public(second):
    public_file(second)
    second.write(FILE)
    second.make()

    stated = second.statement()["method"]["prior"]
    assert (stated["file"], stated["by"], stated["reason"]) == (
        "public.csv",
        "officer",
        "open data",
    )
    assert "does not protect anybody in that file" in stated["in_words"]
    told = plan_answer(make_plan(load_release(second.spec)), None)["prior"]
    assert told["columns"] == 2
    assert all("is not in the prior" in note for note in told["notes"])


@pytest.mark.parametrize(
    ("prior", "changes", "said"),
    [
        ("prior: public.csv\n", {}, "must declare a file public"),
        ("prior: {file: public.csv, by: officer}\n", {}, "reason"),
        ("prior: nowhere\n", {}, "nowhere"),
        (BUNDLE, {"method": "mst", "synthesize": "{sets: 1}"}, "only used by method: auto"),
        (BUNDLE, {"synthesize": "{sets: 0}"}, "a release without sets"),
        (BUNDLE, {"synthesize": "{sets: 2, mode: split}"}, "mode split"),
    ],
)
def test_what_a_prior_cannot_be_used_for_is_refused(second, prior, changes, said):
    second.write(prior, **changes)
    with pytest.raises(BadInput, match=said):
        load_release(second.spec)
