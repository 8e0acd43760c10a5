"""A page of the documentation whose commands are carried out as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(sh|yaml|python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def carried_out(page: str, folder: Path, *, release: str = "") -> subprocess.CompletedProcess[str]:
    """Carry out the commands of a page, which begin in the project's folder and leave it.

    Args:
        page: Text of the page.
        folder: New folder for the project and what the page makes beside it.
        release: Shell commands in place of `dp-release "$@"` if that is `dp-release run`.
    """
    project, tools = folder / "project", folder / "tools"
    (project / "flows").mkdir(parents=True)
    (project / "flows" / "demo").symlink_to(ROOT / "flows" / "demo")
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "activate").write_text("")
    tools.mkdir()
    instead = f'if [ "$1" = run ]; then\n{release}\nexit\nfi\n' if release else ""
    for name, words in (("dp-release", "-m flows.cli.main"), ("python", "")):
        first = instead if name == "dp-release" else ""
        (tools / name).write_text(f'#!/bin/bash\n{first}exec {sys.executable} {words} "$@"\n')
        (tools / name).chmod(0o755)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", walk(page)],
        cwd=project,
        env={
            **{name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ},
            "PATH": f"{tools}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(folder / "prefect"),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )


def texts(page: str) -> list[str]:
    """Return the blocks of output that a page shows."""
    return [text for language, text in BLOCK.findall(page) if language == "text"]


def not_printed(shown: list[str], found: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines that a page shows and the commands did not print, but for figures."""
    told = found.stdout + found.stderr  # what is under way goes to the second
    lines = {masked(line) for line in told.splitlines()}
    wanted = [line for text in shown for line in text.splitlines() if line.strip() != "..."]
    return [line for line in wanted if masked(line) not in lines]


def masked(line: str) -> str:
    """Return a line of output without figures, folders and the width of columns."""
    line = re.sub(r"\S*/first-release", "<folder>", line)
    # Whether a column is measured beyond its margins as well depends on noise.
    line = re.sub(r" and the (\d+ )?interactions?", "", line)
    # So does what is to be said of relations.
    line = re.sub(r"^Relations .*", "Relations", line)
    return re.sub(r"\s+", " ", re.sub(r"-?\d[\d.,e-]*", "0", line)).strip()


def walk(page: str) -> str:
    """Return a page's commands as one script; its files are written where they are shown."""
    parts = []
    for language, text in BLOCK.findall(page):
        if language == "sh":
            parts.append(text)
        elif language == "yaml" and text.startswith("# "):  # a file; others are parts of one
            name = text.splitlines()[0].removeprefix("# ")
            parts.append(f"cat > {name} <<'END_OF_FILE'\n{text}END_OF_FILE\n")
        elif language == "python":
            parts.append(f"python - <<'END_OF_FILE'\n{text}END_OF_FILE\n")
    return "".join(parts)
