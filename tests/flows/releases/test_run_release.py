"""`resume --from`: a finished public stage is made again from what is stored, and costs nothing."""

import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, Held
from flows.cli.actions.run_release import forget_from
from tasks.ledger.ledger import Ledger
from tasks.run.stage_table import REPEATABLE
from tasks.support.run_folder import RunFolder
from tests.flows.releases.test_resume import assert_complete, fail_at, noisy

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def project(gaussian_project):
    return gaussian_project


@pytest.fixture
def checked(project):
    """A release that stopped after its last stage before the settlement."""
    fail_at(project, "ledger: settle")
    return project


def again(project, stage, release="town"):
    forget_from(project.home, project.ledger(), release, stage)


@pytest.mark.parametrize("stage", REPEATABLE)
def test_a_finished_stage_is_made_again_with_the_same_result_at_no_cost(checked, stage):
    sets = checked.run_folder / "public/synthetic"
    before = {path.name: path.read_bytes() for path in sets.glob("*.parquet")}
    kinds, results, made = checked.kinds(), noisy(checked), []
    (sets / "set-1.parquet").write_bytes(b"damaged")
    again(checked, stage)

    def seen(task, *given):
        answer = task.fn(*given)
        if task.name == "synthesize":
            made.append({path.name: path.read_bytes() for path in sets.glob("*.parquet")})
        return answer

    checked.release(perform=seen)
    assert made == [before]
    assert_complete(checked)
    assert noisy(checked) == results
    assert checked.kinds()[: len(kinds)] == kinds
    assert "charge" not in checked.kinds()[len(kinds) :]


def test_an_interruption_while_stages_are_forgotten_leaves_a_release_that_goes_on(
    checked, monkeypatch
):
    forget = RunFolder.forget

    def dies(folder, stage):
        if stage == "reconstruct":
            raise KeyboardInterrupt
        forget(folder, stage)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "forget", dies)
        with pytest.raises(KeyboardInterrupt):
            again(checked, "reconstruct")
    checked.release()
    assert_complete(checked)


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ("measure", "--from takes reconstruct or synthesize, which read stored results only"),
        ("reconstuct", "Did you mean 'reconstruct'"),
    ],
)
def test_a_stage_that_reads_the_data_is_not_made_again(checked, stage, says):
    with pytest.raises(BadInput, match=says):
        again(checked, stage)


def test_nothing_of_a_published_release_is_made_again(project):
    project.release()
    bundle = {path: path.read_bytes() for path in project.out.rglob("*") if path.is_file()}
    with pytest.raises(BadInput, match="'town' is finished, so none of its stages can be repeated"):
        again(project, "synthesize")
    with pytest.raises(BadInput, match="'city' has no open reservation"):
        again(project, "synthesize", "city")
    assert verify(project.out).passed
    assert {path: path.read_bytes() for path in bundle} == bundle


def test_nothing_is_made_again_if_the_release_ends_before_the_lease_is_taken(checked, monkeypatch):
    """Another process settles the release between the command and its lease."""
    lease = Ledger.lease

    def late(ledger, release, home):
        with lease(ledger, release, home) as writer:
            writer.settle(writer.reservation(), "abandoned")
        return lease(ledger, release, home)

    monkeypatch.setattr(Ledger, "lease", late)
    with pytest.raises(BadInput, match="'town' is abandoned, so none of its stages"):
        again(checked, "synthesize")
    sets = checked.run_folder / "public/synthetic"
    assert sorted(path.name for path in sets.glob("*.parquet")) != []
    folder = RunFolder(checked.home, "town", checked.ledger().reservation("town").link)
    assert folder.facts_of("synthesize") is not None


def test_nothing_of_a_release_that_awaits_approval_is_made_again(project):
    project.write_spec("publish: after-approval\n")
    with pytest.raises(Held):
        project.release()
    with pytest.raises(BadInput, match="awaits approval, so none of its stages can be repeated"):
        again(project, "synthesize")


def test_a_stage_that_is_not_finished_is_not_made_again(project):
    fail_at(project, "reconstruct")
    with pytest.raises(BadInput, match="is not finished yet; `dp-release resume town`"):
        again(project, "reconstruct")
