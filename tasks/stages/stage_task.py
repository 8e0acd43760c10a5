"""The decorator of all stages: each runs once, as a Prefect task, and its errors hold no data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE

from dp_core.errors import StageFailed
from dp_core.kernel.canonical import digest
from dp_core.policies.stage_grant import PAYS, StageGrant
from tasks.run.release_run import Run
from tasks.run.stage_failures import attempt

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
RunT = TypeVar("RunT", bound=Run)
"""`Run`, or `PublicRun` for a stage that asks the confidential process."""

Facts: TypeAlias = "Mapping[str, object] | None"
"""Public facts that a stage stores for later stages; None for none."""


class StageResult:
    """The public result of a task: that it is done. Later tasks take it as an argument.

    Prefect draws an edge between two tasks if one takes what the other returned. The results
    themselves are files in the run's folder. This is not a dataclass, and no task returns one,
    because Prefect would search its fields for edges. It knows values by their address in memory,
    so a shared name or a reused address would draw an edge that is not there.

    Attributes:
        stage: Name of the task.
        facts: SHA-256 of the public facts that it stored.
        grant: What the ledger allows the next stage; None unless the task is a grant.
    """

    def __init__(
        self, stage: str, facts: Mapping[str, object], grant: StageGrant | None = None
    ) -> None:
        """Name the task, hash its public facts, and hold the grant that it made."""
        self.stage = stage
        self.facts = digest(dict(facts))
        self.grant = grant

    def __repr__(self) -> str:
        return f"StageResult({self.stage!r}, facts={self.facts[:12]})"


def stage(
    name: str, run_name: str | None = None
) -> Callable[[Callable[[RunT], Facts]], Task[..., StageResult]]:
    """Return a decorator that makes a Prefect task of a stage.

    The task takes the run and the results of the tasks that it waits for. It does nothing if the
    stage is already done. Its results are files in the run's folder, and it returns a `StageResult`
    only. Prefect does not cache, persist or retry it, because the ledger decides how a release
    continues after a failure. Prefect's log does not get what it prints.

    Args:
        name: Public name of the stage.
        run_name: Template of the name of the task run, with `run`; None for `name`.

    Privacy:
        Prefect stores raised errors where many people can read them. So every error leaves the task
        as a new `ReleaseError` without cause, context or data; the detail goes to the run's
        internal folder.
    """

    def decorate(work: Callable[[RunT], Facts]) -> Task[..., StageResult]:
        def perform(run: RunT, *after: object) -> StageResult:  # noqa: ARG001 (edges of the graph)
            return _once(name, run, partial(work, run))

        return quiet_task(name, perform, work.__doc__, run_name)

    return decorate


def granted_stage(
    name: str,
) -> Callable[[Callable[[RunT, StageGrant], Facts]], Task[..., StageResult]]:
    """Return a decorator that makes a Prefect task of a stage that needs a grant of the ledger.

    As `stage`, but the task also takes the result of the task `grant`, after the run. Without a
    grant for this stage of this reservation and its plan it fails before its work begins, unless
    the stage is already done.

    Args:
        name: Public name of the stage; one of `dp_core.policies.stage_grant.PAYS`.
    """
    if name not in PAYS:
        raise ValueError(
            f"The ledger gives no grants for stage {name!r}; add it to `PAYS` in"
            " dp_core/policies/stage_grant.py."
        )

    def decorate(work: Callable[[RunT, StageGrant], Facts]) -> Task[..., StageResult]:
        def perform(
            run: RunT,
            granted: StageResult | None,
            *after: object,  # noqa: ARG001 (edges of the graph)
        ) -> StageResult:
            def perform_granted() -> Facts:
                grant = None if granted is None else granted.grant
                mine = (name, run.reservation.link, run.reservation.plan)
                if grant is None or (grant.stage, grant.reservation, grant.plan) != mine:
                    raise StageFailed(
                        f"Stage {name!r} of release {run.spec.release!r} was begun without the"
                        " ledger's grant for it; nothing was read or charged."
                    )
                return work(run, grant)

            return _once(name, run, perform_granted)

        return quiet_task(name, perform, work.__doc__)

    return decorate


def quiet_task(
    name: str, perform: Callable[P, ResultT], doc: str | None, run_name: str | None = None
) -> Task[P, ResultT]:
    """Return a Prefect task that Prefect does not cache, persist, retry or log."""
    perform.__doc__ = doc
    return task(
        name=name,
        task_run_name=run_name or name,
        persist_result=False,
        cache_policy=NO_CACHE,
        retries=0,
        log_prints=False,
    )(perform)


def _once(name: str, run: Run, work: Callable[[], Facts]) -> StageResult:
    """Do a stage's work unless it is done; return its public result."""
    if run.folder.facts_of(name) is None:
        run.progress(name, 0.0)
        ended = attempt(name, lambda: run.folder.finish(name, work()), run)
        if ended is not None:
            raise ended
        run.progress(name, 1.0)
    return StageResult(name, run.folder.facts_of(name) or {})
