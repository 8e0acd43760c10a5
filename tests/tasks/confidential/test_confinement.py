"""What the process gave up is gone for it, for its threads and for its children."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TRY = """
import json, os, socket, subprocess, sys, threading
from pathlib import Path
from tasks.confidential import confinement
mine, other, sockets = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "network"
confinement.protect_memory()
told = [confinement.write_only_below([mine, mine / "missing"])]
told.append(confinement.refuse_programs(sockets=sockets))
def shared():
    import ctypes
    system = ctypes.CDLL(None, use_errno=True)
    if system.shmget(0, 4096, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "shmget")
ACTS = {
    "write here": lambda: (mine / "a").write_text("x"),
    "move here": lambda: (mine / "a").rename(mine / "b"),
    "link here": lambda: os.link(mine / "b", mine / "c"),
    "remove here": lambda: (mine / "c").unlink(),
    "folder here": lambda: (mine / "d").mkdir(),
    "read there": lambda: (other / "file").read_text(),
    "local socket": lambda: socket.socketpair(),
    "thread": lambda: threading.Thread(target=int).start(),
    "write there": lambda: (other / "new").write_text("x"),
    "change there": lambda: (other / "file").write_text("x"),
    "cut there": lambda: os.truncate(other / "file", 0),
    "remove there": lambda: (other / "file").unlink(),
    "move there": lambda: (mine / "b").rename(other / "b"),
    "link there": lambda: os.link(mine / "b", other / "b"),
    "folder there": lambda: (other / "d").mkdir(),
    "program": lambda: subprocess.run(["true"]),
    "local server": lambda: socket.socket(socket.AF_UNIX),
    "shared memory": lambda: shared(),
    "attribute there": lambda: os.setxattr(other / "file", "user.row", b"x"),
    "tcp": lambda: socket.socket(),
    "udp": lambda: socket.socket(type=socket.SOCK_DGRAM),
    "ipv6": lambda: socket.socket(socket.AF_INET6),
}
def done(act):
    try:
        act()
    except PermissionError:
        return False
    return True
found = {}
def in_thread():
    found.update({name: done(act) for name, act in ACTS.items()})
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
child = os.fork()
if not child:
    os._exit(not done(ACTS["write there"]) and done(ACTS["tcp"]) == sockets)
found["child"] = bool(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps({"told": told, "found": found}))
"""
ALLOWED = (
    "write here",
    "move here",
    "link here",
    "remove here",
    "folder here",
    "read there",
    "local socket",
    "thread",
)


OPENED = ("local server", "tcp", "udp", "ipv6")
"""What a process that must reach the network may do besides."""


@pytest.fixture(params=["home", "network"])
def reach(request):
    return request.param


@pytest.fixture
def tried(tmp_path, reach):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    (other / "file").write_text("whole")
    command = [sys.executable, "-c", TRY, str(mine), str(other), reach]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    answer = json.loads(ended.stdout.splitlines()[-1])
    if not all(answer["told"]):
        pytest.skip("this system has no Landlock or no seccomp")
    assert sorted(path.name for path in other.iterdir()) == ["file"]
    assert (other / "file").read_text() == "whole"
    return answer["found"]


def test_it_writes_below_its_folders_only_and_talks_to_nobody_else(tried, reach):
    assert tried.pop("child")
    allowed = ALLOWED + (OPENED if reach == "network" else ())
    assert [name for name, done in tried.items() if done] == list(allowed)
