"""The runs of a release in Prefect: tags, killed processes, and requests to pause or cancel.

Prefect leaves the runs of a process that was killed in the state RUNNING. The holder of a release's
lease knows that every other process of the release is dead, so it may end its runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.context import FlowRunContext
from prefect.exceptions import Abort, Pause
from prefect.runtime import flow_run as this_run
from prefect.runtime import task_run as this_task
from prefect.states import Cancelled, Crashed, State

from dp_core.plan.release_spec import ReleaseSpec
from flows.monitoring import log
from tasks.run.home import home, home_id

_UNFINISHED = {"type": {"any_": ["RUNNING", "PENDING"]}}
_MOST = 200
"""Runs of one kind that are ended at once."""


def tags_of(spec: ReleaseSpec) -> tuple[str, ...]:
    """Return the tags of a release's flow runs in Prefect.

    Tasks have none: for each tag of a task Prefect asks its server for a slot of a limit.
    """
    own = (_tag(spec.release), home_tag())
    return (*own, f"account:{spec.account}", f"method:{spec.method}")


def tag_flow_run(spec: ReleaseSpec) -> None:
    """Add the release's tags to the current flow run; it keeps those of its deployment."""
    if FlowRunContext.get() is None:
        return
    with suppress(Exception), get_client(sync_client=True) as client:
        tags = {*this_run.tags, *tags_of(spec)}
        client.update_flow_run(UUID(this_run.id), tags=sorted(tags))


def end_dead_runs(release: str) -> None:
    """Set the unfinished runs of earlier processes of a release to Crashed.

    Call it under the lease of the release, before any stage is begun. Outside a flow run it does
    nothing. If Prefect cannot be asked, the runs stay as they are, and the release goes on.

    Args:
        release: Name of the release.
    """
    if FlowRunContext.get() is None:
        return
    # Another home may make a release of the same name under the same server.
    mine = {"tags": {"all_": [_tag(release), home_tag()]}}
    with suppress(Exception), get_client(sync_client=True) as client:
        end_tasks(client, mine, ended_unseen())
        runs = FlowRunFilter.model_validate({**mine, "state": _UNFINISHED})
        for run in client.read_flow_runs(flow_run_filter=runs, limit=_MOST):
            if str(run.id) != this_run.id:
                client.set_flow_run_state(run.id, ended_unseen(), force=True)


def end_tasks(
    client: SyncPrefectClient,
    runs: Mapping[str, object],
    state: State[None],
    *,
    before: datetime | None = None,
) -> None:
    """Set the unfinished task runs of flow runs that have ended to a final state.

    Args:
        client: Client of Prefect's server.
        runs: Prefect's filter of the flow runs.
        state: The final state.
        before: Leave tasks alone whose state is newer; None (the default) for all of them.
    """
    tasks = client.read_task_runs(
        flow_run_filter=FlowRunFilter.model_validate(runs),
        task_run_filter=TaskRunFilter.model_validate({"state": _UNFINISHED}),
        limit=_MOST,
    )
    for task in tasks:
        if str(task.id) == this_task.id:
            continue
        if before is None or task.state is None or task.state.timestamp < before:
            client.set_task_run_state(task.id, state, force=True)


def ended_unseen() -> State[None]:
    """Return the state of a run whose process ended without reporting a result."""
    return Crashed(message="Its process ended without reporting a result.")


def is_deployed() -> bool:
    """Return whether the current flow run belongs to a deployment.

    `prefect.runtime.deployment` says the same, but asks the server with a new client at each call.
    """
    context = FlowRunContext.get()
    run = None if context is None else context.flow_run
    return run is not None and run.deployment_id is not None


def heed_requests() -> None:
    """Stop between two tasks if a person paused or cancelled the run in Prefect's pages.

    Prefect itself stops only a run that a worker has started, and only for a cancellation.

    Raises:
        Pause: if the run is paused; a worker continues it after Resume.
        Abort: if the run is being cancelled, and is now cancelled.
    """
    if not (os.environ.get("PREFECT_API_URL") or is_deployed()):
        return  # the temporary server of one command has no pages
    state = None
    with suppress(Exception), get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(this_run.id)).state
        if state is not None and state.is_cancelling() and not is_deployed():
            state = Cancelled(message="A person cancelled the run.")
            client.set_flow_run_state(UUID(this_run.id), state, force=True)
    if state is None:
        return
    if state.is_paused():
        log.say_end(
            "A person suspended this run. Resume continues it; after the timeout, Retry does."
        )
        raise Pause(state=state)
    if state.is_cancelled():
        stop = Abort("A person cancelled the run.")
        stop.state = state  # type: ignore[attr-defined]  # Prefect's engine reads it
        raise stop


def home_tag() -> str:
    """Return the tag of the flow runs of this home's releases in Prefect."""
    return f"home:{home_id(home())[:8]}"


def _tag(release: str) -> str:
    return f"release:{release}"
