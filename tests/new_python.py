"""Scripts in a new process, in which nothing is imported or set up yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def new_python(
    script: str, *words: object, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Return what a script printed, which must end without an error.

    Args:
        script: Python.
        words: Its arguments.
        cwd: The folder it runs in, by default this process's.
        environment: What is set besides this process's environment.
    """
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
