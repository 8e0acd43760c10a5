"""Answers a question of the service: its own process, or a deployment, makes the release."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from dp_core.errors import (
    AwaitsApproval,
    BadInput,
    BudgetRefused,
    Held,
    ReleaseError,
    StageFailed,
    Unpublished,
)
from flows.desk.asking import answer_question
from flows.desk.desk import find_desk
from flows.desk.own_process import Interrupted, ReleaseProcess
from flows.desk.service.service_records import ENDED, AdmittedQuestion, Outcome, ServiceRecords
from flows.desk.service.tokens import FOLDER
from flows.engine.settings import prepare
from tasks.run.home_folder import home

DEPLOYMENT = "answer-question/questions"
AWAITING_APPROVAL = "AwaitingPlanApproval"
"""Name of the state in which a run ends whose plan a person has to approve."""
POLL_S = 2.0
"""Seconds between two looks at the run."""
REFUSED = "The ledger refused the question when its turn came; nothing was paid for it."
EARLY = "The process that answers ended early."
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
_LOCK_S = 0.2
"""Seconds between two attempts to get the lock of the queue."""


class Answerer:
    """Answers one question at a time, until the service stops.

    Args:
        records: Number of attempts at each question that ended without an answer.
        seconds: Largest time of one answer, in seconds.
        deployment: Whether to hand the question to Prefect's deployment; False by default.
    """

    def __init__(
        self, records: ServiceRecords, seconds: float, *, deployment: bool = False
    ) -> None:
        self._records, self._seconds, self._deployment = records, seconds, deployment
        self._process = ReleaseProcess(seconds)

    def __call__(self, question: AdmittedQuestion) -> Outcome:
        """Answer a question; return the outcome.

        Privacy:
            The sentences are fixed. The rule that the data break, and details of a failure, are
            only in the internal folder of the release.
        """
        try:
            with self._one_at_a_time() as lock:
                make = partial(self._process, kept=[lock])
                if self._deployment:
                    make = partial(self._deploy, question)
                desk = find_desk(question.account)
                answer = answer_question(desk, question.number, carry_out=make)
        except (AwaitsApproval, Held):
            return Outcome("awaiting approval")
        except ReleaseError as error:
            found = next(outcome for kind, outcome in _SAID if isinstance(error, kind))
            return replace(found, row=error.row or "")
        except Exception:
            # privacy: its text may quote what was read.
            return Outcome("failed", EARLY)
        except Interrupted:  # it took too long, unless the service stops
            return (
                Outcome("interrupted") if self._process.ended.is_set() else Outcome("failed", EARLY)
            )
        return Outcome("answered", cost=str(answer.paid.epsilon))

    def end(self) -> None:
        """Interrupt the current answer and start no other; nothing is lost or paid twice."""
        self._process.end()

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[int]:
        """Wait until no other process of this home answers, such as one of a killed service.

        Yields:
            The descriptor of the lock, which the process of the release keeps until it ends.
        """
        folder: Path = home() / FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "queue.lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._process.ended.wait(_LOCK_S):
                        raise Interrupted from None
            yield lock.fileno()

    def _deploy(self, question: AdmittedQuestion, _spec: Path, _out: Path) -> None:
        """Make the release of a question in a run of the deployment.

        The question and the number of attempts that ended without an answer are the idempotency key
        of the run, so a service that starts again waits for the same run.
        """
        prepare(home())  # before Prefect is imported
        from prefect.client.orchestration import get_client
        from prefect.deployments import arun_deployment

        account, number = question.account, question.number
        attempt, until = (
            self._records.ended_attempts(account, number),
            time.monotonic() + self._seconds,
        )
        try:
            run = asyncio.run(
                arun_deployment(
                    DEPLOYMENT,
                    parameters={"account": account, "number": number},
                    idempotency_key=f"{account}-question-{number}-{attempt}",
                    as_subflow=False,
                    timeout=0,
                )
            )
            with get_client(sync_client=True) as client:
                while run.state is None or not run.state.is_final():
                    if self._process.ended.wait(POLL_S) or time.monotonic() > until:
                        raise Interrupted
                    run = client.read_flow_run(run.id)
        except Exception as error:
            raise StageFailed(
                f"Prefect's deployment {DEPLOYMENT} could not be run ({type(error).__name__})."
            ) from None
        if not run.state.is_completed():
            raise StageFailed(f"The run of Prefect's deployment {DEPLOYMENT} did not succeed.")
        if run.state.name == AWAITING_APPROVAL:
            raise AwaitsApproval("The plan awaits approval.", row="waits-for-approval")
