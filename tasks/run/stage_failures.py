"""The errors of a stage, without data, as its task raises them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dp_core.errors import ReleaseError, StageFailed, without_detail
from tasks.run.release_run import Run
from tasks.support.run_folder import RunFolder, disk_errors, where_kept

Result = TypeVar("Result")


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
    except ReleaseError as error:
        # That of the confidential process has none: the process has kept it.
        if error.internal:
            save_stage_detail(f"Stage {name!r}", error.internal, run.folder)
        return without_detail(error)
    except Exception as error:
        return unexpected_failure(f"Stage {name!r}", error, run.folder)
    except BaseException as stop:
        # privacy: Prefect may log what is chained to an exception that stops the process.
        stop.__cause__ = stop.__context__ = None
        raise


def unexpected_failure(what: str, error: Exception, folder: RunFolder) -> StageFailed:
    """Return the error for an exception that is being handled and is none of the program's own.

    Args:
        what: What failed, as the beginning of a sentence.
        error: The exception; its traceback goes to the internal folder.
        folder: Folder of the release.
    """
    kept = save_stage_detail(what, traceback.format_exc(), folder)
    row = "stage-failed"
    if isinstance(error, MemoryError):
        row = "memory-short"
    return StageFailed(
        f"{what} of release {folder.release!r} failed ({type(error).__name__}); the detail, which"
        f" may be confidential, {where_kept(kept)}. Repair the cause, then continue with"
        f" `dp-release resume {folder.release}`.",
        row=row,
    )


def save_stage_detail(what: str, detail: str, folder: RunFolder) -> Path | None:
    """Write what failed, and its detail, to the internal folder; return the path if that worked."""
    return folder.keep_detail(f"{what} of release {folder.release!r}.\n\n{detail}")
