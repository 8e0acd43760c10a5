"""The log of releases for staff, and what Prefect's log of a run says of its release.

The log for staff has one line for each event, as text or JSON. It holds public values from plans,
ledger receipts and messages, with one exception: the durations of stages depend on the size of the
data. So it is never published.

Two environment variables configure the log, so that worker processes inherit them. DP_RELEASE_LOG
is the path of the file to append to; `-` is standard error, and without the variable there is no
log. DP_RELEASE_LOG_FORMAT is `text` (the default) or `json`. Each line is one write, so several
processes can share a file.

Everybody who can open Prefect's pages can read the log of a run there. So its lines have what
`dp-release status` shows, from public values only, and neither durations nor numbers of
repetitions.

A line that cannot be written to either log does not stop a release.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dp_core.accounts.requested import cost_unit
from dp_core.errors import BadInput
from tasks.run.stage_table import stages_of

if TYPE_CHECKING:
    from prefect import Task

    from dp_core.plan.forecast.stage_pace import Moment
    from dp_core.plan.plan import Plan
    from dp_core.policies.stage_grant import StageGrant
    from tasks.ledger.reservations import Charge
    from tasks.run.release_run import Run

FILE, FORMAT = "DP_RELEASE_LOG", "DP_RELEASE_LOG_FORMAT"
FORMATS = ("text", "json")
VERSION = 1
STANDARD_ERROR = "-"

LEDGER = "ledger: "
"""Beginning of the names of the ledger's tasks (`tasks.stages.gates.gate_task.PREFIX`)."""

Ending = Literal["done", "failed", "interrupted"]


def direct(file: str | None, form: str | None) -> None:
    """Configure the log of this process from the options of a command.

    Args:
        file: Path of the log, `-` for standard error. None uses the environment variable; if that
            is not set and `form` is given, the log goes to standard error.
        form: `text` or `json`; None uses the environment variable.

    Raises:
        BadInput: if the format is unknown, or the file cannot be written.
    """
    if form is not None:
        os.environ[FORMAT] = form
        os.environ.setdefault(FILE, STANDARD_ERROR)
    if file is not None:
        # The process of a flow may have another working folder.
        os.environ[FILE] = file if file == STANDARD_ERROR else str(Path(file).absolute())
    check()


def check() -> None:
    """Raise if the configured log cannot be written.

    Raises:
        BadInput: if the format is unknown, or the file cannot be written.
    """
    if os.environ.get(FORMAT, FORMATS[0]) not in FORMATS:
        raise BadInput(
            f"{FORMAT} (or --log-format) must be {' or '.join(FORMATS)}, not"
            f" {os.environ[FORMAT]!r:.40}."
        )
    path = os.environ.get(FILE)
    if path and path != STANDARD_ERROR:
        try:
            os.close(_open_log(path))
        except OSError as error:
            raise BadInput(
                f"The log file {path} cannot be written ({error.strerror}); name another in {FILE}"
                " or --log-file.",
                row="log-not-written",
            ) from None


def is_on_terminal() -> bool:
    """Return whether the log goes to standard error, where progress is also shown."""
    return os.environ.get(FILE) == STANDARD_ERROR


def log_opening(run: Run) -> None:
    """Log that a release is started or continued."""
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
        measurements=spec.measurements.release if spec.measurements else None,
    )


def log_commit(run: Run, charges: Sequence[Charge]) -> None:
    """Log that paid-for noisy results are stored.

    Args:
        run: The run.
        charges: Charges of the results.
    """
    for charge in charges:
        _write(
            "charge-committed",
            run.spec.release,
            account=run.spec.account,
            stage=charge.stage,
            receipt=charge.number,
            cost=float(f"{float(charge.cost):.12g}"),
            cost_exact=str(charge.cost),
            currency=run.plan.currency.kind,
        )


def with_log_lines(perform: Callable[..., Any]) -> Callable[..., Any]:
    """Return `perform` with log lines at the start and end of each stage.

    A stage that was done earlier is not logged, and neither are the ledger's tasks.

    Args:
        perform: Runs a task with the run and its further arguments.
    """

    def perform_and_log(task: Task[..., Any], run: Run, *given: object) -> Any:
        if task.name.startswith(LEDGER) or run.folder.facts_of(task.name) is not None:
            return perform(task, run, *given)
        started = time.monotonic()
        _write("stage-begun", run.spec.release, stage=task.name)
        ending: Ending = "interrupted"
        try:
            answer = perform(task, run, *given)
            ending = "done"
        except Exception:
            ending = "failed"
            raise
        finally:
            seconds = round(time.monotonic() - started, 3)
            _write(
                "stage-ended", run.spec.release, stage=task.name, outcome=ending, seconds=seconds
            )
        return answer

    return perform_and_log


def log_progress(run: Run, moment: Moment) -> None:
    """Log how far the running stage is.

    Args:
        run: The run.
        moment: How far the stage is.
    """
    _write(
        "stage-progress",
        run.spec.release,
        stage=moment.stage,
        percent=moment.percent,
        seconds=round(moment.seconds),
        seconds_left=None if moment.left is None else round(moment.left),
    )


def log_end(
    event: str, *, release: str, account: str | None, exit_code: int, sentence: str
) -> None:
    """Log how a run ended.

    Args:
        event: How it ended, `Outcome.name`.
        release: Name of the release, or of the spec's file if the spec cannot be read.
        account: Account that pays; None if the spec cannot be read.
        exit_code: Exit code of the command.
        sentence: Message for people.
    """
    _write(event, release, account=account, exit_code=exit_code, sentence=sentence)


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
        handle = _open_log(path)
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


def _open_log(path: str) -> int:
    # Only the owner may read it, because it holds the durations of stages.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")
"""Prefect's loggers of flow runs and of task runs. From here on, lines are for everybody."""


def show_lines() -> None:
    """Let Prefect keep the runs' lines of level INFO, even if other loggers have a higher level.

    The level of Prefect's console handler decides whether a line also goes to the terminal.
    """
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)


def unit_words(plan: Plan) -> str:
    """Return what the budgets of a release's stages add up to, in their unit and as epsilon."""
    if plan.spec.measurements is not None:
        return "Its stages have no budget, because nothing is measured."
    unit, privacy = cost_unit(plan.currency.kind), plan.spec.privacy
    total = f"epsilon {float(privacy.epsilon):g}"
    if unit != "epsilon":
        total = (
            f"{float(plan.currency.limit):.4g}, which is {total} at delta {float(privacy.delta):g}"
        )
    return f"The budgets of its stages are in {unit} and add up to {total}."


def say_opening(run: Run) -> None:
    """Say which release is made, which account pays, and which stages are done already."""
    spec, privacy = run.spec, run.spec.privacy
    if spec.measurements is None:
        reserved = _amount(run, run.plan.currency.limit)
        pays = f"Account {spec.account} pays; {reserved} is reserved. {unit_words(run.plan)}"
    else:
        pays = f"Nothing is charged: the tables are those of release {spec.measurements.release}."
    _say(
        f"Release {spec.release}: method {spec.method}, epsilon {float(privacy.epsilon):g}, delta"
        f" {float(privacy.delta):g}, {privacy.neighbours}, unit {privacy.unit}. {pays}"
        f" Plan {run.plan.hash}."
    )
    stages = stages_of(run.plan.costs, spec.sets, reuses=run.reuses)
    done = [name for name in stages if run.folder.facts_of(name) is not None]
    if done:
        _say(f"Done by an earlier run: {', '.join(done)}. Nothing is charged twice.")


def say_grant(run: Run, grant: StageGrant) -> None:
    """Say what the ledger allows a stage to charge."""
    shares = ", ".join(
        f"{_amount(run, left)} of {share}" for share, left in grant.left.items() if left
    )
    _say(f"Stage {grant.stage} may count records" + (f" and charge {shares}." if shares else "."))


def stage_done(run: Run, stage: str) -> None:
    """Say that a stage is done."""
    _say(f"Stage {stage} of release {run.spec.release} is done.")


def say_commit(run: Run, charges: Sequence[Charge]) -> None:
    """Say which charges have their results stored."""
    first, last = charges[0].number, charges[-1].number
    receipts = f"receipt {first}" if first == last else f"receipts {first} to {last}"
    cost = sum((charge.cost for charge in charges), Fraction(0))
    words = {charge.step: None for charge in charges}
    named = ", ".join([*words][:_NAMED]) + (", ..." if len(words) > _NAMED else "")
    _say(f"Charged {_amount(run, cost)} for {charges[0].stage} ({receipts}): {named}.")


def say_settlement(run: Run, charges: Sequence[Charge]) -> None:
    """Say what the finished release charged."""
    cost = sum((charge.cost for charge in charges), Fraction(0))
    _say(f"Release {run.spec.release} is settled: it charged {_amount(run, cost)}.")


def say_end(sentence: str) -> None:
    """Say how the run ended."""
    _say(sentence)


_NAMED = 6
"""Steps that a line names."""


def _amount(run: Run, cost: Fraction) -> str:
    """Return a cost as text, with its part of the release's budget; `nothing` without one."""
    currency = run.plan.currency
    if not currency.limit:
        return "nothing"
    part = 100 * float(cost / currency.limit)
    return f"{float(cost):.4g} {cost_unit(currency.kind)} ({part:.3g} % of the release)"


def _say(line: str) -> None:
    with suppress(Exception):
        from prefect.logging import get_run_logger

        get_run_logger().info(line)
