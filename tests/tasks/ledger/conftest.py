"""Fixtures of the tests of the ledger."""

import pytest

from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.ledgers import HOME, on, open_town
from tests.specs import plan_of


@pytest.fixture
def ledger(ledger_url, monkeypatch):
    """A new ledger on both databases, on 20 November 2026."""
    on(monkeypatch, "2026-11-20", "00:00:00")  # no later entry is dated before
    return Ledger(ledger_url)


@pytest.fixture
def town(ledger):
    """The ledger, with the account `town` of epsilon 2 and delta 1e-5."""
    open_town(ledger)
    return ledger


@pytest.fixture
def writer(ledger):
    """The holder of release `first`."""
    with both_writers(ledger, "first", HOME) as writer:
        yield writer


@pytest.fixture
def plan(tmp_path):
    """The plan of a small release `first` of `town`."""
    return plan_of(tmp_path)
