"""The flow `answer-question` as a plain function: without an engine and without a server."""

from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from dp_core.errors import BadInput, BudgetRefused
from flows import answer as answer_flow
from flows.desk.asking import admit_question, answer_question
from flows.desk.desk import close_desk
from flows.releases import run_records
from flows.releases.run_records import RunRecords
from tests.flows.desk.conftest import WHO


@pytest.fixture
def fire(office, monkeypatch):
    """Return a function that runs the flow for a question."""
    run = SimpleNamespace(id=str(uuid4()), parameters={})
    monkeypatch.setattr(run_records, "flow_run", run)
    monkeypatch.setattr(run_records, "prepare", lambda _home: None)
    monkeypatch.setattr(
        answer_flow,
        "make_release",
        SimpleNamespace(fn=lambda spec, out: office.carry_out(Path(spec), Path(out))),
    )

    def fired(number, account="rand"):
        return answer_flow.answer.fn(account=account, number=number)

    fired.run = run
    return fired


def test_an_admitted_question_is_answered_once(office, fire):
    number = admit_question(office.desk, "count by sex", "1")
    assert fire(number) is None
    assert (office.left(), office.made) == (4, ["rand-question-0001.release.yaml"])
    record = RunRecords(office.project.home).find(fire.run.id)
    assert (record.release, record.ended) == ("rand-question-0001", 0)
    fire.run.id = str(uuid4())
    assert "already answered" in fire(number).message
    assert answer_question(office.desk, number).already
    assert office.left() == 4


def test_a_question_that_may_not_be_answered_stops_before_the_data(office, fire):
    number = admit_question(office.desk, "count by sex", "1")
    close_desk(office.desk, office.project.ledger(), **WHO)
    with pytest.raises(BudgetRefused, match="is closed"):
        fire(number)
    with pytest.raises(BadInput, match="no question 9"):
        fire(9)
    assert office.spent_nothing()
