"""Scores of the field and attacks on a release: in the internal folder only."""

import json
import stat

import pytest

from dp_core.bundle.verification.verify import verify
from tasks.support.run_folder import INTERNAL_NOTICE


@pytest.fixture
def published(project):
    project.write_spec("synthesize: {sets: 2}\n", method="independent")
    project.release()
    return project


def public_files(project):
    return {path: path.read_bytes() for path in project.out.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("quick")
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
    words = ("evaluate", published.out, "--group", "sex", "--target", "sex", "--attacks")
    answer = command(*words)
    again = command("evaluate", published.out, "--json")

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


@pytest.mark.usefixtures("quick")
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
        answer = command("evaluate", published.out, *words)
        assert answer.code == 2, words
        assert says in answer.err, answer.err
    assert command("evaluate", published.folder / "none").code == 2
    published.spec.write_text(spec)
    data = published.folder / "town.csv"
    data.write_text(data.read_text().replace("i0,", "i00,", 1))
    assert "not those that it was made of" in command("evaluate", published.out).err
    assert not list(published.internal.glob("evaluation*"))


@pytest.mark.usefixtures("quick")
def test_an_error_that_depends_on_the_data_stays_inside(command, published, monkeypatch):
    import dp_core.analysis.evaluation.release_scores as scores

    def broken(*_arguments, **_options):
        print("secret")  # noqa: T201
        raise RuntimeError("secret 4711")

    monkeypatch.setattr(scores, "score_sets", broken)
    answer = command("evaluate", published.out)

    assert (answer.code, answer.err) == (0, "")
    assert "secret" not in answer.out
    text = (published.internal / "evaluation-1.json").read_text()
    assert "stopped with RuntimeError" in text
    assert "4711" not in text
