"""The tables of Prefect's own database in a fresh home: copied, not made by all its migrations.

Prefect makes them by replaying its whole history, which takes nine seconds of CPU. What it arrives
at is a matter of its version alone, so it is kept where the program is installed:

    python -m flows.engine.prefect_tables

lets Prefect make them there, once; `make` does so. A home where nothing is kept, of another
version, or with a database of its own is left to Prefect, which migrates as ever.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

NAME = "prefect.db"
_MAKE = """
import asyncio
from prefect.server.database import provide_database_interface
asyncio.run(provide_database_interface().create_db())
"""


def kept() -> Path:
    """Return where the tables of the installed Prefect are kept, or would be."""
    return Path(sys.prefix) / "share" / "dp-release" / f"prefect-{version('prefect')}.db"


def lay_tables(folder: Path) -> bool:
    """Make the database of a server that has none, and return whether it was made.

    It appears complete or not at all. What cannot be done here is left to Prefect, which says what
    it misses.

    Args:
        folder: Prefect's home.
    """
    if _elsewhere() or (folder / NAME).exists() or not kept().is_file():
        return False
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            copied = Path(aside) / NAME
            shutil.copyfile(kept(), copied)
            os.link(copied, folder / NAME)  # unless another process has begun one meanwhile
            return True
    return False


def make(database: Path) -> None:
    """Let Prefect make its database, by its migrations, in a process and a home of its own.

    Raises:
        OSError: if it cannot be written there.
        subprocess.CalledProcessError: if Prefect fails; what it said is its `stderr`.
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
        # In one step: another process may do the same.
        (Path(folder) / NAME).replace(database)


def _elsewhere() -> bool:
    """Return whether the environment says anything of the server's database."""
    names = [name.upper() for name in os.environ]
    return any(name.startswith("PREFECT_") and "DATABASE" in name for name in names)


if __name__ == "__main__":
    make(kept())
