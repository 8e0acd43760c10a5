"""`dp-release desk ask` and `dp-release desk` as people type them."""

import pytest

from dp_core.errors import BadInput
from flows.desk import own_process
from flows.desk.asking import admit_question, answer_question

DECISION = ("--by", "Ana Officer", "--reason", "a test")


@pytest.fixture
def typed(office, command, monkeypatch):
    """Return a function that runs a command, whose releases are made in this process."""
    monkeypatch.setattr(own_process, "ReleaseProcess", lambda: office.carry_out)
    return command


def test_a_question_is_planned_answered_and_listed(office, typed, tmp_path):
    planned = typed("desk", "ask", "rand", "share by sex", "--epsilon", ".5", "--plan")
    assert planned.code == 0
    assert "from account rand, which has epsilon 5" in planned.out
    assert office.spent_nothing()
    found = typed(
        "desk", "ask", "rand", "share by sex", "--epsilon", ".5", "--out", tmp_path / "copy"
    )
    assert (found.code, (tmp_path / "copy" / "release.json").is_file()) == (0, True)
    assert "male" in found.out
    assert "Paid     epsilon 0.5" in found.out
    again = typed("desk", "ask", "rand", "count", "by", "sex", "--epsilon", ".5")
    assert "Paid     nothing; answered from rand-question-0001" in again.out
    shown = typed("desk", "show", "rand")
    assert "share by sex" in shown.out
    assert "0 (paid before)" in shown.out
    assert typed("desk", "show").out.splitlines()[1].split() == ["rand", "open", "2"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("income ~ age", "--epsilon", "1"), 2, "account of the desk comes first"),
        (("rand", "--epsilon", "1"), 2, "The question is missing"),
        (("rand", "count by sxe", "--epsilon", "1"), 2, "Did you mean 'sex'"),
        (("rand", "count by sex", "--epsilon", "ten"), 2, "--epsilon"),
        (("rand", "count by sex", "--epsilon", "1e-300"), 2, "must be from 1e-12"),
        (("rand", "count by sex", "--epsilon", "1", "--level", "95"), 2, "between 0 and 1"),
        (("rand", "count by sex", "--epsilon", "9"), 3, "at most epsilon 1"),
        (("rand", "count by sex", "--epsilon", "1", "--user", "anna"), 3, "It has no users"),
        (("dran", "count by sex", "--epsilon", "1"), 2, "No question desk is open for 'dran'"),
        (("rand", "count by sex"), 2, "Missing option '--epsilon'"),
    ],
)
def test_a_mistake_is_explained_and_costs_nothing(office, typed, words, code, says):
    found = typed("desk", "ask", *words)
    assert (found.code, says in found.err) == (code, True), found.err
    assert office.spent_nothing()


def test_a_folder_for_the_copy_that_is_in_use_is_refused_first(office, typed, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note").write_text("x")
    found = typed(
        "desk", "ask", "rand", "count by sex", "--epsilon", "1", "--out", tmp_path / "full"
    )
    assert (found.code, office.spent_nothing()) == (2, True)


def test_an_officer_opens_and_closes_a_desk(office, typed):
    assert typed("desk", "close", "rand", *DECISION).code == 0
    refused = typed("desk", "ask", "rand", "count by sex", "--epsilon", "1")
    assert (refused.code, "is closed" in refused.err) == (3, True)
    opened = typed("desk", "open", office.project.folder / "questions.yaml", *DECISION)
    assert (opened.code, "Question desk rand is open" in opened.out) == (0, True)
    assert typed("desk", "ask", "rand", "count by sex", "--epsilon", "1").code == 0


def test_an_answer_that_waits_for_approval_has_exit_code_6(office, typed):
    office.open(more="answers: after-approval\n")
    found = typed("desk", "ask", "rand", "count by sex", "--epsilon", "1", "--json")
    assert (found.code, found.json["runbook"]) == (6, "held")
    assert "awaiting approval" in typed("desk", "show", "rand").out


def test_a_process_of_its_own_tells_what_stopped_it(office, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_HOME", str(office.project.home))
    number = admit_question(office.desk, "count by sex", "1")
    (office.project.folder / "town.csv").unlink()
    with pytest.raises(BadInput, match=r"town\.csv"):
        answer_question(office.desk, number)
    assert office.spent_nothing()
