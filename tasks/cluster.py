"""Where Dask's tasks run: threads of this process, or a cluster that is already running.

Dask counts and never draws: its tasks are pure and exact, so it may repeat or lose any of them.
Threads of this process need no scheduler process, no socket and no dashboard; the kernels let go
of the interpreter lock while they count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dp_core.errors import BadInput, StageFailed

if TYPE_CHECKING:
    from distributed import Client

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def threads() -> int:
    """Return the number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def workers(client: Client | None) -> int:
    """Return how many tasks run at a time."""
    return threads() if client is None else max(sum(client.nthreads().values()), 1)


def compute(node: Any, client: Client | None) -> Any:
    """Return the value of a `dask.delayed` node.

    Args:
        node: The node.
        client: Of a cluster whose workers see the run's folder; None: threads of this process.
    """
    if client is None:
        return node.compute(scheduler="threads", num_workers=threads())
    return client.compute(node).result()


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
    if address is None:
        yield None
        return
    url = urlsplit(address)
    if url.scheme != "tls" and url.hostname not in LOOPBACK:
        raise BadInput(
            f"The Dask scheduler {address!r} would be sent exact counts in clear;"
            " give a tls:// address."
        )
    from distributed import Client

    try:
        client = Client(address, set_as_default=False, timeout="30s")
    except (OSError, ValueError, TypeError) as error:
        raise StageFailed(
            f"The Dask scheduler {address!r} does not answer; start it, or leave out `--dask`.",
            internal=str(error),
        ) from None
    try:
        yield client
    finally:
        client.close()
