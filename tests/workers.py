"""Dask workers on this machine that can be killed in mid-count.

A worker is given `Trap`, so this module is imported there too, and imports little.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster, WorkerPlugin

from tasks.counting import dask_counter
from tasks.support.dask_cluster import dask_client

SECONDS = 240


class Trap(WorkerPlugin):
    """Holds a worker at its n-th chunk until the file `go` is there, and notes what was begun.

    A worker that is started later, for one that died, gets it as well.
    """

    name = "trap"

    def __init__(self, folder: Path, *, at: int) -> None:
        self.folder = folder
        self.at = at

    def setup(self, worker: Any) -> None:
        del worker
        count, folder, pid = dask_counter._count_chunk, self.folder, os.getpid()
        begun = 0

        def held(store: Any, chunk: int, plan: Any) -> Any:
            nonlocal begun
            if not folder.is_dir():  # of a test that is over, whose worker goes on
                return count(store, chunk, plan)
            begun += 1
            number = store.ranges[chunk].file.removesuffix(".arrow").rpartition("-")[2]
            (folder / f"begun-{pid}-{begun}").write_text(number)
            if begun == self.at:
                (folder / f"held-{pid}").touch()
                until = time.monotonic() + SECONDS  # a test that failed lets nobody go
                # A test that is over takes the folder away, perhaps before `go` is seen in it.
                while folder.is_dir() and not (folder / "go").exists() and time.monotonic() < until:
                    time.sleep(0.01)
            return count(store, chunk, plan)

        dask_counter._count_chunk = held


def can_draw() -> tuple[str, ...]:
    """Return the modules of this process that can draw noise."""
    return tuple(
        name for name in sys.modules if name.startswith(("opendp", "dp_core.kernel.noise"))
    )


class Killer:
    """Kills workers that the trap holds.

    Attributes:
        cluster: The workers' cluster.
        client: A client of it.
        killed: Processes that were killed.
    """

    def __init__(self, cluster: LocalCluster, client: Client, folder: Path) -> None:
        self.cluster, self.client = cluster, client
        self.killed: list[int] = []
        self._folder = folder

    def held(self, workers: int) -> list[int]:
        """Return the processes of all workers, once each is held in mid-count."""
        deadline = time.monotonic() + SECONDS
        while len(found := list(self._folder.glob("held-*"))) < workers:
            if time.monotonic() > deadline:
                self.go()  # or the counts would be waited for without end
                raise AssertionError("no worker came into the trap")
            time.sleep(0.01)
        return [int(path.name.split("-")[1]) for path in found]

    def begun(self) -> Counter[int]:
        """Return how often each chunk was begun."""
        return Counter(int(path.read_text()) for path in self._folder.glob("begun-*"))

    def begun_by(self, pid: int) -> set[int]:
        """Return the chunks that a process began."""
        return {int(path.read_text()) for path in self._folder.glob(f"begun-{pid}-*")}

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)

    def go(self) -> None:
        """Let every worker that is held go on."""
        (self._folder / "go").touch()

    def no_more_workers(self) -> None:
        """Let nobody start a worker for one that dies."""
        for nanny in self.cluster.workers.values():
            nanny.close_gracefully(reason="test")


@contextmanager
def local_cluster(folder: Path, workers: int) -> Iterator[LocalCluster]:
    """Give a cluster of processes of one thread each.

    Dask's log is off: its threads would write to handlers of a test that is over.
    """
    logging.disable(logging.CRITICAL)
    try:
        with _cluster(folder, workers) as cluster:
            yield cluster
    finally:
        logging.disable(logging.NOTSET)


def _cluster(folder: Path, workers: int) -> LocalCluster:
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # of its list of tasks; any port
        local_directory=str(folder / "dask"),
        silence_logs=logging.CRITICAL,
    )


@contextmanager
def trapped_cluster(folder: Path, workers: int, *, at: int) -> Iterator[Killer]:
    """Give the killer of a cluster whose workers are held at their n-th chunk."""
    trap = folder / "trap"
    trap.mkdir()
    with (
        local_cluster(folder, workers) as cluster,
        dask_client(cluster.scheduler_address) as client,
    ):
        assert client is not None
        client.register_plugin(Trap(trap, at=at))
        yield Killer(cluster, client, trap)


def a_task_for_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide counts as far as they can be, though the files of tests are small."""
    monkeypatch.setattr(dask_counter, "TASK", 1e-15)


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread while the block waits for its counts; its failure is ours."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        yield
        done.result(SECONDS)
