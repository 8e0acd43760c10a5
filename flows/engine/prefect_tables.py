"""Copies Prefect's empty database into a new home, which is faster than Prefect's migrations.

Prefect creates its tables by running all its migrations, which takes nine seconds of CPU time. The
result depends only on Prefect's version, so a copy is kept where the program is installed. This
command lets Prefect create that copy once; `make` runs it:

    python -m flows.engine.prefect_tables

Prefect runs its migrations as usual if there is no copy, if the copy is for another version, or if
the home already has a database.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

NAME = "prefect.db"
REVISIONS = {"3.8.8": "a3b9c7d2e5f1"}
"""Last migration of each version of Prefect that `need_whole_server` knows."""
_MAKE = """
import asyncio
from prefect.server.database import provide_database_interface
asyncio.run(provide_database_interface().create_db())
"""


def tables_copy() -> Path:
    """Return the path of the copy for the installed version of Prefect; it need not exist."""
    return Path(sys.prefix) / "share" / "dp-release" / f"prefect-{version('prefect')}.db"


def lay_tables(folder: Path) -> bool:
    """Copy the empty database into Prefect's home, if the home has no database yet.

    The copy appears complete or not at all. If it fails, Prefect creates the database itself and
    reports any error.

    Args:
        folder: Prefect's home.

    Returns:
        Whether the database was copied.
    """
    if _elsewhere() or (folder / NAME).exists() or not tables_copy().is_file():
        return False
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            copied = Path(aside) / NAME
            shutil.copyfile(tables_copy(), copied)
            os.link(copied, folder / NAME)  # fails if another process has created one meanwhile
            return True
    return False


def need_whole_server(folder: Path) -> bool:
    """Return whether the database in Prefect's home needs more than the API that a release uses.

    It does if there is none, if it has to be migrated, if it has automations (which only Prefect's
    whole server runs), and if it cannot be read.

    Args:
        folder: Prefect's home.
    """
    revision = REVISIONS.get(version("prefect"))
    if revision is None or _elsewhere():
        return True
    try:
        address = f"{(folder / NAME).absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
            found = database.execute("SELECT version_num FROM alembic_version").fetchall()
            automations = database.execute("SELECT 1 FROM automation LIMIT 1").fetchall()
    except sqlite3.Error:
        return True
    return found != [(revision,)] or bool(automations)


def make(database: Path) -> None:
    """Let Prefect create an empty database by its migrations, in a separate process and home.

    Args:
        database: Path of the new database.

    Raises:
        OSError: if the file cannot be written.
        subprocess.CalledProcessError: if Prefect fails; its output is in `stderr`.
    """
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=database.parent) as folder:
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _MAKE],
            env={**usual, "PREFECT_HOME": folder, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"},
            cwd=folder,
            check=True,
            capture_output=True,
        )
        # Replace in one step, because another process may do the same.
        (Path(folder) / NAME).replace(database)


def _elsewhere() -> bool:
    """Return whether the environment configures the server's database."""
    names = [name.upper() for name in os.environ]
    return any(name.startswith("PREFECT_") and "DATABASE" in name for name in names)


if __name__ == "__main__":
    make(tables_copy())
