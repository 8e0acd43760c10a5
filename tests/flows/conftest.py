"""A small confidential file with everything in it, and releases of it without an engine."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_core.kernel.cost.composition import Terms
from tasks.stages import stage_task as stage_module
from tests.plain_judge import PlainJudge, users

SCHEMA = """\
version: 1
title: Town survey
unit: row
rows_about: 400
missing_values: ["", "NA"]
columns:
  age:     {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100]}
  sex:     {type: category, levels: {1: male, 2: female}}
  marital: {type: category, levels: [single, married, widowed], missing: level}
  income:  {type: number, min: 0, max: 1000, bins: 4, decimals: 2, missing: level}
  moved:
    {type: date, min: 2000-01-01, max: 2009-12-31, edges: [2000-01-01, 2004-07-15, 2010-01-01]}
ignore: [interview]
impossible:
  - {age: "<15", marital: [married, widowed]}
"""

STAGES = (
    "identify",
    "validate",
    "discretize",
    "count",
    "basics",
    "select",
    "measure",
    "reconstruct",
    "synthesize",
    "check",
    "publish",
)
"""Of a release, in order."""
COLUMNS = ("interview", "age", "sex", "marital", "income", "moved")
ROWS = 400
SETS = "{sets: 2}"
"""Of a release that says neither its method nor its sets: five took a third of its time."""


def survey(rows: int = ROWS) -> list[list[str]]:
    """Return rows of the survey as texts, in the order of COLUMNS."""
    rng = random.Random(5)
    found = []
    for number in range(rows):
        age = min(int(rng.expovariate(1 / 35)), 99)
        marital = "single" if age < 15 else rng.choice(["single", "married", "widowed", "NA"])
        income = "" if rng.random() < 0.1 else f"{rng.random() * 1000:.2f}"
        moved = f"200{rng.randrange(10)}-0{rng.randrange(1, 10)}-1{rng.randrange(10)}"
        found.append([f"i{number}", str(age), rng.choice("12"), marital, income, moved])
    return found


def as_csv(rows: list[list[str]]) -> str:
    """Return rows as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
    return text.getvalue()


@dataclass
class Project:
    """A folder with data, schema and spec, and a home with an open account."""

    folder: Path
    home: Path
    usual: Mapping[str, str] = field(default_factory=dict)  # of a spec that says nothing of noise

    @property
    def spec(self) -> Path:
        return self.folder / "release.yaml"

    @property
    def out(self) -> Path:
        return self.folder / "bundle"

    @property
    def internal(self) -> Path:
        return self.run_folder / "internal"

    @property
    def run_folder(self) -> Path:
        return self.home / "runs" / "town"

    def write_spec(
        self, text: str = "", *, privacy: str = "{epsilon: 1, delta: 1e-6}", **changes: str
    ) -> Path:
        """Write the spec; `text` is added to it, and a change replaces a line's value."""
        lines = {
            "version": "1",
            "release": "town",
            "data": "town.csv",
            "schema": "town.schema.yaml",
            "account": "town",
            "privacy": privacy,
            **changes,
        }
        stated = text + " ".join(changes)
        if "delta" in privacy and "method" not in stated and "measure" not in stated:
            lines |= self.usual
        if not any(word in stated for word in ("method", "synthesize", "uses", "tables")):
            lines["synthesize"] = SETS
        if not any(word in stated for word in ("method", "select", "uses", "tables")):
            lines["select"] = "{at_once: never}"  # so that every stage has something to do
        body = "".join(f"{key}: {value}\n" for key, value in lines.items())
        self.spec.write_text(body + text)
        return self.spec

    def ledger(self) -> Any:
        from tasks.run.home import open_ledger

        return open_ledger(self.home)

    def open_account(self, name: str = "town", **terms: Any) -> None:
        usual = {
            "terms": Terms("basic", Fraction(2), Fraction("1e-5")),
            "neighbours": "add-remove",
            "by": "officer",
            "reason": "test",
        }
        self.ledger().open_account(name, **(usual | terms))

    def kinds(self) -> list[str]:
        """Return the kinds of the ledger's receipts, in order.

        Inputs, repeated draws and attempts on the data are left out.
        """
        kinds = [entry.kind for entry in self.ledger().entries()]
        return [kind for kind in kinds if kind not in ("input", "attempt", "examine", "verdict")]

    def redraws(self) -> int:
        """Return how many draws were done again."""
        return len(self.ledger().entries(kinds=("attempt",)))

    def untouched(self) -> bool:
        """Whether nothing was promised or charged since the account was opened."""
        if not (self.home / "ledger.db").is_file():
            return True
        return set(self.kinds()) <= {"ledger", "open"}

    def statement(self) -> Any:
        """Return the statement of the bundle."""
        return json.loads((self.out / "release.json").read_bytes())

    def sets(self) -> list[Any]:
        """Return the published sets of a single table, as Arrow tables."""
        import pyarrow.parquet as pq

        return [pq.read_table(path) for path in sorted(self.out.glob("synthetic/*.parquet"))]

    def faults(self) -> dict[str, str]:
        """Return the sentence of each check that the bundle does not pass, by its name."""
        from dp_core.bundle.verification.verify import verify

        checks = verify(self.out).checks
        return {check.name: check.sentence for check in checks if not check.passed}

    def release(
        self, out: Path | None = None, perform: Callable[[Any, Any], None] | None = None
    ) -> Any:
        """Make the release, or go on with it, without Prefect's engine; return the run."""
        from flows.release import carry_out

        return carry_out(self.spec, out or self.out, perform=perform or plainly)


def assert_charged_once(project: Project, *, out: Path | None = None) -> None:
    """The bundle verifies, and the ledger holds exactly what the plan says, once."""
    from dp_core.bundle.verification.verify import verify

    assert verify(out or project.out).passed
    ledger = project.ledger()
    reservation = ledger.reservation("town")
    charges = ledger.charges(reservation)
    assert len({(charge.stage, charge.step) for charge in charges}) == len(charges)
    assert sum((charge.cost for charge in charges), Fraction(0)) == reservation.currency.limit
    assert all(charge.result for charge in charges)
    assert reservation.outcome == "finished"
    assert project.kinds().count("settle") == 1
    balance = ledger.account("town").balance
    assert (balance.spent.main, balance.reserved.main) == (1, 0)
    assert not (project.run_folder / "confidential").exists()


def plainly(task: Any, *given: Any) -> Any:
    """Call a task as a plain function."""
    return task.fn(*given)


def stopping(
    stage: str,
    error: BaseException | type[BaseException] = KeyboardInterrupt,
    *,
    after: bool = False,
) -> Callable[..., Any]:
    """Do tasks plainly until one stage, before or after which `error` is raised."""

    def perform(task: Any, *given: Any) -> Any:
        if task.name == stage and not after:
            raise error
        result = plainly(task, *given)
        if task.name == stage:
            raise error
        return result

    return perform


def make_project(folder: Path, home: Path, **usual: str) -> Project:
    """Return a project with the survey as CSV and an open account."""
    folder.mkdir(parents=True, exist_ok=True)
    project = Project(folder, home, usual)
    (folder / "town.csv").write_text(as_csv(survey()))
    (folder / "town.schema.yaml").write_text(SCHEMA)
    project.write_spec()
    project.open_account()
    return project


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Project:
    return make_project(tmp_path / "work", home)


@pytest.fixture
def gaussian_project(tmp_path: Path, home: Path) -> Project:
    """A project that spends delta: for few records and columns `auto` takes Laplace noise."""
    return make_project(tmp_path / "work", home, measure="{noise: gaussian}")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The releases of the session; see `tests.flows.corpus`."""
    from tests.flows.corpus import Corpus

    return Corpus(tmp_path_factory)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave Great Expectations out, which takes its time; a plain judge applies the same rules."""
    for module in users():
        monkeypatch.setattr(module, "SuiteJudge", PlainJudge)


@dataclass
class Answer:
    """What one command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Callable[..., Answer]]:
    """Return a function that runs a command line in this process, its flow without an engine."""
    from flows import release
    from flows.cli import main

    def without_engine(
        spec: str, out: str, dask: str | None = None, keep_confidential: bool = False
    ) -> None:
        release.carry_out(
            Path(spec),
            Path(out),
            plan=release.plan_of_caller(),
            dask=dask,
            keep_confidential=keep_confidential,
            perform=plainly,
        )

    monkeypatch.setattr(release, "release", without_engine)
    monkeypatch.chdir(tmp_path)
    before, ended_by = dict(os.environ), signal.getsignal(signal.SIGTERM)

    def run(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["dp-release", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.main()
        captured = capfd.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)

    yield run
    signal.signal(signal.SIGTERM, ended_by)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def work_done(monkeypatch):
    """Count how often each stage's work is begun."""
    done = Counter()
    attempt = stage_module.attempt

    def counting(name, work, run):
        done[name] += 1
        return attempt(name, work, run)

    monkeypatch.setattr(stage_module, "attempt", counting)
    return done
