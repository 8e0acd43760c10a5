"""Handing a question to Prefect's deployment."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import prefect.deployments
import pytest
import yaml
from prefect.states import Completed, Crashed

from dp_core.errors import AwaitsApproval, StageFailed
from flows.answer import FLOW
from flows.desk.service.answering_process import AWAITING_APPROVAL, DEPLOYMENT, by_deployment
from flows.monitoring.outcome import TITLES
from tests.processes import ROOT


@pytest.fixture
def handed(monkeypatch, home):  # noqa: ARG001
    """What was handed to Prefect; `ends` is the state in which the runs end."""
    found = SimpleNamespace(runs=[], ends=Completed())

    async def run(name, **options):
        found.runs.append((name, options))
        if isinstance(found.ends, Exception):
            raise found.ends
        return SimpleNamespace(state=found.ends)

    monkeypatch.setattr(prefect.deployments, "arun_deployment", run)
    monkeypatch.setattr("flows.desk.service.answering_process.prepare", lambda home: home)
    return found


def test_a_question_is_handed_over_once_for_each_attempt(handed):
    for attempt in (0, 0, 1):
        by_deployment("rand", 7, attempt)(Path("spec"), Path("out"))
    assert {name for name, _ in handed.runs} == {DEPLOYMENT}
    assert [each["idempotency_key"] for _, each in handed.runs] == [
        "rand-question-7-0",
        "rand-question-7-0",
        "rand-question-7-1",
    ]
    assert handed.runs[0][1]["parameters"] == {"account": "rand", "number": 7}


@pytest.mark.parametrize("ends", [Crashed(), None, RuntimeError("row 17")])
def test_a_run_that_does_not_end_well_has_failed(handed, ends):
    handed.ends = ends
    with pytest.raises(StageFailed) as error:
        by_deployment("rand", 7, 0)(Path("spec"), Path("out"))
    assert "row 17" not in error.value.message


def test_a_run_whose_plan_awaits_approval_is_no_failure(handed):
    assert TITLES["waiting"] == AWAITING_APPROVAL
    handed.ends = Completed(name=AWAITING_APPROVAL)
    with pytest.raises(AwaitsApproval):
        by_deployment("rand", 7, 0)(Path("spec"), Path("out"))


def test_there_is_a_deployment_of_that_name():
    deployments = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())["deployments"]
    names = {each["entrypoint"]: each["name"] for each in deployments}
    assert f"{FLOW}/{names['flows.answer.answer']}" == DEPLOYMENT
