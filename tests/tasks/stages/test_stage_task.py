from __future__ import annotations

import errno
import traceback
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from prefect.utilities.collections import visit_collection

from dp_core.errors import BadInput, BudgetRefused, SchemaViolation, StageFailed
from dp_core.kernel.canonical import digest
from dp_core.policies.stage_grant import StageGrant
from tasks.stages.stage_task import StageResult, granted_stage, stage
from tasks.support.run_folder import INTERNAL_NOTICE, RunFolder
from tests.raising import raising

CANARY = "salary-of-row-4711"


@dataclass
class FakeHold:
    """A release's hold, which another process may have taken over."""

    lost: bool = False

    def require(self):
        if self.lost:
            raise StageFailed("Another process took over.")


@dataclass
class FakeRun:
    """What a stage needs of a run."""

    folder: RunFolder
    writer: FakeHold = field(default_factory=FakeHold)
    spec: object = field(default_factory=lambda: SimpleNamespace(release="first"))
    reservation: object = None
    shown: list[tuple[str, float]] = field(default_factory=list)

    def progress(self, name, done):
        self.shown.append((name, done))


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path, "first", "a" * 64)
    folder.begin(spec=tmp_path / "spec.yaml", out=tmp_path / "out")
    return FakeRun(folder)


def failure_of(run, error):
    """Return what leaves a stage whose work fails with `error`."""

    @stage("measure")
    def work(_):
        confidential = CANARY
        try:
            raise KeyError(confidential)
        except KeyError as cause:
            raise error from cause

    with pytest.raises(Exception, match=r".") as failed:
        work.fn(run)
    return failed.value


def detail(run):
    return (run.folder.internal / "failure.txt").read_text()


@pytest.mark.parametrize(
    "error",
    [
        ValueError(CANARY),
        KeyError(CANARY),
        MemoryError(CANARY),
        OSError(errno.EIO, CANARY, CANARY),
        OSError(errno.ENOSPC, CANARY, CANARY),
        FileNotFoundError(errno.ENOENT, CANARY),
        UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, CANARY),
        ExceptionGroup(CANARY, [ValueError(CANARY)]),
        BadInput("Correct the file.", internal=CANARY),
        SchemaViolation("The data do not fit.", internal=CANARY),
        BudgetRefused("Not enough is left.", internal=CANARY),
    ],
)
def test_whatever_fails_leaves_as_our_error_and_carries_nothing_of_the_data(run, error):
    error.add_note(CANARY)
    failure = failure_of(run, error)
    expected = type(error) if hasattr(error, "exit_code") else StageFailed
    assert type(failure) is expected
    assert failure.__cause__ is None
    assert failure.__context__ is None
    assert failure.internal is None
    assert not getattr(failure, "__notes__", [])
    everything = "".join(traceback.format_exception(failure)) + repr(vars(failure))
    assert CANARY not in everything
    frames = traceback.walk_tb(failure.__traceback__)
    for frame, _ in list(frames)[1:]:
        assert CANARY not in repr(frame.f_locals)
    assert run.folder.facts_of("measure") is None


def test_the_detail_of_a_failure_is_in_the_internal_folder_and_nowhere_else(run):
    failure_of(run, ValueError(CANARY))
    assert detail(run).startswith(INTERNAL_NOTICE)
    assert CANARY in detail(run)
    holders = [
        path
        for path in run.folder.path.rglob("*")
        if path.is_file() and CANARY in path.read_text(errors="replace")
    ]
    assert holders == [run.folder.internal / "failure.txt"]


def test_the_message_says_where_the_detail_is_and_how_to_go_on(run):
    message = str(failure_of(run, ZeroDivisionError(CANARY)))
    assert "Stage 'measure' of release 'first' failed (ZeroDivisionError)" in message
    told = run.folder.path / "internal" / "failure.txt"
    assert f"is in {told}. " in message
    assert told.samefile(run.folder.internal / "failure.txt")
    assert "`dp-release resume first`" in message


def test_a_detail_beside_a_later_reservation_s_files_is_told_by_its_whole_name(run, tmp_path):
    later = RunFolder(tmp_path, "first", "b" * 64)
    later.begin(spec=tmp_path / "spec.yaml", out=tmp_path / "out")
    message = str(failure_of(run, ZeroDivisionError(CANARY)))
    assert f"is in {run.folder.internal / 'failure.txt'}. " in message
    assert CANARY in detail(run)
    assert list(later.internal.iterdir()) == []


def test_our_own_message_is_kept_and_its_internal_part_is_not(run):
    failure = failure_of(run, BadInput("Correct the file.", internal=CANARY))
    assert failure.message == "Correct the file."
    assert CANARY in detail(run)


def test_a_failure_is_told_even_when_its_detail_cannot_be_written(run, monkeypatch):
    monkeypatch.setattr("os.fsync", raising(OSError(errno.ENOSPC, "No space left on device")))
    failure = failure_of(run, ValueError(CANARY))
    assert "failed (ValueError)" in failure.message
    assert failure.__context__ is None


def test_a_finished_stage_is_marked_with_its_facts_and_then_skipped(run):
    calls = []

    @stage("basics")
    def work(run):
        """Measure."""
        calls.append(run)
        return {"rows": 12}

    first = work.fn(run)
    assert run.folder.facts_of("basics") == {"rows": 12}
    assert run.shown == [("basics", 0.0), ("basics", 1.0)]
    again = work.fn(run)
    assert (
        (first.stage, first.facts) == (again.stage, again.facts) == ("basics", digest({"rows": 12}))
    )
    assert len(calls) == 1
    assert work.name == "basics"


def test_a_holder_that_was_taken_over_does_not_even_begin_the_work(run):
    calls = []

    @stage("count")
    def work(run):
        calls.append(run)

    run.writer.lost = True
    with pytest.raises(StageFailed, match="Another process took over"):
        work.fn(run)
    assert calls == []
    assert run.folder.facts_of("count") is None
    assert run.shown == [("count", 0.0)]


def test_a_stage_that_leaves_nothing_is_finished_too(run):
    @stage("count")
    def work(_):
        return None

    work.fn(run)
    assert run.folder.facts_of("count") == {}


def test_prefect_keeps_caches_and_repeats_nothing_of_a_stage():
    @stage("count")
    def work(_):
        return None

    assert work.persist_result is False
    assert work.retries == 0
    assert work.log_prints is False
    assert work.cache_policy.compute_key(None, {}, {}) is None


def grant_for(name, reservation="r" * 64, plan="p" * 64):
    given = StageGrant(name, "first", reservation, plan, 1, {})
    return StageResult(f"grant {name}", {}, given)


@pytest.mark.parametrize(
    "grant",
    [
        None,
        grant_for("select"),
        grant_for("measure", "another reservation"),
        grant_for("measure", plan="another plan"),
    ],
    ids=["none", "of another stage", "of another reservation", "of another plan"],
)
def test_a_stage_that_looks_at_the_data_does_not_begin_without_its_grant(run, grant):
    calls = []

    @granted_stage("measure")
    def work(run, _grant):
        calls.append(run)

    run.reservation = SimpleNamespace(link="r" * 64, plan="p" * 64)
    with pytest.raises(StageFailed, match="without the ledger's grant"):
        work.fn(run, grant)
    assert calls == []
    assert run.folder.facts_of("measure") is None
    work.fn(run, grant_for("measure"))
    assert calls == [run]
    # A finished stage does not look again, so it needs no grant.
    work.fn(run, None)
    assert calls == [run]


def test_only_stages_that_the_ledger_knows_can_be_granted():
    with pytest.raises(ValueError, match="no grants for stage 'synthesize'"):
        granted_stage("synthesize")


def test_what_stops_the_process_carries_no_error_of_the_stage(run):
    @stage("measure")
    def work(_):
        try:
            raise KeyError(CANARY)
        except KeyError:
            raise KeyboardInterrupt  # noqa: B904 (Ctrl-C comes anywhere)

    with pytest.raises(KeyboardInterrupt) as stopped:
        work.fn(run)
    assert stopped.value.__cause__ is stopped.value.__context__ is None
    assert run.folder.facts_of("measure") is None


def test_prefect_finds_nothing_inside_a_result_to_draw_an_edge_from():
    found = []
    for result in grant_for("measure"), StageResult("count", {"rows": [1, 2]}):
        visit_collection(result, found.append, max_depth=1)
        assert found == [result]
        found.clear()
