"""The ledger's tasks: what a refusal, a wait and an unexpected error become."""

from types import SimpleNamespace

import pytest

from dp_core.errors import AwaitsApproval, BudgetRefused, Held, StageFailed, Unpublished
from tasks.stages.gates.gate_task import Waiting, gate
from tasks.support.run_folder import RunFolder

CANARY = "salary-of-row-4711"


@pytest.fixture
def subject(tmp_path):
    folder = RunFolder(tmp_path, "first", "a" * 64)
    folder.begin(spec=tmp_path / "spec.yaml", out=tmp_path / "out")
    return SimpleNamespace(folder=folder)


def raising(error):
    @gate("grant", "grant {stage}")
    def decide(_subject, stage):  # noqa: ARG001
        try:
            raise KeyError(CANARY)
        except KeyError as cause:
            raise error from cause

    return decide


def test_a_refusal_fails_with_its_sentence_and_without_its_causes(subject):
    refused = BudgetRefused("Nothing is left.", internal=CANARY, row="budget-used-up")
    with pytest.raises(BudgetRefused) as failed:
        raising(refused).fn(subject, "measure")
    error = failed.value
    assert (error.message, error.row) == ("Nothing is left.", "budget-used-up")
    assert error.internal is None
    assert error.__cause__ is error.__context__ is None
    assert CANARY in (subject.folder.internal / "failure.txt").read_text()


@pytest.mark.parametrize("error", [Held, AwaitsApproval, Unpublished])
def test_what_waits_for_a_person_is_an_answer_and_no_failure(subject, error):
    answer = raising(error("A person decides.")).fn(subject, "measure")
    assert isinstance(answer, Waiting)
    assert type(answer.error) is error
    assert answer.error.__cause__ is answer.error.__context__ is None


def test_an_unexpected_error_is_one_sentence_whose_detail_is_for_staff(subject):
    with pytest.raises(StageFailed, match="task 'grant' of release 'first' failed") as failed:
        raising(RuntimeError(CANARY)).fn(subject, "measure")
    assert CANARY not in str(failed.value)
    assert failed.value.__cause__ is failed.value.__context__ is None
    assert CANARY in (subject.folder.internal / "failure.txt").read_text()


def test_prefect_keeps_nothing_of_a_gate_and_shows_its_stage():
    task = raising(BudgetRefused("no"))
    assert (task.name, task.task_run_name) == ("ledger: grant", "ledger: grant {stage}")
    assert (task.retries, task.persist_result, task.log_prints) == (0, False, False)
