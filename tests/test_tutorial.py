"""The tutorial is walked, command by command, as it is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.walked_page import ROOT, carried_out, not_printed, texts

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_tutorial_can_be_walked_as_it_is_printed(tmp_path: Path) -> None:
    found = carried_out(TUTORIAL, tmp_path)

    assert found.returncode == 0, found.stderr
    first = tmp_path / "first-release" / "first"
    shown = texts(TUTORIAL)
    assert len(shown) == 6
    # Line by line what the page prints, but for figures and folders: noise takes no seed. The last
    # has rows of a set.
    assert not_printed(shown[:-1], found) == []
    assert (first / "report.html").is_file()
    assert not (tmp_path / ".dp-release").exists()
