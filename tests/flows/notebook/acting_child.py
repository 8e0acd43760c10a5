"""The process of a release, with what it does replaced; `run` starts it in place of the real one.

What it does is the name of the spec: `kill` ends it by a signal, `import` lacks a package, `wait`
waits to be interrupted and then writes a file, and the name of an error raises it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_core import errors
from flows.notebook import child


def acted(job: Mapping[str, Any]) -> Any:
    """Do what the name of the spec says."""
    if job["spec"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if job["spec"] == "import":
        raise ModuleNotFoundError("No module named 'prefect'", name="prefect.flows")
    if job["spec"] == "wait":
        try:
            # An interruption may come as soon as the caller has read this.
            sys.stderr.write("at work\n")
            sys.stderr.flush()
            time.sleep(120)
        except KeyboardInterrupt:
            Path(job["out"]).write_text("stopped")
            raise
    raise getattr(errors, job["spec"])("It says `dp-release resume town`.", row="some-row")


if __name__ == "__main__":
    child._make_release = acted
    child.main()
