"""What every stage has in common: done once, shown in Prefect, and silent about the data."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE

from dp_core.errors import ReleaseError, StageFailed
from tasks.run.release_run import Run
from tasks.support.run_folder import disk_errors, where_kept

RunT = TypeVar("RunT", bound=Run)
"""`Run`, or `ConfidentialRun` for a stage that looks at the data."""


def stage(
    name: str,
) -> Callable[[Callable[[RunT], Mapping[str, object] | None]], Task[[RunT], None]]:
    """Make a Prefect task of a stage.

    The task is skipped if its stage is finished. Its result is what it left in the run's folder;
    it returns nothing, and nothing of it is cached, persisted, retried or logged by Prefect: to go
    on after a failure is the ledger's business, not the orchestrator's.

    Args:
        name: The stage, as people read it.

    Privacy:
        Whatever goes wrong leaves the task as one of our errors, made anew without cause, context
        or data: Prefect keeps what is raised in tables and files that many may read. The detail
        goes to the run's internal folder.
    """

    def decorate(
        work: Callable[[RunT], Mapping[str, object] | None],
    ) -> Task[[RunT], None]:
        def perform(run: RunT) -> None:
            if run.folder.done(name) is not None:
                return
            run.progress(name, 0.0)
            failure = _attempt(name, work, run)
            if failure is not None:
                raise failure
            run.progress(name, 1.0)

        perform.__doc__ = work.__doc__
        return task(
            name=name,
            task_run_name=name,
            persist_result=False,
            cache_policy=NO_CACHE,
            retries=0,
            log_prints=False,
        )(perform)

    return decorate


def _attempt(
    name: str, work: Callable[[RunT], Mapping[str, object] | None], run: RunT
) -> ReleaseError | None:
    """Do the work; return what went wrong as a new error that holds no data."""
    try:
        # A holder that was taken over must not even look at the data again.
        run.writer.require()
        with disk_errors(f"stage {name!r}"):
            run.folder.finish(name, work(run))
    except ReleaseError as error:
        _keep_detail(name, run, error.internal or "")
        return error.without_detail()
    except Exception as error:
        kept = _keep_detail(name, run, traceback.format_exc())
        return StageFailed(
            f"Stage {name!r} of release {run.spec.release!r} failed ({type(error).__name__});"
            f" the detail, which may be confidential, {where_kept(kept)}."
            f" When the cause is mended, `dp-release resume {run.spec.release}` goes on from"
            " there.",
            row="stage-failed",
        )
    return None


def _keep_detail(name: str, run: Run, detail: str) -> Path | None:
    """Keep the detail for staff; return where, by the name that leads to the latest reservation."""
    text = f"Stage {name!r} of release {run.spec.release!r}.\n\n{detail}"
    kept = run.folder.keep_detail(text)
    return kept and run.folder.internal_name / kept.name
