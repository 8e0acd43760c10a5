"""Nothing outside the run's confidential folders depends on one record, also of files with areas.

As `test_wall`, for `within`, public totals, and rules that count members: two files that differ in
one record or household give the same bundle, ledger and messages if the noise hides the difference.
"""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dp_core.kernel.mechanisms import additive_noise
from tests.flows.linked_project import SCHEMA as LINKED
from tests.flows.linked_project import linked_project, write_linked_spec, write_tables
from tests.flows.test_public_totals import DISTRICTS, TOTALS
from tests.flows.test_public_totals import SCHEMA as COUNTY
from tests.flows.test_wall import (
    SHARES,
    Terms,
    another_household,
    assert_alike,
    frozen,  # noqa: F401 (a fixture)
    linked_tables,
    make_project,
    seen_after,
)

SCHEMA = COUNTY.partition("  work:")[0]
WARD = """\
      ward:
        {type: category, levels: [p, q, r], within: tenure, map: {p: '1', q: '1', r: '2'}}
"""
MORE = """\
rules:
  - at least one age >= 18
totals:
  - {tenure: {own: 170, rent: 140}, source: "Housing census"}
"""


@pytest.mark.usefixtures("quick", "frozen")
@pytest.mark.parametrize("totals", ["", TOTALS])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_nothing_outside_depends_on_a_record_in_an_area_of_its_own(
    tmp_path, monkeypatch, neighbours, totals
):
    rng = np.random.default_rng(3)
    district = rng.choice(list("uvwxy"), 300)
    town = pd.DataFrame(
        {
            "county": [DISTRICTS[each] for each in district],
            "district": district,
            "sex": rng.integers(1, 3, 300),
            "age": rng.integers(0, 100, 300),
        }
    )
    alone = pd.DataFrame([{"county": "c", "district": "z", "sex": 2, "age": 99}])
    kept = town if neighbours == "add-remove" else town.iloc[1:]
    privacy = f"{{epsilon: 4, delta: 1e-6, neighbours: {neighbours}}}"

    def make(place, file):
        project = make_project(place / "work", place / "home")
        terms = Terms("basic", Fraction(4), Fraction("1e-5"))
        project.open_account("people", neighbours=neighbours, unit="row", terms=terms)
        file.to_csv(project.folder / "town.csv", index=False)
        (project.folder / "town.schema.yaml").write_text(SCHEMA + totals)
        project.write_spec(
            "synthesize: {sets: 2}\n", privacy=privacy, account="people", method="auto"
        )
        project.release(place / "bundle")
        return project

    assert_alike(seen_after(tmp_path, monkeypatch, (town, pd.concat([kept, alone])), make))


@pytest.mark.usefixtures("quick", "frozen")
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_nothing_outside_depends_on_a_household_with_areas_totals_and_counted_members(
    tmp_path, monkeypatch, neighbours
):
    def noisy(_exact, grant):
        drawn = np.random.default_rng(grant.number).integers(0, 40, size=grant.step.shape)
        return SHARES * drawn.astype(np.int64)

    monkeypatch.setattr(additive_noise, "add", noisy)
    every = linked_tables()
    adult = every["people"].age.astype(int) >= 18
    homes_with = adult.groupby(every["people"].home_id).any()
    kept = homes_with.index[homes_with]
    town = {
        "homes": every["homes"][every["homes"].home.isin(kept)],
        "people": every["people"][every["people"].home_id.isin(kept)],
    }
    schema = LINKED.replace("      income:", f"{WARD}      income:") + MORE
    privacy = f"{{epsilon: 4, delta: 1e-6, neighbours: {neighbours}}}"

    def make(place, file):
        project = linked_project(place / "work", place / "home", neighbours=neighbours)
        homes = file["homes"].copy()
        owned = np.where(homes.income.astype(str) == "1", "p", "q")
        homes["ward"] = np.where(homes.tenure.astype(str) == "2", "r", owned)
        write_tables(project.folder, {"homes": homes, "people": file["people"]})
        (project.folder / "town.schema.yaml").write_text(schema)
        write_linked_spec(project, privacy=privacy)
        project.release(place / "bundle")
        return project

    assert_alike(
        seen_after(tmp_path, monkeypatch, (town, another_household(town, neighbours)), make)
    )
