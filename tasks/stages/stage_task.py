"""The decorator of all stages: each runs once, as a Prefect task, and its errors hold no data."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE

from dp_core.errors import DataRefused, ReleaseError, SchemaViolation, StageFailed
from tasks.run.release_run import Run
from tasks.support.run_folder import disk_errors, where_kept

RunT = TypeVar("RunT", bound=Run)
"""`Run`, or `ConfidentialRun` for a stage that reads the data."""


def stage(
    name: str,
) -> Callable[[Callable[[RunT], Mapping[str, object] | None]], Task[[RunT], None]]:
    """Return a decorator that makes a Prefect task of a stage.

    The task does nothing if the stage is already done. It returns nothing: results are files in the
    run's folder. Prefect does not cache, persist, retry or log it, because the ledger decides how a
    release continues after a failure.

    Args:
        name: Public name of the stage.

    Privacy:
        Prefect stores raised errors where many people can read them. So every error leaves the task
        as a new `ReleaseError` without cause, context or data; the detail goes to the run's
        internal folder.
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
    """Run the stage; return its error, if any, as a new one that holds no data."""
    try:
        # A process that lost its lease must not read the data again.
        run.writer.require()
        with disk_errors(f"stage {name!r}"):
            run.folder.finish(name, work(run))
    except DataRefused as error:
        return _refusal(name, run, error)
    except ReleaseError as error:
        _keep_detail(name, run, error.internal or "")
        return error.without_detail()
    except Exception as error:
        kept = _keep_detail(name, run, traceback.format_exc())
        return StageFailed(
            f"Stage {name!r} of release {run.spec.release!r} failed ({type(error).__name__});"
            f" the detail, which may be confidential, {where_kept(kept)}."
            f" Repair the cause, then continue with `dp-release resume {run.spec.release}`.",
            row="stage-failed",
        )
    return None


def _refusal(name: str, run: Run, refused: DataRefused) -> ReleaseError:
    """Return the error by which others learn that the confidential data refused.

    Privacy:
        The refusal is an answer about the data. So the ledger counts it before anybody is told, and
        the sentence that Prefect and the log keep names no rule and no column.
    """
    try:
        run.judge("refused")
    except ReleaseError as error:
        # It was not counted, so it is not told: the next attempt finds it again.
        return error.without_detail()
    _keep_detail(name, run, refused.internal or "")
    if not isinstance(refused, SchemaViolation):
        return refused.without_detail()
    kept = run.folder.keep_refusal(refused.message)
    return SchemaViolation(
        f"The confidential data of release {run.spec.release!r} do not fit its schema. The ledger"
        f" counts the refused attempt; what does not fit {where_kept(kept)}.",
        row="data-do-not-fit",
    )


def _keep_detail(name: str, run: Run, detail: str) -> Path | None:
    """Write the detail of an error to the internal folder; return its path, None if that failed."""
    text = f"Stage {name!r} of release {run.spec.release!r}.\n\n{detail}"
    kept = run.folder.keep_detail(text)
    return kept and run.folder.internal_name / kept.name
