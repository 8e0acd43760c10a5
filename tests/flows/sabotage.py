"""A script: command lines of `dp-release` in one process, with values of the file where it hurts.

Started by `test_leak_fence.py` in a process of its own, with a file of jobs. A job is a command
line and the stage in which it is to fail; the functions below then raise errors that hold the
values, in the same place where an error of the data would come from: in a thread that reads a
batch, in a task of Dask, within Great Expectations, between the charge and the draw.

Several command lines in one process share one server of Prefect, which takes most of the time.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dp_core.errors import DataRefused, SchemaViolation
from tasks.confidential.messages import ERRORS

SAID = {
    f"says-{kind.__name__.lower()}": kind
    for kind in (*ERRORS.values(), DataRefused, SchemaViolation)
}
"""Jobs in which the process that reads the data writes a row into a sentence of our own."""
PLACES = {
    # Within which stage, and under which name, what the stage calls fails.
    "identify": "dp_core.confidential.source.keyed_digests",
    "validate": "dp_core.confidential.column_profiles.Profiler.add",  # in a thread
    "expectations": "pandas.Series.isin",  # within Great Expectations, which catches it
    "coding": "dp_core.confidential.coding.Coding.add",
    "discretize": "dp_core.kernel.counting.stored_rows.checked_rows",
    "count": "tasks.counting.dask_counter._count_chunk",  # in a task of Dask
    "basics": "dp_core.kernel.mechanisms.additive_noise.add",  # charged, not drawn
    "select": "dp_core.kernel.questions.table_distance.TableDistance.compute",
    "measure": "dp_core.bundle.files.marginals_file.write_marginals",
    "reconstruct": "tasks.stages.reconstruct._write_tables",
    "synthesize": "dp_core.schema.rules.possible_codes.decode",  # in a thread
    "check": "dp_core.confidential.utility.utility",
    "publish": "dp_core.bundle.writer.write_bundle",
    "outside": "flows.release.forget_lost",  # in the flow, but in no stage
    "interrupted": "tasks.stages.reconstruct._write_tables",
    **dict.fromkeys(SAID, "dp_core.confidential.source.keyed_digests"),
}
STAGES = {
    "coding": "validate",
    "expectations": "validate",
    "outside": None,
    "interrupted": "reconstruct",
    **dict.fromkeys(SAID, "identify"),
}
"""The stage at work there, where the place's name does not tell."""


class BadRow(ValueError):
    """An error as libraries raise them: the row is its argument, its attribute and its text."""

    def __init__(self, row: dict[str, str]) -> None:
        super().__init__(f"cannot handle {row}", row)
        self.row = row

    def __reduce__(self) -> tuple[type[BadRow], tuple[dict[str, str]]]:
        return BadRow, (self.row,)


def fail(row: dict[str, str], job: str) -> None:
    """Raise the error of a job, which holds the row, out of another that holds it too."""
    texts = list(row.values())
    try:
        try:
            raise KeyError(*texts)
        except KeyError as missing:
            missing.add_note(f"while reading {texts}")
            raise BadRow(row) from missing
    except BadRow as error:
        error.add_note(f"in row {row}")
        if job == "interrupted":
            raise KeyboardInterrupt from error
        if job in SAID:
            raise SAID[job](f"Look at {row}.", internal=str(row)) from error
        raise


class Sabotage:
    """Lets the functions of PLACES fail, each while its own job is done."""

    def __init__(self, row: dict[str, str]) -> None:
        self.row = row
        self.job: str | None = None
        self.stage: str | None = None
        # Whether one of them failed, on either side.
        self.fired = Path(os.environ["DP_RELEASE_HOME"], "fired")

    def install(self, place: Any, runner: str) -> None:
        """Let them fail in the stages that a function of a module runs, on either side."""
        attempt = getattr(place, runner)

        def following(name: str, work: Any, run: Any) -> Any:
            self.stage = name
            try:
                return attempt(name, work, run)
            finally:
                self.stage = None

        setattr(place, runner, following)
        for path in dict.fromkeys(PLACES.values()):
            owner, name = _owner(path)
            setattr(owner, name, self._failing(path, getattr(owner, name)))

    def _failing(self, path: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def broken(*arguments: Any, **options: Any) -> Any:
            job = self.job
            if job and PLACES[job] == path and STAGES.get(job, job) == self.stage:
                self.fired.touch()
                fail(self.row, job)
            return work(*arguments, **options)

        return broken


def _owner(path: str) -> tuple[Any, str]:
    above, _, name = path.rpartition(".")
    try:
        return importlib.import_module(above), name
    except ModuleNotFoundError:
        module, _, owner = above.rpartition(".")
        return getattr(importlib.import_module(module), owner), name


def leak(text: str, rows: int) -> None:
    """Put a text and a number wherever Prefect keeps things, so that a search must find them."""
    from prefect import flow, get_run_logger, task
    from prefect.artifacts import create_markdown_artifact

    @task(persist_result=True)
    def keep(told: str) -> dict[str, object]:
        create_markdown_artifact(f"artifact {told}", key="leak")
        return {"result": [told], "rows": rows}

    @task
    def broken(told: str) -> None:
        raise ValueError(told)

    @flow
    def leaking(told: str) -> None:
        get_run_logger().info("log %s, %d rows", told, rows)
        keep(told)
        broken(told)

    try:
        leaking(text)
    except ValueError:
        return


def main() -> None:
    """Do the jobs of a file, and write each one's exit code into another."""
    orders = json.loads(Path(sys.argv[1]).read_text())
    # Most of what is made here is imported, and stays.
    gc.set_threshold(20_000, 20, 20)
    from flows.engine.settings import prepare

    # As the command does, before Prefect is imported.
    prepare(Path(os.environ["DP_RELEASE_HOME"]), verbose=True)
    from flows.cli.main import main as command

    sabotage = Sabotage(orders["row"])
    from tasks.confidential import process
    from tasks.stages import stage_task

    sabotage.install(stage_task, "attempt")
    # The confidential process is another interpreter, which installs it too.
    process.can_fork = lambda: False
    process.PROGRAM = [Path(__file__).as_posix()]
    ended = []
    for job in orders["jobs"]:
        sabotage.job = job["fails"]
        sabotage.fired.unlink(missing_ok=True)
        os.environ["SABOTAGE"] = json.dumps([sabotage.job, sabotage.row])
        sys.argv = ["dp-release", *job["words"]]
        try:
            command()
        except SystemExit as end:
            ended.append({"code": end.code, "fired": sabotage.fired.exists()})
        sys.stdout.flush()
    leak(orders["leak"], orders["leaked_rows"])
    Path(orders["ended"]).write_text(json.dumps(ended))


def serve() -> None:
    """Be the confidential process of a job."""
    from tasks.confidential import host, process

    job, row = json.loads(os.environ["SABOTAGE"])
    sabotage = Sabotage(row)
    sabotage.job = job
    sabotage.install(host, "attempt")
    process.serve_from_arguments()


if __name__ == "__main__":
    serve() if len(sys.argv) > 2 else main()
