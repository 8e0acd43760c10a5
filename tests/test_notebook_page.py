"""The page "In a notebook" is run, statement by statement, on the release `first`."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import traceback
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "notebook.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROMPT = ">>> "
RAISED = "Traceback (most recent call last):\n    ...\n"


def statements() -> Iterator[tuple[str, str]]:
    """Yield each statement of the page with what the page prints after it."""
    for block in BLOCK.findall(PAGE):
        assert block.startswith(PROMPT)
        for piece in re.split(r"^>>> ", block, flags=re.MULTILINE)[1:]:
            first, *lines = piece.split("\n")
            more = list(takewhile(lambda line: line.startswith("... "), lines))
            statement = "\n".join([first, *(line.removeprefix("... ") for line in more)])
            yield statement, "\n".join(lines[len(more) :])


def carried_out(statement: str, names: dict[str, object]) -> str:
    """Return what an interpreter prints for a statement, as the page shows it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(statement, "page", "single"), names)
        except Exception as error:
            out.write(RAISED + "".join(traceback.format_exception_only(error)))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def test_every_statement_prints_what_the_page_shows(
    town_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(town_folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    names: dict[str, object] = {}
    shown = list(statements())

    assert len(shown) > 15
    for statement, printed in shown:
        assert carried_out(statement, names) == printed, statement
