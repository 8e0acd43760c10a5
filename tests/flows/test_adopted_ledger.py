"""A release from a ledger that a person adopted says so, and `verify` compares it."""

import json

import pytest

from tests.dp_core.bundle.forgery import resealed

pytestmark = pytest.mark.usefixtures("quick")

WHO = ("--by", "Ana Officer", "--reason", "the disk failed")


@pytest.fixture
def adopted(project, command):
    """A project whose ledger was restored from before two entries, and adopted."""
    file = project.home / "ledger.db"
    backup = file.read_bytes()
    project.open_account("village")
    project.ledger().close_account("village", by="officer", reason="test")
    file.write_bytes(backup)
    assert command("ledger", "show").code == 5
    answer = command("ledger", "adopt", *WHO, "--json")
    assert answer.code == 0, answer.err
    assert answer.json | {"ledger": ""} == {
        "ledger": "",
        "head": 2,
        "noted": 4,
        "behind": 2,
        "elsewhere": None,
        "closed": [],
    }
    return project


def test_the_statement_and_the_report_give_every_adoption(adopted):
    adopted.release()
    (found,) = adopted.statement()["ledger"]["adopted"]
    assert found["behind"] == 2
    assert "2 entries were missing" in found["in_words"]
    assert found["in_words"] in adopted.statement()["guarantee"]["over_all_releases"]
    assert found["in_words"] in (adopted.out / "report.html").read_text()
    assert adopted.faults() == {}


def left_out(document):
    del document["ledger"]["adopted"]


def smaller(document):
    document["ledger"]["adopted"][0]["behind"] = 0


def unsaid(document):
    document["guarantee"]["over_all_releases"].pop()


def test_a_statement_that_hides_an_adoption_does_not_verify(adopted):
    adopted.release()
    whole = (adopted.out / "release.json").read_bytes()
    for lie, where in (
        (left_out, "'ledger.adopted'"),
        (smaller, "'ledger.adopted'"),
        (unsaid, "'guarantee.over_all_releases'"),
    ):
        document = json.loads(whole)
        lie(document)
        wrong = resealed(adopted.out, document)
        assert any(where in sentence for sentence in wrong.values()), (lie, wrong)


def test_a_statement_without_an_adoption_does_not_mention_any(project):
    project.release()
    assert "adopted" not in project.statement()["ledger"]
    assert "adopt" not in (project.out / "report.html").read_text()


def test_a_demo_keeps_its_notes_in_its_own_home(tmp_path, monkeypatch):
    from flows.cli.actions.demo_job import prepare_demo
    from tasks.run.home import open_ledger

    monkeypatch.setenv("DP_RELEASE_STATE", str(tmp_path / "state"))
    home, _ = prepare_demo(tmp_path / "homes")
    ledger = open_ledger(home)
    assert (home / "state" / f"{ledger.identity()}.json").is_file()
    assert not (tmp_path / "state").exists()
