"""Where the examples of the public Python API run: a folder with the small release `first`."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestItem, DoctestModule

FACE = "import dp_core as dp"


@pytest.fixture(scope="session")
def town_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundle `first` and its schema; a test that changes it copies it first."""
    from tests.dp_core.analysis.notebook.town import make_town

    folder = tmp_path_factory.mktemp("town")
    make_town(folder)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Leave out the doctests of a file without examples, which pytest would import and search."""
    found = yield
    if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
        return [each for each in found if not isinstance(each, DoctestModule)]
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Run an example that imports the public API in the folder of the town."""
    if (
        not isinstance(item, DoctestItem)
        or item.dtest is None
        or all(FACE not in each.source for each in item.dtest.examples)
    ):
        return (yield)
    with contextlib.chdir(item._request.getfixturevalue("town_folder")):
        return (yield)
