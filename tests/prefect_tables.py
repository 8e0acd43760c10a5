"""Prefect's database with its tables in it, which take it seven seconds of CPU to make.

They are made once, kept in pytest's cache for later runs (without a cache, for this one), and
copied to where a test's own server begins. A database of before would be brought up to date by the
server itself. That a first start makes them, without a network, is what
`tests/flows/engine/test_network_fence.py` shows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from flows.engine.prefect_tables import NAME, make


@pytest.fixture(scope="session")
def with_prefects_tables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Return a function that puts the database into a folder, which becomes PREFECT_HOME."""
    cache: pytest.Cache | None = getattr(request.config, "cache", None)  # -p no:cacheprovider
    folder = (
        tmp_path_factory.mktemp("prefect")
        if cache is None
        else cache.mkdir(f"prefect-{version('prefect')}")
    )
    kept = folder / NAME

    def put(folder: Path, name: str = NAME) -> Path:
        if not kept.exists():
            make(kept)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(kept, folder / name)
        return folder

    return put
