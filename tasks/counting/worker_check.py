"""Checks that Dask workers run the same program as this process and can read its code store.

A worker with another version could count differently without anybody noticing. So all workers are
checked before a count, and the error names the one that differs. A worker may also join later, so
every task carries the versions that it was made with, and checks them before it counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dp_core.confidential.code_store import CodeStore
from dp_core.errors import StageFailed
from tasks.support.dask_cluster import ONCE, WITHOUT, scheduler_lost
from tasks.support.named_cluster import is_encrypted

if TYPE_CHECKING:
    from distributed import Client

Program: TypeAlias = tuple[tuple[str, str], ...]
"""Names and versions; plain tuples, which a worker with any version of this program can read."""

PACKAGES = ("dp-release", "numpy", "numba", "pyarrow", "dask", "distributed", "cloudpickle")
"""Packages that must have the same version on all workers: they count, or transport counts."""
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
    return (*versions().items(), (SOURCES, _sources()))


@cache
def _sources() -> str:
    root = Path(__file__).parents[2]
    found = sha256()
    # All of `dp_core` and `tasks`, because it is hard to tell which files run on a worker.
    for package in ("dp_core", "tasks"):
        for file in sorted((root / package).rglob("*.py")):
            name = file.relative_to(root).as_posix().encode()
            found.update(name + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def require_workers(client: Client, store: CodeStore, known: frozenset[str]) -> frozenset[str]:
    """Return the cluster's workers after checking those that are new.

    Args:
        client: Client of the cluster.
        store: Store to be counted.
        known: Addresses of workers that were checked before for this store.

    Raises:
        StageFailed: if a worker runs another program, cannot read the store, or would receive
            counts unencrypted; the message names it. Also if the scheduler does not answer.
    """
    try:
        there = frozenset(client.nthreads())
        if not (new := sorted(there - known)):
            return there
        for worker in new:
            require_encrypted(worker)
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
    """Return the versions of those workers that answer."""
    asked: dict[str, Any] = {"op": "versions", "packages": list(PACKAGES)}
    found: dict[str, Mapping[str, Any]] = client.sync(_ask, client, workers, asked)
    return found


def _require_met(answered: object, store: CodeStore, worker: str) -> None:
    if isinstance(answered, OSError):  # the worker has left meanwhile
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


def meets(store: CodeStore) -> tuple[str, bool]:
    """Return the digest of this worker's source files, and whether it can read a store."""
    return _sources(), store.is_here()


def require_here(made_with: Program, store: CodeStore | None) -> None:
    """Refuse a task that another version of the program made, or whose store cannot be read.

    Args:
        made_with: Versions of the process that made the task.
        store: Store of the task; None if it has none.

    Raises:
        StageFailed: if the versions differ, the store cannot be read, or counts would be sent
            unencrypted; names this worker.
    """
    if "://" in (here := _this_worker()):
        require_encrypted(here)
    if made_with != program():
        require_same(dict(made_with), dict(program()), _this_worker())
        # All versions of `made_with` are the same, so this worker's program checks more packages.
        raise StageFailed(f"The Dask worker {_this_worker()} runs another version; {REMEDY}")
    if store is not None and not store.is_here():
        raise does_not_see(store, _this_worker())


def require_encrypted(worker: str) -> None:
    """Refuse a worker to which others would send counts unencrypted.

    A scheduler on this machine may have workers elsewhere, for example through a tunnel.

    Args:
        worker: Address of the worker.

    Raises:
        StageFailed: if it is neither encrypted nor on this machine.
    """
    if not is_encrypted(worker):
        raise StageFailed(
            f"Exact counts would be sent to the Dask worker {worker} unencrypted; start it with"
            f" `--protocol tls`, {WITHOUT}. {ONCE}",
            row="dask-in-clear",
        )


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


def does_not_see(store: CodeStore, worker: str) -> StageFailed:
    """Return the error to raise about a worker that cannot read a store."""
    return StageFailed(
        f"The Dask worker {worker} cannot read the codes in {store.folder}; give every worker"
        f" access to the home at the same path, as the same user, {WITHOUT}. {ONCE}",
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
    except ValueError:  # this process is not a worker of a cluster
        return "of this process"
