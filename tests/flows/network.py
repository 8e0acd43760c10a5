"""Writes down every address that a process and its children reach for, and every name they ask.

`watched` gives an environment in which each Python process (Prefect's server too) installs an
audit hook as it starts; `read` returns what they wrote. Libraries that call the system without
Python are not heard: for those a release is made where there is no network (`without_network`).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOOK = '''
"""Audit hook of the network fence; installed in every Python process that sees this folder."""
import json, os, sys

_folder = os.environ["NETWORK_FENCE"]
_names = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
_sockets = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg")


def _write(line):
    # Opened each time: a fork that gives up its parent's files is heard as well.
    path = os.path.join(_folder, f"{os.getpid()}.jsonl")
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(log, (json.dumps(line, default=repr) + "\\n").encode())
    os.close(log)


def _hook(event, arguments):
    if event in _names:
        where, family = arguments[0], "name"
    elif event in _sockets:
        where, family = arguments[1], int(arguments[0].family)
    elif event == "socket.getnameinfo":
        where, family = arguments[0], "address"
    else:
        return
    line = {"event": event, "family": family, "where": where, "pid": os.getpid()}
    _write(line)


_write({"process": sys.orig_argv})
sys.addaudithook(_hook)
os.register_at_fork(after_in_child=lambda: _write({"process": [*sys.orig_argv, "(a fork)"]}))
'''

LOOPBACK_ONLY = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    request = struct.pack("16sH", b"lo", 0x41)  # IFF_UP | IFF_RUNNING
    fcntl.ioctl(control, 0x8914, request)  # SIOCSIFFLAGS
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Started in a network of its own: brings up its loopback, and becomes the command."""


@dataclass(frozen=True)
class Seen:
    """What processes did with the network.

    Attributes:
        processes: The command line of each; that of a fork has one word more, `(a fork)`.
        events: One for each address or name: `event`, `family`, `where`, `pid`.
    """

    processes: tuple[tuple[str, ...], ...]
    events: tuple[Mapping[str, object], ...]

    def foreign(self) -> list[Mapping[str, object]]:
        """Return the events that are about another machine, or open this one to others."""
        return [event for event in self.events if not _is_local(event)]


def watched(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose Python processes write what they do into a folder."""
    (folder / "hook").mkdir(parents=True)
    (folder / "seen").mkdir()
    (folder / "hook" / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join(filter(None, [str(folder / "hook"), environment.get("PYTHONPATH")]))
    return {**environment, "PYTHONPATH": path, "NETWORK_FENCE": str(folder / "seen")}


def read(folder: Path) -> Seen:
    """Return what was written into a watched folder."""
    processes, events = [], []
    for file in sorted((folder / "seen").glob("*.jsonl")):
        for line in map(json.loads, file.read_text().splitlines()):
            if "process" in line:
                processes.append(tuple(line["process"]))
            else:
                events.append(line)
    return Seen(tuple(processes), tuple(events))


def without_network(command: Sequence[str]) -> list[str] | None:
    """Return a command that runs another where there is only a loopback, None if none does."""
    for own in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        start = [*own, sys.executable, "-S", "-c", LOOPBACK_ONLY]
        try:
            done = subprocess.run([*start, "/bin/true"], capture_output=True, check=False)
        except OSError:
            return None
        if done.returncode == 0:
            return [*start, *command]
    return None


def _is_local(event: Mapping[str, object]) -> bool:
    where, family = event["where"], event["family"]
    if family == "name":
        # None and the empty text are any address of this machine: fine to ask, not to bind.
        return where in (None, "", "localhost", "127.0.0.1", "::1", socket.gethostname())
    if family in (int(socket.AF_UNIX), int(socket.AF_NETLINK)):
        return True
    return isinstance(where, list) and where[0] in ("127.0.0.1", "::1", "localhost")
