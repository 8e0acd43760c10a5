"""A release that stopped goes on: nothing is repeated, paid twice, or drawn again."""

import shutil
from fractions import Fraction

import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.confidential.source import Source
from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.cost.composition import NOTHING, Amount
from tests.confidential_side import raises_inside
from tests.flows.conftest import STAGES, as_csv, assert_charged_once, plainly, survey
from tests.full import some
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def project(gaussian_project):
    return gaussian_project


def failing(stage_name, error, *, after):
    """Do stages plainly, but let one fail before or after its work."""

    def perform(stage, run, *given):
        if stage.name != stage_name:
            return plainly(stage, run, *given)
        if after:
            # The work is done and everything it wrote is there, but not the mark that says so.
            stage.fn(run, *given)
            run.folder.forget(stage_name)
        raise error

    return perform


def fail_at(project, stage_name, *, after=False):
    """Make a release whose stage fails before or after its work."""
    with pytest.raises(StageFailed, match="outside"):
        project.release(perform=failing(stage_name, StageFailed("outside"), after=after))


def noisy(project):
    return {
        path.name: path.read_bytes() for path in (project.run_folder / "public/noisy").iterdir()
    }


def assert_complete(project):
    """The bundle verifies, and the ledger holds exactly what the plan says, once."""
    assert_charged_once(project)
    balance = project.ledger().account("town").balance
    assert (balance.spent, balance.reserved) == (Amount(Fraction(1), Fraction("1e-6")), NOTHING)


@pytest.mark.slow
@pytest.mark.parametrize("after", some([False, True], lambda after: after), ids=str)
def test_a_release_goes_on_from_whatever_stage_failed(project, work_done, after):
    """One release fails in each stage in turn, and every time goes on from there."""
    measured, kinds = {}, project.kinds()
    for place, name in enumerate(STAGES):
        fail_at(project, name, after=after)
        if (project.run_folder / "public/noisy").exists():
            found = noisy(project)
            assert {kept: found.get(kept) for kept in measured} == measured, name
            measured = found
        assert project.kinds()[: len(kinds)] == kinds, name
        kinds = project.kinds()
        # Stages before it were not begun again, and none that follows was begun.
        for at, stage in enumerate(STAGES[1:], start=1):
            times = 1 + after if at < place else int(after and at == place)
            assert work_done[stage] == times, (name, stage)
    assert measured

    project.release()

    assert_complete(project)
    assert {name: noisy(project)[name] for name in measured} == measured
    assert project.kinds()[: len(kinds)] == kinds
    assert project.redraws() == 0
    assert [work_done[stage] for stage in STAGES[1:]] == [1 + after] * (len(STAGES) - 1)


def test_other_data_begin_anew_where_nothing_was_charged(project):
    with pytest.raises(StageFailed):
        project.release(perform=failing("count", StageFailed("outside"), after=False))
    (project.folder / "town.csv").write_text(as_csv(survey()[1:]))
    with raises_inside(BadInput, match="changed since it began"):
        project.release()
    assert project.ledger().account("town").balance.reserved == NOTHING
    project.release()
    assert verify(project.out).passed


def test_data_may_be_gone_once_everything_confidential_is_done(project):
    with pytest.raises(StageFailed):
        project.release(perform=failing("publish", StageFailed("outside"), after=False))
    (project.folder / "town.csv").unlink()
    project.release()
    assert_complete(project)


def test_the_file_is_read_once(project, monkeypatch):
    read, batches = [], Source.batches
    counted = lambda *given: read.append(1) or batches(*given)  # noqa: E731
    monkeypatch.setattr(Source, "batches", counted)
    project.release()
    assert len(read) == 1


def test_codes_of_another_input_are_made_again(project, work_done):
    """As with a ledger that was restored from a copy of before the input was bound."""
    with pytest.raises(StageFailed):
        project.release(perform=failing("count", StageFailed("outside"), after=False))
    (project.run_folder / "confidential/input").write_text("0" * 64)
    project.release()
    assert_complete(project)
    assert (work_done["validate"], work_done["discretize"]) == (2, 2)


def test_codes_that_were_lost_or_garbled_are_made_again_at_no_cost(project, work_done):
    fail_at(project, "measure")
    shutil.rmtree((project.run_folder / "confidential").resolve())
    fail_at(project, "measure")
    assert work_done["discretize"] == 2
    (chunk,) = (project.run_folder / "confidential/codes").glob("chunk-*")
    chunk.write_bytes(bytes(chunk.stat().st_size))
    project.release()
    assert_complete(project)
    assert work_done["discretize"] == 3


LEFT = (
    ("selection.json", "measure", "select"),
    ("marginals.parquet", "reconstruct", "measure"),
    ("models/1.npz", "synthesize", "reconstruct"),
    ("synthetic/set-1.parquet", "check", "synthesize"),
    ("codes/set-1/chunk-000000.arrow", "check", "synthesize"),
)
"""What a stage leaves in the folder, before which stage a release is stopped, and which made it."""
DAMAGES = ("emptied", "lost", "garbled", "lost", "emptied")


def test_what_a_finished_stage_left_and_is_damaged_is_made_again_at_no_cost(project, work_done):
    """One release is stopped behind each stage in turn, and goes on without what that left."""
    for damage, (name, stopped, again) in zip(DAMAGES, LEFT, strict=True):
        stopping = failing(stopped, StageFailed("outside"), after=False)
        with pytest.raises(StageFailed, match="outside"):
            project.release(perform=stopping)
        measured, before, done = noisy(project), project.kinds(), work_done[again]
        path = project.run_folder / "public" / name
        if damage != "lost":
            path.write_bytes(bytes(path.stat().st_size if damage == "garbled" else 0))
        else:
            path.unlink()
        with pytest.raises(StageFailed, match="outside"):
            project.release(perform=stopping)
        assert noisy(project) == measured, name
        assert project.kinds() == before, name
        assert work_done[again] == done + 1, name
    project.release()
    assert_complete(project)
    assert noisy(project) == measured
    assert project.kinds()[:-1] == before


def test_confidential_files_that_an_interruption_left_are_deleted_by_resume(
    project, command, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(
            "tasks.support.run_folder.RunFolder.remove_confidential", raising(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            project.release()
    assert (project.run_folder / "confidential/codes").is_dir()
    state = command("status", "town", "--json").json["state"]
    assert state == "finished; resume it to delete its confidential files"
    assert command("resume", "town").code == 0
    assert_complete(project)
    assert command("resume", "town").code == 2


@pytest.mark.parametrize(
    ("stops_before", "missing"), some([("measure", True), ("check", False)], lambda case: case[1])
)
def test_a_wrong_file_and_then_a_missing_one_do_not_keep_a_release_from_its_end(
    project, stops_before, missing
):
    """One wrong file is one refused attempt, and the release can still charge."""
    fail_at(project, stops_before)
    data = project.folder / "town.csv"
    good = data.read_text()
    data.write_text(good.replace(",single,", ",married,", 1))
    with raises_inside(BadInput, match="changed since it began"):
        project.release()
    if missing:
        data.unlink()
        with pytest.raises(BadInput):
            project.release()
    data.write_text(good)
    project.release()
    assert_complete(project)
    found = project.ledger().attempts("town")
    assert (found.refused, found.open) == (1, 0)
