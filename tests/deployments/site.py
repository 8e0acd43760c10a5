"""A whole installation as `deployments/local.py` runs it, on PostgreSQL, with a town to release."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from dp_core.kernel.cost.composition import Terms
from tests.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
LIGHT = Path(__file__).parent / "light"
"""Holds what lets its processes start sooner."""
SHIPPED = ROOT / "deployments" / "prefect.yaml"
SCHEMA = """\
version: 1
title: Town survey
unit: row
rows_about: 600
columns:
  age:     {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100]}
  sex:     {type: category, levels: [female, male]}
  marital: {type: category, levels: [single, married, widowed]}
impossible:
  - {age: "<15", marital: [married, widowed]}
"""
TEMPLATE = """\
version: 1
release: town-{date:%Y%m%d-%H%M%S}
data: town.csv
schema: town.schema.yaml
account: town
privacy: {epsilon: 1, delta: 1e-6}
method: privsyn
total: {share: 0.05}
synthesize: {sets: 2}
"""
COMMANDS = """
import json, sys
from prefect.cli import app
for words in json.loads(sys.argv[1]):
    sys.argv = ["prefect", *words]
    try:
        app()
    except SystemExit as ended:
        if ended.code:
            raise
"""
QUICK = {
    # Seconds, where an operator waits for minutes.
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "5",
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "5",
    "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "3",
    "PYTHONWARNINGS": "ignore",
}


def local() -> Any:
    """Return the module `deployments/local.py`, which is a script in no package."""
    import importlib.util

    if "deployments_local" not in sys.modules:
        path = ROOT / "deployments" / "local.py"
        spec = importlib.util.spec_from_file_location("deployments_local", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["deployments_local"] = module
        spec.loader.exec_module(module)
    return sys.modules["deployments_local"]


def free_port() -> int:
    """Return a port of the loopback that is free at this moment."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Site:
    """One installation: its processes, its API, and what its worker sees.

    Attributes:
        folder: Everything but the databases.
        ledger_url: Of the ledger.
        installation: The processes.
    """

    def __init__(self, folder: Path, postgres: PostgresServer, *, dask: bool) -> None:
        self.folder = folder
        self.ledger_url = postgres.create_database()
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PREFECT_", "DP_RELEASE_", "DASK_"))
        }
        self.settings = {
            **QUICK,
            "DP_RELEASE_HOME": str(self.home),
            "DP_RELEASE_STATE": str(self.home.with_name("state")),
            "DP_RELEASE_LEDGER": self.ledger_url,
            "PYTHONPATH": os.pathsep.join([str(LIGHT), str(ROOT)]),
        }
        prefect = postgres.create_database().replace("+psycopg", "+asyncpg")
        self.settings["PREFECT_API_DATABASE_CONNECTION_URL"] = prefect
        before = dict(os.environ)
        os.environ.clear()
        os.environ.update(kept)
        try:
            self.installation = local().Installation(
                folder / "services",
                free_port(),
                free_port() if dask else None,
                settings=self.settings,
            )
            self.environment = self.installation.environment()
        finally:
            os.environ.clear()
            os.environ.update(before)
        self._context = ssl.create_default_context(cafile=self.installation.tls / "ca.pem")
        self._prepare()

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def specs(self) -> Path:
        return self.folder / "specs"

    @property
    def out_root(self) -> Path:
        return self.folder / "releases"

    @property
    def data(self) -> Path:
        return self.specs / "town.csv"

    @property
    def template(self) -> Path:
        return self.specs / "town.template.yaml"

    def _prepare(self) -> None:
        self.specs.mkdir(parents=True)
        lines = ["age,sex,marital"]
        for number in range(600):
            age = (5, 25, 70)[number % 3]
            marital = ("single", "married", "widowed")[number % 3]
            lines.append(f"{age},{'female' if number % 3 else 'male'},{marital}")
        self.data.write_text("\n".join(lines) + "\n")
        (self.specs / "town.schema.yaml").write_text(SCHEMA)
        self.template.write_text(TEMPLATE)
        self.ledger().open_account(
            "town",
            terms=Terms("basic", Fraction(1000), Fraction("1e-2")),
            neighbours="add-remove",
            by="officer",
            reason="test",
        )

    def ledger(self) -> Any:
        """Return the ledger of the home."""
        from tasks.ledger.ledger import Ledger

        return Ledger(self.ledger_url, None)

    def deployments(self, **changes: Mapping[str, Any]) -> Path:
        """Write the shipped file of deployments with this site's paths; return where.

        Args:
            changes: Of single deployments, by name; `schedules` of the others are left out.
        """
        values = yaml.safe_load(SHIPPED.read_text())
        for each in values["deployments"]:
            each["schedules"] = []
            if each["name"] == "monthly":
                each["parameters"] = {
                    "template": str(self.template),
                    "out_root": str(self.out_root),
                    "dask": self.installation.dask_address,
                }
            each.update(changes.get(each["name"], {}))
        path = self.folder / "prefect.yaml"
        path.write_text(yaml.safe_dump(values))
        return path

    def deploy(self, **changes: Mapping[str, Any]) -> str:
        """Make work pool and deployments as the documents say; return what was printed."""
        pool = ("work-pool", "create", "dp-release", "--type", "process", "--overwrite")
        file = str(self.deployments(**changes))
        return self.prefect(pool, ("deploy", "--all", "--prefect-file", file))

    def prefect(self, *commands: Sequence[str]) -> str:
        """Run commands of Prefect's, one after another; return what they printed.

        All in one interpreter: Prefect takes seconds of CPU to import.
        """
        done = subprocess.run(
            [sys.executable, "-c", COMMANDS, json.dumps(commands)],
            env=self.environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Ask Prefect's API, as its pages do.

        If its database is busy (503), ask again, as Prefect's client does.
        """
        request = urllib.request.Request(
            f"{self.installation.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        until = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(request, context=self._context, timeout=60) as answer:
                    text = answer.read()
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > until:
                    raise
                time.sleep(0.3)
            else:
                return json.loads(text) if text else None

    def runs(self, flow: str = "scheduled-release") -> list[dict[str, Any]]:
        """Return the runs of a flow, the earliest first."""
        asked = {"flows": {"name": {"any_": [flow]}}, "sort": "EXPECTED_START_TIME_ASC"}
        found: list[dict[str, Any]] = self.ask("POST", "/flow_runs/filter", asked)
        return found

    def fire(self, deployment: str, at: datetime | None = None, **parameters: object) -> str:
        """Schedule a run of a deployment for a moment, now by default; return its identifier."""
        found = self.ask("GET", f"/deployments/name/{deployment}")
        moment = (at or datetime.now(UTC)).isoformat()
        state = {"type": "SCHEDULED", "state_details": {"scheduled_time": moment}}
        made = self.ask(
            "POST",
            f"/deployments/{found['id']}/create_flow_run",
            {"state": state, "parameters": found["parameters"] | parameters},
        )
        return str(made["id"])

    def schedule(self, deployment: str, schedule: Mapping[str, str]) -> None:
        """Give a deployment a schedule, as its page does."""
        found = self.ask("GET", f"/deployments/name/{deployment}")
        asked = [{"schedule": schedule, "active": True}]
        self.ask("POST", f"/deployments/{found['id']}/schedules", asked)

    def run(self, identifier: str) -> dict[str, Any]:
        """Return a run."""
        found: dict[str, Any] = self.ask("GET", f"/flow_runs/{identifier}")
        return found

    def wait(self, done: Callable[[], Any], seconds: float = 150.0) -> Any:
        """Wait until something is true; the server may be away meanwhile."""
        until = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError, urllib.error.URLError, ValueError):
                if found := done():
                    return found
            assert time.monotonic() < until, f"waited {seconds:.0f} s; {self.told()}"
            time.sleep(0.3)

    def ended(self, identifier: str, seconds: float = 150.0) -> dict[str, Any]:
        """Wait until a run ended; return it."""

        def look() -> dict[str, Any] | None:
            found = self.run(identifier)
            kind = found["state"]["type"]
            return found if kind in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

        found: dict[str, Any] = self.wait(look, seconds)
        return found

    def told(self) -> str:
        """Return the ends of all logs."""
        logs = sorted((self.folder / "services" / "logs").glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text()[-2000:]}" for log in logs)


@contextlib.contextmanager
def running(site: Site) -> Iterator[Site]:
    """Keep a site's processes up for the length of a block."""
    local().GRACE = 0.5  # nothing is under way in the end
    try:
        site.installation.up()
        yield site
    finally:
        site.installation.down()


def seconds_ahead(seconds: float) -> datetime:
    """Return a moment to come, to the second."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)
