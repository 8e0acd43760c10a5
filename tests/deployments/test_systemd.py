"""Units for systemd: well-formed by systemd's own check, with few rights and the right commands."""

import configparser
import re
import shutil
import subprocess

import click
import pytest

from tests.processes import ROOT

FOLDER = ROOT / "deployments" / "systemd"
PROGRAMS = "/opt/dp-release/.venv/bin"
EXPOSURE = 2.0
"""Most exposure by `systemd-analyze security`, of 10; a service without settings has 9.6."""

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def unit(path):
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str
    parser.read(path)
    return parser


SERVICES = {path.stem: unit(path) for path in FOLDER.glob("*.service")}


def settings():
    text = (FOLDER / "environment.example").read_text()
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", text, re.MULTILINE))


@pytest.fixture
def copies(tmp_path):
    """The units, with programs that are there."""
    for path in [*FOLDER.glob("*.service"), *FOLDER.glob("*.timer")]:
        (tmp_path / path.name).write_text(path.read_text().replace(PROGRAMS, str(tmp_path)))
    for name in ("prefect", "dp-release"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def verified(folder):
    units = sorted(path.name for path in folder.iterdir() if "." in path.name)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(f"./{name}" for name in units)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@needs_systemd
def test_systemd_finds_no_fault_in_the_units(copies):
    assert verified(copies) == (0, "")


@needs_systemd
@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_exposed_little(copies, name):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", f"./{name}.service"],
        cwd=copies,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) <= EXPOSURE


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_has_as_few_rights_as_it_can(name):
    service = SERVICES[name]["Service"]
    for key in (
        "NoNewPrivileges",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectHome",
        "ProtectKernelTunables",
        "ProtectControlGroups",
        "RestrictSUIDSGID",
    ):
        assert service[key] == "yes", key
    assert service["User"] == service["Group"] == "dp-release"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["ReadWritePaths"] == "/srv/dp-release"
    assert service["LimitCORE"] == service["MemorySwapMax"] == "0"
    assert service["MemoryMax"]
    # Numba writes code into memory, and one service must not delete another's shared memory.
    assert "MemoryDenyWriteExecute" not in service
    assert "RemoveIPC" not in service


def test_all_that_is_written_lies_where_the_services_may_write():
    places = settings()
    for name in ("DP_RELEASE_HOME", "DP_RELEASE_STATE", "PREFECT_HOME"):
        assert places[name].startswith(("/srv/dp-release/", "/var/lib/dp-release/")), name
    # The note of the ledger's last entry is outside the home.
    assert not places["DP_RELEASE_STATE"].startswith(places["DP_RELEASE_HOME"])


def test_the_services_run_commands_that_there_are():
    from flows.cli.main import cli

    commands = {name: each["Service"]["ExecStart"].split() for name, each in SERVICES.items()}
    for name, (program, *words) in commands.items():
        assert program.startswith(f"{PROGRAMS}/"), name
        if program.endswith("/dp-release"):
            group = cli.commands[words[0]]
            assert isinstance(group, click.Group)
            command = group.commands[words[1]]
            command.make_context(words[1], words[2:])
            with pytest.raises(click.UsageError):
                command.make_context(words[1], ["--nosuch"])
    assert commands["dp-release-worker"][1:3] == ["worker", "start"]
    assert commands["dp-release-server"][1:] == [
        *("server", "start", "--host", "127.0.0.1", "--port", "4200")
    ]
    assert settings()["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
