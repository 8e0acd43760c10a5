"""Nothing crosses but the messages of the list, with their fields and types."""

import pytest

from dp_core import errors
from tasks.confidential.frames import Malformed
from tasks.confidential.host import Host
from tasks.confidential.messages import (
    ERRORS,
    NOTICES,
    REPLIES,
    REQUESTS,
    VERSION,
    checked,
    error_message,
    error_of,
)

LISTS = {"requests": REQUESTS, "notices": NOTICES, "replies": REPLIES}
OF_TYPE = {str: "a", int: 1, float: 0.5, bool: True, dict: {}, list: [], type(None): None}


def example(fields):
    return {name: OF_TYPE[kinds[0]] for name, kinds in fields.items()}


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


@pytest.mark.parametrize("kind", ERRORS.values(), ids=ERRORS)
def test_an_error_crosses_without_its_detail(kind):
    found = error_of(error_message(kind("what and what to do", internal="4711", row="a-row")))
    assert type(found) is kind
    assert (found.message, found.row, found.internal) == ("what and what to do", "a-row", None)


def test_an_error_of_another_kind_is_a_failed_stage():
    assert isinstance(error_of(error_message(errors.ReleaseError("so"))), errors.StageFailed)
    with pytest.raises(Malformed):
        error_of({"type": "error", "kind": "SystemExit", "row": None, "sentence": ""})


@pytest.mark.parametrize("name", [name for name in REQUESTS if name not in ("cluster", "open")])
def test_nothing_is_answered_before_a_release_is_open(name):
    with pytest.raises(Malformed):
        Host(print).answer({"type": name, **example(REQUESTS[name])}, {})


def test_a_client_of_another_version_opens_nothing():
    opening = {"type": "open", **example(REQUESTS["open"]), "protocol": 0}
    with pytest.raises(Malformed):
        Host(print).answer(opening, {})


def test_what_fails_before_a_release_is_open_is_kept_in_the_home(home, monkeypatch):
    monkeypatch.setattr("tasks.confidential.host.preview_plan", lambda _: 1 / 0)
    opening = {
        "type": "open",
        **example(REQUESTS["open"]),
        "release": "../../x",
        "protocol": VERSION,
    }
    reply, _ = Host(print).answer(opening, {})
    assert reply["kind"] == "StageFailed"
    assert "ZeroDivisionError" in reply["sentence"]
    (kept,) = home.parent.rglob("failure.txt")
    assert kept.is_relative_to(home / "runs" / "x")
