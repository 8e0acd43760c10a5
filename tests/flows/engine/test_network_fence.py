"""Nothing is sent off the machine: what the commands reach for, and that they need no network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dp_core.bundle.verification.verify import verify
from tests.flows.conftest import as_csv, make_project, survey
from tests.flows.leaks import hits
from tests.flows.network import read, watched, without_network
from tests.full import at_full_size

ROOT = Path(__file__).parents[3]
COMMAND = Path(sys.executable).with_name("dp-release")
CANARIES = ("zqxcanary said so", "917.31")
CI_SIGNS = ("CI", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "TRAVIS", "BUILDKITE", "TF_BUILD")
"""Prefect sends nothing from there; the fence must hold without."""


def environment(place: Path) -> dict[str, str]:
    """Return the environment of somebody who asked for usage data to be sent."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PREFECT_", "DP_RELEASE_", "DASK_", "GX_", "DO_NOT_TRACK"))
        and name not in CI_SIGNS
    }
    for name in ("person", "tmp", "cwd"):
        (place / name).mkdir(parents=True)
    return kept | {
        "DP_RELEASE_HOME": str(place / "home"),
        "DP_RELEASE_STATE": str(place / "state"),
        "HOME": str(place / "person"),
        "TMPDIR": str(place / "tmp"),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "DO_NOT_TRACK": "0",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "true",
        "GX_ANALYTICS_ENABLED": "true",
    }


def run(place: Path, command: list[str], environment: dict[str, str]) -> None:
    with (place / "out.txt").open("w") as out, (place / "err.txt").open("w") as err:
        done = subprocess.run(
            command,
            cwd=place / "cwd",
            env=environment,
            stdout=out,
            stderr=err,
            check=False,
            timeout=600,
        )
    assert done.returncode == 0, (place / "err.txt").read_text()[-3000:]


@pytest.mark.slow
def test_a_release_needs_no_network_and_leaves_no_value(tmp_path, monkeypatch):
    """The command as it is, undisturbed, where there is only a loopback if the system lets us."""
    command = [sys.executable, str(COMMAND), "run", "work/release.yaml", "--out", "bundle"]
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DP_RELEASE_LEDGER", raising=False)
    surroundings = watched(tmp_path / "fence", environment(tmp_path))
    project = make_project(tmp_path / "cwd/work", tmp_path / "home")
    rows = survey()
    rows[7][0], rows[7][4] = CANARIES
    (project.folder / "town.csv").write_text(as_csv(rows))

    run(tmp_path, without_network(command) or command, surroundings)

    bundle = tmp_path / "cwd/bundle"
    assert verify(bundle).passed
    assert project.kinds()[-1] == "settle"
    seen = read(tmp_path / "fence")
    assert any(process[-1] == "(a fork)" for process in seen.processes)  # its server
    assert any(str(COMMAND) in process for process in seen.processes)
    assert {event["event"] for event in seen.events} >= {"socket.connect", "socket.bind"}
    assert seen.foreign() == []

    def may_be(path: Path, canary: str) -> bool:
        staff = bool({"confidential", "internal"} & set(path.parts))
        drawn = canary == "917.31" and "synthetic" in path.parts
        return path.name == "town.csv" or staff or drawn

    assert hits(tmp_path, CANARIES, skip=may_be) == []


FOREIGN = """
import contextlib, socket, subprocess, sys
if len(sys.argv) == 1:
    subprocess.run([sys.executable, "-c", SCRIPT, "child"], check=True)
with contextlib.suppress(OSError), socket.socket() as one:
    one.settimeout(0.01)
    one.connect(("192.0.2.1", 9))
with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as one:
    one.sendto(b"", ("192.0.2.2", 9))
with contextlib.suppress(OSError), socket.socket() as one:
    one.bind(("", 0))
with contextlib.suppress(OSError):
    socket.getaddrinfo("192.0.2.3", 9, flags=socket.AI_NUMERICHOST)
with contextlib.suppress(OSError), socket.socket() as one:
    one.bind(("127.0.0.1", 0))
"""


def test_the_fence_hears_another_address_in_a_process_and_in_its_child(tmp_path):
    script = f"SCRIPT = {FOREIGN!r}\n{FOREIGN}"
    surroundings = watched(tmp_path, dict(os.environ))
    subprocess.run([sys.executable, "-c", script], env=surroundings, check=True)
    seen = read(tmp_path)
    assert len(seen.processes) == 2
    foreign = [(event["event"], event["where"]) for event in seen.foreign()]
    once = [
        ("socket.connect", ["192.0.2.1", 9]),
        ("socket.sendto", ["192.0.2.2", 9]),
        ("socket.bind", ["", 0]),
        ("socket.getaddrinfo", "192.0.2.3"),
    ]
    assert sorted(foreign, key=repr) == sorted(once * 2, key=repr)
    assert len(seen.events) == 2 * (len(once) + 1)


def test_without_a_network_another_address_is_out_of_reach():
    reach = "import socket; socket.create_connection(('192.0.2.1', 9), timeout=5)"
    command = without_network([sys.executable, "-c", reach])
    if command is None:
        pytest.skip("no network namespace can be made here")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Network is unreachable" in done.stderr


SWITCHES = """
import importlib.util, json, os, sys
from pathlib import Path
if sys.argv[1] == "prepared":
    from flows.engine.settings import prepare
    prepare(Path(os.environ["DP_RELEASE_HOME"]))

from prefect._internal.analytics.enabled import is_telemetry_enabled
from prefect._internal.analytics.service import AnalyticsService
from prefect.server.services import telemetry
from prefect.server.services.perpetual_services import get_enabled_perpetual_services
from prefect.settings import get_current_settings
services = {config.function.__name__ for config in get_enabled_perpetual_services(ephemeral=True)}

import dask.config
import distributed

settings = get_current_settings()
found = {
    "prefect_client": is_telemetry_enabled() or AnalyticsService()._quick_enabled_check(),
    "prefect_server": settings.server.analytics_enabled,
    "prefect_heartbeat": telemetry.send_telemetry_heartbeat.__name__ in services,
    "prefect_results": settings.results.persist_by_default,
    "prefect_task_results": settings.tasks.default_persist_result,
    "dask_dashboard_link": dask.config.get("distributed.dashboard.link"),
}
if sys.argv[1] == "prepared":
    from tasks.validation.suite_judge import load_great_expectations
    load_great_expectations()
    import great_expectations
    context = great_expectations.get_context(mode="ephemeral")
    client = importlib.util.find_spec("great_expectations.analytics")
    found["great_expectations"] = (
        os.environ["GX_ANALYTICS_ENABLED"] != "false"
        or bool(context.variables.analytics_enabled)
        or "posthog" in sys.modules
        or client is not None
    )
print(json.dumps(found))
"""
"""Great Expectations 1.24 has no client for usage data; one that comes back has to be looked at."""


@pytest.mark.slow
def test_the_switches_of_the_libraries_are_off_in_the_process_not_only_set(tmp_path):
    surroundings = environment(tmp_path) | {
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
        "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "true",
        "PREFECT_HOME": str(tmp_path / "prefect"),
    }

    def started(mode: str) -> subprocess.Popen[bytes]:
        (tmp_path / mode).mkdir()
        with (tmp_path / mode / "out").open("w") as out, (tmp_path / mode / "err").open("w") as err:
            script = [sys.executable, "-c", SWITCHES, mode]
            return subprocess.Popen(script, env=surroundings, stdout=out, stderr=err)

    modes = ("prepared", "unprepared") if at_full_size() else ("prepared",)
    processes = {mode: started(mode) for mode in modes}
    for mode, process in processes.items():
        assert process.wait() == 0, (tmp_path / mode / "err").read_text()
    prepared, *others = (json.loads((tmp_path / mode / "out").read_text()) for mode in modes)
    assert prepared.pop("dask_dashboard_link") == ""
    assert prepared == dict.fromkeys(prepared, False)
    # What was asked for is what there would have been.
    for unprepared in others:
        for name in ("client", "server", "heartbeat", "results", "task_results"):
            assert unprepared[f"prefect_{name}"] is True, name
        assert unprepared["dask_dashboard_link"] != ""
