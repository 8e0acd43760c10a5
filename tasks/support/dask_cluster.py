"""Runs Dask's tasks on threads of this process, or on a cluster that is already running.

Dask counts and never draws noise. Its tasks are exact and have no side effects, so any of them may
be lost or repeated. Threads of this process need no scheduler process, socket or dashboard, and the
counting loops release the interpreter lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from dp_core.errors import BadInput, StageFailed
from tasks.support.processors import threads

if TYPE_CHECKING:
    from distributed import Client, Future

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PATIENCE = 60.0
"""Seconds that a count waits for a cluster without workers, so that a lost worker can be
restarted."""
ANSWER = 30.0
"""Seconds that the scheduler has to answer the first connection."""
LOOK = 1.0
"""Seconds between checks for workers and their progress."""
Graph: TypeAlias = dict[str, tuple[Any, ...]]
"""A plain Dask graph: by key, a function and its arguments."""
ONCE = "Then resume the release: what was paid for is not paid for again."


def workers(client: Client | None) -> int:
    """Return the number of tasks that run at the same time.

    Args:
        client: Client of the cluster; None for threads of this process.

    Raises:
        StageFailed: if the cluster's scheduler does not answer any more.
    """
    return threads() if client is None else max(sum(_threads_there(client)), 1)


def workers_of_a_process(client: Client | None) -> int:
    """Return the number of tasks that run at the same time in one process and share its memory.

    Args:
        client: Client of the cluster; None for threads of this process.

    Raises:
        StageFailed: if the cluster's scheduler does not answer any more.
    """
    return threads() if client is None else max(_threads_there(client), default=1)


def compute(
    graph: Graph,
    key: str,
    client: Client | None,
    parts: Sequence[str] = (),
    progress: Callable[[float], None] | None = None,
) -> Any:
    """Return the value of a key of a Dask graph.

    Args:
        graph: Tasks by their keys; a task names the tasks whose results it takes.
        key: Key of the result.
        client: Client of a cluster whose workers can read the run's folder; None for threads of
            this process.
        parts: Keys of the tasks whose number measures the progress; empty by default.
        progress: Called with the part of them that is done, below 1; None for no progress.

    Raises:
        StageFailed: if the scheduler is lost, no worker is left, or every worker that got a task
            died. If only some workers are lost, Dask repeats their tasks.
    """
    if client is None:
        # The scheduler itself, on a plain graph: `delayed` would import three times as much, and
        # the name of a scheduler would import `distributed`.
        from dask.threaded import get

        with nullcontext() if progress is None else _told_by_threads(parts, progress):
            return get(graph, key, num_workers=threads())
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        future = client.get(graph, key, sync=False)
        _wait(future, client, parts, progress)
        return future.result()
    except KilledWorker as error:
        raise StageFailed(
            "Every Dask worker that got a part of a count died, perhaps because it lacked memory"
            f" or dp-release; repair the workers or leave out `--dask`. {ONCE}",
            internal=str(error),
            row="dask-workers-died",
        ) from None
    except CancelledError as error:  # Dask cancels all futures when it loses the scheduler
        raise scheduler_lost(error) from None


def _told_by_threads(parts: Sequence[str], progress: Callable[[float], None]) -> Any:
    """Return a context in which threads of this process report their progress."""
    from dask.callbacks import Callback

    left = set(parts)

    def ended(key: str, *_: object) -> None:
        left.discard(key)
        if left:
            progress(1 - len(left) / len(parts))

    return Callback(posttask=ended)


def _wait(
    future: Future[Any],
    client: Client,
    parts: Sequence[str],
    progress: Callable[[float], None] | None,
) -> None:
    """Wait until a future is done or failed; give up if the cluster has no worker for too long.

    Dask itself would wait for a worker for ever.
    """
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    alone_since = None
    while not done.wait(LOOK):
        if _threads_there(client):
            alone_since = None
            if progress is not None:
                progress(_part_done(client, parts))
            continue
        alone_since = alone_since or time.monotonic()
        if time.monotonic() - alone_since >= PATIENCE:
            raise StageFailed(
                f"The Dask cluster has had no worker for {PATIENCE:.0f} seconds during a count;"
                f" start workers or leave out `--dask`. {ONCE}",
                row="dask-no-worker",
            )


def _part_done(client: Client, parts: Sequence[str]) -> float:
    """Return the part of some tasks that has ended, below 1."""
    scheduler: Any = client.scheduler
    try:
        states = client.sync(scheduler.get_task_status, keys=list(parts))
    except OSError as error:
        raise scheduler_lost(error) from None
    # The scheduler forgets tasks whose results were already added up.
    ended = sum(states.get(key) in ("memory", "released", "forgotten", None) for key in parts)
    return min(ended, len(parts) - 1) / len(parts)


def _threads_there(client: Client) -> list[int]:
    """Return the threads of each worker."""
    try:
        return list(client.nthreads().values())
    except OSError as error:
        raise scheduler_lost(error) from None


def scheduler_lost(error: Exception) -> StageFailed:
    """Return the error to raise if the scheduler no longer answers.

    Args:
        error: Error of the connection; its text goes to the internal folder.
    """
    return StageFailed(
        f"The Dask scheduler was lost during a count; start it again or leave out `--dask`. {ONCE}",
        internal=str(error),
        row="dask-lost",
    )


def check_address(address: str | None) -> None:
    """Refuse a scheduler to which exact counts would be sent unencrypted.

    Args:
        address: Address of the scheduler; None for no cluster.

    Raises:
        BadInput: if the address is neither `tls://` nor on this machine.
    """
    if address is None:
        return
    url = urlsplit(address)
    if url.scheme != "tls" and url.hostname not in LOOPBACK:
        raise BadInput(
            f"Exact counts would be sent to the Dask scheduler {address!r} unencrypted;"
            " use a tls:// address.",
            row="dask-in-clear",
        )


@contextmanager
def dask_client(address: str | None) -> Iterator[Client | None]:
    """Connect to a running cluster during a block.

    Args:
        address: `tls://host:port`, or `tcp://host:port` on this machine; Dask's own configuration
            names the certificates. None for no cluster.

    Yields:
        A client of the cluster; None without one.

    Raises:
        BadInput: if exact counts would be sent unencrypted.
        StageFailed: if the scheduler does not answer.
    """
    check_address(address)
    if address is None:
        yield None
        return
    from distributed import Client

    try:
        client = Client(address, set_as_default=False, timeout=ANSWER)
    except (OSError, ValueError, TypeError) as error:
        raise StageFailed(
            f"The Dask scheduler {address!r} does not answer; start it, or leave out `--dask`.",
            internal=str(error),
            row="dask-unreachable",
        ) from None
    try:
        yield client
    finally:
        client.close()
