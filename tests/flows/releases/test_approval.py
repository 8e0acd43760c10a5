"""A release waits for a person, who looks, publishes or withdraws; nothing is made again."""

import json

import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, LedgerCorrupt, StageFailed
from flows import release as flows_release
from flows.cli.actions import publication_decisions
from flows.cli.actions.publication_decisions import abandon
from flows.monitoring import outcome
from tasks.run.release_cleanup import clear_all_leftovers
from tasks.support.run_folder import RunFolder
from tests.both_writers import both_writers
from tests.flows.conftest import plainly
from tests.flows.corpus import hold, lent
from tests.flows.releases.test_resume import noisy
from tests.full import some
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("quick")
WHO = ("--by", "Ana Officer", "--reason", "read it")
BY = {"by": "Ana Officer", "reason": "read it"}
WAITING = "publish: after-approval\n"


held = lent(WAITING, hold, measure="{noise: gaussian}")


def test_a_held_release_is_complete_free_and_without_codes(held):
    assert held.kinds()[-1] == "hold"
    assert held.ledger().holder("town") is None
    assert not held.out.exists()
    assert not (held.run_folder / "confidential").resolve().exists()
    assert (held.internal / "utility.html").is_file()


def test_status_and_every_way_to_go_on_say_that_it_waits(held, command):
    before = noisy(held)
    status = command("status", "town")
    assert "held since" in status.out
    assert "waits for a person" in status.out
    for words in (("run", held.spec, "--out", held.out), ("resume", "town")):
        said = command(*words)
        assert said.code == 6
        assert "dp-release release look town" in said.err
        assert str(held.internal) not in said.err + said.out
    assert noisy(held) == before
    assert held.kinds()[-1] == "hold"


def test_a_changed_file_is_not_opened_and_no_attempt_while_a_release_waits(held, command):
    """The ledger answers a hold before it compares an input, so no flow comes as far as that."""
    data = held.folder / "town.csv"
    data.write_text("\n".join(data.read_text().splitlines()[:-1]) + "\n")
    entries = held.ledger().entries()
    for words in (("run", held.spec, "--out", held.out), ("resume", "town")):
        assert command(*words).code == 6
    assert held.ledger().entries() == entries
    assert command("release", "publish", "town", *WHO).code == 0
    assert verify(held.out).passed


def test_a_look_is_on_record_before_anybody_is_told_where_to_look(held, command, monkeypatch):
    said = command("release", "look", "town", *WHO)
    assert said.code == 0
    assert str(held.internal) in said.out
    assert held.kinds()[-1] == "look"

    from tasks.ledger import release_writer

    monkeypatch.setattr(release_writer, "add", raising(StageFailed("The ledger does not answer.")))
    said = command("release", "look", "town", *WHO)
    assert said.code == 4
    assert str(held.internal) not in said.out + said.err


def test_days_later_it_is_published_as_at_once_would_have(held, command):
    command("release", "look", "town", *WHO)
    said = command("release", "publish", "town", *WHO)
    assert said.code == 0, said.err
    assert verify(held.out).passed
    assert held.kinds()[-2:] == ["decide", "settle"]
    text = (held.out / "release.json").read_text()
    assert "Ana" not in text
    assert "read it" not in text
    decision = json.loads(text)["decision"]
    assert (decision["mode"], decision["cause"]) == ("after-approval", "after-approval")
    assert len(decision["looks"]) == 1
    assert decision["outcome"] == "published"
    told = (held.out / "report.html").read_text()
    assert f"from {decision['held']} on, because its plan requires approval" in told
    assert "Look" in command("status", "town").out
    again = command("release", "publish", "town", *WHO)
    assert again.code == 2
    assert "not-held" in again.err
    assert command("release", "withdraw", "town", *WHO).code == 2


def test_withdrawn_it_has_no_bundle_and_its_name_stays_used(held, command):
    spent = held.ledger().account("town").balance.reserved
    said = command("release", "withdraw", "town", *WHO)
    assert said.code == 0, said.err
    assert not held.out.exists()
    assert not (held.run_folder / "public/synthetic").exists()
    assert held.ledger().account("town").balance.spent == spent
    for words in (("release", "publish", "town", *WHO), ("release", "withdraw", "town", *WHO)):
        assert command(*words).code == 2
    for words in (("run", held.spec, "--out", held.out), ("resume", "town")):
        said = command(*words)
        assert said.code == 2
        assert "is withdrawn" in said.err
    # What is over may still be looked at, and that is on record.
    assert command("release", "look", "town", *WHO).code == 0


def test_what_was_held_is_published_or_nothing(held):
    file = held.run_folder / "public/synthetic/set-1.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(StageFailed, match="never made again"):
        publication_decisions.publish(held.home, held.ledger(), "town", out=None, **BY)
    assert held.kinds()[-1] == "hold"
    file.unlink()
    with pytest.raises(StageFailed, match="never made again"):
        publication_decisions.publish(held.home, held.ledger(), "town", out=None, **BY)
    # It can still be ended.
    publication_decisions.withdraw(held.home, held.ledger(), "town", **BY)


@pytest.mark.usefixtures("held")
def test_a_held_release_is_not_abandoned(command):
    said = command("abandon", "town")
    assert said.code == 2
    assert "dp-release release withdraw town" in said.err


def test_a_stage_that_lost_its_mark_is_not_done_again(held):
    (held.run_folder / "public/stages/check.json").unlink()
    with pytest.raises(StageFailed, match="never made again"):
        publication_decisions.publish(held.home, held.ledger(), "town", out=None, **BY)


class Interrupted(BaseException):
    """Stands for SIGKILL."""


stop = raising(Interrupted)


@pytest.mark.parametrize("at", ["before", "bundle", "tidy", "amid"])
def test_an_interruption_around_the_decision_loses_nothing(held, monkeypatch, at):
    with monkeypatch.context() as patch:
        if at == "before":
            patch.setattr("tasks.ledger.release_writer.add_settlement", stop)
        elif at == "bundle":
            patch.setattr("dp_core.bundle.writer.write_bundle", stop)
        elif at == "tidy":
            patch.setattr(flows_release, "tidy", stop)
        else:
            # The sets are deleted, and the mark that says so is not there yet.
            patch.setattr(RunFolder, "remove_confidential", stop)
        with pytest.raises(Interrupted):
            publication_decisions.publish(held.home, held.ledger(), "town", out=None, **BY)
    # Decision and settlement are one entry or none.
    assert held.kinds()[-1] == ("hold" if at == "before" else "settle")
    if at == "bundle":
        held.release(perform=plainly)
    else:
        publication_decisions.publish(held.home, held.ledger(), "town", out=None, **BY)
    assert verify(held.out).passed
    assert held.kinds().count("decide") == held.kinds().count("settle") == 1
    assert not (held.run_folder / "public/synthetic").exists()


def by_resume(_at, command):
    assert command("resume", "town").code in (2, 6, 7)


def by_abandon(_at, command):
    assert command("abandon", "town").code == 2


def by_withdrawing(at, _command):
    publication_decisions.withdraw(at.home, at.ledger(), "town", **BY)
    with pytest.raises(BadInput, match="ended"):
        publication_decisions.withdraw(at.home, at.ledger(), "town", **BY)


def by_sweep(at, _command):
    assert clear_all_leftovers(at.home, at.ledger()) == ["town"]
    assert clear_all_leftovers(at.home, at.ledger()) == []


@pytest.mark.parametrize("again", [by_resume, by_abandon, by_sweep, by_withdrawing])
def test_what_withdrawing_left_is_deleted_by_whoever_comes_next(held, command, monkeypatch, again):
    with monkeypatch.context() as patch:
        patch.setattr(publication_decisions, "remove_unpublished", stop)
        with pytest.raises(Interrupted):
            publication_decisions.withdraw(held.home, held.ledger(), "town", **BY)
    assert (held.run_folder / "public/synthetic").exists()
    again(held, command)
    assert not (held.run_folder / "public/synthetic").exists()


@pytest.mark.parametrize(
    ("end", "again"),
    some(
        [
            (end, again)
            for end in ("held", "failed", "abandoned")
            for again in (by_resume, by_sweep)
        ],
        lambda case: case in [("held", by_sweep), ("failed", by_resume), ("abandoned", by_sweep)],
    ),
)
def test_what_an_end_left_is_deleted_by_whoever_comes_next(
    project, command, monkeypatch, end, again
):
    threshold = "{figure: worst_tvd, fail: 0.0001}"
    failing = f"checks: {{share: 0.2, tables: [[sex, age]], thresholds: [{threshold}]}}\n"
    project.write_spec(failing if end == "failed" else WAITING)
    with monkeypatch.context() as patch:
        patch.setattr("tasks.stages.gates.publication_approval.mark_waiting", stop)
        patch.setattr("tasks.stages.gates.publication_approval.remove_unpublished", stop)
        patch.setattr("tasks.support.run_folder.RunFolder.remove_confidential", stop)
        if end == "abandoned":
            patch.setattr("tasks.stages.gates.ledger_tasks.require_approval", stop)
        with pytest.raises(Interrupted):
            project.release(perform=plainly)
        if end == "abandoned":
            with pytest.raises(Interrupted):
                abandon(project.home, project.ledger(), "town")
    codes = (project.run_folder / "confidential").resolve()
    assert codes.exists()
    before = project.kinds()
    again(project, command)
    assert not codes.exists()
    assert (project.run_folder / "public/synthetic").exists() == (end != "failed")
    assert project.kinds() == before


def test_the_ledger_itself_lets_nothing_be_drawn_for_it(held):
    """Whatever a program does wrong: its charges are refused from the hold on."""
    ledger = held.ledger()
    reservation = ledger.reservation("town")
    first = ledger.charges(reservation)[0]
    with (
        both_writers(ledger, "town", "home") as release_writer,
        pytest.raises((LedgerCorrupt, StageFailed)),
    ):
        release_writer.commit(reservation, first.batch, "0" * 64)
    ledger.verify()


@pytest.fixture
def no_server(monkeypatch):
    """Show nothing in Prefect, and run no task in it: that would start a server."""
    monkeypatch.setattr(flows_release.ReleaseArtifacts, "end", lambda *_: None)
    monkeypatch.setattr(
        flows_release.ReleaseArtifacts, "perform", lambda _self, *what: plainly(*what)
    )


@pytest.mark.usefixtures("no_server")
def test_prefect_shows_it_as_held_and_not_as_failed(held):
    with outcome.collect_outcomes() as told:
        state = flows_release.release.fn(spec=str(held.spec), out=str(held.out))
    assert (state.name, state.is_completed()) == ("Held", True)
    assert [one.name for one in told] == ["held"]
    assert told[0].exit_code == 6


@pytest.mark.usefixtures("no_server")
def test_a_plan_that_waits_for_approval_is_no_failure(project):
    project.open_account("careful", approved_only=True)
    project.write_spec(account="careful")
    with outcome.collect_outcomes() as told:
        state = flows_release.release.fn(spec=str(project.spec), out=str(project.out))
    assert (state.name, state.is_completed()) == ("AwaitingPlanApproval", True)
    assert (told[0].name, told[0].exit_code) == ("waiting", 3)
    assert project.ledger().reservation("town") is None

    from dp_core.plan.plan import make_plan
    from dp_core.plan.reading.spec_file import load_spec

    project.ledger().approve(make_plan(load_spec(project.spec)).hash, **BY)
    project.release()
    assert verify(project.out).passed
