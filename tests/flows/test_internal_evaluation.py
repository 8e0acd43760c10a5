"""Scores of the field and attacks on a release: in the internal folder only."""

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dp_core.bundle.verification.verify import verify
from tasks.run.release_cleanup import clear_all_leftovers, reading_folder
from tasks.support.run_folder import INTERNAL_NOTICE, RunFolder
from tests.flows.corpus import lent

pytestmark = pytest.mark.usefixtures("quick")

ROOT = Path(__file__).parents[2]


published = lent("method: independent\nsynthesize: {sets: 2}\n")


def public_files(project):
    return {path: path.read_bytes() for path in project.out.rglob("*") if path.is_file()}


def test_scores_are_in_the_internal_folder_and_not_in_the_bundle(command, published):
    found = json.loads((published.internal / "utility.json").read_text())["scores"]

    assert len(found["sets"]) == 2
    assert 0 < found["mean"]["k_marginal"] < 1000
    assert found["resample"]["unique_matched"] > 0
    page = (published.internal / "utility.html").read_text()
    assert "k-marginal, pairs" in page
    number = repr(found["mean"]["propensity"]).encode()
    assert not any(number in content for content in public_files(published).values())
    assert not any(b"k_marginal" in content for content in public_files(published).values())
    assert all(check.passed for check in verify(published.out).checks)

    # On request: more scores, classifiers and attacks, in the same place only.
    before, charges = public_files(published), published.kinds()
    words = ("release", "evaluate", published.out, "--group", "sex", "--target", "sex", "--attacks")
    answer = command(*words)
    again = command("release", "evaluate", published.out, "--json")

    assert answer.code == 0, answer.err
    path = published.internal / "evaluation-1.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    values = json.loads(path.read_text())
    assert (next(iter(values)), values["confidential"]) == ("confidential", INTERNAL_NOTICE)
    assert [one["column"] for one in values["scores"]["equity"]] == ["sex"]
    assert 0 <= values["classifiers"]["targets"][0]["trees"]["set"] <= 1
    attacks = values["attacks"]
    assert "problem" not in attacks
    assert 0 < attacks["permitted_advantage"] < 1
    assert "of_records_of_persons" not in attacks
    assert attacks["membership_by_shadow"]["files_judged"] == 10
    html = path.with_suffix(".html").read_text()
    assert INTERNAL_NOTICE in html.splitlines()[0]
    assert "Membership by shadow files" in html
    assert answer.out.strip().startswith("Result: ")
    assert answer.out.strip().endswith("(confidential, for staff)")
    assert set(again.json) == {"release", "internal"}
    assert again.json["internal"].endswith("evaluation-2.html")
    assert public_files(published) == before
    assert published.kinds() == charges


def test_what_cannot_be_evaluated_is_one_sentence(command, published):
    spec = published.spec.read_text()
    published.spec.write_text(spec.replace("sets: 2", "sets: 3"))
    for words, says in (
        (("--group", "sexx"), "Did you mean 'sex'?"),
        (("--target", "nothing"), "not a modelled column"),
        (("--line", "income"), "OUTCOME ~ PREDICTOR"),
        (("--line", "sex ~ age"), "is a category"),
        (("--line", "income ~ income"), "same column"),
        (("--quasi", "sex, age"), "not a modelled column"),
        (("--attacks",), "changed since"),
    ):
        answer = command("release", "evaluate", published.out, *words)
        assert answer.code == 2, words
        assert says in answer.err, answer.err
    assert command("release", "evaluate", published.folder / "none").code == 2
    published.spec.write_text(spec)
    data = published.folder / "town.csv"
    data.write_text(data.read_text().replace("i0,", "i00,", 1))
    assert "not those that it was made of" in command("release", "evaluate", published.out).err
    assert not list(published.internal.glob("evaluation*"))


def test_an_error_that_depends_on_the_data_stays_inside(command, published, monkeypatch):
    import dp_core.lab.evaluation.release_scores as scores

    def broken(*_arguments, **_options):
        print("secret")  # noqa: T201
        raise RuntimeError("secret 4711")

    monkeypatch.setattr(scores, "score_sets", broken)
    answer = command("release", "evaluate", published.out)

    assert (answer.code, answer.err) == (0, "")
    assert "secret" not in answer.out
    text = (published.internal / "evaluation-1.json").read_text()
    assert "stopped with RuntimeError" in text
    assert "4711" not in text


READ_AND_DIE = """
import os, signal, sys
from pathlib import Path
from tasks.run.release_cleanup import reading_folder
from tasks.support.run_folder import RunFolder

with reading_folder(RunFolder(Path(sys.argv[1]), "town", sys.argv[2])) as work:
    (work / "evaluated").write_text("codes")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def folder_of(published):
    """Return the run's folder, by its reservation."""
    return RunFolder(published.home, "town", (published.run_folder / "current").resolve().name)


def confidential(published):
    """Return the files in the confidential folder; None if there is no folder."""
    folder = folder_of(published).confidential
    return {path.name for path in folder.rglob("*")} if folder.exists() else None


def test_what_a_killed_evaluation_read_is_deleted_by_the_next_or_by_the_sweep(command, published):
    assert confidential(published) is None

    def killed():
        own = folder_of(published).confidential.parent.name
        words = [sys.executable, "-c", READ_AND_DIE, str(published.home), own]
        ended = subprocess.run(words, check=False, cwd=ROOT, capture_output=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert "evaluated" in confidential(published)

    killed()
    assert command("release", "evaluate", published.out).code == 0
    assert confidential(published) is None

    killed()
    assert clear_all_leftovers(published.home, published.ledger()) == ["town"]
    assert confidential(published) is None
    assert clear_all_leftovers(published.home, published.ledger()) == []


def test_the_rest_of_an_interrupted_deletion_is_deleted(published):
    """The lock may be the first file that is deleted."""
    left = folder_of(published).confidential / "reading-half"
    left.mkdir(parents=True)
    (left / "evaluated").write_text("codes")
    assert clear_all_leftovers(published.home, published.ledger()) == ["town"]
    assert confidential(published) is None


def test_two_evaluations_at_a_time_have_their_own_folders(published):
    folder = folder_of(published)
    with reading_folder(folder) as one:
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
        with reading_folder(folder) as other:
            assert clear_all_leftovers(published.home, published.ledger()) == []
            assert other != one
        assert one.is_dir()
        assert not other.exists()
    assert confidential(published) is None


def test_an_evaluation_deletes_what_it_read_after_an_error_and_an_interruption(
    command, published, monkeypatch
):
    seen = []

    def stopped(with_error):
        def broken(*_):
            seen.append(confidential(published))
            raise with_error

        return broken

    for error, code in ((MemoryError(), 0), (KeyboardInterrupt(), 130)):
        monkeypatch.setattr("tasks.confidential.internal_evaluation._published_set", stopped(error))
        assert command("release", "evaluate", published.out).code == code
        assert "evaluated" in seen.pop()
        assert confidential(published) is None


def test_an_evaluation_leaves_the_files_that_the_release_kept(command, project):
    from flows.release import carry_out
    from tests.flows.conftest import plainly

    project.write_spec(method="independent")
    carry_out(project.spec, project.out, perform=plainly, keep_confidential=True)
    before = confidential(project)
    assert before

    assert command("release", "evaluate", project.out).code == 0
    assert confidential(project) == before
