"""The flow `resume-unfinished`: resumes runs whose process was killed or that failed temporarily.

Prefect leaves a run whose process was killed in the state RUNNING for ever, where it still counts
towards the deployment's concurrency limit. This flow runs every few minutes and sets such a run to
AwaitingRetry, as the Retry button does, so that a worker continues it. The flow decides only when a
run continues; the ledger decides which noise may be drawn again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Completed, State
from pydantic import Field

from dp_core.errors import AwaitsApproval, ReleaseError, StageFailed
from flows.monitoring.prefect_runs import end_tasks, ended_unseen, home_tag
from flows.nightly import FLOW as NIGHTLY
from flows.releases.run_records import (
    DEFECT,
    INTERRUPTED,
    SUSPENDED,
    Begun,
    RunRecord,
    RunRecords,
    do_unattended,
)
from flows.scheduled import FLOW as SCHEDULED
from tasks.ledger.ledger import Ledger
from tasks.run.earlier_releases import load_plan
from tasks.run.home import home, ledger_exists, open_ledger
from tasks.run.release_cleanup import clear_all_leftovers

FLOW = "resume-unfinished"
PASSING = (StageFailed.exit_code, INTERRUPTED, DEFECT)
"""Exit codes of failures with a cause that may be temporary: a disk, a database or a network."""
REMEMBER = timedelta(days=30)
LONGEST = 3600.0
_ALIVE = {StateType.PENDING, StateType.RUNNING}

Seconds = Annotated[float, Field(ge=0, le=86400)]
Number = Annotated[int, Field(ge=1, le=1000)]


@flow(name=FLOW, flow_run_name=FLOW, persist_result=False, log_prints=False, retries=0)
def resume_unfinished(
    patience: Seconds = 300.0, first_wait: Seconds = 300.0, most_failures: Number = 12
) -> State[Any] | None:
    """Resume unfinished scheduled releases.

    A run whose process was killed is resumed at once. A run that failed for a temporary reason is
    resumed after a wait, and a run that waited for the approval of its plan after the approval. A
    release that was refused, that awaits approval, or that a person cancelled or suspended is not
    resumed, even after the timeout of the suspension. If an
    interruption left confidential files of a release that awaits approval or ended without a
    bundle, or of an evaluation of a published one, they are deleted.

    Args:
        patience: Seconds before an unresponsive run is resumed, 300 by default. A run is
            unresponsive if it never started, or if its process was on another machine and holds no
            lease.
        first_wait: Seconds before a run that failed is resumed for the first time, 300 by default.
            The wait doubles with each failure, up to an hour.
        most_failures: Number of failures after which a run is left to a person, 12 by default.
    """

    def work(begun: Begun) -> State[Any]:
        rules = Rules(patience=patience, first_wait=first_wait, most_failures=most_failures)
        with only_one(home()) as alone:
            if not alone:
                return Completed(message="Another run of this flow is at work.")
            with get_client(sync_client=True) as client:
                swept = Sweep(client, RunRecords(home()), rules, own=begun.record.flow_run)
                swept.all()
            left = clear_all_leftovers(home(), open_ledger(home())) if ledger_exists(home()) else []
        files = f" Leftover files of {', '.join(left)} were deleted." if left else ""
        return Completed(message=swept.sentence + files)

    return do_unattended(FLOW, work)


@dataclass(frozen=True, slots=True)
class Rules:
    """When a run is resumed.

    Attributes:
        patience: Seconds before an unresponsive run is resumed.
        first_wait: Seconds to wait after the first failure.
        most_failures: Number of failures after which a run is left to a person.
    """

    patience: float
    first_wait: float
    most_failures: int

    def wait(self, number: int) -> float:
        """Return the seconds to wait after the given number of failures.

        >>> Rules(300, 300, 12).wait(1), Rules(300, 300, 12).wait(2), Rules(300, 300, 12).wait(9)
        (300.0, 600.0, 3600.0)
        """
        return float(min(self.first_wait * 2 ** min(number - 1, 20), max(LONGEST, self.first_wait)))


@dataclass(slots=True)
class Sweep:
    """One examination of all runs.

    Attributes:
        client: Client of Prefect's server.
        records: The home's records of runs.
        rules: When a run is resumed.
        own: Identifier of the run that executes this sweep.
        given_back: Names of the runs that were resumed.
        left: Names of the releases that failed too often and need a person.
    """

    client: SyncPrefectClient
    records: RunRecords
    rules: Rules
    own: str
    given_back: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """The result as a sentence for people."""
        count = len(self.given_back)
        went = f"Resumed runs: {count}" if count else "No run had to be resumed"
        names = f" ({', '.join(self.given_back)})" if self.given_back else ""
        need = (
            f" {', '.join(self.left)} failed {self.rules.most_failures} times and need a person:"
            " repair the cause and use Retry. (runbook: tried-too-often)"
            if self.left
            else ""
        )
        return f"{went}{names}.{need}"

    def all(self) -> None:
        """Examine every run: those recorded in this home first, then those only Prefect knows."""
        known = set()
        ledger = open_ledger(home()) if ledger_exists(home()) else None
        for record in self.records.all():
            known.add(record.flow_run)
            if record.flow_run != self.own:
                self._look(record, ledger)
        asked = FlowFilter(name=FlowFilterName(any_=[SCHEDULED]))
        makes_releases = {found.id for found in self.client.read_flows(flow_filter=asked)}
        for run in self._never_begun():
            if str(run.id) in known or str(run.id) == self.own:
                continue
            if run.flow_id in makes_releases:
                self._give_back(run, run.name)
            else:
                self._end(run)
        self._end_forgotten_tasks()

    def _end_forgotten_tasks(self) -> None:
        """End task runs that are unfinished in a flow run of this home that has ended.

        Prefect's server learns the end of a task from an event, which is lost if the server is
        killed. Other homes and other flows may use the same server; their tasks are left alone.
        """
        since = datetime.now(UTC) - timedelta(seconds=self.rules.patience)
        lost: State[None] = Completed(message="Its end was not reported; its flow run is complete.")
        for flow_states, state in (
            (["COMPLETED"], lost),
            (["FAILED", "CRASHED", "CANCELLED"], ended_unseen()),
        ):
            ended = {"state": {"type": {"any_": flow_states}}, "tags": {"all_": [home_tag()]}}
            end_tasks(self.client, ended, state, before=since)

    def _look(self, record: RunRecord, ledger: Ledger | None) -> None:
        age = _seconds_since(record.began)
        approved = record.waits and ledger is not None and _is_approved(record, ledger)
        if record.ended not in (None, SUSPENDED, *PASSING) and not approved:
            if age > REMEMBER.total_seconds():
                self.records.forget(record)
            return
        if record.ended is None and not self._is_dead(record, age, ledger):
            return
        try:
            run = self.client.read_flow_run(UUID(record.flow_run))
        except (ObjectNotFound, ValueError):
            # The run was deleted in Prefect, or belongs to another server.
            self.records.forget(record)
            return
        if record.flow != SCHEDULED:
            # The flow's next run repeats the work. Only end this one, so that it does not stay
            # RUNNING for ever.
            self._end(run)
            self.records.forget(record)
            return
        if record.ended == SUSPENDED and not _is_taken_up(run):
            # A person suspended it, and continues it by Resume, or by Retry after the timeout.
            return
        if self._begins_again(run, record):
            return
        if record.ended not in (None, INTERRUPTED, SUSPENDED) and not approved:
            if record.failures >= self.rules.most_failures:
                self.left.append(record.release or run.name)
                return
            if age < self.rules.wait(record.failures):
                return
        self._give_back(run, record.release or run.name, waited=approved)

    def _begins_again(self, run: FlowRun, record: RunRecord) -> bool:
        """Return whether a worker took the run again recently, so that it may still be starting."""
        state = run.state
        if state is None or state.type not in _ALIVE:
            return False
        since = state.timestamp > datetime.fromisoformat(record.began) + timedelta(seconds=1)
        return since and _seconds_since(state.timestamp.isoformat()) < self.rules.patience

    def _is_dead(self, record: RunRecord, age: float, ledger: Ledger | None) -> bool:
        if record.is_killed():
            return True
        if record.holder.host == os.uname().nodename and _same_machine(record):
            return False
        # A process on another machine, or from before a restart, is alive if its release has a
        # lease.
        holder = ledger and record.release and ledger.holder(record.release)
        return not holder and age > self.rules.patience

    def _never_begun(self) -> Iterator[FlowRun]:
        """Yield runs of our flows that have been pending, running or crashed beyond `patience`."""
        since = datetime.now(UTC) - timedelta(seconds=self.rules.patience)
        for run in self.client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=[SCHEDULED, NIGHTLY, FLOW])),
            flow_run_filter=FlowRunFilter.model_validate(
                {"state": {"type": {"any_": ["PENDING", "RUNNING", "CRASHED"]}}}
            ),
            limit=200,
        ):
            if run.state and run.state.timestamp < since:
                yield run

    def _give_back(self, run: FlowRun, name: str, *, waited: bool = False) -> None:
        """Set a run to AwaitingRetry, so that a worker continues it."""
        kind = run.state.type if run.state else None
        ended = {StateType.COMPLETED} if waited else {StateType.FAILED, StateType.CRASHED}
        if kind not in _ALIVE | ended:
            # It is already waiting, was cancelled, or has finished.
            return
        self._end(run)
        again: State[Any] = AwaitingRetry(message="Continues where it stopped.")
        self.client.set_flow_run_state(run.id, again)
        self.given_back.append(name)

    def _end(self, run: FlowRun) -> None:
        """Set a run and its tasks to Crashed, so that it no longer counts towards the limit."""
        end_tasks(self.client, {"id": {"any_": [run.id]}}, ended_unseen())
        if run.state and run.state.type in _ALIVE:
            self.client.set_flow_run_state(run.id, ended_unseen())


@contextlib.contextmanager
def only_one(at: Path) -> Iterator[bool]:
    """Take the lock of the sweep, and yield whether this process got it.

    The operating system releases the lock when the process ends, however it ends.
    """
    folder = at / "scheduled"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "sweep.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def _is_taken_up(run: FlowRun) -> bool:
    """Return whether a worker took a run again, even if its process has ended since."""
    return run.state is not None and run.state.type in _ALIVE | {StateType.CRASHED}


def _is_approved(record: RunRecord, ledger: Ledger) -> bool:
    """Return whether the plan no longer awaits approval; the run itself reports other errors."""
    try:
        ledger.check(load_plan(Path(str(record.spec))))
    except AwaitsApproval:
        return False
    except ReleaseError:
        return True
    return True


def _same_machine(record: RunRecord) -> bool:
    from tasks.ledger.leases import this_process

    here = this_process(record.holder.home)
    return (here.boot, here.space) == (record.holder.boot, record.holder.space)


def _seconds_since(moment: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
