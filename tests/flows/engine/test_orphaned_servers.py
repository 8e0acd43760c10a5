from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from flows.engine.orphaned_servers import MARK, end_orphans, mark

SLEEPER = "import time; time.sleep(60)"


@pytest.fixture
def servers():
    """Processes that look like local servers, by the value of their mark."""
    started = []

    def start(owner):
        environment = {**os.environ, MARK: owner} if owner is not None else {**os.environ}
        if owner is None:
            environment.pop(MARK, None)
        command = [sys.executable, "-c", SLEEPER, "prefect.server.api.server:create_app"]
        started.append(subprocess.Popen(command, env=environment))
        # The command line is readable only once the new program has been loaded.
        while "create_app" not in " ".join(psutil.Process(started[-1].pid).cmdline()):
            time.sleep(0.01)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_only_servers_whose_owner_is_gone_are_ended(servers, monkeypatch):
    monkeypatch.setenv(MARK, "")
    mark()
    mine = servers(os.environ[MARK])
    foreign = servers(None)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    orphan = servers(f"{gone.pid}@1.0")

    assert end_orphans() >= 1  # there may be others on this machine
    assert orphan.wait(timeout=120) != 0
    assert mine.poll() is None
    assert foreign.poll() is None


def test_a_process_that_reuses_the_owners_number_is_not_the_owner(servers):
    orphan = servers(f"{os.getpid()}@1.0")
    assert end_orphans() >= 1  # there may be others on this machine
    assert orphan.wait(timeout=120) != 0
