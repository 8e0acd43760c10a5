"""Releases with rules between columns: refused files, released rows, bundles."""

import datetime
import json
import random
from decimal import Decimal

import pytest

from dp_core.errors import SchemaViolation
from tests.dp_core.bundle.forgery import edit_column, resealed
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


CASES = [
    ("privsyn", "posterior", "{epsilon: 1, delta: 1e-6}"),
    ("privsyn", "shared", "{epsilon: 0.3, delta: 0}"),
    ("independent", "shared", "{epsilon: 1, delta: 0}"),
    ("aim", "split", "{epsilon: 1, delta: 1e-6}"),
    ("modips", "shared", "{epsilon: 1, delta: 0}"),
    ("mst", "shared", "{epsilon: 1, delta: 1e-6}"),
    ("privbayes", "shared", "{epsilon: 1, delta: 0}"),
    ("auto", "posterior", "{epsilon: 1, delta: 1e-6}"),
]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("method", "mode", "privacy"), some(CASES, lambda case: case in CASES[2:4])
)
def test_rules_hold_in_every_released_row(project, method, mode, privacy):
    prepare(project)
    project.write_spec(f"synthesize: {{sets: 2, mode: {mode}}}\n", privacy=privacy, method=method)
    project.release()
    for table in project.sets():
        assert all(map(obeys, table.to_pylist()))
    assert project.faults() == {}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("method", "mode"),
    some(
        [("privsyn", "posterior"), ("independent", "shared"), ("modips", "shared")],
        lambda case: case[0] == "privsyn",
    ),
)
def test_rules_hold_with_bins_that_are_chosen_privately(project, method, mode):
    private = {
        "wages": "{type: number, min: 0, max: 1000, bins: {private: 4}, decimals: 2}",
        "total": "{type: number, min: 0, max: 1500, bins: {private: 5}, decimals: 2}",
        "end": "{type: date, min: 2000-01-01, max: 2009-12-31, bins: {private: 4}, missing: level}",
        "hours": "{type: integer, min: 0, max: 60, bins: {private: 3}, missing: level}",
    }
    prepare(project, **private)
    schema = project.folder / "town.schema.yaml"
    first, second = '{hours: ">=45", end: "<2000-06-01"}', "{status: 1, hours: {not: missing}}"
    schema.write_text(f"{schema.read_text()}impossible:\n  - {first}\n  - {second}\n")
    kept = [row for row in rows() if not (row[6] and int(row[6]) >= 45 and row[1] < "2000-06-01")]
    prepared = [",".join(COLUMNS), *(",".join(map(str, row)) for row in kept)]
    (project.folder / "town.csv").write_text("\n".join(prepared) + "\n")
    project.write_spec(f"synthesize: {{sets: 2, mode: {mode}}}\n", method=method)

    project.release()

    for table in project.sets():
        for row in table.to_pylist():
            assert obeys(row)
            late = row["hours"] is not None and row["hours"] >= 45 and row["end"] is not None
            assert not (late and row["end"] < datetime.date(2000, 6, 1))
    assert project.faults() == {}


@pytest.mark.usefixtures("quick")
def test_a_value_that_would_be_rounded_before_a_rule_is_judged_does_not_verify(project):
    prepare(project)
    project.write_spec("synthesize: {sets: 1}\n", method="independent")
    project.release()

    def change(totals):
        totals[0] += 0.004 if totals[0] < 1000 else -0.004

    edit_column(project.out / "synthetic/set-1.parquet", "total", change)
    assert "more decimals" in resealed(project.out, project.statement())["rules"]


def broken(number):
    """Return rows of which the first breaks one of RULES."""
    found = rows(40)
    adult = next(row for row in found if row[5] == 2 and row[1])
    if number == 0:
        adult[0], adult[1] = "2005-01-02", "2005-01-01"
    elif number == 1:
        adult[4] += Decimal("0.01")
    elif number == 2:
        next(row for row in found if row[5] == 1)[6] = "0"
    else:
        adult[0], adult[1], adult[6] = "2009-06-01", "2009-06-01", "30"
    return found


BROKEN = ((0, False), (1, True), (2, False), (3, True))


@pytest.mark.parametrize(("number", "private"), some(BROKEN, BROKEN[1:3].__contains__))
def test_a_file_that_breaks_a_rule_is_refused_before_anything_is_spent(project, number, private):
    bins = {"wages": "{type: number, min: 0, max: 1000, bins: {private: 4}, decimals: 2}"}
    prepare(project, broken(number), **(bins if private else {}))
    project.write_spec(method="independent")

    with pytest.raises(SchemaViolation) as found:
        project.release()

    assert RULES[number] not in str(found.value)
    assert f"`{RULES[number]}`" in (project.internal / "message.txt").read_text()
    report = json.loads((project.internal / "validation.json").read_text())
    assert report["rules"] == [{"about": RULES[number], "rows": 1}]
    (named,) = report["broken"]
    assert (named["says"], named["about"]) == ("rule", RULES[number])
    assert "charge" not in project.kinds()


@pytest.mark.usefixtures("quick")
def test_out_of_range_missing_settles_rows_that_break_a_rule(project):
    settled = {name: COLUMNS[name].replace("}", ", out_of_range: missing}") for name in LAST}
    data = [*broken(0), *broken(2)]
    prepare(project, data, ("start <= end", "if status == child then hours is missing"), **settled)
    project.write_spec("synthesize: {sets: 1}\n", method="independent")

    project.release()

    assert project.faults() == {}
    for row in project.sets()[0].to_pylist():
        assert row["end"] is None or row["start"] <= row["end"]
        assert row["status"] == "adult" or row["hours"] is None


LAST = ("end", "hours")
"""Columns that are named last in the rules above."""
