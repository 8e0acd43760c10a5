"""Releases that put together what is tested one by one elsewhere, from the data to the bundle."""

from __future__ import annotations

import datetime
from fractions import Fraction

import numpy as np
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import Held
from dp_core.wall.accounting.composition import Terms
from flows.cli.actions import publication_decisions
from tests.databases import VARIABLE, sqlite_database
from tests.flows.cli.test_public_rules import SCHEMA as RULES
from tests.flows.cli.test_public_rules import TOTALS, TRADES
from tests.flows.cli.test_public_rules import rows as people
from tests.flows.conftest import Project

pytestmark = pytest.mark.usefixtures("quick")
BY = {"by": "Ana", "reason": "read it"}
PERSONS = """\
version: 1
title: Panel
unit: {column: person, max_rows: 3}
rows_about: 1500
columns:
  sex: {type: category, levels: [m, f]}
  pay: {type: number, min: 0, max: 4096, bins: {private: 6}, missing: level}
  age: {type: integer, min: 0, max: 99, edges: [0, 20, 65, 100]}
"""
MOST = {"terms": Terms("basic", Fraction(200), Fraction("1e-5"))}


def panel(persons=500, seed=1):
    """Return the rows of persons, up to three each: pay is far from evenly spread."""
    rng = np.random.default_rng(seed)
    lines = ["person,sex,pay,age"]
    for number in range(persons):
        sex = rng.choice(["m", "f"])
        for _ in range(rng.integers(1, 4)):
            pay = min(rng.lognormal(5 + (sex == "m"), 1), 4096)
            text = "" if rng.random() < 0.1 else f"{pay:.2f}"
            lines.append(f"p{number},{sex},{text},{rng.integers(0, 100)}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def persons(tmp_path, home):
    """A project whose rows are of persons, and an account that protects them."""
    made = Project(tmp_path, home)
    (tmp_path / "town.csv").write_text(panel())
    (tmp_path / "town.schema.yaml").write_text(PERSONS)
    made.open_account(unit="person", **MOST)
    return made


def checked(project):
    """Verify the bundle, and that the ledger's charges are all of the promise, each once."""
    found = verify(project.out)
    assert found.passed, found.failures
    held = project.ledger().reservation("town")
    charges = project.ledger().charges(held)
    assert sum(charge.cost for charge in charges) == held.currency.limit
    assert len({(charge.stage, charge.step) for charge in charges}) == len(charges)
    project.ledger().verify()


def pays(table):
    return np.array([pay for pay in table["pay"].to_pylist() if pay is not None])


def file_pays():
    texts = [line.split(",")[2] for line in panel().splitlines()[1:]]
    return np.array([float(text) for text in texts if text])


def test_persons_private_bins_charged_checks_and_approval(persons):
    persons.write_spec(
        "checks: {share: 0.1, tables: [[sex, pay]]}\npublish: after-approval\n"
        "synthesize: {sets: 2}\n",
        privacy="{epsilon: 100, delta: 1e-6}",
    )
    with pytest.raises(Held, match="awaits approval"):
        persons.release()
    assert not persons.out.exists()
    publication_decisions.publish(persons.home, persons.ledger(), "town", out=None, **BY)
    checked(persons)

    document = persons.statement()
    assert document["guarantee"]["unit"] == "person"
    assert document["guarantee"]["max_rows"] == 3
    assert document["decision"]["cause"] == "after-approval"
    (charged,) = document["checks"]["charged"]
    assert charged["table"] == ["sex", "pay"]
    low, high = charged["interval"]
    assert 0 <= low <= high < 0.5
    # A person adds three records to each of the counts that bins are chosen by.
    (pay,) = document["method"]["domain"]
    assert len(pay["edges"]) == 7
    assert sum(pay["within"]["thousandths"]) > 0
    for table in persons.sets():
        assert table.column_names == ["sex", "pay", "age"]
        assert pays(table).mean() == pytest.approx(file_pays().mean(), rel=0.25)


def test_a_table_of_a_database_with_every_public_rule_and_noise_aware_sets(
    tmp_path, home, monkeypatch, command
):
    project = Project(tmp_path, home)
    (tmp_path / "trades.csv").write_text(TRADES)
    (tmp_path / "totals.csv").write_text(TOTALS)
    (tmp_path / "town.schema.yaml").write_text(RULES)
    database = sqlite_database(tmp_path)
    found = people()
    kinds = {"key": "integer", "age": "integer", "works": "integer", "weight": "real"}
    dates = {"born": "date", "moved": "timestamp"}
    columns = {name: (kinds | dates).get(name, "text") for name in found[0]}
    named = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    database.run(f"CREATE TABLE town ({named})")
    database.insert("town", [[_stored(value) for value in row.values()] for row in found])
    monkeypatch.setenv(VARIABLE, database.url)
    project.write_spec(
        "select: {cliques: [[trade, age], [age, weight], [born, moved]]}\n"
        "reconstruct: {method: gum}\nsynthesize: {sets: 3, mode: noise-aware}\n",
        data=f"{{database: {VARIABLE}, table: town}}",
        method="fixed",
        privacy="{epsilon: 50, delta: 1e-6}",
    )
    project.open_account(**MOST)
    project.release()
    checked(project)

    for table in project.sets():
        frame = table.to_pandas()
        weights = frame.groupby("group", observed=True)["weight"].sum()
        for group, total in {"child": 20000, "adult": 60000, "old": 20000.5}.items():
            assert weights[group] == pytest.approx(total, rel=1e-9)
    said = command("infer", project.out, "age ~ sector", "--weighted", "--json")
    assert said.code == 0, said.err
    # By hand: of the three sets, the estimate is the mean of the weighted ones.
    by_hand = []
    for table in project.sets():
        frame = table.to_pandas()
        of = [frame[frame["sector"] == sector] for sector in ("Trade", "Farming")]
        trade, farm = (np.average(one["age"], weights=one["weight"]) for one in of)
        by_hand.append(trade - farm)
    (row,) = (each for each in said.json["coefficients"] if "Trade" in each["name"])
    assert row["estimate"] == pytest.approx(np.mean(by_hand), rel=1e-6)


def _stored(value):
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, datetime.date) else value
