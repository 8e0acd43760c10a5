"""The tables of Prefect's own database in a fresh home: laid at once, not by all its migrations.

Prefect makes them by replaying its whole history, which takes nine seconds of CPU. What it arrives
at is a matter of its version alone and is kept beside this file; a test compares the two. A server
of another version, or one that finds a database there, is left to migrate as ever: the version of
the tables is noted in them.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from importlib import resources
from importlib.metadata import version
from pathlib import Path

VERSION = "3.8.8"
"""Of Prefect, whose tables are kept here."""
NAME = "prefect.db"


def lay_tables(folder: Path) -> bool:
    """Make the database of a server that has none, and return whether it was made.

    It appears complete or not at all. What cannot be done here is left to Prefect, which says what
    it misses.

    Args:
        folder: Prefect's home.
    """
    if version("prefect") != VERSION or _elsewhere() or (folder / NAME).exists():
        return False
    with contextlib.suppress(OSError, sqlite3.Error):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            made = Path(aside) / NAME
            fill(made)
            os.link(made, folder / NAME)  # unless another process has begun one meanwhile
            return True
    return False


def fill(database: Path) -> None:
    """Make the tables in a new database."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.executescript(
            (resources.files("flows") / f"prefect-{VERSION}.sql").read_text(encoding="utf-8")
        )


def _elsewhere() -> bool:
    """Return whether the environment says anything of the server's database."""
    names = [name.upper() for name in os.environ]
    return any(name.startswith("PREFECT_") and "DATABASE" in name for name in names)
