"""Connections to databases: which of them are files."""

from pathlib import Path

import pytest

from tasks.inputs.database_connection import sqlite_file


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:////srv/town.db", Path("/srv/town.db")),
        (" sqlite:///town.db ", Path.cwd() / "town.db"),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("postgresql://reader@host/town", None),
        ("no url", None),
        (None, None),
    ],
)
def test_the_file_of_a_database(monkeypatch, url, file):
    monkeypatch.delenv("TOWN_DB", raising=False)
    if url is not None:
        monkeypatch.setenv("TOWN_DB", url)
    assert sqlite_file("TOWN_DB") == file
