"""Releases with rules between columns: refused files, released rows, bundles."""

import datetime
import random
from decimal import Decimal

import pyarrow.parquet as pq
import pytest

from dp_core.bundle.verification.verify import verify
from tests.full import some

COLUMNS = {
    "start": "{type: date, min: 2000-01-01, max: 2009-12-31, bins: year}",
    "end": "{type: date, min: 2000-01-01, max: 2009-12-31, bins: year, missing: level}",
    "wages": "{type: number, min: 0, max: 1000, bins: 4, decimals: 2}",
    "transfers": "{type: number, min: 0, max: 500, bins: 3, decimals: 1}",
    "total": "{type: number, min: 0, max: 1500, bins: 5, decimals: 2}",
    "status": "{type: category, levels: {1: child, 2: adult}}",
    "hours": "{type: integer, min: 0, max: 60, bins: 4, missing: level}",
}
RULES = (
    "start <= end",
    "total = wages + transfers",
    "if status == child then hours is missing and wages == 0",
    "if status == adult and hours >= 30 then start < 2009-06-01",
)


def rows(number=300):
    rng = random.Random(7)
    found = []
    for _ in range(number):
        child = rng.random() < 0.3
        start = datetime.date(2000, 1, 1) + datetime.timedelta(rng.randrange(3400))
        end = min(start + datetime.timedelta(rng.randrange(900)), datetime.date(2009, 12, 31))
        wages = Decimal(0) if child else Decimal(rng.randrange(100_000)) / 100
        transfers = Decimal(rng.randrange(5000)) / 10
        hours = "" if child or rng.random() < 0.1 else str(rng.randrange(61))
        closing = "" if rng.random() < 0.1 else end.isoformat()
        found.append(
            [
                start.isoformat(),
                closing,
                wages,
                transfers,
                wages + transfers,
                1 + (not child),
                hours,
            ]
        )
    return found


def obeys(row):
    """Return whether a decoded row obeys RULES, in plain Python."""
    cents = {
        name: round(Decimal(repr(row[name])) * 100) for name in ("wages", "transfers", "total")
    }
    assert Decimal(repr(row["transfers"])) * 10 % 1 == 0
    if row["end"] is not None and row["start"] > row["end"]:
        return False
    if cents["total"] != cents["wages"] + cents["transfers"]:
        return False
    if row["status"] == "child" and (row["hours"] is not None or cents["wages"]):
        return False
    busy = row["status"] == "adult" and row["hours"] is not None and row["hours"] >= 30
    return not busy or row["start"] < datetime.date(2009, 6, 1)


def prepare(project, data=None, rules=RULES, **columns):
    definitions = {**COLUMNS, **columns}
    listed = "".join(f"  {name}: {text}\n" for name, text in definitions.items())
    stated = "".join(f"  - {rule}\n" for rule in rules)
    (project.folder / "town.schema.yaml").write_text(
        f"version: 1\ntitle: Panel\nrows_about: 300\ncolumns:\n{listed}rules:\n{stated}"
    )
    lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in data or rows())]
    (project.folder / "town.csv").write_text("\n".join(lines) + "\n")


def released(project):
    return [pq.read_table(path) for path in sorted((project.out / "synthetic").glob("*.parquet"))]


CASES = [
    ("privsyn", "posterior", "{epsilon: 1, delta: 1e-6}"),
    ("privsyn", "shared", "{epsilon: 0.3, delta: 0}"),
    ("independent", "shared", "{epsilon: 1, delta: 0}"),
    ("aim", "noise-aware", "{epsilon: 1, delta: 1e-6}"),
    ("modips", "shared", "{epsilon: 1, delta: 0}"),
    ("mst", "shared", "{epsilon: 1, delta: 1e-6}"),
    ("privbayes", "shared", "{epsilon: 1, delta: 0}"),
    ("auto", "posterior", "{epsilon: 1, delta: 1e-6}"),
]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("method", "mode", "privacy"), some(CASES, lambda case: case in CASES[:5]))
def test_rules_hold_in_every_released_row(project, method, mode, privacy):
    prepare(project)
    project.write_spec(f"synthesize: {{sets: 2, mode: {mode}}}\n", privacy=privacy, method=method)
    project.release()
    for table in released(project):
        assert all(map(obeys, table.to_pylist()))
    found = verify(project.out)
    assert found.passed, [check.sentence for check in found.failures]
