"""Reads the data of a desk in processes of their own, by the commands of `dp-release`.

The process that opens a desk or asks never holds a row or an exact count. It learns only the exit
code, and of a release the message and the heading in the runbook that the command prints.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_core import errors
from dp_core.errors import ReleaseError, StageFailed
from flows.processes.child_process import environment, stop

_KINDS: tuple[type[ReleaseError], ...] = (
    errors.BadInput,
    errors.BudgetRefused,
    errors.StageFailed,
    errors.LedgerCorrupt,
    errors.Held,
    errors.Unpublished,
)


class Interrupted(KeyboardInterrupt):
    """The question was interrupted."""

    message = "The question was interrupted; nothing is lost. Ask it again to continue it."


def fits_in_own_process(schema: Path, data: str) -> bool:
    """Return whether data fit a schema, by `dp-release schema check`.

    Args:
        schema: Path of the schema, a file whose name ends in `.yaml`.
        data: Path or glob of the data files.
    """
    command = [sys.executable, "-P", "-m", "flows.cli.main", "schema", "check", str(schema), data]
    nowhere = subprocess.DEVNULL
    done = subprocess.run(
        command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment(), check=False
    )
    return done.returncode == 0


def in_own_process(spec: Path, out: Path) -> None:
    """Make the release of a spec, or continue one that stopped.

    Args:
        spec: Path of the release spec.
        out: Folder of the bundle.

    Raises:
        ReleaseError: what stopped the release, with the same exit code.
        KeyboardInterrupt: if it was interrupted.
    """
    command = [sys.executable, "-P", "-m", "flows.cli.main", "run", str(spec), "--out", str(out)]
    with subprocess.Popen(
        [*command, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,  # so that it is interrupted only once, by this process
    ) as child:
        try:
            printed, _ = child.communicate()
        except BaseException as error:
            stop(child)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted from None
            raise
    if child.returncode:
        raise _failure(printed, child.returncode)


def _failure(printed: bytes, code: int) -> BaseException:
    try:
        told: Mapping[str, Any] = json.loads(printed)
        message, row = str(told["error"]), told.get("runbook")
    except (ValueError, KeyError, TypeError):
        message, row = "", None
    if code == 130:
        return Interrupted()
    for kind in _KINDS:
        if kind.exit_code == code and message:
            return kind(message, row=row)
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return StageFailed(
        f"The process that answers the question {how}. Nothing is lost: ask it again.",
        row="interrupted",
    )
