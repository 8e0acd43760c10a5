"""Where Dask's tasks run: threads of this process, or a cluster that is already running.

Dask counts and never draws: its tasks are pure and exact, so it may repeat or lose any of them.
Threads of this process need no scheduler process, no socket and no dashboard; the kernels let go
of the interpreter lock while they count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dp_core.errors import BadInput, StageFailed
from tasks.support.processors import threads

if TYPE_CHECKING:
    from distributed import Client, Future

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PATIENCE = 60.0
"""Seconds that a count waits for a cluster without workers: whoever watches over a worker needs a
few to start another."""
ANSWER = 30.0
"""Seconds in which a scheduler has to answer at all."""
LOOK = 1.0
"""Seconds between looks whether there are workers, and how far they are."""
ONCE = "Then resume the release: what it has paid for is not paid for again."


def workers(client: Client | None) -> int:
    """Return how many tasks run at a time.

    Raises:
        StageFailed: if the cluster's scheduler does not answer any more.
    """
    return threads() if client is None else max(sum(_threads_there(client)), 1)


def workers_of_a_process(client: Client | None) -> int:
    """Return how many tasks run at a time in one process, which shares its memory among them.

    Raises:
        StageFailed: if the cluster's scheduler does not answer any more.
    """
    return threads() if client is None else max(_threads_there(client), default=1)


def compute(
    node: Any,
    client: Client | None,
    parts: Sequence[str] = (),
    progress: Callable[[float], None] | None = None,
) -> Any:
    """Return the value of a `dask.delayed` node.

    Args:
        node: The node.
        client: Of a cluster whose workers see the run's folder; None: threads of this process.
        parts: Keys of the tasks by which progress is told.
        progress: Told which part of them is done, below 1.

    Raises:
        StageFailed: if the cluster lost its scheduler, all its workers, or a worker with every
            attempt. The loss of some workers is not seen: what they had done is done again.
    """
    if client is None:
        from dask.threaded import get

        # By name it would be looked for among the clients of `distributed`, which is imported then.
        with nullcontext() if progress is None else _told_by_threads(parts, progress):
            return node.compute(scheduler=get, num_workers=threads())
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        future = client.compute(node)
        _wait(future, client, parts, progress)
        return future.result()
    except KilledWorker as error:
        raise StageFailed(
            "Every Dask worker that was given a part of a count died, perhaps for want of memory"
            f" or of dp-release; mend the workers or leave out `--dask`. {ONCE}",
            internal=str(error),
            row="dask-workers-died",
        ) from None
    except CancelledError as error:  # what Dask makes of every future when it loses the scheduler
        raise scheduler_lost(error) from None


def _told_by_threads(parts: Sequence[str], progress: Callable[[float], None]) -> Any:
    """Return a context in which threads of this process tell how far they are."""
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
    """Wait until a future is done or failed, as long as somebody may be working on it.

    Dask itself would wait for a worker without end.
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
                f"The Dask cluster has had no worker for {PATIENCE:.0f} seconds, in the middle of a"
                f" count; start workers or leave out `--dask`. {ONCE}",
                row="dask-no-worker",
            )


def _part_done(client: Client, parts: Sequence[str]) -> float:
    """Return which part of some tasks the scheduler has seen the end of, below 1."""
    scheduler: Any = client.scheduler
    try:
        states = client.sync(scheduler.get_task_status, keys=list(parts))
    except OSError as error:
        raise scheduler_lost(error) from None
    # What was added up already is forgotten.
    ended = sum(states.get(key) in ("memory", "released", "forgotten", None) for key in parts)
    return min(ended, len(parts) - 1) / len(parts)


def _threads_there(client: Client) -> list[int]:
    """Return the threads of each worker."""
    try:
        return list(client.nthreads().values())
    except OSError as error:
        raise scheduler_lost(error) from None


def scheduler_lost(error: Exception) -> StageFailed:
    """Return what to say when the scheduler does not answer any more."""
    return StageFailed(
        "The Dask scheduler was lost in the middle of a count; start it again or leave out"
        f" `--dask`. {ONCE}",
        internal=str(error),
        row="dask-lost",
    )


def check_address(address: str | None) -> None:
    """Refuse a scheduler to which exact counts would travel in clear.

    Raises:
        BadInput: saying what to give instead.
    """
    if address is None:
        return
    url = urlsplit(address)
    if url.scheme != "tls" and url.hostname not in LOOPBACK:
        raise BadInput(
            f"The Dask scheduler {address!r} would be sent exact counts in clear;"
            " give a tls:// address.",
            row="dask-in-clear",
        )


@contextmanager
def dask_client(address: str | None) -> Iterator[Client | None]:
    """Connect to a running cluster for the length of a block.

    Args:
        address: `tls://host:port`, or `tcp://` on this machine; certificates are those of Dask's
            own configuration. None: no cluster.

    Raises:
        BadInput: if exact counts would travel in clear.
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
