"""The process that answers one question, started as `python -m` this module.

The job is one line of JSON on standard input, which stays open as long as the service runs. The
last line on standard output is the outcome: a state, a fixed sentence, and what was paid.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dp_core.errors import (
    AwaitsApproval,
    BadInput,
    BudgetRefused,
    Held,
    ReleaseError,
    StageFailed,
    Unpublished,
)
from flows.desk.service.service_records import ENDED, Outcome
from flows.desk.service.tokens import FOLDER
from flows.engine.settings import prepare
from flows.processes.child_process import read_job
from tasks.run.home_folder import home

DEPLOYMENT = "answer-question/questions"
AWAITING_APPROVAL = "AwaitingPlanApproval"
"""Name of the state in which a run ends whose plan a person has to approve."""
POLL_S = 2.0
"""Seconds between two looks at the run."""
REFUSED = "The ledger refused the question when its turn came; nothing was paid for it."
UNANSWERED = (
    "The question could not be answered, and trying again would not help; ask the privacy officer"
    " for the reason."
)
FAILED = "A part of the service failed; ask the release manager for the reason."
_SAID: tuple[tuple[type[ReleaseError], Outcome], ...] = (
    (Unpublished, Outcome("refused", ENDED)),
    (BudgetRefused, Outcome("refused", REFUSED)),
    (BadInput, Outcome("refused", UNANSWERED)),
    (ReleaseError, Outcome("failed", FAILED)),
)


def perform(job: Mapping[str, Any]) -> Outcome:
    """Answer a question; return the outcome.

    Args:
        job: `account` of the desk, `number` of the question, `attempt` (number of earlier attempts
            that ended without an answer), and `deployment` (whether Prefect's deployment makes the
            release).

    Privacy:
        The sentences are fixed. The rule that the data break, and details of a failure, are only in
        the internal folder of the release.
    """
    from flows.desk.asking import answer_question
    from flows.desk.desk import find_desk

    try:
        desk, number = find_desk(job["account"]), job["number"]
        if job["deployment"]:
            carry_out = by_deployment(desk.account, number, job["attempt"])
            answer = answer_question(desk, number, carry_out=carry_out)
        else:
            answer = answer_question(desk, number)
    except (AwaitsApproval, Held):
        return Outcome("awaiting approval")
    except ReleaseError as error:
        if error.row == "waits-for-approval":  # reported by another process, without its class
            return Outcome("awaiting approval")
        found = next(outcome for kind, outcome in _SAID if isinstance(error, kind))
        return replace(found, row=error.row or "")
    return Outcome("answered", cost=str(answer.paid.epsilon))


def by_deployment(account: str, number: int, attempt: int) -> Callable[[Path, Path], None]:
    """Return a function that makes the release of a question in a run of the deployment.

    Args:
        account: Account of the desk.
        number: Number of the question.
        attempt: Number of earlier attempts that ended without an answer. Together with the
            question it is the idempotency key of the run, so a service that starts again waits for
            the same run.
    """

    def carry_out(_spec: Path, _out: Path) -> None:
        prepare(home())  # before Prefect is imported
        from prefect.deployments import arun_deployment

        try:
            run = asyncio.run(
                arun_deployment(
                    DEPLOYMENT,
                    parameters={"account": account, "number": number},
                    idempotency_key=f"{account}-question-{number}-{attempt}",
                    as_subflow=False,
                    poll_interval=POLL_S,
                )
            )
        except Exception as error:
            raise StageFailed(
                f"Prefect's deployment {DEPLOYMENT} could not be run ({type(error).__name__})."
            ) from None
        if run.state is None or not run.state.is_completed():
            raise StageFailed(f"The run of Prefect's deployment {DEPLOYMENT} did not succeed.")
        if run.state.name == AWAITING_APPROVAL:
            raise AwaitsApproval("The plan awaits approval.", row="waits-for-approval")

    return carry_out


def _one_at_a_time() -> int:
    """Wait until no other process in this home answers a question, such as one of a killed service.

    Returns:
        A file descriptor that holds the lock.
    """
    folder: Path = home() / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "queue.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def main() -> None:
    """Read a job, do it, and print its outcome."""
    job = read_job()
    try:
        handle = _one_at_a_time()
        outcome = perform(job)
        os.close(handle)
    except KeyboardInterrupt:
        outcome = Outcome("interrupted")
    sys.stdout.write(f"\n{json.dumps(asdict(outcome), ensure_ascii=False)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
