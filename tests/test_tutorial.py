"""The tutorial is walked, command by command, as it is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(sh|yaml|python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_tutorial_can_be_walked_as_it_is_printed(tmp_path: Path) -> None:
    project = tmp_path / "project"
    # Its commands begin in the project's folder and leave it for one beside it.
    (project / "flows").mkdir(parents=True)
    (project / "flows" / "demo").symlink_to(ROOT / "flows" / "demo")
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "activate").write_text("")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, words in (("dp-release", "-m flows.cli.main"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (tools / name).chmod(0o755)

    found = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", walk()],
        cwd=project,
        env={
            **{name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ},
            "PATH": f"{tools}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(tmp_path / "prefect"),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert found.returncode == 0, found.stderr
    first = tmp_path / "first-release" / "first"
    # Line by line what the page prints, but for figures and folders: noise takes no seed.
    told = found.stdout + found.stderr  # what is under way goes to the second
    lines = [masked(line) for line in told.splitlines()]
    assert [line for line in printed() if line not in lines] == []
    assert (first / "report.html").is_file()
    assert not (tmp_path / ".dp-release").exists()


def printed() -> list[str]:
    """Return the masked lines of output that the page shows, but for the last: rows of a set."""
    shown = [text for language, text in BLOCK.findall(TUTORIAL) if language == "text"]
    assert len(shown) == 6
    lines = [line for text in shown[:-1] for line in text.splitlines() if line != "  ..."]
    return [masked(line) for line in lines if line != "..."]


def masked(line: str) -> str:
    """Return a line of output without figures, folders and the width of columns."""
    line = re.sub(r"\S*/first-release", "<folder>", line)
    # Whether a column is measured beyond its margins as well depends on noise.
    line = re.sub(r" and the (\d+ )?interactions?", "", line)
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,e-]*", "0", line)).strip()


def walk() -> str:
    """Return the page's commands as one script; its files are written where they are shown."""
    parts = []
    for language, text in BLOCK.findall(TUTORIAL):
        if language == "sh":
            parts.append(text)
        elif language == "yaml":
            name = text.splitlines()[0].removeprefix("# ")
            parts.append(f"cat > {name} <<'END_OF_FILE'\n{text}END_OF_FILE\n")
        elif language == "python":
            parts.append(f"python - <<'END_OF_FILE'\n{text}END_OF_FILE\n")
    return "".join(parts)
