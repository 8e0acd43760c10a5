"""The log of releases: one line for each thing that happened, for staff and their machines.

Public values only: what is written comes from plans (made before any data are read), from the
ledger's receipts, and from the sentences that people are told; there is no parameter for anything
else. Stage durations are the exception, as they depend on the size of the data: the log is for
staff, as Prefect's pages are, and is never published.

Where it goes is said by the environment, so that it reaches a worker's process and is no parameter
of a flow: DP_RELEASE_LOG is a file to which lines are appended (`-` is the standard error), and
DP_RELEASE_LOG_FORMAT is `text` or `json`. Without the former there is no log. A line is one write,
so that several processes may share a file. A log that fails never stops a release that has begun.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dp_core.errors import BadInput

if TYPE_CHECKING:
    from prefect import Task

    from flows.monitoring.outcome import Outcome
    from tasks.ledger.reservations import Charge
    from tasks.run.release_run import Run

FILE, FORMAT = "DP_RELEASE_LOG", "DP_RELEASE_LOG_FORMAT"
FORMATS = ("text", "json")
VERSION = 1
STANDARD_ERROR = "-"

Ending = Literal["done", "failed", "interrupted"]


def direct(file: str | None, form: str | None) -> None:
    """Let this process log, as a command line asks for it.

    Args:
        file: Where to; None for where the environment says, or else, where a format is given, the
            standard error.
        form: `text` or `json`; None for what the environment says.

    Raises:
        BadInput: if it is no format, or the file cannot be written.
    """
    if form is not None:
        os.environ[FORMAT] = form
        os.environ.setdefault(FILE, STANDARD_ERROR)
    if file is not None:
        # A flow's process may stand in another folder.
        os.environ[FILE] = file if file == STANDARD_ERROR else str(Path(file).absolute())
    check()


def check() -> None:
    """Refuse a log that cannot be written, before anything is begun.

    Raises:
        BadInput: saying which.
    """
    if os.environ.get(FORMAT, FORMATS[0]) not in FORMATS:
        raise BadInput(
            f"{FORMAT} (or --log-format) is neither {' nor '.join(FORMATS)}; write one of them."
        )
    path = os.environ.get(FILE)
    if path and path != STANDARD_ERROR:
        try:
            os.close(_opened(path))
        except OSError as error:
            raise BadInput(
                f"The log file {path} cannot be written ({error.strerror}); name another in {FILE}"
                " or --log-file.",
                row="log-not-written",
            ) from None


def is_on_terminal() -> bool:
    """Whether the log is on the standard error, where progress would be too."""
    return os.environ.get(FILE) == STANDARD_ERROR


def opened(run: Run) -> None:
    """Note that a release is begun, or gone on with."""
    spec, privacy = run.spec, run.spec.privacy
    _write(
        "opened",
        spec.release,
        account=spec.account,
        method=spec.method,
        epsilon=float(privacy.epsilon),
        delta=float(privacy.delta),
        neighbours=privacy.neighbours,
        plan=run.plan.hash,
    )


def committed(run: Run, charges: Sequence[Charge]) -> None:
    """Note that results which were paid for are safely stored."""
    for charge in charges:
        _write(
            "charge-committed",
            run.spec.release,
            account=run.spec.account,
            stage=charge.stage,
            receipt=charge.number,
            cost=_decimal(charge.cost),
            cost_exact=str(charge.cost),
            currency=run.plan.currency.kind,
        )


def watched(
    perform: Callable[[Task[[Any], None], Any], None],
) -> Callable[[Task[[Any], None], Any], None]:
    """Note the beginning and the end of every stage that is done; one that was done is not noted.

    Args:
        perform: Does a stage.
    """

    def noted(task: Task[[Any], None], run: Run) -> None:
        if run.folder.done(task.name) is not None:
            perform(task, run)
            return
        started = time.monotonic()
        _write("stage-begun", run.spec.release, stage=task.name)
        ending: Ending = "interrupted"
        try:
            perform(task, run)
            ending = "done"
        except Exception:
            ending = "failed"
            raise
        finally:
            seconds = round(time.monotonic() - started, 3)
            _write(
                "stage-ended", run.spec.release, stage=task.name, outcome=ending, seconds=seconds
            )

    return noted


def ended(outcome: Outcome, *, release: str, account: str | None) -> None:
    """Note how a run ended: published, held, withdrawn, refused, failed or waiting."""
    _write(
        outcome.name,
        release,
        account=account,
        exit_code=outcome.exit_code,
        sentence=outcome.sentence,
    )


def _write(event: str, release: str, **facts: str | float | int | None) -> None:
    path = os.environ.get(FILE)
    if not path:
        return
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    told = {"time": now, "event": event, "release": release, **facts}
    told = {name: value for name, value in told.items() if value is not None}
    if os.environ.get(FORMAT) == "json":
        line = json.dumps({"version": VERSION, **told})
    else:
        line = " ".join([now, event, release, *_words(facts)])
    with suppress(OSError, ValueError):
        if path == STANDARD_ERROR:
            sys.stderr.write(f"{line}\n")
            return
        handle = _opened(path)
        try:
            os.write(handle, f"{line}\n".encode("utf-8", "backslashreplace"))
        finally:
            os.close(handle)


def _words(facts: dict[str, str | float | int | None]) -> list[str]:
    return [
        f"{name}={value if isinstance(value, (int, float)) else json.dumps(value)}"
        if not isinstance(value, str) or set(value) & set(' "=\n')
        else f"{name}={value}"
        for name, value in facts.items()
        if value is not None
    ]


def _opened(path: str) -> int:
    # Of staff, since it says how long stages took.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _decimal(cost: Fraction) -> float:
    return float(f"{float(cost):.12g}")
