"""Whoever listens is told what happened, by public values; nothing waits for it, or fails by it."""

import pytest

from flows.monitoring.outcome import Outcome, announce
from flows.monitoring.prefect_events import tell_check, tell_release
from tests.http_listener import listening
from tests.ledgers import open_town, owner


@pytest.fixture
def server(monkeypatch):
    """A server that takes what is posted to it."""
    with listening() as listener:
        monkeypatch.setenv("PREFECT_API_URL", f"{listener.url}/api")
        yield listener.posted


def only(posted):
    ((path, (event,)),) = posted
    assert path == "/api/events"
    return event


def test_an_outcome_is_an_event_about_the_release_and_its_account(server):
    outcome = Outcome(
        "failed", "The disk is full: a result could not be written.", 4, row="disk-full"
    )
    announce(outcome, release="town-1", account="town")
    event = only(server)
    assert event["event"] == "dp-release.release.failed"
    assert event["resource"]["prefect.resource.id"] == "dp-release.release.town-1"
    assert event["related"] == [
        {
            "prefect.resource.id": "dp-release.account.town",
            "prefect.resource.name": "town",
            "prefect.resource.role": "account",
        }
    ]
    # Nothing else: no times of stages, no attempts.
    assert event["payload"] == {
        "release": "town-1",
        "account": "town",
        "outcome": "failed",
        "sentence": outcome.sentence,
        "exit_code": 4,
        "runbook": "disk-full",
    }


def test_nobody_is_told_where_no_server_is_named(server, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL")
    tell_release("published", "town", "town")
    tell_check("ledger", "verified", "In order.", None)
    assert server == []


def test_a_server_that_does_not_answer_is_no_reason_to_fail(monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    tell_release("published", "town", "town")
    monkeypatch.setenv("PREFECT_API_URL", "no address")
    tell_release("published", "town", "town")


def test_a_ledger_that_does_not_verify_is_told(server, home, command):
    from tasks.run.home import open_ledger

    open_town(open_ledger(home))
    assert command("ledger", "verify").code == 0
    assert only(server)["event"] == "dp-release.ledger.verified"
    server.clear()
    with owner(f"sqlite:///{home / 'ledger.db'}") as connection:
        connection.exec_driver_sql("UPDATE entries SET recorded = '2026-11-21' WHERE position = 2")
    assert command("ledger", "verify").code == 5
    event = only(server)
    assert event["event"] == "dp-release.ledger.verification-failed"
    assert event["resource"]["prefect.resource.id"] == "dp-release.ledger"
    assert "Entry 2 (open)" in event["payload"]["sentence"]
    assert event["payload"]["runbook"] == "ledger-changed"
