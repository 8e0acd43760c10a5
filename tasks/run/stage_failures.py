"""The errors of a stage, without data: as its task raises them, and as its process answers them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dp_core.errors import ReleaseError, StageFailed, without_detail
from tasks.run.release_run import Run
from tasks.support.run_folder import disk_errors, where_kept

Result = TypeVar("Result")


class ReportedFailure(Exception):
    """The failure of the confidential process: it is counted, and its detail is kept.

    Attributes:
        failure: The error, without data.
    """

    def __init__(self, failure: ReleaseError) -> None:
        super().__init__(failure.message)
        self.failure = failure


def attempt(name: str, work: Callable[[], Result], run: Run) -> Result | ReleaseError:
    """Return what a stage's work returns, or its error as a new one that holds no data.

    Args:
        name: Public name of the stage.
        work: The work.
        run: The run; the detail of an error goes to its internal folder.

    Privacy:
        The detail of an error may be confidential. What is returned has no cause or context.
    """
    try:
        # A process that lost its lease must not read the data again.
        run.writer.require()
        with disk_errors(f"stage {name!r}"):
            return work()
    except ReportedFailure as told:
        return told.failure
    except ReleaseError as error:
        keep_detail(name, run, error.internal or "")
        return without_detail(error)
    except Exception as error:
        kept = keep_detail(name, run, traceback.format_exc())
        return StageFailed(
            f"Stage {name!r} of release {run.spec.release!r} failed ({type(error).__name__});"
            f" the detail, which may be confidential, {where_kept(kept)}."
            f" Repair the cause, then continue with `dp-release resume {run.spec.release}`.",
            row="stage-failed",
        )
    except BaseException as stop:
        # privacy: Prefect may log what is chained to an exception that stops the process.
        stop.__cause__ = stop.__context__ = None
        raise


def keep_detail(name: str, run: Run, detail: str) -> Path | None:
    """Write the detail of an error to the internal folder; return its path, None if that failed."""
    text = f"Stage {name!r} of release {run.spec.release!r}.\n\n{detail}"
    kept = run.folder.keep_detail(text)
    return kept and run.folder.internal_name / kept.name
