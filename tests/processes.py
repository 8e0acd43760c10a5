"""A Dask cluster as an operator starts it: by its commands, under TLS, each worker on a host.

A host is a network namespace where this user may make one, and else an address of the loopback.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
from distributed import Client

from tasks.support.dask_cluster import dask_client

ROOT = Path(__file__).parents[1]
SECONDS = 240


def settings() -> dict[str, str]:
    """Return what an operator's shell takes from `dask.env`."""
    lines = (ROOT / "deployments" / "cluster" / "dask.env").read_text().splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return dict(word.split("=", 1) for found in words for word in found)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Hosts:
    """Hosts with addresses, joined by a bridge that has the first; number 0 is this process's."""

    def __init__(self, number: int) -> None:
        self.own = f"dpr{os.getpid() % 10**8}"
        self.namespaces: list[str] = []
        self._net = f"10.213.{os.getpid() % 250}"
        self.separate = True
        try:
            self._make(number)
        except (OSError, subprocess.CalledProcessError):
            self.close()
            self.separate = False

    def _make(self, number: int) -> None:
        _ip("link", "add", self.own, "type", "bridge")
        _ip("address", "add", f"{self.address(0)}/24", "dev", self.own)
        _ip("link", "set", self.own, "up")
        for host in range(1, number + 1):
            name, ours, theirs = f"{self.own}-{host}", f"{self.own}h{host}", f"{self.own}n{host}"
            _ip("netns", "add", name)
            self.namespaces.append(name)
            _ip("link", "add", ours, "type", "veth", "peer", "name", theirs)
            _ip("link", "set", theirs, "netns", name)
            _ip("link", "set", ours, "master", self.own)
            _ip("link", "set", ours, "up")
            _ip("-n", name, "address", "add", f"{self._net}.{host + 1}/24", "dev", theirs)
            _ip("-n", name, "link", "set", theirs, "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def address(self, host: int) -> str:
        """Return the address of a host."""
        return f"{self._net}.{host + 1}" if self.separate else f"127.0.0.{host + 1}"

    def on(self, host: int) -> list[str]:
        """Return the words before a command that is to run on a host."""
        return ["ip", "netns", "exec", self.namespaces[host - 1]] if self.separate and host else []

    def close(self) -> None:
        """Take everything away."""
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        with contextlib.suppress(OSError):  # there may be no such command
            subprocess.run(["ip", "link", "del", self.own], check=False, capture_output=True)


class Processes:
    """Scheduler and workers of a cluster, started by command.

    Attributes:
        folder: Of certificates, logs and what workers write.
        hosts: Where they run.
        address: Of the scheduler.
        started: All processes.
    """

    def __init__(self, folder: Path, hosts: Hosts) -> None:
        self.folder, self.hosts = folder, hosts
        self.address = f"tls://{hosts.address(0)}:0"
        self.started: list[subprocess.Popen[bytes]] = []
        self._certificates()

    def _certificates(self) -> None:
        path = ROOT / "deployments" / "tls.py"
        spec = importlib.util.spec_from_file_location("deployments_tls", path)
        assert spec is not None
        assert spec.loader is not None
        tls = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tls)
        tls.make_certificates(self.folder / "tls")

    def files(self, part: str) -> list[str]:
        """Return the words that name the certificates of a part."""
        files = {"ca-file": "ca.pem", "cert": f"{part}.pem", "key": f"{part}.key"}
        return [
            word
            for name, file in files.items()
            for word in (f"--tls-{name}", str(self.folder / "tls" / file))
        ]

    def configuration(self) -> dict[str, Any]:
        """Return what this process must know to be a client."""
        tls = self.folder / "tls"
        return {
            "distributed.comm.require-encryption": True,
            "distributed.comm.tls.ca-file": str(tls / "ca.pem"),
            "distributed.comm.tls.client.cert": str(tls / "client.pem"),
            "distributed.comm.tls.client.key": str(tls / "client.key"),
        }

    def start_scheduler(self) -> None:
        """Start the scheduler on this process's host, and wait for its address."""
        where = self.folder / "scheduler.json"
        self._start(
            0,
            "dask_scheduler",
            *("--protocol", "tls", "--host", self.hosts.address(0), "--port", "0"),
            *("--scheduler-file", str(where), *self.files("scheduler")),
        )
        until = time.monotonic() + SECONDS
        while True:
            try:
                self.address = json.loads(where.read_text())["address"]
            except (OSError, ValueError):
                assert time.monotonic() < until, "the scheduler does not start"
                time.sleep(0.05)
            else:
                return

    def start_worker(
        self, host: int, *, before: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a worker of one thread on a host; return its process."""
        return self._start(
            host,
            "dask_worker",
            self.address,
            *("--no-nanny", "--nthreads", "1", "--host", self.hosts.address(host)),
            *("--local-directory", str(self.folder / f"dask-{len(self.started)}")),
            *self.files("dask-worker"),
            before=before,
            environment=environment,
        )

    def _start(
        self,
        host: int,
        command: str,
        *words: str,
        before: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        python = [sys.executable, "-m", f"distributed.cli.{command}"]
        quiet = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        with (self.folder / f"{command}-{len(self.started)}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.hosts.on(host), *before, *python, *words, *quiet],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **settings(), "PYTHONPATH": str(ROOT), **(environment or {})},
                cwd=self.folder,  # the working folder comes before PYTHONPATH
            )
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a worker at once."""
        process.kill()
        process.wait()


@contextmanager
def processes(folder: Path, hosts: int) -> Iterator[tuple[Processes, Client]]:
    """Give a scheduler with hosts for workers, and a client of it."""
    made = Hosts(hosts)
    cluster = Processes(folder, made)
    try:
        cluster.start_scheduler()
        with dask.config.set(cluster.configuration()), dask_client(cluster.address) as client:
            assert client is not None
            yield cluster, client
    finally:
        for process in reversed(cluster.started):
            cluster.end(process)
        made.close()
