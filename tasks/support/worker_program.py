"""Checks that Dask workers run the same program as this process.

A worker with another version could give other results without anybody noticing. So all workers are
checked before they get tasks, and the error names the one that differs. A worker may also join
later, so every task carries the versions that it was made with, and checks them before it begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dp_core.errors import StageFailed
from tasks.support.dask_cluster import ONCE, WITHOUT

if TYPE_CHECKING:
    from distributed import Client

Program: TypeAlias = tuple[tuple[str, str], ...]
"""Names and versions; plain tuples, which a worker with any version of this program can read."""

PACKAGES = ("dp-release", "numpy", "numba", "pyarrow", "dask", "distributed", "cloudpickle")
"""Packages that must have the same version on all workers: they compute, or transport results."""
NONE = "none"
SOURCES = "source files"
PATIENCE = 10.0
"""Seconds that a worker has to report its versions; after that, only its tasks check them."""
REMEDY = f"install what this process has there, from the same lock file, {WITHOUT}. {ONCE}"


def versions() -> dict[str, str]:
    """Return this process's versions of Python and of the packages that workers must have."""
    from distributed.versions import get_package_info

    return _as_known({"packages": get_package_info(PACKAGES)})


@cache
def program() -> Program:
    """Return the versions of this process, and a digest of the program's source files."""
    return (*versions().items(), (SOURCES, sources()))


@cache
def sources() -> str:
    """Return a digest of the source files of this process."""
    root = Path(__file__).parents[2]
    found = sha256()
    # All of `dp_core` and `tasks`, because it is hard to tell which files run on a worker.
    for package in ("dp_core", "tasks"):
        for file in sorted((root / package).rglob("*.py")):
            name = file.relative_to(root).as_posix().encode()
            found.update(name + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def require_versions(client: Client, workers: Iterable[str]) -> list[str]:
    """Return the workers that answer, after comparing their versions with this process's.

    Args:
        client: Client of the cluster.
        workers: Addresses of the workers.

    Raises:
        StageFailed: if a worker has another version; the message names it.
        OSError: if the scheduler does not answer.
    """
    asked: dict[str, Any] = {"op": "versions", "packages": list(PACKAGES)}
    told: dict[str, Mapping[str, Any]] = client.sync(_ask, client, list(workers), asked)
    for worker, answer in told.items():
        require_same(versions(), _as_known(answer), worker)
    return list(told)


def require_sources(told: object, worker: str) -> None:
    """Refuse a worker whose source files differ from this process's.

    Args:
        told: The worker's digest of its source files, or the error that it gave instead.
        worker: Address of the worker.

    Raises:
        StageFailed: if they differ, or the worker cannot import this program.
    """
    if not isinstance(told, str):
        raise StageFailed(
            f"The Dask worker {worker} cannot import this program; {REMEDY}",
            internal=repr(told),
            row="dask-worker-differs",
        )
    require_same(dict(program()), {**dict(program()), SOURCES: told}, worker)


async def _ask(
    client: Client, workers: list[str], message: Mapping[str, object]
) -> dict[str, Mapping[str, Any]]:
    """Return the answers of the workers that answer in time.

    The message is one of Dask's own, which a worker without dp-release can read too.
    """

    async def ask(worker: str) -> Any:
        scheduler: Any = client.scheduler
        broadcast = scheduler.broadcast(msg=message, workers=[worker], on_error="ignore")
        return await asyncio.wait_for(broadcast, PATIENCE)

    answers = await asyncio.gather(*map(ask, workers), return_exceptions=True)
    return {
        worker: answer[worker]
        for worker, answer in zip(workers, answers, strict=True)
        if isinstance(answer, dict) and worker in answer
    }


def require_program(made_with: Program) -> None:
    """Refuse a task that another version of the program made.

    Args:
        made_with: Versions of the process that made the task.

    Raises:
        StageFailed: if the versions differ; names this worker.
    """
    if made_with != program():
        require_same(dict(made_with), dict(program()), this_worker())
        # All versions of `made_with` are the same, so this worker's program checks more packages.
        raise StageFailed(f"The Dask worker {this_worker()} runs another version; {REMEDY}")


def require_same(ours: Mapping[str, str], theirs: Mapping[str, str], worker: str) -> None:
    """Refuse a worker whose versions differ.

    Args:
        ours: Required versions by name.
        theirs: The worker's versions by name.
        worker: Address of the worker, for the message.

    Raises:
        StageFailed: if a version differs; names the worker and both versions.
    """
    differing = [name for name, version in ours.items() if theirs.get(name, NONE) != version]
    if not differing:
        return
    name = differing[0]
    if theirs.get(name, NONE) == NONE:
        raise StageFailed(
            f"The Dask worker {worker} has no {name}, and this process has {ours[name]}; {REMEDY}",
            row="dask-worker-differs",
        )
    if name == SOURCES:
        told = (f"source files of dp-release with the digest {theirs[name]}", ours[name])
    else:
        told = (f"{name} {theirs[name]}", ours[name])
    raise StageFailed(
        f"The Dask worker {worker} has {told[0]}, and this process has {told[1]}; {REMEDY}",
        row="dask-worker-differs",
    )


def this_worker() -> str:
    """Return the address of the worker whose task this is."""
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:  # this process is not a worker of a cluster
        return "of this process"


def _as_known(answer: Mapping[str, Any]) -> dict[str, str]:
    packages = answer["packages"]
    python = ".".join(str(packages.get("python") or NONE).split(".")[:2])
    return {"python": python} | {name: packages.get(name) or NONE for name in PACKAGES}
