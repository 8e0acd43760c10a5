"""Where the examples of the public Python API run: a folder with the small release `first`."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem

FACE = "import dp_core as dp"


@pytest.fixture(scope="session")
def town_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundle `first` and its schema; a test that changes it copies it first."""
    from tests.dp_core.analysis.notebook.town import make_town

    folder = tmp_path_factory.mktemp("town")
    make_town(folder)
    return folder


@pytest.fixture(autouse=True)
def examples_find_the_town(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run an example that imports the public API in the folder of the town."""
    item = request.node
    if isinstance(item, DoctestItem):
        assert item.dtest is not None
        if any(FACE in example.source for example in item.dtest.examples):
            monkeypatch.chdir(request.getfixturevalue("town_folder"))
