"""`dp-release server schedule`: a small site in one process."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from dp_core.errors import BadInput
from flows.cli.commands.server_commands import check_schedule, run_until_stopped, served_deployments


@pytest.mark.parametrize(
    ("cron", "zone", "sentence"),
    [
        ("0 2 * *", "UTC", "--cron '0 2 [*] [*]'"),
        ("61 2 1 * *", "UTC", "--cron '61 2 1 [*] [*]'"),
        ("0 2 1 * *", "Europe/Berln", "--timezone 'Europe/Berln' is not known; write one such"),
    ],
)
def test_a_mistaken_schedule_is_one_sentence(cron, zone, sentence):
    with pytest.raises(BadInput, match=sentence):
        check_schedule(cron, zone)


def test_without_a_server_it_says_what_to_start(project, command, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    words = ("server", "schedule", project.spec, "--cron", "0 2 1 * *", "--out-root", "out")
    answer = command(*words)
    assert answer.code == 2
    assert "PREFECT_API_URL is not set" in answer.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order_when_it_is_told_to(monkeypatch, number):
    ended = []

    class Runner:
        """As Prefect's: it takes the signal, and its parts end with the task that started them."""

        def __init__(self, **options):
            assert options == {"pause_on_shutdown": False, "limit": 4}

        def add_deployment(self, deployment):
            ended.append(deployment)

        async def start(self):
            signal.signal(signal.SIGTERM, self.handle_sigterm)
            part = asyncio.create_task(asyncio.sleep(60))
            os.kill(os.getpid(), number)
            try:
                await part
                ended.append("nothing ended it")
            finally:
                part.cancel()
                ended.append("parts")

        def handle_sigterm(self, *_words):
            raise SystemExit

    monkeypatch.setattr("prefect.runner.Runner", Runner)
    before = signal.getsignal(signal.SIGTERM)
    try:
        run_until_stopped(["release"])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == ["release", "parts"]


def test_it_serves_the_template_and_its_upkeep(project):
    project.write_spec(release="town-{date:%Y-%m}")
    made = served_deployments(
        project.spec, cron="0 2 1 * *", zone="Europe/Berlin", out_root=Path("out"), dask=None
    )
    release, upkeep, nightly = made
    assert release.full_name == "scheduled-release/release"
    assert release.parameters["template"] == str(project.spec)
    assert Path(release.parameters["out_root"]).is_absolute()
    (schedule,) = release.schedules
    assert (schedule.schedule.cron, schedule.schedule.timezone) == ("0 2 1 * *", "Europe/Berlin")
    assert release.concurrency_limit == 1
    assert release.concurrency_options.collision_strategy == "ENQUEUE"
    assert nightly.concurrency_options.collision_strategy == "CANCEL_NEW"
    # It gives others' places back, so it must not wait for one.
    assert upkeep.concurrency_limit is None
