"""The flows that a schedule starts, as plain functions: without an engine and without a server."""

from contextlib import nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, LedgerCorrupt, ReleaseError, StageFailed
from flows import nightly, scheduled
from flows.monitoring.outcome import announce, outcome_of
from flows.release import carry_out
from flows.releases import run_records
from flows.releases.run_records import RunRecords
from flows.scheduled import scheduled_release
from tests.flows.conftest import plainly
from tests.raising import raising

row = pytest.mark.runbook

MIDNIGHT = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
"""In Berlin it is December."""


class Schedule:
    """A project with a template, and the run that Prefect would have started."""

    def __init__(self, project, monkeypatch):
        self.project = project
        self.template = project.write_spec(release="town-{date:%Y-%m}").rename(
            project.folder / "town.template.yaml"
        )
        self.out_root = project.folder / "out"
        self.fails = ""
        run = SimpleNamespace(id=str(uuid4()), scheduled_start_time=MIDNIGHT, parameters={})
        self.run = run
        monkeypatch.setattr(scheduled, "this_run", run)
        monkeypatch.setattr(run_records, "flow_run", run)
        monkeypatch.setattr(scheduled, "make_release", SimpleNamespace(fn=self.make))
        # What a worker's environment says; the tests' own does not say all of it.
        monkeypatch.setattr(run_records, "prepare", lambda _home: None)

    def make(self, spec, out, dask):
        def perform(stage, run, *given):
            if stage.name == self.fails:
                raise StageFailed(f"Stage {stage.name!r} failed.")
            return plainly(stage, run, *given)

        carry_out(Path(spec), Path(out), dask=dask, perform=perform)

    def fire(self, **parameters):
        parameters = {"template": str(self.template), "out_root": str(self.out_root)} | parameters
        self.run.parameters = parameters
        return scheduled_release.fn(**parameters)

    def again(self):
        """Another run of the same schedule."""
        self.run.id = str(uuid4())

    @property
    def record(self):
        return RunRecords(self.project.home).find(self.run.id)


@pytest.fixture
def schedule(project, monkeypatch, quick):  # noqa: ARG001
    return Schedule(project, monkeypatch)


@pytest.fixture
def told(monkeypatch):
    """What events told, as name, what it is about, and sentence."""
    events = []

    def tell(event, resource, _account, payload):
        events.append((event, resource["prefect.resource.name"], payload["sentence"]))

    monkeypatch.setattr("flows.monitoring.prefect_events._tell", tell)
    return events


@row("bundles-changed")
def test_a_date_makes_its_release_once(schedule, told, says):
    assert schedule.fire() is None
    out = schedule.out_root / "town-2026-11"
    assert verify(out).passed
    assert scheduled._run_name() == "town-2026-11"
    # The spec stays beside the template, where data and schema are, and a copy beside the bundle.
    assert (schedule.template.parent / "town-2026-11.release.yaml").read_text() == (
        schedule.out_root / "town-2026-11.release.yaml"
    ).read_text()
    first = schedule.record
    assert (first.release, first.ended, first.number) == ("town-2026-11", 0, 1)

    spent = schedule.project.kinds()
    schedule.again()
    schema = schedule.project.folder / "town.schema.yaml"
    schema.rename(schema.with_suffix(".next"))  # of the next date, and wrong: not this one's matter
    state = schedule.fire()
    schema.with_suffix(".next").rename(schema)
    assert state.is_completed()
    assert state.message == "Release 'town-2026-11' is already published."
    assert schedule.project.kinds() == spent

    checked = nightly.check_all(schedule.project.home, [])
    assert checked.verified == ("town-2026-11",)
    assert "The ledger and 1 bundle verify." in checked.sentence
    assert checked.head in nightly.verify_ledger.fn().message
    report = out / "report.html"
    report.write_text(report.read_text() + " ")
    found = r"1 of 1 bundles do not verify: town-2026-11 in .*out"
    with pytest.raises(ReleaseError, match=found) as wrong:
        nightly.verify_ledger.fn()
    says(wrong.value)
    alert = ("dp-release.bundles.verification-failed", "bundles", wrong.value.message)
    assert told[-1] == alert
    out.rename(out.with_name("elsewhere"))
    assert nightly.check_all(schedule.project.home, []).elsewhere == ("town-2026-11",)


def test_a_run_that_failed_goes_on_as_the_same_release_even_if_the_schedule_changes(
    schedule, monkeypatch
):
    schedule.fails = "reconstruct"
    with pytest.raises(StageFailed, match="'reconstruct' failed"):
        schedule.fire()
    assert schedule.record.ended == StageFailed.exit_code
    kinds = schedule.project.kinds()
    schedule.fails = ""
    schedule.template.write_text(schedule.template.read_text().replace("epsilon: 1", "epsilon: 2"))
    monkeypatch.setattr(scheduled, "_zone", lambda: ZoneInfo("Europe/Berlin"))
    schedule.fire()
    assert schedule.record.number == 2
    assert verify(schedule.out_root / "town-2026-11").passed
    # What was charged before the failure was not charged again.
    assert schedule.project.kinds()[: len(kinds)] == kinds
    assert schedule.project.kinds().count("reserve") == 1
    assert schedule.project.ledger().account("town").balance.spent.main == 1


@pytest.mark.usefixtures("schedule")
def test_the_date_is_that_of_the_schedules_time_zone(monkeypatch):
    assert scheduled._moment(None).strftime("%Y-%m-%dT%H:%M") == "2026-11-30T23:30"
    monkeypatch.setattr(scheduled, "_zone", lambda: ZoneInfo("Europe/Berlin"))
    assert scheduled._moment(None).strftime("%Y-%m-%dT%H:%M") == "2026-12-01T00:30"
    # A date that a person gave is that date, as the form sends it too.
    for given in (date(2025, 2, 3), "2025-02-03"):
        assert scheduled._moment(given).strftime("%Y-%m-%dT%H:%M%z") == "2025-02-03T00:00+0100"


@row("several-time-zones")
def test_the_time_zone_is_the_deployments(monkeypatch, says):
    def deployed(*zones):
        rows = [SimpleNamespace(schedule=SimpleNamespace(timezone=zone)) for zone in zones]
        client = SimpleNamespace(read_deployment=lambda _id: SimpleNamespace(schedules=rows))
        monkeypatch.setattr(scheduled, "this_deployment", SimpleNamespace(id="x"))
        monkeypatch.setattr(scheduled, "get_client", lambda **_options: nullcontext(client))
        return scheduled._zone()

    assert deployed("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    assert deployed() == deployed(None) == ZoneInfo("UTC")
    with pytest.raises(BadInput, match=r"several time zones \(Asia/Tokyo, UTC\)") as error:
        deployed("Asia/Tokyo", "UTC")
    says(error.value)


@row("template-renamed")
def test_a_run_that_began_another_release_does_not_go_on(schedule, says):
    schedule.fails = "validate"
    with pytest.raises(StageFailed):
        schedule.fire()
    schedule.template.write_text(schedule.template.read_text().replace("town-{", "city-{"))
    with pytest.raises(BadInput, match="release 'town-2026-11'") as error:
        schedule.fire()
    says(error.value)
    assert schedule.record.ended == BadInput.exit_code


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("", None, "town.template.yaml"),
        ("-{date:%Y-%m}", "", "town.template.yaml, line 2, release: 'town' "),
        # The person edits the template, not the spec of a date that is written from it.
        ("epsilon: 1", "epsilon: -1", "town.template.yaml, line 6, privacy.epsilon: "),
    ],
)
def test_a_template_with_a_mistake_is_named_and_told(schedule, told, old, new, sentence):
    if new is None:
        schedule.template.unlink()
    else:
        schedule.template.write_text(schedule.template.read_text().replace(old, new))
    with pytest.raises(BadInput) as error:
        schedule.fire()
    assert sentence in error.value.message
    assert "town-2026-11.release.yaml" not in error.value.message
    # What the automations listen to.
    assert told == [("dp-release.release.refused", "town.template.yaml", error.value.message)]
    assert schedule.project.untouched()


def test_what_the_release_told_is_not_told_again(schedule, told, monkeypatch):
    def make(spec, out, dask):  # noqa: ARG001
        failure = StageFailed("The disk is full: a result could not be written.")
        announce(outcome_of("town-2026-11", failure), release="town-2026-11", account="town")
        raise failure

    monkeypatch.setattr(scheduled, "make_release", SimpleNamespace(fn=make))
    with pytest.raises(StageFailed):
        schedule.fire()
    assert [(event, about) for event, about, _ in told] == [
        ("dp-release.release.failed", "town-2026-11")
    ]


def test_counts_are_not_sent_in_clear(schedule):
    with pytest.raises(BadInput) as error:
        schedule.fire(dask="tcp://10.0.0.7:8786")
    assert error.value.row == "dask-in-clear"
    assert schedule.project.untouched()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("PREFECT_RESULTS_PERSIST_BY_DEFAULT", True, marks=row("results-stored")),
        pytest.param("PREFECT_TASKS_DEFAULT_PERSIST_RESULT", True, marks=row("results-stored")),
        pytest.param("PREFECT_LOGGING_EXTRA_LOGGERS", "dask", marks=row("results-stored")),
        pytest.param("DO_NOT_TRACK", "", marks=row("results-stored")),
    ],
)
def test_a_worker_that_would_tell_of_a_run_is_refused(schedule, monkeypatch, says, name, value):
    from prefect import settings

    monkeypatch.setenv("DO_NOT_TRACK", "1" if value else "")
    setting = getattr(settings, name, None)
    with (
        settings.temporary_settings({} if setting is None else {setting: value}),
        pytest.raises(BadInput, match=name) as error,
    ):
        schedule.fire()
    says(error.value)
    assert schedule.record is None
    assert schedule.project.untouched()


@row("run-stopped")
def test_what_goes_wrong_outside_leaves_one_sentence_and_no_cause(schedule, monkeypatch, says):
    monkeypatch.setattr(scheduled, "read_template", raising(RuntimeError("a value")))
    with pytest.raises(StageFailed) as error:
        schedule.fire()
    says(error.value)
    assert error.value.__cause__ is error.value.__context__ is None
    assert "a value" not in str(error.value)
    detail = schedule.project.home / "scheduled" / f"{schedule.run.id}.txt"
    assert f"the detail is in {detail}" in error.value.message
    assert "a value" in detail.read_text()
    assert detail.stat().st_mode & 0o777 == 0o600

    monkeypatch.setattr("flows.releases.run_records.keep_text", lambda _path, _text: False)
    with pytest.raises(StageFailed) as error:
        schedule.fire()
    says(error.value)
    assert "the detail could not be saved" in error.value.message
    assert str(detail) not in error.value.message


def test_a_existing_ledger_lost_or_older_is_told_by_the_nightly_check(project, told):
    (project.home / "runs").mkdir()
    (project.home / "ledger.db").unlink()
    with pytest.raises(LedgerCorrupt) as error:
        nightly.check_all(project.home, [])
    alert = ("dp-release.ledger.verification-failed", "ledger", error.value.message)
    assert told == [alert]


def test_a_broken_chain_fails_the_nightly_check(project, monkeypatch):
    monkeypatch.setattr(nightly, "check_ledger", raising(LedgerCorrupt("Entry 7 was changed.")))
    with pytest.raises(LedgerCorrupt, match="Entry 7"):
        nightly.check_all(project.home, [])
