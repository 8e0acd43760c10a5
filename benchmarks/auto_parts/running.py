"""Many runs, each in a process of its own, scored by one piece of code and kept in a CSV."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

from benchmarks.auto_parts import made, results
from benchmarks.auto_parts.files import fingerprint
from benchmarks.auto_parts.results import Key, Result
from benchmarks.auto_parts.watching import watch
from dp_core.kernel.counting.dataset import Dataset
from dp_core.metrics.marginal_error import average_tvd

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Limits:
    """How far runs may go.

    Attributes:
        seconds: CPU seconds of one.
        megabytes: Memory of one.
        jobs: Runs at the same time.
    """

    seconds: float = 600.0
    megabytes: float = 8_000.0
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Job:
    """One run that is wanted."""

    file: str
    method: str
    epsilon: str
    run: int


def commit() -> str:
    """Return the commit of the program, with a plus where files differ from it."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def run_all(
    jobs: Sequence[Job],
    load: Callable[[str], Dataset],
    kept: Path,
    limits: Limits,
    work: Callable[[Job, Path, Path], Sequence[str] | Callable[[], object]],
    read: Callable[[Path, Dataset], Dataset],
    *,
    score: Callable[[str, Dataset, Dataset], Mapping[str, float]] | None = None,
    again: bool = False,
    retry: bool = False,
) -> dict[Key, Result]:
    """Do the runs that are not in the CSV yet, and return what is now known of those wanted.

    Args:
        jobs: Runs that are wanted.
        load: From the name of a file to what methods are given.
        kept: The CSV.
        limits: Of each run.
        work: From a job, a file of `made.write` and a path to write to, what `watch` is to do.
        read: From that path and the file, the records that were made.
        score: From name, file and records to figures beside the two TVDs.
        again: Do them anew, whatever the CSV has; runs that failed are always done anew.
        retry: Do those anew too that went beyond a limit.
    """
    known, lock, version = results.read(kept), Lock(), commit()
    data_of = cache(load)
    print_of = cache(lambda name: fingerprint(data_of(name)))
    for name in dict.fromkeys(job.file for job in jobs):
        print_of(name)  # once, before there are threads

    def key(job: Job) -> Key:
        return job.file, print_of(job.file), job.method, job.epsilon, job.run

    def missing(job: Job) -> bool:
        if again or key(job) not in known:
            return True
        status = known[key(job)].status
        return status == "failed" or (retry and status != "ok")

    with tempfile.TemporaryDirectory() as scratch:

        def do(job: Job) -> None:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            data, source, target = data_of(job.file), folder / "data.npz", folder / "made"
            made.write(data, source)
            took = watch(
                work(job, source, target),
                folder / "log",
                seconds=limits.seconds,
                megabytes=limits.megabytes,
            )
            status, said, figures = took.status, took.said, {"tvd2": math.nan, "tvd3": math.nan}
            if status == "ok":
                try:
                    records = read(target, data)
                    figures = {f"tvd{n}": average_tvd(data, records, n).mean for n in (2, 3)}
                    figures |= score(job.file, data, records) if score else {}
                except (OSError, ValueError, KeyError) as error:
                    status, said = "failed", f"{type(error).__name__}: {error}"
            result = Result(
                file=job.file,
                data=print_of(job.file),
                method=job.method,
                epsilon=job.epsilon,
                run=job.run,
                status=status,
                **figures,
                wall=took.wall,
                cpu=took.cpu,
                megabytes=took.megabytes,
                commit=version,
                said="" if status == "ok" else said[:200],
            )
            with lock:
                known[result.key] = result
                results.append(kept, result)
                print(_line(result), flush=True)

        left = [job for job in jobs if missing(job)]
        if limits.jobs == 1:
            for job in left:
                do(job)
        else:
            with ThreadPoolExecutor(limits.jobs) as pool:
                list(pool.map(do, left))
    return {key(job): known[key(job)] for job in jobs}


def _line(result: Result) -> str:
    head = f"{result.file} {result.epsilon} {result.method} run {result.run}:"
    if result.status != "ok":
        spent = f"{result.cpu:.0f} CPU s ({result.wall:.0f} s, {result.megabytes:.0f} MB)"
        return f"{head} {result.status} after {spent} {result.said}"
    if not math.isnan(result.boosted):
        head += f" boosted {result.boosted:.4f}, histogram {result.histogram:.4f};"
    return (
        f"{head} {result.tvd2:.4f} {result.tvd3:.4f}, {result.wall:.1f} s, {result.cpu:.1f} CPU s,"
        f" {result.megabytes:.0f} MB"
    )
