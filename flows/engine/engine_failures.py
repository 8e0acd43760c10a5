"""Failures outside the stages: a message for the user; the detail goes to the internal folder."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable

from dp_core.errors import ReleaseError, StageFailed, without_detail
from flows.engine.configured_server import server_fault
from flows.engine.own_server import PATIENCE, ServerSlow
from flows.engine.settings import DEFAULTS, QUIET, require_room
from tasks.run.home import home, open_ledger
from tasks.run.last_stop import note_stop
from tasks.support.run_folder import RunFolder, where_kept

_SERVER_SLOW = "Timed out while attempting to connect to ephemeral Prefect API server"  # Prefect's


def stopped_outside(release: str, error: Exception) -> StageFailed:
    """Return the error to raise `from None` for a failure outside the stages, and note it.

    Call it while `error` is being handled: the traceback is written to the internal folder.

    Args:
        release: Name of the release.
        error: The exception that stopped it.

    Returns:
        An error with a message for the user that holds no data.
    """
    failure = _failure_outside(release, error, traceback.format_exc())
    note_stop(release, failure)
    return failure


def _failure_outside(release: str, error: Exception, text: str) -> StageFailed:
    """Return the error for a failure outside the stages, whose traceback is `text`."""
    next_step = _next_step(release)
    # If the disk of Prefect's own server is full, the server does not start and does not say why.
    try:
        require_room(home())
    except StageFailed as full:
        return full
    file = RunFolder(home(), release).keep_detail(text)
    if isinstance(error, ServerSlow) or _SERVER_SLOW in str(error):
        return StageFailed(
            "Prefect's own server did not start in time; this machine may be very busy. Wait, or"
            f" set {PATIENCE} to more seconds; the detail {where_kept(file)}."
            f" Nothing is lost: {next_step}",
            row="server-slow",
        )
    fault = server_fault()
    if fault is not None:
        return StageFailed(
            f"{fault} The release stopped; the detail {where_kept(file)}. Nothing is lost:"
            f" {next_step}",
            row="server-unreachable",
        )
    return StageFailed(
        f"The release stopped outside its stages ({type(error).__name__}); the detail"
        f" {where_kept(file)}.{_suspects()} Nothing is lost: repair the cause, then {next_step}",
        row="outside-stages",
    )


def variables_of_site(*prefixes: str) -> list[str]:
    """Return the variables with these prefixes, in upper case, that the program does not set."""
    ours = {*QUIET, *DEFAULTS, "PREFECT_HOME"}
    return sorted(name for name in {*os.environ} - ours if name.upper().startswith(prefixes))


def _suspects() -> str:
    """Return a sentence that names variables which may be the cause; empty if none is set.

    Privacy:
        It names variables, never a value, which may be a password.
    """
    proxies = [name for name in os.environ if name.lower().endswith("_proxy")]
    names = variables_of_site("PREFECT_", "DASK_") + sorted(proxies)
    listed = ", ".join(names)
    return f" This environment sets {listed}; a wrong value may be the cause." if names else ""


def _next_step(release: str) -> str:
    """Return the command to continue with; a release without a reservation cannot be resumed."""
    with contextlib.suppress(Exception):
        if open_ledger(home()).reservation(release) is None:
            return "repeat the same `dp-release run`; nothing was started."
    return f"continue with `dp-release resume {release}`."


def without_data(release: str, work: Callable[[], object]) -> ReleaseError | None:
    """Do the work of a flow; return the error that stopped it, without data.

    Args:
        release: Name of the release.
        work: All that the flow does.

    Returns:
        A new error that holds no data; None if the work succeeded.

    Privacy:
        Prefect logs and stores an exception that leaves a flow, with its text, attributes, cause
        and context. So a new error is made, as in a stage (`tasks.stages.stage_task`), and the
        caller must raise it outside any `except` block.
    """
    try:
        work()
    except ReleaseError as error:
        if error.internal:
            RunFolder(home(), release).keep_detail(error.internal)
        return without_detail(error)
    except Exception as error:
        return stopped_outside(release, error)
    return None
