"""The shipped deployments on the shipped processes: a schedule fires, a failure is mended.

One server and worker for all of them, under TLS, with the ledger and Prefect's database on
PostgreSQL, and a Dask cluster. What the sweep decides is in `tests/flows/releases/test_sweep.py`.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from dp_core.bundle.verification.verify import verify
from tests.deployments.site import Site, running, seconds_ahead
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.full]


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, postgres_cluster: PostgresServer
) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"), postgres_cluster, dask=True)
    with running(made):
        assert made.deploy().count("successfully created") == 5
        yield made


def charged(site: Site, release: str) -> Counter:
    """Return how often each batch of a release was charged."""
    ledger = site.ledger()
    return Counter(charge.batch for charge in ledger.charges(ledger.reservation(release)))


def test_a_scheduled_run_whose_stage_fails_is_retried_from_the_pages_and_verifies(site):
    hidden = site.data.rename(site.data.with_suffix(".away"))
    moment = seconds_ahead(15)  # a moment that is over when the server looks at it never comes
    once = f"DTSTART:{moment:%Y%m%dT%H%M%S}\nRRULE:FREQ=MINUTELY;COUNT=1"
    site.schedule("scheduled-release/monthly", {"rrule": once, "timezone": "UTC"})
    run = site.wait(site.runs)[0]
    assert run["auto_scheduled"]
    failed = site.ended(run["id"])
    assert failed["state"]["type"] == "FAILED"
    assert "town.csv" in failed["state"]["message"]
    # Its name is that of the time it was scheduled for.
    assert failed["name"] == f"town-{moment:%Y%m%d-%H%M%S}"

    hidden.rename(site.data)
    # As the pages' button does it.
    again = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
    site.ask("POST", f"/flow_runs/{failed['id']}/set_state", {"state": again})
    site.wait(lambda: site.run(failed["id"])["run_count"] == 2)
    done = site.ended(failed["id"])
    assert done["state"]["type"] == "COMPLETED", done["state"]["message"]
    # Still the release of its time, which is over.
    assert done["name"] == failed["name"]
    assert set(done["tags"]) >= {"dp-release", "release"}
    assert verify(site.out_root / done["name"]).passed
    # Counted on the cluster under TLS, which the address says.
    assert done["parameters"]["dask"].startswith("tls://127.0.0.1:")
    tasks = site.ask("POST", "/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    assert {"validate", "measure", "publish"} <= {task["name"] for task in tasks}
    ledger = site.ledger()
    # One release, of that time, and none of the time at which it was retried.
    assert ledger.releases() == (done["name"],)
    charges = ledger.charges(ledger.reservation(done["name"]))
    assert len({(charge.stage, charge.step) for charge in charges}) == len(charges) > 0


def test_a_killed_run_goes_on_by_the_sweep(site):
    from flows.releases.run_records import RunRecords

    run = site.fire("scheduled-release/monthly", seconds_ahead(-2 * 86400))
    records = RunRecords(site.home)
    # Killed once something was charged, so that there is something to lose.
    name = site.wait(lambda: records.find(run) and records.find(run).release)
    ledger = site.ledger()
    site.wait(lambda: (held := ledger.reservation(name)) and ledger.charges(held))
    os.kill(records.find(run).holder.process, signal.SIGKILL)
    before = charged(site, name)
    swept = site.ended(site.fire("resume-unfinished/often", patience=5, first_wait=0))
    assert swept["state"]["type"] == "COMPLETED", swept["state"]
    done = site.wait(lambda: (found := site.run(run))["state"]["type"] == "COMPLETED" and found)
    assert done["run_count"] >= 1
    assert verify(site.out_root / name).passed
    after = charged(site, name)
    assert all(after[batch] == number for batch, number in before.items())
