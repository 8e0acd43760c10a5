"""Runs Dask's tasks on threads of this process, or on a cluster: one that runs, or one it starts.

Dask counts records, and draws neither noise nor synthetic records. Its tasks give the same result
each time and have no side effects, so any of them may be lost or repeated. Threads of this process
need no scheduler process, socket or dashboard, and the counting loops release the interpreter lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from dp_core.errors import StageFailed
from dp_core.kernel.counting.processors import threads
from dp_core.plan.counting_cluster import CountingCluster
from tasks.support.lazy_packages import complete
from tasks.support.named_cluster import start_cluster
from tasks.support.scheduler_address import check_address

if TYPE_CHECKING:
    from distributed import Client, Future

PATIENCE = 60.0
"""Seconds to wait for a running cluster without workers, so that a lost worker can be
restarted."""
ANSWER = 30.0
"""Seconds that the scheduler has to answer the first connection."""
LOOK = 1.0
"""Seconds between checks for workers and their progress."""
Graph: TypeAlias = dict[str, tuple[Any, ...]]
"""A plain Dask graph: by key, a function and its arguments."""
_STARTED: WeakKeyDictionary[Client, CountingCluster] = WeakKeyDictionary()
"""By client, the cluster of the spec that was started for it."""
WITHOUT = "or leave out `--dask` or the spec's `dask`"
ONCE = "Then resume the release: what was paid for is not paid for again."


def workers(client: Client | None) -> int:
    """Return the number of tasks that run at the same time.

    Args:
        client: Client of the cluster; None for threads of this process.

    Raises:
        StageFailed: if the cluster's scheduler does not answer any more.
    """
    if client is None:
        return threads()
    asked = _STARTED.get(client)
    # Divide a count for the workers that will come as well.
    coming = 0 if asked is None else asked.workers or (asked.adapt or (0, 0))[1]
    return max(sum(_threads_there(client)), coming, 1)


_OWN_THREADS = {"pool": None, "cache": None, "chunksize": 1, "rerun_exceptions_locally": False}
"""All that Dask's scheduler of threads would take from the site's configuration: its defaults."""


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
        import dask.config
        from dask.threaded import get

        told = nullcontext() if progress is None else _told_by_threads(parts, progress)
        with dask.config.set(_OWN_THREADS), told:
            return get(graph, key, num_workers=threads())
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        future: Any = client.get(graph, key, sync=False)
        _wait(future, client, parts, progress)
        return future.result()
    except KilledWorker as error:
        raise StageFailed(
            "Every Dask worker that got a certain task died, perhaps because it lacked memory"
            f" or dp-release; repair the workers {WITHOUT}. {ONCE}",
            internal=str(error),
            row="dask-workers-died",
        ) from None
    except CancelledError as error:  # Dask cancels all futures when it loses the scheduler
        raise scheduler_lost(error) from None


def _told_by_threads(parts: Sequence[str], progress: Callable[[float], None]) -> Any:
    """Return a context in which threads of this process report their progress."""
    from dask.callbacks import Callback

    left = set(parts)

    def on_end(key: str, *_: object) -> None:
        left.discard(key)
        if left:
            progress(1 - len(left) / len(parts))

    return Callback(posttask=on_end)


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
    patience = PATIENCE if (asked := _STARTED.get(client)) is None else asked.wait
    while not done.wait(LOOK):
        if _threads_there(client):
            alone_since = None
            if progress is not None:
                progress(_part_done(client, parts))
            continue
        alone_since = alone_since or time.monotonic()
        if time.monotonic() - alone_since >= patience:
            raise StageFailed(
                f"The Dask cluster has had no worker for {patience:.0f} seconds;"
                f" start workers {WITHOUT}. {ONCE}",
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
        f"The Dask scheduler was lost; start it again {WITHOUT}. {ONCE}",
        internal=str(error),
        row="dask-lost",
    )


@contextmanager
def dask_client(
    address: str | None,
    asked: CountingCluster | None = None,
) -> Iterator[Client | None]:
    """Connect to a cluster during a block.

    Args:
        address: `tls://host:port` of a running scheduler, or `tcp://host:port` on this machine;
            Dask's own configuration names the certificates. None for no running cluster.
        asked: Cluster to start if there is no address; None (the default) for none.

    Yields:
        A client of the cluster; None without one.

    Raises:
        BadInput: if exact counts would be sent unencrypted, or an option cannot be used.
        StageFailed: if the scheduler does not answer, or the cluster does not start.
    """
    check_address(address)
    place: AbstractContextManager[Any]
    if address is not None:
        place = nullcontext(address)
    elif asked is not None:
        place = start_cluster(asked)
    else:
        yield None
        return
    complete("dask")
    with place as cluster:
        from distributed import Client

        try:
            client = Client(cluster, set_as_default=False, timeout=ANSWER)
        except (OSError, ValueError, TypeError) as error:
            told = address or cluster.scheduler_address
            raise StageFailed(
                f"The Dask scheduler {told!r} does not answer; start it, {WITHOUT}.",
                internal=str(error),
                row="dask-unreachable",
            ) from None
        if asked is not None:
            _STARTED[client] = asked
        try:
            yield client
        finally:
            client.close()
