"""The flow `answer-question`: makes the release that answers an admitted question."""

from __future__ import annotations

from typing import Annotated, Any

from prefect import flow
from prefect.runtime import flow_run as this_run
from prefect.states import Completed, State
from pydantic import Field

from flows.desk.asking import release_to_make
from flows.desk.desk import find_desk
from flows.monitoring.outcome import TITLES
from flows.release import release as make_release
from flows.releases.run_records import Begun, do_unattended

FLOW = "answer-question"

# Prefect's form shows the descriptions of the parameters in the flow's docstring.
AccountName = Annotated[str, Field(min_length=1, max_length=100)]
QuestionNumber = Annotated[int, Field(ge=1)]


def _run_name() -> str:
    """Return the run's name in Prefect: the desk and the number of the question."""
    parameters = this_run.parameters
    return f"question {parameters['number']} of {parameters['account']}"


@flow(
    name=FLOW,
    flow_run_name=_run_name,
    persist_result=False,
    log_prints=False,
    retries=0,
    validate_parameters=True,
)
def answer(account: AccountName, number: QuestionNumber) -> State[Any] | None:
    """Make or continue the release that answers an admitted question.

    A second run for the same question continues its release and pays nothing twice. If the question
    is already answered, the run does nothing and succeeds.

    Args:
        account: Account of the question desk.
        number: Number of the question at the desk.

    Raises:
        ReleaseError: if the release failed or was refused.
    """
    return do_unattended(FLOW, lambda begun: _make(begun, account, number))


def _make(begun: Begun, account: str, number: int) -> State[Any] | None:
    desk = find_desk(account)
    work = release_to_make(desk, number)
    if work is None:
        return Completed(message=f"Question {number} of desk {account!r} is already answered.")
    begun.learn(release=work.release, spec=work.spec)
    # Call the function behind the flow, so that the stages are tasks of this run.
    state = make_release.fn(spec=str(work.spec), out=str(work.bundle))
    # Compare the state's name, because Prefect stores no reason. The sweep continues this run after
    # the approval.
    begun.waits = state is not None and state.name == TITLES["waiting"]
    return state
