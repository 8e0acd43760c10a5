"""The flow `release`: the stages of a release in order, with the ledger and Dask around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import State, Task, flow
from prefect.states import Completed

from dp_core.errors import BadInput, DataRefused
from dp_core.plan.plan import Plan, make_plan
from flows.engine.engine_failures import without_data
from flows.monitoring import log
from flows.monitoring.outcome import announce, outcome_of
from flows.monitoring.prefect_artifacts import ReleaseArtifacts
from flows.monitoring.prefect_runs import tag_flow_run
from flows.monitoring.stage_clock import follow_stages
from flows.releases.opening import Opening, forget_lost, give_back, needs_data
from tasks.confidential import connection
from tasks.confidential.client import Client
from tasks.confidential.connection import Connection
from tasks.confidential.public_run import PublicRun
from tasks.ledger.reservations import Charge
from tasks.run.earlier_releases import load_plan, load_release
from tasks.run.last_stop import stop_noted
from tasks.run.release_run import Progress, silent
from tasks.run.stage_table import STAGE_NAMES
from tasks.stages.check_quality import check_against_tables, check_quality
from tasks.stages.choose_domain import choose_domain
from tasks.stages.gates.gate_task import Waiting
from tasks.stages.gates.ledger_tasks import grant, reserve, settle
from tasks.stages.identify import identify
from tasks.stages.measure_analyses import measure_analyses
from tasks.stages.measure_marginals import (
    count_marginals,
    measure_basics,
    measure_marginals,
    reuse_measurements,
    select_marginals,
)
from tasks.stages.publish import publish, tidy
from tasks.stages.reconstruct import reconstruct
from tasks.stages.stage_task import StageResult
from tasks.stages.synthesize import synthesize
from tasks.stages.validate_schema import discretize, validate_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRESS: ContextVar[Progress] = ContextVar("progress", default=silent)
_PLAN: ContextVar[Plan | None] = ContextVar("plan", default=None)


_CONNECTION: ContextVar[Connection | None] = ContextVar("connection", default=None)


@contextmanager
def called_with(
    progress: Progress,
    plan: Plan | None = None,
    confidential: Connection | None = None,
) -> Iterator[None]:
    """Pass values to the flow that are not parameters, because Prefect stores parameters.

    Args:
        progress: Called with the name of a stage and the part of it that is done, 0 to 1.
        plan: Plan of the spec, if the caller has made it; by default the flow makes it.
        confidential: Connection to the process that may see the data, if the caller has started it;
            by default the flow starts it.
    """
    tokens = _PROGRESS.set(progress), _PLAN.set(plan), _CONNECTION.set(confidential)
    try:
        yield
    finally:
        _PROGRESS.reset(tokens[0])
        _PLAN.reset(tokens[1])
        _CONNECTION.reset(tokens[2])


def plan_of_caller() -> Plan | None:
    """Return the plan that `called_with` passed, None if it passed none."""
    return _PLAN.get()


def _run_name() -> str:
    """Return the run's name in Prefect: `release` and the file name of the spec."""
    from prefect.runtime import flow_run

    return f"release {Path(str(flow_run.parameters['spec'])).name}"


@flow(
    name="release",
    flow_run_name=_run_name,
    persist_result=False,
    log_prints=False,
    validate_parameters=True,
)
def release(
    spec: str, out: str, dask: str | None = None, keep_confidential: bool = False
) -> State[None] | None:
    """Make a release, or continue one that stopped.

    A run that ends because a person must decide has not failed. Its state in Prefect is `Held` if
    the finished release awaits approval, and `AwaitingPlanApproval` if an account must approve the
    plan first. Run it again after the decision.

    Args:
        spec: Path of the release spec.
        out: Folder of the bundle; new or empty.
        dask: Address of a running Dask scheduler; by default the spec says what counts.
        keep_confidential: Keep the confidential folder (codes, and rows copied from a database or
            panel) when the release is finished; False by default.

    Raises:
        ReleaseError: if the release failed or was refused.
    """
    plan = plan_of_caller()
    try:
        asked = load_release(Path(spec)) if plan is None else plan.spec
    except BadInput as error:
        announce(outcome_of(Path(spec).name, error), release=Path(spec).name, account=None)
        raise
    artifacts = ReleaseArtifacts(STAGE_NAMES)

    def work() -> None:
        carry_out(
            Path(spec),
            Path(out),
            plan=plan or make_plan(asked),
            dask=dask,
            keep_confidential=keep_confidential,
            perform=artifacts.perform,
        )

    log.show_lines()
    tag_flow_run(asked)
    failure = without_data(asked.release, work)
    outcome = outcome_of(asked.release, failure)
    log.say_end(outcome.sentence)
    artifacts.end(outcome)
    announce(outcome, release=asked.release, account=asked.account)
    if failure is None:
        return None
    if outcome.is_failure:
        raise failure
    return Completed(name=outcome.title, message=outcome.sentence)


Perform = Callable[..., Any]
"""Runs one task with its arguments and returns its result; by default it calls the task."""


def carry_out(
    spec: Path,
    out: Path,
    *,
    plan: Plan | None = None,
    dask: str | None = None,
    keep_confidential: bool = False,
    perform: Perform = Task.__call__,
) -> PublicRun:
    """Make a release, or continue one that stopped, and return its run.

    If bad input stops the release before anything was charged, its reservation is returned.

    Args:
        spec: Path of the release spec.
        out: Folder of the bundle; new or empty.
        plan: Plan of the spec; by default the spec is read and planned.
        dask: Address of a running Dask scheduler; by default the spec says what counts.
        keep_confidential: Keep the confidential folder (codes, and rows copied from a database or
            panel) when the release is finished; False by default.
        perform: Runs one task; by default as a task of the current flow.

    Raises:
        ReleaseError: what stopped the release.
    """
    log.check()
    plan = plan or load_plan(spec)
    # Noted once the lease is free: what stops a second process is no stop of the first.
    with stop_noted(plan.spec.release), ExitStack() as until_the_end:
        started = _CONNECTION.get()
        confidential = Client(lambda: started or connection.connect(plan, dask))
        until_the_end.callback(confidential.close)
        # A cluster that cannot be used is refused before anything is reserved. Tables of an earlier
        # release are not counted again.
        counts = plan.spec.measurements is None
        if counts and (dask is not None or plan.spec.dask is not None):
            confidential.cluster(plan.spec.release, dask, spec.absolute())
        opening = Opening(
            plan,
            spec,
            out,
            until_the_end,
            confidential,
            keep_confidential=keep_confidential,
            progress=_PROGRESS.get(),
        )
        reserved = _answer(perform(reserve, opening))
        run = opening.run
        until_the_end.enter_context(follow_stages(run))
        run.committed = partial(_tell_committed, run)
        run.granted = partial(log.say_grant, run)
        run.settled = partial(log.say_settlement, run)
        log.log_opening(run)
        try:
            make_release(run, reserved, log.with_log_lines(perform))
        except BadInput as error:
            if give_back(run) and isinstance(error, DataRefused):
                told = type(error)(f"{error.message} Nothing was spent.", row=error.row)
                told.message_file = error.message_file
                raise told from None
            raise
    return run


def make_release(run: PublicRun, reserved: StageResult, perform: Perform = Task.__call__) -> None:
    """Run every stage that is not done yet, then publish if that is allowed.

    Each task takes the results that it waits for, so Prefect draws them as its graph. The ledger
    gives a grant before each stage of `dp_core.policies.stage_grant.PAYS`: those that count records
    or may charge. `identify`, `validate` and `discretize` read the file before, as its attempt. A
    release that uses the tables of an earlier one runs `reuse` instead of all of them, and opens no
    data.

    Args:
        run: The run, with its lease and reservation.
        reserved: The result of the ledger's task `reserve`.
        perform: Runs one task; by default as a task of the current flow.

    Raises:
        Held: if the release awaits approval.
        Unpublished: if its own thresholds ended it.
        ReleaseError: if a task failed.
    """

    def look(stage: Task[..., StageResult], *after: StageResult) -> StageResult:
        """Run a stage that counts records or may charge, after the ledger has granted it."""
        granted = None
        if run.folder.facts_of(stage.name) is None:
            granted = perform(grant, run, stage.name, *after)
        return perform(stage, run, granted, *after)

    def measure() -> StageResult:
        """Run the stages that open the data, up to the noisy tables."""
        bound = reserved
        if needs_data(run):
            # Identify the input again: earlier stages must have used the same input.
            run.folder.forget("identify")
            bound = perform(identify, run, reserved)
        validated = perform(validate_schema, run, bound)
        coded = perform(discretize, run, validated)
        if run.has("domain"):
            coded = look(choose_domain, coded)
        counted = look(count_marginals, coded)
        basics = look(measure_basics, counted)
        selected = look(select_marginals, basics)
        measured = look(measure_marginals, selected)
        return look(measure_analyses, measured) if run.has("analyses") else measured

    made = reserved
    if run.writer.gate(run.reservation).held is None:
        forget_lost(run)
        measured = perform(reuse_measurements, run, reserved) if run.reuses else measure()
        made = measured
        if run.has("synthesize"):
            fitted = perform(reconstruct, run, measured)
            sets = perform(synthesize, run, fitted)
            if run.reuses:
                made = perform(check_against_tables, run, sets)
            else:
                made = look(check_quality, sets)
    settled = _answer(perform(settle, run, made))
    perform(publish, run, settled)
    tidy(run)


def _tell_committed(run: PublicRun, charges: Sequence[Charge]) -> None:
    log.log_commit(run, charges)
    log.say_commit(run, charges)


def _answer(given: StageResult | Waiting) -> StageResult:
    """Return the result of a gate; raise its error if the release waits for a person."""
    if isinstance(given, Waiting):
        raise given.error
    return given
