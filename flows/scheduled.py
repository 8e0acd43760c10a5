"""A release on a schedule: each date makes the release of that date, once."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.runtime import deployment as this_deployment
from prefect.runtime import flow_run as this_run
from prefect.states import Completed, State
from pydantic import Field

from dp_core.errors import BadInput, ReleaseError
from dp_core.spec.reading.spec_file import load_spec
from flows.monitoring.announcement import heard, tell
from flows.monitoring.outcome import TITLES, outcome_of
from flows.release import release as make_release
from flows.releases.attempts import Begun
from flows.releases.template import Template, keep_copy, read_template, write_spec
from flows.releases.unattended import unattended
from tasks.run.home import home, open_ledger
from tasks.support.dask_cluster import check_address
from tasks.support.run_folder import RunFolder

FLOW = "scheduled-release"
ZONE = "UTC"

# What each is for stands in the docstring, from where Prefect takes it into its form.
PlaceOnDisk = Annotated[str, Field(min_length=1, max_length=4096)]
DaskAddress = Annotated[str, Field(max_length=300)]


def _run_name() -> str:
    """Return a run's name in Prefect: the release's, or the template's where there is a mistake."""
    parameters = this_run.parameters
    try:
        template = read_template(Path(str(parameters["template"])))
        return template.release(_moment(parameters.get("release_date")))
    except Exception:
        return f"{FLOW} {Path(str(parameters['template'])).name}"


@flow(
    name=FLOW,
    flow_run_name=_run_name,
    persist_result=False,
    log_prints=False,
    retries=0,
    validate_parameters=True,
)
def scheduled_release(
    template: PlaceOnDisk,
    out_root: PlaceOnDisk,
    release_date: datetime.date | None = None,
    dask: DaskAddress | None = None,
) -> State[Any] | None:
    """Make the release of a scheduled date, or go on with it.

    The same date is the same release: a run that comes again, late or after a crash, resumes what
    it began and pays nothing twice. A release that is finished is a success.

    Args:
        template: Path of a release spec whose `release` holds a place for the date, such as
            `release: panel-{date:%Y-%m}`. Each date's spec is written beside it.
        out_root: Folder of the bundles; each release gets a new folder of its name in it.
        release_date: Fills in the name. Empty: the time this run was scheduled for, by the clock of
            the schedule's time zone, however late it runs.
        dask: Address of a running Dask scheduler, such as tls://dask.example:8786. Empty: threads
            of the worker. Without TLS only on the worker's own machine.
    """
    with heard() as outcomes:
        try:
            return unattended(
                FLOW, lambda begun: _make(begun, template, out_root, release_date, dask)
            )
        except ReleaseError as error:
            if not outcomes:
                # It stopped before there was a release that could tell of it.
                name = Path(template).name
                tell(outcome_of(name, error), release=name, account=None)
            raise


def _make(
    begun: Begun, path: str, out_root: str, date: datetime.date | None, dask: str | None
) -> State[Any] | None:
    check_address(dask)
    template = read_template(Path(path))
    known = begun.attempt.moment
    # What a run was for does not change when the schedule or its time zone does.
    moment = datetime.datetime.fromisoformat(known) if known else _moment(date)
    release = template.release(moment)
    if begun.attempt.release not in (None, release):
        raise BadInput(
            f"This run began release {begun.attempt.release!r}, and its template names it"
            f" {release!r} now; put the name back, or start a new run.",
            row="template-renamed",
        )
    begun.learn(moment=moment, release=release, spec=template.spec_path(release))
    spec, out = prepare(template, moment, Path(out_root))
    if is_complete(release):
        return Completed(message=f"Release {release!r} is already published.")
    # As `dp-release run` makes it; the stages are tasks of this run.
    state = make_release.fn(spec=str(spec), out=str(out), dask=dask)
    # The name, since Prefect keeps no reason: after the approval this very run is asked again.
    begun.waits = state is not None and state.name == TITLES["waiting"]
    return state


def is_complete(release: str) -> bool:
    """Return whether a release is published and nothing of it is left to do."""
    reservation = open_ledger(home()).reservation(release)
    if reservation is None or reservation.outcome != "finished":
        return False
    folder = RunFolder(home(), release, reservation.link)
    return all(folder.done(stage) is not None for stage in ("publish", "tidy"))


def prepare(template: Template, moment: datetime.datetime, out_root: Path) -> tuple[Path, Path]:
    """Write the spec of a moment; return where it is, and where its bundle goes.

    Raises:
        BadInput: if it cannot be written, or the template makes no spec.
    """
    release = template.release(moment)
    reservation = open_ledger(home()).reservation(release)
    begun = reservation is not None and reservation.outcome != "returned"
    spec = write_spec(template, moment, keep=begun)
    if not begun:
        _check(template, spec)
    keep_copy(spec, out_root.absolute())
    return spec, out_root.absolute() / release


def _check(template: Template, spec: Path) -> None:
    """Refuse a mistake in a template by the template's name and line, which a person can mend.

    Raises:
        BadInput: with the place in the template; the spec written from it has the same lines.
    """
    try:
        load_spec(spec)
    except BadInput as error:
        rest = error.message.removeprefix(spec.name)
        if rest == error.message:  # of the schema
            raise
        raise BadInput(f"{template.path.name}{rest}") from None


def _moment(date: object) -> datetime.datetime:
    """Return the time that names the release, in the schedule's time zone."""
    zone = _zone()
    if isinstance(date, datetime.date):
        return datetime.datetime(date.year, date.month, date.day, tzinfo=zone)
    if date:
        return datetime.datetime.fromisoformat(str(date)).replace(tzinfo=zone)
    return this_run.scheduled_start_time.astimezone(zone)


def _zone() -> datetime.tzinfo:
    """Return the time zone of this deployment's schedules; UTC without any.

    Raises:
        BadInput: if they differ, so that one moment would have two dates.
    """
    identifier = this_deployment.id
    if identifier is None:
        return ZoneInfo(ZONE)
    with get_client(sync_client=True) as client:
        schedules = client.read_deployment(identifier).schedules
    names = {getattr(each.schedule, "timezone", None) or ZONE for each in schedules}
    if len(names) > 1:
        raise BadInput(
            "The schedules of this deployment have several time zones"
            f" ({', '.join(sorted(names))}), so one moment has several dates; give them one, or"
            " name the release date.",
            row="several-time-zones",
        )
    return ZoneInfo(names.pop() if names else ZONE)
