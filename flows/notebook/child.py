"""The process of one call of `run` or `resume`, started as `python -m` this module.

The job is one line of JSON on standard input, which stays open as long as the caller lives. The
last line on standard output is the result; progress is on standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dp_core.errors import BadInput, ReleaseError
from flows.cli.missing_packages import what_to_install
from flows.processes.child_process import read_job

if TYPE_CHECKING:
    from dp_core.text.pages.answer import CommandAnswer


def perform(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a job: `answer`, or `error` with its class and row, or `interrupted`.

    Args:
        job: `spec` and `out` to make a release, or `release` and `stage` (None for none) to resume
            one; `options` of the flow.
    """
    try:
        return {"answer": _make_release(job).to_json()}
    except ReleaseError as error:
        kind = type(error)
        return {"error": error.message, "class": kind.__name__, "row": error.row}
    except click.ClickException as error:
        return {"error": error.format_message(), "class": BadInput.__name__, "row": None}
    except ModuleNotFoundError as error:
        if (sentence := what_to_install(error)) is None:
            raise
        return {"error": sentence, "class": BadInput.__name__, "row": None}
    except (KeyboardInterrupt, click.Abort) as error:
        # click replaces an interruption by its own exception; the command's is the cause.
        return {"interrupted": getattr(error.__cause__, "message", "")}


def _make_release(job: Mapping[str, Any]) -> CommandAnswer:
    from flows.cli.actions.run_release import make, resume
    from flows.cli.arguments import check_release

    options = {"verbose": False, "as_json": False, **job["options"]}
    if "release" in job:
        return resume(check_release(job["release"]), job["stage"], **options)
    return make(Path(job["spec"]), Path(job["out"]), **options)


def main() -> None:
    """Read a job, do it, and print its result."""
    result = json.dumps(perform(read_job()), ensure_ascii=False, default=str)
    sys.stdout.write(f"\n{result}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
