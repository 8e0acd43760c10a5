"""Runs the release flow for the command line: Prefect's start, progress, and failures.

`resume --from` makes a finished stage again from stored public results, at no cost.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.errors import (
    BadInput,
    DataRefused,
    Held,
    ReleaseError,
    SchemaViolation,
    Unpublished,
    similar,
)
from dp_core.plan.plan import Plan
from flows.cli import arguments
from flows.cli.command_parts import existing_ledger
from flows.cli.missing_packages import require_pipeline
from flows.processes.child_process import Interrupted
from tasks.confidential import connection
from tasks.ledger.ledger import Ledger
from tasks.run.home import home, home_id, open_ledger
from tasks.run.home_notes import calibrate
from tasks.run.last_stop import stop_noted
from tasks.run.stage_table import REPEATABLE, stages_from
from tasks.support.run_folder import FAILURE, RunFolder, kept_message, with_row

if TYPE_CHECKING:
    from dp_core.text.pages.answer import CommandAnswer


def make(
    spec: Path,
    out: Path,
    *,
    verbose: bool,
    as_json: bool,
    show_values: bool = False,
    release: str | None = None,
    log_file: str | None = None,
    log_format: str | None = None,
    **options: Any,
) -> CommandAnswer:
    """Run the release flow with progress on the terminal."""
    require_pipeline()
    from flows.cli.terminal.progress import StageProgress
    from flows.engine.configured_server import require_server
    from flows.engine.engine_failures import stopped_outside, variables_of_site
    from flows.engine.own_server import start_own_server
    from flows.engine.settings import require_quiet_settings
    from flows.engine.site_settings import prefect_settings, require_a_server
    from flows.engine.trial_flow import require_working_variables
    from flows.monitoring import log
    from flows.monitoring.outcome import collect_outcomes
    from flows.monitoring.stage_clock import expected_seconds, ticking

    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        # SIGTERM ends a release as Ctrl-C does: with a sentence, and exit code 130.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    log.direct(log_file, log_format)
    started = time.monotonic()
    # Faults of spec, schema, paths, budget, disk and servers are found at once, without Prefect.
    plan = _opening(spec, out, release, options.get("dask"), verbose=verbose)
    made = plan.spec.release
    with contextlib.ExitStack() as until_the_end:
        confidential = None
        if plan.spec.measurements is None:
            # What may see the data loads while Prefect does, and shares the imports so far.
            confidential = connection.connect(plan, options.get("dask"))
            until_the_end.callback(confidential.close)
        reservation = open_ledger(home()).reservation(made)
        unfinished = reservation if reservation and reservation.outcome is None else None
        if release is None and unfinished and unfinished.plan == plan.hash:
            click.echo(
                f"Resuming release {made!r}, which is not finished. Its bundle goes to {out}.",
                err=True,
            )
        with _refusals_logged(made):
            server = start_own_server()
            settings = prefect_settings()
            require_quiet_settings(settings)
            if server is None:
                require_a_server(settings)
                require_server(settings.api.url)
        quiet = as_json or log.is_on_terminal()
        shown = StageProgress(quiet=quiet, expected=expected_seconds(plan, home()))
        with contextlib.closing(shown) as progress, ticking(progress.tick):
            progress.wait("Start Prefect", "its own server takes some seconds")
            from prefect.exceptions import Pause, PrefectSignal

            from flows.answers.release_answers import published_release
            from flows.release import called_with
            from flows.release import release as flow

            with called_with(progress.update, plan, confidential), collect_outcomes() as outcomes:
                try:
                    if server is not None:
                        server.wait()
                        with _refusals_logged(made):
                            require_working_variables(variables_of_site("PREFECT_"))
                    flow(spec=str(spec), out=str(out), **options)
                except (Held, Unpublished):
                    raise
                except KeyboardInterrupt:
                    goes_on = (
                        f"`dp-release resume {made}` continues it, and `dp-release status {made}`"
                        " shows the stages done."
                        if RunFolder(home(), made).exists()
                        else "Nothing was reserved yet: give the same command again."
                    )
                    raise Interrupted(
                        f"Release {made!r} was interrupted; nothing is lost. {goes_on}"
                    ) from None
                except PrefectSignal as stop:
                    progress.close()
                    how = "paused" if isinstance(stop, Pause) else "cancelled"
                    raise click.Abort from Interrupted(
                        f"A person {how} release {made!r} in Prefect's pages; nothing is lost."
                        f" `dp-release resume {made}` continues it."
                    )
                except ReleaseError as error:
                    progress.close()
                    # privacy: the person at a terminal runs the release and may see the file.
                    # Output that is kept, such as a service's log, gets the fixed sentence only.
                    at_terminal = not as_json and arguments.on_terminal(sys.stderr)
                    counted = isinstance(error, DataRefused) and (show_values or at_terminal)
                    refused = counted and isinstance(error, SchemaViolation)
                    kept = error.message_file
                    if (show_values or refused) and kept is not None:
                        _show_internal(kept)
                    own = kept_message(kept) if counted and kept is not None else None
                    if show_values or (own or "").endswith(with_row("", "columns-differ")):
                        _show_internal(RunFolder(home(), made).detail_folder / FAILURE)
                    if counted:
                        _show_refusals(plan.spec.account)
                    raise
                except Exception as error:
                    # Prefect or its server failed; the flow catches its own failures.
                    raise stopped_outside(made, error) from None
            if outcomes and outcomes[-1].waits is not None:
                # The flow run succeeded, but the release waits for a person.
                raise outcomes[-1].waits
    seconds = time.monotonic() - started
    # Measure the machine after the release, so that the next `plan` knows it.
    calibrate(home())
    return published_release(home(), open_ledger(), plan, out, seconds=seconds)


def resume(release: str, stage: str | None, **options: Any) -> CommandAnswer:
    """Continue a release of this home, or repeat it from a finished stage.

    Args:
        release: Its name.
        stage: Finished stage to repeat, with all stages after it; None to repeat none.
        options: As for `make`.

    Raises:
        BadInput: if there is no such run, or the stage cannot be repeated.
    """
    spec, out = RunFolder(home(), release).recorded_paths()
    if stage is not None:
        forget_from(home(), existing_ledger(), release, stage)
    with stop_noted(release):
        return make(spec, out, release=release, **options)


def _opening(
    spec: Path, out: Path, release: str | None, dask: str | None, *, verbose: bool
) -> Plan:
    """Return the plan of a release that may begin, and prepare Prefect; log a refusal."""
    from flows.engine.configured_server import require_server
    from flows.engine.settings import prepare, require_room
    from flows.releases.start_check import check_start, plan_of_release
    from tasks.support.scheduler_address import check_address

    with _refusals_logged(release or spec.name):
        check_address(dask)
        plan = plan_of_release(spec, release)
        check_start(plan, out)
        require_room(home())
        prepare(home(), verbose=verbose)
        require_server()
        return plan


@contextlib.contextmanager
def _refusals_logged(release: str) -> Iterator[None]:
    """Log an error of the block as the end of a release."""
    from flows.monitoring import log
    from flows.monitoring.outcome import outcome_of

    try:
        yield
    except ReleaseError as error:
        end = outcome_of(release, error)
        log.log_end(
            end.name,
            release=release,
            account=None,
            exit_code=end.exit_code,
            sentence=end.sentence,
        )
        raise


def _show_refusals(account: str) -> None:
    """Print how many attempts were refused; the ledger publishes the number in any case."""
    from flows.answers.ledger_answers import recent_refusals, refusals_so_far

    refused = recent_refusals(open_ledger(), account)
    click.echo(refusals_so_far(account, refused), err=True)


def _show_internal(path: Path) -> None:
    """Print a file of the internal folder to standard error."""
    with contextlib.suppress(OSError):
        click.echo(path.read_text(), err=True)


def forget_from(home: Path, ledger: Ledger, release: str, stage: str) -> None:
    """Mark a finished stage, and those that use its result, as not done.

    The plan fixes the seed, so the stages give the same result, unless something that changed it
    was repaired, such as a damaged file. Nothing is charged or drawn again: a charged
    check asks the same question and reads its stored answer.

    Args:
        home: The home.
        ledger: Ledger of the home.
        release: Name of the release.
        stage: Stage to make again; one of `REPEATABLE`.

    Raises:
        BadInput: if the stage cannot be made again, is not finished, or the release awaits approval
            or has ended, because what was looked at or published may not be made again.
        StageFailed: if another process works on the release.
    """
    if stage not in REPEATABLE:
        raise BadInput(
            f"--from takes {' or '.join(REPEATABLE)}, which read stored results only, not"
            f" {stage!r}.{similar(stage, REPEATABLE)}"
        )
    with ledger.lease(release, home_id(home)) as writer:
        # Without the lease another process could settle the release in between.
        reservation = writer.reservation()
        if reservation is None or reservation.outcome is not None:
            how = "has no open reservation" if reservation is None else f"is {reservation.outcome}"
            raise BadInput(
                f"Release {release!r} {how}, so none of its stages can be repeated; `dp-release"
                f" status {release}` shows how it ended."
            )
        if writer.gate(reservation).held is not None:
            raise BadInput(
                f"Release {release!r} awaits approval, so none of its stages can be repeated: a"
                f" person may have looked at it. Decide with `dp-release release publish {release}`"
                f" or `dp-release release withdraw {release}`.",
                row="held",
            )
        folder = RunFolder(home, release, reservation.link)
        if folder.facts_of(stage) is None:
            raise BadInput(
                f"Stage {stage!r} of release {release!r} is not finished yet; `dp-release resume"
                f" {release}` without --from runs it."
            )
        for later in reversed(stages_from(stage)):
            folder.forget(later)
