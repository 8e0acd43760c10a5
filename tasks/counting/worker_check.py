"""Which workers may count: those with this program, who see this very store.

A worker with another version could count otherwise, and nobody would see it. So workers are asked
before a count, which names the one that differs in a sentence; and since one may join later, every
task carries what it was made with, and looks by itself before it counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import dp_core
from dp_core.confidential.code_store import CodeStore
from dp_core.errors import StageFailed
from tasks.support.dask_cluster import ONCE, scheduler_lost

if TYPE_CHECKING:
    from distributed import Client

Program: TypeAlias = tuple[tuple[str, str], ...]
"""Names and versions. Plain tuples, so that a worker with any version of ours can read them."""

PACKAGES = ("dp-release", "numpy", "numba", "pyarrow", "dask", "distributed", "cloudpickle")
"""Ours, what decides a count, and what tasks and counts travel by."""
NONE = "none"
SOURCES = "source files"
PATIENCE = 10.0
"""Seconds in which a worker has to say its versions. One that does not is left to its tasks."""
REMEDY = (
    f"install what this process has there, from the same lock file, or leave out `--dask`. {ONCE}"
)


def versions() -> dict[str, str]:
    """Return the versions that this process has of what a worker must have too."""
    from distributed.versions import get_package_info

    return _as_known({"packages": get_package_info(PACKAGES)})


@cache
def program() -> Program:
    """Return the versions of this process, and a digest of the sources of what counts."""
    return (*versions().items(), (SOURCES, _sources()))


@cache
def _sources() -> str:
    root = Path(dp_core.__file__).parents[1]
    found = sha256()
    # The rest of the program never runs on a worker, but who would tell which part does?
    for package in ("dp_core", "tasks"):
        for file in sorted((root / package).rglob("*.py")):
            name = file.relative_to(root).as_posix().encode()
            found.update(name + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def require_workers(client: Client, store: CodeStore, known: frozenset[str]) -> frozenset[str]:
    """Return the workers that may count a store; those not known are asked.

    Args:
        client: Of the cluster.
        store: What is to be counted.
        known: Workers that were asked before about this store.

    Raises:
        StageFailed: naming one that may not, and why; or if the scheduler does not answer.
    """
    try:
        there = frozenset(client.nthreads())
        if not (new := sorted(there - known)):
            return there
        told = _versions_of(client, new)
        for worker, answer in told.items():
            require_same(versions(), _as_known(answer), worker)
        met = client.run(meets, store.part(0, 0), workers=list(told), on_error="return")
    except OSError as error:
        raise scheduler_lost(error) from None
    for worker, answered in met.items():
        _require_met(answered, store, worker)
    return there


def _versions_of(client: Client, workers: list[str]) -> dict[str, Mapping[str, Any]]:
    """Return what workers tell of their versions, of those that answer."""
    asked: dict[str, Any] = {"op": "versions", "packages": list(PACKAGES)}
    found: dict[str, Mapping[str, Any]] = client.sync(_ask, client, workers, asked)
    return found


def _require_met(answered: object, store: CodeStore, worker: str) -> None:
    if isinstance(answered, OSError):  # it went away meanwhile
        return
    if not isinstance(answered, tuple):
        raise StageFailed(
            f"The Dask worker {worker} cannot import this program; {REMEDY}",
            internal=repr(answered),
            row="dask-worker-differs",
        )
    sources, sees = answered
    require_same(dict(program()), {**dict(program()), SOURCES: sources}, worker)
    if not sees:
        raise does_not_see(store, worker)


async def _ask(
    client: Client, workers: list[str], message: Mapping[str, object]
) -> dict[str, Mapping[str, Any]]:
    """Return the answers of the workers that answer in time, to a message that Dask itself knows.

    Nothing of ours is sent yet, which a worker without dp-release could not even read.
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


def meets(store: CodeStore) -> tuple[str, bool]:
    """Return the digest of this process's sources, and whether it sees a store: on a worker."""
    return _sources(), store.is_here()


def require_here(made_with: Program, store: CodeStore | None) -> None:
    """Refuse to work on a task that another program made, or whose store is not here.

    Raises:
        StageFailed: naming this worker.
    """
    if made_with != program():
        require_same(dict(made_with), dict(program()), _this_worker())
        # A program that names other packages altogether.
        raise StageFailed(f"The Dask worker {_this_worker()} is of another version: {REMEDY}")
    if store is not None and not store.is_here():
        raise does_not_see(store, _this_worker())


def require_same(ours: Mapping[str, str], theirs: Mapping[str, str], worker: str) -> None:
    """Refuse a worker with other versions than ours.

    Raises:
        StageFailed: naming the worker and both versions of what differs.
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


def does_not_see(store: CodeStore, worker: str) -> StageFailed:
    """Return the refusal of a worker that does not see a store."""
    return StageFailed(
        f"The Dask worker {worker} does not see {store.folder}, where the codes are; let every"
        f" worker see the home at the same path, as the same user, or leave out `--dask`. {ONCE}",
        row="dask-worker-sees-nothing",
    )


def _as_known(answer: Mapping[str, Any]) -> dict[str, str]:
    packages = answer["packages"]
    python = ".".join(str(packages.get("python") or NONE).split(".")[:2])
    return {"python": python} | {name: packages.get(name) or NONE for name in PACKAGES}


def _this_worker() -> str:
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:  # no worker of a cluster
        return "of this process"
