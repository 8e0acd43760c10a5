"""One release with every public rule of a schema: codes, dependent columns, weights, dates."""

import datetime
import os
import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import SchemaViolation
from tests.dp_core.bundle.forgery import edit_column, failed
from tests.flows.conftest import Project

pytestmark = pytest.mark.usefixtures("quick")

TRADES = """\
code,label,parent
A,Farming,
A1,Crops,A
A11,Wheat,A1
A12,Maize,A1
A2,Animals,A
A21,Cattle,A2
B,Trade,
B1,Shops,B
B11,Food,B1
B12,Books,B1
"""
CODES = ("A1", "A11", "A12", "A21", "B1", "B11", "B12")
SCHEMA = """\
version: 1
title: Town survey
rows_about: 500
columns:
  trade:  {type: category, codes: trades.csv, group: {depth: 2, keep: [B12]}, role: cluster}
  sector: {type: category, codes: trades.csv, group: 1, follows: trade, role: stratum}
  age:    {type: integer, min: 0, max: 99, edges: [0, 15, 40, 65, 100]}
  group:  {type: ordinal, levels: [child, adult, old], follows: age, edges: [15, 65]}
  works:
    {type: category, levels: {0: idle, 1: busy}, follows: group, map: {child: 0, adult: 1, old: 0}}
  born:   {type: date, min: 1920-01-01, max: 2026-12-31, bins: year}
  moved:  {type: date, min: 2000-01-01, max: 2001-12-31, bins: month, missing: level}
  weight: {type: number, min: 0, max: 100, bins: 5, decimals: 1, role: weight}
  key:    {role: id}
  rep2:   {role: replicate_weight}
survey: {replicates: {method: brr}, replicate_weights: rep0..rep1, design_effect: 1.5}
impossible:
  - {group: child, sector: Trade}
calibrate:
  - {group: {child: 20000, adult: 60000, old: 20000.5}}
  - {columns: [sector], totals: totals.csv}
"""
TOTALS = "total,sector\n70000.5,Farming\n30000,Trade\n"
SPEC = "select: {cliques: [[trade, age], [age, weight], [born, moved]]}\nsynthesize: {sets: 3}\n"
CHECKS = (
    "checks: {share: 0.1, thresholds: [{figure: fit, fail: 1}], "
    'formulas: ["age ~ sector", "works == \'busy\' ~ trade"]}\n'
)


def rows(count=500):
    """Rows of the survey as a database gives them: dates as dates, moments as moments."""
    rng = random.Random(3)
    found = []
    for number in range(count):
        age = rng.randrange(100)
        trade = rng.choice(CODES[:4] if age < 15 else CODES)
        moved = datetime.datetime(2000, 1, 1, 23, 30) + datetime.timedelta(days=rng.randrange(731))
        found.append(
            {
                "key": number,
                "trade": trade,
                "sector": trade[0],
                "age": age,
                "group": "child" if age < 15 else "adult" if age < 65 else "old",
                "works": int(15 <= age < 65),
                "born": datetime.date(2026 - age, 1 + rng.randrange(12), 1 + rng.randrange(28)),
                "moved": None if rng.random() < 0.2 else moved,
                "weight": round(rng.random() * 100, 1),
                **{f"rep{each}": number for each in range(3)},
            }
        )
    return found


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The project of a finished release, and the home it was made in."""
    place = tmp_path_factory.mktemp("rules")
    before = dict(os.environ)
    os.environ["DP_RELEASE_HOME"] = str(place / "home")
    os.environ.pop("DP_RELEASE_LEDGER", None)
    project = Project(place, place / "home")
    (place / "trades.csv").write_text(TRADES)
    (place / "totals.csv").write_text(TOTALS)
    (place / "town.schema.yaml").write_text(SCHEMA)
    pq.write_table(pa.Table.from_pylist(rows()), place / "town.parquet")
    # Noise of scale 0.7 in cells of 20 records: that `works` is all alike in some trade, so that no
    # regression fits it, happens less than once in 1e11 runs.
    project.write_spec(
        SPEC + CHECKS, data="town.parquet", method="fixed", privacy="{epsilon: 60, delta: 1e-6}"
    )
    project.open_account(**_large())
    project.release()
    yield project
    os.environ.clear()
    os.environ.update(before)


def _large():
    from fractions import Fraction

    from dp_core.kernel.cost.composition import Terms

    return {"terms": Terms("basic", Fraction(90), Fraction("1e-5"))}


def test_every_row_of_every_set_obeys_every_rule(released):
    tables = released.sets()
    assert len(tables) == 4  # three, and the best set
    for table in tables:
        assert table.column_names == [
            *("trade", "sector", "age", "group", "works", "born", "moved", "weight")
        ]
        assert table.schema.field("born").type == pa.date32()
        assert table.schema.field("moved").type == pa.date32()
        for row in table.to_pylist():
            assert row["trade"] in ("Crops", "Animals", "Shops", "Books")
            assert row["sector"] == ("Farming" if row["trade"] in ("Crops", "Animals") else "Trade")
            age = row["age"]
            assert row["group"] == ("child" if age < 15 else "adult" if age < 65 else "old")
            assert row["works"] == ("busy" if 15 <= age < 65 else "idle")
            assert age >= 15 or row["sector"] == "Farming"
            moved = row["moved"]
            assert moved is None or datetime.date(2000, 1, 1) <= moved <= datetime.date(
                2001, 12, 31
            )
    months = {(v.year, v.month) for t in tables for v in t["moved"].to_pylist() if v is not None}
    missing = sum(table["moved"].null_count for table in tables) / sum(t.num_rows for t in tables)
    assert len(months) > 12
    assert 0.02 < missing < 0.6


def test_weights_of_every_set_meet_the_totals(released):
    for table in released.sets():
        frame = table.to_pandas()
        by_group = frame.groupby("group", observed=True)["weight"].sum()
        by_sector = frame.groupby("sector", observed=True)["weight"].sum()
        for found, wanted in (
            (by_group, {"child": 20000, "adult": 60000, "old": 20000.5}),
            (by_sector, {"Farming": 70000.5, "Trade": 30000}),
        ):
            for level, total in wanted.items():
                assert found[level] == pytest.approx(total, rel=1e-9)
    document = released.statement()
    assert document["sets"]["weights"] == {
        "column": "weight",
        "calibrated_to": [
            "3 totals by group, together 100000.5",
            "2 totals by sector, together 100000.5",
        ],
        "largest_deviation": [0, 0, 0],
    }


def test_what_is_checked_can_be_counted_again_though_weights_were_raked(released):
    document = released.statement()
    tables = [one["table"] for one in document["checks"]["charged"]]
    # Four columns in a circle, without the weights: raked they have other codes, or none.
    assert sorted({name for table in tables for name in table}) == ["age", "born", "moved", "trade"]
    public = {one["figure"]: one["value"] for one in document["checks"]["public"]}
    assert public["tables"] == 6
    assert verify(released.out).passed


def test_a_weight_that_misses_its_total_does_not_verify(released, tmp_path):
    copy = shutil.copytree(released.out, tmp_path / "copy")

    def change(weights):
        weights[0] += 1

    edit_column(copy / "synthetic/set-2.parquet", "weight", change)
    assert "set-2.parquet" in failed(verify(copy))["sets"]


def test_a_row_that_does_not_obey_stops_before_anything_is_charged(released, tmp_path):
    broken = rows()
    broken[17]["sector"] = "B" if broken[17]["sector"] == "A" else "A"
    place = tmp_path / "broken"
    shutil.copytree(released.folder, place, ignore=shutil.ignore_patterns("home", "bundle"))
    pq.write_table(pa.Table.from_pylist(broken), place / "town.parquet")
    project = Project(place, released.home)
    project.write_spec(SPEC, data="town.parquet", method="fixed", release="other")
    spent = project.kinds().count("charge")

    with pytest.raises(SchemaViolation) as caught:
        project.release()

    told = (project.home / "runs" / "other" / "internal" / "message.txt").read_text()
    assert "Column 'sector' does not follow from 'trade' in every row" in told
    assert "sector" not in caught.value.message
    assert project.kinds().count("charge") == spent
