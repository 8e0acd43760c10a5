"""The flow `scheduled-release`: makes one release for each scheduled date."""

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
from flows.monitoring.outcome import TITLES, announce, collect_outcomes, outcome_of
from flows.release import release as make_release
from flows.releases.run_records import Begun, do_unattended
from flows.releases.template import Template, keep_copy, read_template, write_spec
from tasks.run.earlier_releases import load_release
from tasks.run.home import home, open_ledger
from tasks.support.run_folder import RunFolder
from tasks.support.scheduler_address import check_address

FLOW = "scheduled-release"
ZONE = "UTC"

# Prefect's form shows the descriptions of the parameters in the flow's docstring.
PlaceOnDisk = Annotated[str, Field(min_length=1, max_length=4096)]
DaskAddress = Annotated[str, Field(max_length=300)]


def _run_name() -> str:
    """Return the run's name in Prefect: the release, or the template's file if it has an error."""
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
    """Make or continue the release of a scheduled date.

    Each date has one release. A second run for the same date continues that release and pays
    nothing twice. If the release is already published, the run succeeds without doing anything.

    Args:
        template: Path of a release spec whose `release` contains a placeholder for the date, such
            as `release: panel-{date:%Y-%m}`. Each date's spec is written beside the template.
        out_root: Folder of the bundles. Each bundle is written to a new folder in it, named as the
            release.
        release_date: Date to insert in the name. By default the time for which this run was
            scheduled, in the schedule's time zone, however late it runs.
        dask: Address of a running Dask scheduler, such as tls://dask.example:8786. By default the
            spec says what counts. An address without TLS must be on the worker's own machine.

    Raises:
        ReleaseError: if the release failed or was refused.
    """
    with collect_outcomes() as outcomes:
        try:
            return do_unattended(
                FLOW, lambda begun: _make(begun, template, out_root, release_date, dask)
            )
        except ReleaseError as error:
            if not outcomes:
                # The run stopped before the release flow could announce anything.
                name = Path(template).name
                announce(outcome_of(name, error), release=name, account=None)
            raise


def _make(
    begun: Begun, path: str, out_root: str, date: datetime.date | None, dask: str | None
) -> State[Any] | None:
    check_address(dask)
    template = read_template(Path(path))
    known = begun.record.moment
    # A run keeps its date, even if the schedule or its time zone changes later.
    moment = datetime.datetime.fromisoformat(known) if known else _moment(date)
    release = template.release(moment)
    if begun.record.release not in (None, release):
        raise BadInput(
            f"This run started release {begun.record.release!r}, but its template now names it"
            f" {release!r}. Restore the name in the template, or start a new run.",
            row="template-renamed",
        )
    begun.learn(moment=moment, release=release, spec=template.spec_path(release))
    spec, out = prepare(template, moment, Path(out_root))
    if is_complete(release):
        return Completed(message=f"Release {release!r} is already published.")
    # Call the function behind the flow, so that the stages are tasks of this run.
    state = make_release.fn(spec=str(spec), out=str(out), dask=dask)
    # Compare the state's name, because Prefect stores no reason. The sweep continues this run after
    # the approval.
    begun.waits = state is not None and state.name == TITLES["waiting"]
    return state


def is_complete(release: str) -> bool:
    """Return whether a release is published and its confidential files are deleted."""
    reservation = open_ledger(home()).reservation(release)
    if reservation is None or reservation.outcome != "finished":
        return False
    folder = RunFolder(home(), release, reservation.link)
    return all(folder.facts_of(stage) is not None for stage in ("publish", "tidy"))


def prepare(template: Template, moment: datetime.datetime, out_root: Path) -> tuple[Path, Path]:
    """Write the spec of a date from a template.

    Args:
        template: The template.
        moment: Time that names the release, in the schedule's time zone.
        out_root: Folder of the bundles.

    Returns:
        The paths of the spec and of the bundle's folder.

    Raises:
        BadInput: if the spec cannot be written, or is not valid.
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
    """Report an error in the written spec as an error at the same line of the template.

    Raises:
        BadInput: if the spec is not valid; the message names the template and the line.
    """
    try:
        load_release(spec)
    except BadInput as error:
        rest = error.message.removeprefix(spec.name)
        if rest == error.message:  # the error is in the schema
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
    """Return the time zone of this deployment's schedules; UTC if it has none.

    Raises:
        BadInput: if its schedules have different time zones.
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
            f" ({', '.join(sorted(names))}), so one moment can have several dates. Use one time"
            " zone, or set the parameter release_date.",
            row="several-time-zones",
        )
    return ZoneInfo(names.pop() if names else ZONE)
