"""Prefect's database with its tables in it: their migrations take seven seconds of CPU.

They are made once, kept in pytest's cache for later runs, and copied to where a test's own server
begins. A database of before would be brought up to date by the server itself. That a first start
makes them, without a network, is what `tests/flows/test_network_fence.py` shows.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

NAME = "prefect.db"
MAKE = """
import asyncio
from prefect.server.database import provide_database_interface
asyncio.run(provide_database_interface().create_db())
"""


@pytest.fixture(scope="session")
def with_prefects_tables(request: pytest.FixtureRequest) -> Callable[..., Path]:
    """Return a function that puts the database into a folder, which becomes PREFECT_HOME."""
    kept = request.config.cache.mkdir(f"prefect-{version('prefect')}") / NAME

    def put(folder: Path, name: str = NAME) -> Path:
        if not kept.exists():
            make(kept)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(kept, folder / name)
        return folder

    return put


def make(kept: Path) -> None:
    """Let Prefect make its database, by its migrations."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", MAKE],
            env={**usual, "PREFECT_HOME": folder, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"},
            cwd=folder,
            check=True,
            capture_output=True,
        )
        # In one step: another worker may do the same.
        (Path(folder) / NAME).replace(kept)
