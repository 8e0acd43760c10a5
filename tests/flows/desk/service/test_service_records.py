"""What the service remembers: keys of repeated requests."""

from __future__ import annotations

import stat

import pytest

from flows.desk.service.service_records import (
    KEPT_S,
    MOST_KEYS,
    KeyReused,
    ServiceRecords,
)
from flows.desk.service.tokens import FOLDER


def test_a_key_is_forgotten_after_a_week(tmp_path):
    now = [0.0]
    records = ServiceRecords(tmp_path, clock=lambda: now[0])
    records.claim("rand", "anna", "k", "one")
    now[0] = KEPT_S
    with pytest.raises(KeyReused):
        ServiceRecords(tmp_path, clock=lambda: now[0]).claim("rand", "anna", "k", "two")
    now[0] = KEPT_S + 1
    records.claim("rand", "anna", "k", "two")


def test_a_user_keeps_a_limited_number_of_keys(tmp_path, monkeypatch):
    assert MOST_KEYS > 100
    monkeypatch.setattr("flows.desk.service.service_records.MOST_KEYS", 3)
    now = [0.0]
    records = ServiceRecords(tmp_path, clock=lambda: now[0])
    for number in range(5):
        now[0] += 1
        records.claim("rand", "anna", f"k{number}", "one")
    records.claim("rand", "anna", "k0", "two")  # forgotten
    with pytest.raises(KeyReused):
        records.claim("rand", "anna", "k4", "two")


def test_only_the_owner_reads_the_records(tmp_path):
    ServiceRecords(tmp_path).claim("rand", "anna", "a-key", "a request")
    path = tmp_path / FOLDER / "service.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"a-key" not in path.read_bytes()
