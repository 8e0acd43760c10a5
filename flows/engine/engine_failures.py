"""What goes wrong around the stages: one sentence for a person, the detail for staff."""

from __future__ import annotations

import contextlib
import shutil
import traceback
from collections.abc import Callable

from dp_core.errors import ReleaseError, StageFailed
from flows.engine.own_server import PATIENCE, ServerSlow
from tasks.run.home import home, open_ledger
from tasks.support.run_folder import RunFolder, where_kept

LEAST_ROOM = 2**20
"""Bytes below which a home is full: Prefect's own server cannot write its next page then."""

_SERVER_SLOW = "Timed out while attempting to connect to ephemeral Prefect API server"  # Prefect's


def stopped_outside(release: str, error: Exception) -> StageFailed:
    """Return the sentence about a failure outside the stages; to be raised `from None`.

    Args:
        release: The release it stopped; the detail goes to its internal folder.
        error: Being handled.
    """
    text = traceback.format_exc()
    next_step = _next_step(release)
    # Prefect's own server has its database in the home, and does not say why it did not start.
    if _is_full():
        return StageFailed(
            f"The disk is full: {home()} has no room left ({type(error).__name__}). Free space"
            f" there; nothing is lost: {next_step}",
            row="disk-full",
        )
    file = RunFolder(home(), release).keep_detail(text)
    if isinstance(error, ServerSlow) or _SERVER_SLOW in str(error):
        return StageFailed(
            "Prefect's own server did not start in time; this machine may be very busy. Wait, or"
            f" set {PATIENCE} to more seconds; the detail {where_kept(file)}."
            f" Nothing is lost: {next_step}",
            row="server-slow",
        )
    return StageFailed(
        f"The release stopped outside its stages ({type(error).__name__}); the detail"
        f" {where_kept(file)}. Nothing is lost: {next_step}",
        row="outside-stages",
    )


def _is_full() -> bool:
    """Return whether the home has no room; a home that cannot be asked is not called full."""
    try:
        return shutil.disk_usage(home()).free < LEAST_ROOM
    except OSError:
        return False


def _next_step(release: str) -> str:
    """Return what goes on with the release; what was never reserved cannot be resumed."""
    with contextlib.suppress(Exception):
        if open_ledger(home()).reservation(release) is None:
            return "nothing was begun, so the same `dp-release run` makes it."
    return f"`dp-release resume {release}` goes on."


def without_data(release: str, work: Callable[[], object]) -> ReleaseError | None:
    """Do the work of a flow; return what stopped it as a new error that holds no data.

    Args:
        release: Its name.
        work: All that the flow does.

    Privacy:
        As of a stage (`tasks.stages.stage_task`): Prefect logs and stores what leaves a flow, with
        its text, its attributes, its causes and what was being handled when it was raised. So it is
        made anew, and the caller raises it where nothing is being handled.
    """
    try:
        work()
    except ReleaseError as error:
        if error.internal:
            RunFolder(home(), release).keep_detail(error.internal)
        return error.without_detail()
    except Exception as error:
        return stopped_outside(release, error)
    return None
