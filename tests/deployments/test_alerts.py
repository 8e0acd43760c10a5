"""The alerts of deployments/: valid, about what the program tells, and sent by a real server."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import get_args

import pytest
import yaml

from dp_core.errors import BadInput
from flows.engine.own_server import SERVER
from flows.monitoring.automations import apply, read_automations
from flows.monitoring.metrics import read_metrics
from flows.monitoring.outcome import OutcomeName
from tests.deployments.site import free_port
from tests.full import at_full_size
from tests.http_listener import listening

DEPLOYMENTS = Path(__file__).parents[2] / "deployments"
AUTOMATIONS = DEPLOYMENTS / "automations.yaml"
TOLD = {f"dp-release.release.{name}" for name in (*get_args(OutcomeName), "resumed")} | {
    "dp-release.ledger.verified",
    "dp-release.ledger.verification-failed",
    "dp-release.bundles.verification-failed",
    "prefect.flow-run.Late",
    "prefect.flow-run.Crashed",
}


def test_every_alert_waits_for_something_that_is_told():
    found = read_automations(AUTOMATIONS)
    assert len(found) == 10
    for one in found:
        trigger = one["trigger"]
        assert {*trigger["expect"], *trigger.get("after", [])} <= TOLD, one["name"]
        assert (trigger["posture"] == "Proactive") == (trigger["within"] > 0), one["name"]


def test_every_end_of_a_run_is_in_some_alert():
    triggers = [one["trigger"] for one in read_automations(AUTOMATIONS)]
    heard = {event for one in triggers for event in (*one["expect"], *one.get("after", []))}
    assert {f"dp-release.release.{name}" for name in get_args(OutcomeName)} <= heard


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read"),
        ("a: [", "not valid YAML"),
        ("a: 1", "not a list"),
        ("- {name: x}", r"Automation 1 of .* \(x\) .*: trigger"),
        ("two", "the same name"),
    ],
)
def test_a_file_that_will_not_do_is_one_sentence(tmp_path, text, says):
    path = tmp_path / "alerts.yaml"
    if text == "two":
        text = AUTOMATIONS.read_text().replace("dp-release refused", "dp-release failed")
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadInput, match=says):
        read_automations(path)


def test_without_a_server_there_is_nowhere_to_apply_them(monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with pytest.raises(BadInput, match="No Prefect server is named"):
        apply(AUTOMATIONS)


# -- Prometheus


def test_every_rule_is_about_a_metric_that_there_is(home):
    from tasks.run.home import open_ledger
    from tasks.run.home_notes import write_verified
    from tests.ledgers import open_town

    open_town(open_ledger(home))
    write_verified(home, passed=True)
    names = {family.name for family in read_metrics().families}
    groups = yaml.safe_load((DEPLOYMENTS / "prometheus.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    page = (DEPLOYMENTS.parent / "docs" / "runbook.md").read_text(encoding="utf-8")
    headings = [
        title.lower().replace(" ", "-") for title in re.findall(r"^##+ (.+)$", page, re.MULTILINE)
    ]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8
    for rule in rules:
        assert {*rule} == {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert re.fullmatch(r"\d+[smhd]", rule["for"])
        assert rule["expr"].count("(") == rule["expr"].count(")")
        used = {*re.findall(r"dp_release_\w+", rule["expr"])}
        assert used, rule["alert"]
        assert used <= names, rule["alert"]
        assert {*rule["annotations"]} == {"summary", "runbook"}
        row = rule["annotations"]["runbook"].partition("#")[2]
        assert row in {"", *headings}, row


# -- a real server


def wait_for(what, seconds=120.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = what()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(0.3)
    raise AssertionError("It did not happen.")


@pytest.fixture
def environment(tmp_path, with_prefects_tables):
    port = free_port()
    # What `prefect server start` starts, whose own imports take seconds.
    words = [sys.executable, "-W", "ignore", "-m", "uvicorn", "--factory", SERVER]
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")},
        "PREFECT_HOME": str(with_prefects_tables(tmp_path / "prefect")),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "DP_RELEASE_HOME": str(tmp_path / "home"),
        "DO_NOT_TRACK": "1",
    }
    place = ["--host", "127.0.0.1", "--port", str(port)]
    log = (tmp_path / "server.log").open("w")
    with subprocess.Popen([*words, *place], env=variables, stdout=log, stderr=log) as server:
        health = f"http://127.0.0.1:{port}/api/health"
        try:
            wait_for(lambda: urllib.request.urlopen(health, timeout=5).status == 200)
            yield variables
        finally:
            server.terminate()
            server.wait(60)
            log.close()


@pytest.fixture
def hook():
    """Something that listens."""
    with listening() as listener:
        yield listener


NEXT = "=== once more\n"
TWICE = f"""
import sys
from flows.cli.main import main
words = list(sys.argv)
try:
    main()
except SystemExit as ended:
    if ended.code:
        raise
print({NEXT.strip()!r}, flush=True)
sys.argv[:] = words
main()
"""
"""The same command twice; to import Prefect takes seconds."""


@pytest.mark.slow
def test_an_event_reaches_whoever_listens_once_and_so_does_its_absence(
    environment, hook, tmp_path, monkeypatch
):
    address = f"{hook.url}/"
    path = tmp_path / "alerts.yaml"
    path.write_text(AUTOMATIONS.read_text().replace("259200", "10"))  # the least that there is
    applied = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TWICE, "server", "alerts", path, "--json"],
        env={**environment, "DP_RELEASE_ALERT_WEBHOOK": address},
        cwd=DEPLOYMENTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert applied.returncode == 0, applied.stdout + applied.stderr
    for verb, told in zip(("made", "changed"), applied.stdout.split(NEXT), strict=True):
        assert len(json.loads(told)[verb]) == 10
    assert address not in applied.stdout

    monkeypatch.setenv("PREFECT_API_URL", environment["PREFECT_API_URL"])
    from flows.monitoring.prefect_events import tell_check, tell_release

    # Its own words may hold anything that JSON and templates give a meaning.
    sentence = 'The disk is full: "a" {{ b }}\\ could not be written.'
    # Of two that are held, one is published, and nothing is heard of the other for so long.
    held = ("city", "village") if at_full_size() else ()
    for name in held:
        tell_release("held", name, name)
    tell_check("ledger", "verification-failed", "Entry 2.", None)
    # The server may look at two events at once: what follows another waits until that is known.
    wait_for(lambda: hook.posted)
    tell_release("published", "village", "village")
    tell_release("failed", "town", "town", sentence=sentence, code=4, row="disk-full")
    expected = {
        ("dp-release failed", "dp-release.release.town"),
        ("dp-release ledger does not verify", "dp-release.ledger"),
    }
    if held:
        expected.add(("dp-release held too long", "dp-release.release.city"))

    def told():
        return [(one["alert"], one["about"]) for _, one in hook.posted]

    wait_for(lambda: expected <= {*told()})
    assert sorted(told()) == sorted(expected)
    failed = next(one for _, one in hook.posted if one["alert"] == "dp-release failed")
    assert (failed["sentence"], failed["runbook"]) == (sentence, "disk-full")
