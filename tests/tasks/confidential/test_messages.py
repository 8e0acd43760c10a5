"""Nothing crosses but the messages of the list, with their fields and types."""

import socket
from pathlib import Path

import pytest

from dp_core import errors
from dp_core.errors import (
    BadInput,
    BudgetRefused,
    DataRefused,
    LedgerCorrupt,
    SchemaViolation,
    StageFailed,
)
from tasks.confidential.connection import Connection
from tasks.confidential.frames import Malformed, send
from tasks.confidential.host import Host
from tasks.confidential.messages import (
    BEFORE_DATA,
    ERRORS,
    FAILURES,
    NOTICES,
    REPLIES,
    REQUESTS,
    ROWS,
    STOPS,
    VERSION,
    checked,
    checked_reply,
    error_message,
    error_of,
    failure_message,
    is_about_data,
)
from tasks.confidential.process import Started
from tasks.support.run_folder import INTERNAL_NOTICE, RunFolder
from tests.flows.monitoring.test_runbook import named_in, on_page
from tests.raising import raising

LISTS = {"requests": REQUESTS, "notices": NOTICES, "replies": REPLIES}
OF_TYPE = {str: "a", int: 1, float: 0.5, bool: True, dict: {}, type(None): None}


def example(fields):
    return {name: OF_TYPE.get(kinds[0], kinds[0]) for name, kinds in fields.items()}


@pytest.mark.parametrize("of", LISTS.values(), ids=LISTS)
def test_a_message_has_exactly_its_fields(of):
    for name, fields in of.items():
        message = {"type": name, **example(fields)}
        assert checked(message, of) == name
        with pytest.raises(Malformed):
            checked({**message, "rows": [1, 2]}, of)
        for field in fields:
            with pytest.raises(Malformed):
                checked({key: value for key, value in message.items() if key != field}, of)
            with pytest.raises(Malformed):
                checked({**message, field: {1, 2}}, of)


@pytest.mark.parametrize("message", [{}, {"type": "rows of the file"}, {"type": ["ask"]}])
def test_what_is_not_on_the_list_is_refused(message):
    with pytest.raises(Malformed):
        checked(message, REQUESTS)


def test_true_is_no_whole_number():
    with pytest.raises(Malformed):
        checked({"type": "open", **example(REQUESTS["open"]), "fence": True}, REQUESTS)


CANARY = "salary-of-row-4711"
ERROR = {"type": "error", "kind": "StageFailed", "row": None, "kept": True}


@pytest.mark.parametrize(
    "changed",
    [
        {"row": CANARY},
        {"row": "data-damaged "},
        {"row": ["data-damaged"]},
        {"kind": "SystemExit"},
        {"kind": "Held"},
        {"kind": None},
        {"kept": CANARY},
        {"kept": 1},
        {"sentence": CANARY},
        {"internal": None},
    ],
    ids=str,
)
def test_an_error_is_a_kind_and_a_row_of_the_lists_and_nothing_else(changed):
    assert checked(ERROR, REPLIES) == "error"
    assert checked({**ERROR, "row": "data-damaged"}, REPLIES) == "error"
    with pytest.raises(Malformed):
        checked({**ERROR, **changed}, REPLIES)


@pytest.mark.parametrize("changed", [{"row": CANARY}, {"kind": CANARY}, {"sentence": CANARY}])
def test_a_process_that_says_more_is_ended_and_not_heard(changed):
    mine, its = socket.socketpair()
    ended = []
    started = Started(0, mine, Path("process.txt"), lambda: ended.append(True) or 0)
    send(its, {**ERROR, **changed})
    with pytest.raises(StageFailed, match="sent an unreadable message") as failed:
        Connection(started).exchange({"type": "readable"}, {}, print)
    assert ended
    assert CANARY not in str(vars(failed.value))
    assert failed.value.__cause__ is None
    mine.close()
    its.close()


def test_the_rows_that_an_error_may_name_are_those_of_the_program_and_of_the_page():
    assert named_in("dp_core", "tasks") == ROWS
    assert set(on_page()) >= ROWS


@pytest.fixture
def folder(tmp_path):
    found = RunFolder(tmp_path, "town", "a" * 64)
    found.begin(spec=tmp_path / "spec.yaml", out=tmp_path / "out")
    return found


@pytest.mark.parametrize("row", ["data-damaged", "no row of the runbook", None])
@pytest.mark.parametrize("kind", ERRORS.values(), ids=ERRORS)
def test_an_error_crosses_without_a_word_of_its_own(folder, kind, row):
    error = kind(f"Column {CANARY!r}.", internal=CANARY, row=row)
    message = error_message(error, kept=True)
    checked(message, REPLIES)
    assert CANARY not in str(message)
    found = error_of(message, folder, "validate")
    assert type(found) is kind
    assert (found.row, found.internal) == (row if row in ROWS else None, None)
    assert found.message_file == folder.path / "internal" / "message.txt"
    assert "release 'town'" in found.message
    assert str(found.message_file) in found.message


@pytest.mark.parametrize("kind", ERRORS)
def test_the_sentence_of_an_error_says_what_where_and_what_to_do(folder, tmp_path, kind):
    reply = {**ERROR, "kind": kind, "row": "data-damaged"}
    said = error_of(reply, folder, "count").message
    assert said.startswith("Stage 'count' of release 'town' ")
    assert "(data-damaged)" in said
    assert "`dp-release status town` shows it at a terminal" in said
    unkept = error_of({**reply, "kept": False}, folder, None)
    assert unkept.message.startswith("Release 'town' ")
    assert "could not be saved" in unkept.message
    assert unkept.message_file is None
    # A release that was never begun has no status, and cannot be resumed.
    early = error_of(reply, RunFolder(tmp_path, "village"), None).message
    assert "dp-release status" not in early
    assert "dp-release resume" not in early


def test_an_error_of_another_kind_is_a_failed_stage():
    assert error_message(errors.ReleaseError("so"), kept=True)["kind"] == "StageFailed"


@pytest.mark.parametrize("request_name", REQUESTS)
def test_once_the_data_may_be_open_an_error_is_a_counted_verdict_or_one_of_few_rows(request_name):
    late = request_name not in BEFORE_DATA
    replies = {
        "error": ERROR,
        "verdict": {"type": "verdict", "verdict": "unreadable", "kept": True},
        "failed": {"type": "failed", "kind": "StageFailed", "row": "data-side", "kept": True},
    }
    for name, reply in replies.items():
        if (name == "error") == late:
            with pytest.raises(Malformed):
                checked_reply(reply, request_name)
        else:
            assert checked_reply(reply, request_name) == name
    for row in ("data-damaged", "codes-damaged", "stage-failed", None, CANARY):
        with pytest.raises(Malformed):
            checked_reply({**replies["failed"], "row": row}, request_name)
    for verdict in ("fits", "open", CANARY):
        with pytest.raises(Malformed):
            checked_reply({**replies["verdict"], "verdict": verdict}, request_name)


def test_the_rows_that_stop_a_release_whatever_its_data_are_few_and_on_the_page():
    assert {*STOPS, "data-side", "data-unreadable", "data-do-not-fit"} <= ROWS
    assert len(STOPS) < 20
    assert not {row for row in STOPS if row.startswith(("data-", "codes-", "columns-"))}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StageFailed("No disk.", row="disk-full"), ("StageFailed", "disk-full")),
        (StageFailed("No answer.", row="ledger-silent"), ("StageFailed", "ledger-silent")),
        (BadInput("No folder.", row="state-folder"), ("StageFailed", "state-folder")),
        (BudgetRefused("No.", row="attempts-refused"), ("BudgetRefused", "attempts-refused")),
        (LedgerCorrupt("No.", row="ledger-damaged"), ("LedgerCorrupt", "ledger-damaged")),
        (StageFailed("A unit.", row="codes-damaged"), ("StageFailed", "data-side")),
        (LedgerCorrupt("A file.", row="result-damaged"), ("LedgerCorrupt", "data-side")),
        (errors.AwaitsApproval("No."), ("BudgetRefused", "data-side")),
    ],
    ids=lambda each: getattr(each, "row", each),
)
def test_a_failure_of_the_machine_or_the_ledger_is_told_and_says_nothing_of_the_data(error, told):
    assert not is_about_data(error)
    reply = failure_message(error, kept=True)
    assert checked_reply(reply, "work") == "failed"
    assert (reply["kind"], reply["row"]) == told
    assert reply["kind"] in FAILURES


@pytest.mark.parametrize(
    ("error", "about"),
    [
        (SchemaViolation("Column 'x'."), True),
        (DataRefused("No row."), True),
        (BadInput("No end.", row="data-damaged"), True),
        (ValueError("no number"), True),
        (MemoryError(), False),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_reading_the_data_raises_may_be_about_them(error, about):
    assert is_about_data(error) == about


@pytest.mark.parametrize(
    ("verdict", "kind", "row"),
    [
        ("refused", SchemaViolation, "data-do-not-fit"),
        ("unreadable", DataRefused, "data-unreadable"),
    ],
)
def test_a_verdict_has_one_sentence(folder, verdict, kind, row):
    found = error_of({"type": "verdict", "verdict": verdict, "kept": True}, folder, "validate")
    assert (type(found), found.row) == (kind, row)
    assert "The ledger counts the refused attempt" in found.message
    assert str(found.message_file) in found.message


@pytest.mark.parametrize(
    "error",
    [
        BadInput(f"Column {CANARY!r}."),
        SchemaViolation(f"Column {CANARY!r}."),
        StageFailed(f"No {CANARY}."),
        ValueError(CANARY),
    ],
    ids=lambda each: type(each).__name__,
)
def test_the_process_keeps_its_sentence_inside(home, monkeypatch, error):
    monkeypatch.setattr("tasks.confidential.host.preview_plan", raising(error))
    opening = {**example(REQUESTS["open"]), "type": "open", "protocol": VERSION}
    reply, _ = Host(print).answer({**opening, "release": "town"}, {})
    checked(reply, REPLIES)
    assert reply["kept"]
    assert CANARY not in str(reply)
    file = RunFolder(home, "town").message_file
    assert file.read_text().startswith(INTERNAL_NOTICE)
    # The text of another program's error is a detail.
    holder = file if isinstance(error, errors.ReleaseError) else file.with_name("failure.txt")
    assert CANARY in holder.read_text()


@pytest.mark.parametrize("name", sorted({*REQUESTS} - {"cluster", "open"}))
def test_nothing_is_answered_before_a_release_is_open(name):
    with pytest.raises(Malformed):
        Host(print).answer({"type": name, **example(REQUESTS[name])}, {})


def test_a_client_of_another_version_opens_nothing():
    opening = {"type": "open", **example(REQUESTS["open"]), "protocol": 0}
    with pytest.raises(Malformed):
        Host(print).answer(opening, {})


@pytest.mark.parametrize("name", ["cluster", "open"])
def test_what_fails_before_a_release_is_open_is_kept_in_the_home(home, monkeypatch, name):
    for work in ("preview_plan", "load_spec"):
        monkeypatch.setattr(f"tasks.confidential.host.{work}", lambda _: 1 / 0)
    changed = {"protocol": VERSION} if name == "open" else {"address": None}
    message = {"type": name, **example(REQUESTS[name]), **changed, "release": "../../x"}
    reply, _ = Host(print).answer(message, {})
    assert (reply["kind"], reply["row"]) == ("StageFailed", "stage-failed")
    (kept,) = home.parent.rglob("message.txt")
    assert "ZeroDivisionError" in kept.read_text()
    assert kept.is_relative_to(home / "runs" / "x")
    assert kept.with_name("failure.txt").is_file()
