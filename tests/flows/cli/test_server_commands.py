"""`dp-release server`: what a timer runs, with its exit codes, with and without a server."""

import pytest

from dp_core.errors import LedgerCorrupt
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("project")


def test_the_nightly_check_needs_no_server(command, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    answer = command("server", "nightly")
    assert answer.code == 0
    assert answer.out.startswith("The ledger and 0 bundles verify")


def test_a_server_that_is_down_does_not_stop_the_nightly_check(command, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    answer = command("server", "nightly")
    assert answer.code == 0
    assert "http://127.0.0.1:9/api" in answer.err
    assert answer.out.startswith("The ledger and 0 bundles verify")


def test_a_ledger_that_does_not_verify_ends_with_its_exit_code(command, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(
        "flows.nightly.check_all",
        raising(LedgerCorrupt("Entry 3 does not verify.", row="ledger-damaged")),
    )
    answer = command("server", "nightly")
    assert answer.code == 5
    assert "Entry 3" in answer.err


@pytest.mark.parametrize(("url", "code"), [("", 2), ("http://127.0.0.1:9/api", 4)])
def test_the_sweep_needs_a_server(command, monkeypatch, url, code):
    monkeypatch.setenv("PREFECT_API_URL", url)
    answer = command("server", "sweep")
    assert answer.code == code
    assert "PREFECT_API_URL" in answer.err
