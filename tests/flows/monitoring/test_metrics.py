"""What a watch is told: right figures, no ledger made, and no crash with what it watches."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dp_core.accounts.largest_release import epsilon_of
from dp_core.errors import BadInput
from flows.cli.commands.server_commands import listening
from flows.monitoring.metrics import read_metrics
from tasks.run.home import open_ledger
from tests.ledgers import monthly, on, open_town, reserve, spend, zcdp
from tests.specs import plan_of

ROOT = Path(__file__).parents[3]


def values():
    """Return every value of the text, as a scraper reads it, by name and labels."""
    return {
        (sample.name.removeprefix("dp_release_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(read_metrics().text)
        for sample in family.samples
    }


@pytest.fixture
def ledger(home, monkeypatch):
    on(monkeypatch, "2026-11-20")
    return open_ledger(home)


def plan(tmp_path, name, **changes):
    return plan_of(tmp_path / "specs", release=name, **changes)


def test_looking_makes_neither_a_ledger_nor_a_home(home, command):
    answer = command("server", "metrics")
    assert answer.code == 0
    assert "dp_release_ledger_up 0.0" in answer.out
    assert "There is no ledger" in answer.err
    assert not home.exists()


def test_the_figures_are_those_of_the_ledger(ledger, tmp_path):
    open_town(ledger, calendar=monthly("1.5"))
    spend(ledger, plan(tmp_path, "first"))
    reserve(ledger, plan(tmp_path, "second", privacy="{epsilon: 0.25}"))
    spend(ledger, plan(tmp_path, "third", privacy="{epsilon: 0.125}"), outcome="abandoned")

    found = values()
    assert found["ledger_up",] == 1
    assert found["releases", "town", "finished"] == 1
    assert found["releases", "town", "abandoned"] == 1
    assert found["releases", "town", "unfinished"] == 1
    assert [found["account_epsilon", "town", part] for part in ("total", "reserved", "left")] == [
        2.0,
        0.25,
        0.625,
    ]
    assert found["account_epsilon", "town", "spent"] == 1.125
    assert found["account_delta", "town", "total"] == 1e-5
    assert found["period_epsilon", "town", "left", "2026-11"] == 0.125
    assert found["period_epsilon", "town", "used", "2026-11"] == 1.375
    assert found["account_open", "town", "basic"] == 1
    assert found["ledger_entries",] == ledger.head().position
    free = shutil.disk_usage(tmp_path).free
    assert 0.9 * free - 1e7 < found["home_free_bytes",] < free + 1e7
    assert ("account_rho", "town", "total") not in found
    assert ("ledger_verified_passed",) not in found


def test_a_release_that_rests_grows_older_and_tells_its_stages(ledger, tmp_path, home, monkeypatch):
    from tasks.support.run_folder import RunFolder

    open_town(ledger)
    held = reserve(ledger, plan(tmp_path, "first"))
    folder = RunFolder(home, "first", held.link)
    folder.begin(spec=tmp_path / "spec", out=tmp_path / "out")
    folder.finish("validate")
    folder.finish("discretize")
    found = values()
    assert found["open_stages", "first", "done"] == 2
    assert found["open_stages", "first", "open"] == 8
    began = datetime(2026, 11, 20, 12, tzinfo=UTC)
    age = (datetime.now(UTC) - began) / timedelta(seconds=1)
    assert found["oldest_open_seconds", "unfinished"] == pytest.approx(age, abs=60)

    with ledger.lease("first", "a home"):
        found = values()
    assert found["lease", socket.gethostname(), str(os.getpid()), "first"] == 1
    assert ("oldest_open_seconds", "unfinished") not in found
    on(monkeypatch, "2026-11-21")
    reserve(ledger, plan(tmp_path, "second", privacy="{epsilon: 0.25}"))
    assert values()["oldest_open_seconds", "unfinished"] == pytest.approx(age, abs=60)


def test_the_last_check_of_the_ledger_is_told(ledger, home, command):
    open_town(ledger)
    assert command("ledger", "verify").code == 0
    found = values()
    assert found["ledger_verified_passed",] == 1
    age = datetime.now(UTC).timestamp() - found["ledger_verified_timestamp_seconds",]
    assert -1 < age < 600

    from tests.ledgers import owner

    with owner(f"sqlite:///{home / 'ledger.db'}") as connection:
        connection.exec_driver_sql("UPDATE entries SET recorded = '2026-11-21' WHERE position = 2")
    assert command("ledger", "verify").code == 5
    assert values()["ledger_verified_passed",] == 0


def test_a_broken_ledger_is_told_and_nothing_else_of_it(ledger, home, command):
    open_town(ledger)
    content = (home / "ledger.db").read_bytes()
    (home / "ledger.db").write_bytes(content[:4096] + bytes(len(content) - 4096))
    answer = command("server", "metrics", "--json")
    assert answer.code == 0
    names = {item["name"]: item["value"] for item in answer.json["metrics"]}
    assert names["dp_release_ledger_up"] == 0
    assert "damaged" in answer.json["fault"]
    assert "dp_release_home_free_bytes" in names
    assert "dp_release_releases" not in names


def test_the_room_that_is_told_does_not_tell_the_size_of_a_file(home, monkeypatch):
    home.mkdir()

    def told(free: int) -> float:
        usage = type(shutil.disk_usage("/"))(10**13, 10**13 - free, free)
        monkeypatch.setattr("flows.monitoring.metrics.shutil.disk_usage", lambda _: usage)
        return values()["home_free_bytes",]

    assert told(512_345_678_901) == told(512_345_678_901 - 1_234_567) == 510_000_000_000
    assert told(4_999_999_999) == 4_900_000_000  # down: an alert at 5e9 is not late
    assert told(0) == 0


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("9181", ("127.0.0.1", 9181)),
        (":9181", ("127.0.0.1", 9181)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_metrics_are_on_the_loopback_unless_an_address_is_stated(text, meant):
    assert listening(text) == meant


@pytest.mark.parametrize("text", ["", "host:", "host:port", "1.2.3.4:70000", ":0"])
def test_an_address_that_is_none_is_one_sentence(text):
    with pytest.raises(BadInput, match="--listen"):
        listening(text)


@pytest.mark.slow
def test_metrics_are_served_until_the_process_is_ended(ledger, home):
    open_town(ledger)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "flows.cli.main", "server", "metrics", "--listen", str(port)]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert str(port) in process.stderr.readline()
            address = f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(address, timeout=120) as answer:
                text = answer.read().decode()
            assert re.search(
                r'^dp_release_account_epsilon{account="town",part="left"} 2.0$', text, re.M
            )
            second = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
            assert (second.returncode, str(port) in second.stderr) == (2, True)
            # The ledger goes while it is watched.
            (home / "ledger.db").write_bytes(b"x" * 8192)
            with urllib.request.urlopen(address, timeout=120) as answer:
                assert b"dp_release_ledger_up 0.0" in answer.read()
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            process.kill()


def test_days_left_are_at_the_rate_of_the_last_year(ledger, tmp_path, monkeypatch):
    open_town(ledger)
    spend(ledger, plan(tmp_path, "first", privacy="{epsilon: 0.5}"))
    assert ("account_days_left", "town") not in values()
    for day, name in (("2026-12-20", "second"), ("2027-01-19", "third")):
        on(monkeypatch, day)
        spend(ledger, plan(tmp_path, name, privacy="{epsilon: 0.25}"))
    # Three quarters of an epsilon in 60 days, and 1 is left.
    assert values()["account_days_left", "town"] == 80
    # What was long ago says nothing of the rate now: a quarter in 30 days.
    on(monkeypatch, "2027-11-30")
    assert values()["account_days_left", "town"] == 120
    on(monkeypatch, "2028-01-25")
    assert ("account_days_left", "town") not in values()


def test_a_zcdp_account_is_told_in_rho_as_well(ledger, tmp_path):
    open_town(ledger, terms=zcdp())
    spend(ledger, plan(tmp_path, "first", privacy="{epsilon: 1, delta: 1e-6}"))
    account = ledger.account("town")
    found = values()
    for part, amount in (("spent", account.balance.spent), ("left", account.total_left)):
        assert found["account_rho", "town", part] == float(amount.main)
        assert found["account_epsilon", "town", part] == float(epsilon_of(account.terms, amount))
    assert 0 < found["account_rho", "town", "spent"] < found["account_epsilon", "town", "spent"]
