"""What stops a flow outside its stages leaves it as a sentence, without data."""

import pytest

from dp_core.errors import BadInput, StageFailed
from flows.engine.engine_failures import without_data
from tasks.run.home import open_ledger
from tests.ledgers import open_town
from tests.raising import raising

CANARY = "zqxcanary"


def test_work_that_is_done_has_no_failure(home):
    done = []
    assert without_data("town", lambda: done.append(1)) is None
    assert done == [1]
    assert not (home / "runs").exists()


@pytest.mark.parametrize("own", [False, True])
def test_a_failure_is_made_anew_and_its_detail_is_for_staff(home, own):
    def broken():
        try:
            raise KeyError(CANARY)
        except KeyError as cause:
            if own:
                raise BadInput("A sentence.", internal=CANARY) from cause
            raise ValueError(CANARY) from cause

    failure = without_data("town", broken)

    assert type(failure) is (BadInput if own else StageFailed)
    assert failure.internal is None
    assert (failure.__cause__, failure.__context__, failure.__traceback__) == (None, None, None)
    assert CANARY not in repr(failure)
    assert CANARY in (home / "runs/town/reservations/none/internal/failure.txt").read_text()
    if own:
        assert failure.message == "A sentence."
    else:
        assert "stopped outside its stages (ValueError)" in failure.message


def test_a_detail_that_cannot_be_kept_is_not_named(home, monkeypatch):
    monkeypatch.setattr("tasks.support.run_folder.os.fsync", raising(OSError(28, "full")))
    failure = without_data("town", raising(ValueError(CANARY)))
    assert failure.row == "outside-stages"
    assert "the detail could not be saved" in failure.message
    assert str(home) not in failure.message


def test_an_interruption_goes_through(home):
    with pytest.raises(KeyboardInterrupt):
        without_data("town", raising(KeyboardInterrupt))
    assert not (home / "runs").exists()


@pytest.mark.usefixtures("home")
def test_a_full_home_is_named_as_such(monkeypatch):
    monkeypatch.setattr("flows.engine.settings.ROOM", 2**80)

    failure = without_data("town", raising(RuntimeError("the server did not start")))
    assert failure.row == "disk-full"


def test_only_what_was_reserved_is_to_be_resumed(home):
    open_town(open_ledger(home))

    failure = without_data("town", raising(RuntimeError("the server did not start")))
    assert "the same `dp-release run`" in failure.message
    assert "resume" not in failure.message
