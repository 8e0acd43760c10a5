"""Hands the release of a question to Prefect's deployment `questions`, and waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from dp_core.errors import AwaitsApproval, StageFailed
from flows.engine.settings import prepare
from tasks.run.home_folder import home

DEPLOYMENT = "answer-question/questions"
AWAITING_APPROVAL = "AwaitingPlanApproval"
"""Name of the state in which a run ends whose plan a person has to approve."""
POLL_S = 2.0
"""Seconds between two looks at the run."""


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
