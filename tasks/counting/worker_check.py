"""Checks that Dask workers may count: they run our program, and can read the release's codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dp_core.confidential.code_store import CodeStore
from dp_core.errors import StageFailed
from tasks.support.dask_cluster import ONCE, WITHOUT, scheduler_lost
from tasks.support.scheduler_address import is_encrypted
from tasks.support.worker_program import (
    Program,
    require_program,
    require_sources,
    require_versions,
    sources,
    this_worker,
)

if TYPE_CHECKING:
    from distributed import Client


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
        answering = require_versions(client, new)
        met = client.run(meets, store.part(0, 0), workers=answering, on_error="return")
    except OSError as error:
        raise scheduler_lost(error) from None
    for worker, answered in met.items():
        _require_met(answered, store, worker)
    return there


def _require_met(answered: object, store: CodeStore, worker: str) -> None:
    if isinstance(answered, OSError):  # the worker has left meanwhile
        return
    told, sees = answered if isinstance(answered, tuple) else (answered, False)
    require_sources(told, worker)
    if not sees:
        raise does_not_see(store, worker)


def meets(store: CodeStore) -> tuple[str, bool]:
    """Return the digest of this worker's source files, and whether it can read a store."""
    return sources(), store.is_here()


def require_here(made_with: Program, store: CodeStore | None) -> None:
    """Refuse a task that another version of the program made, or whose store cannot be read.

    Args:
        made_with: Versions of the process that made the task.
        store: Store of the task; None if it has none.

    Raises:
        StageFailed: if the versions differ, the store cannot be read, or counts would be sent
            unencrypted; names this worker.
    """
    if "://" in (here := this_worker()):
        require_encrypted(here)
    require_program(made_with)
    if store is not None and not store.is_here():
        raise does_not_see(store, this_worker())


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


def does_not_see(store: CodeStore, worker: str) -> StageFailed:
    """Return the error to raise about a worker that cannot read a store."""
    return StageFailed(
        f"The Dask worker {worker} cannot read the codes in {store.folder}; give every worker"
        f" access to the home at the same path, as the same user, {WITHOUT}. {ONCE}",
        row="dask-worker-sees-nothing",
    )
