"""Households lie in areas within areas, and so do their members."""

from __future__ import annotations

import copy

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.methods.replicates.posterior import posterior_tables
from dp_core.public_data.memory_release import drawn_set
from tests import linked_release

COUNTY_OF = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "b3": "b"}


def stated():
    """Return the schema of linked tables with districts of counties."""
    schema = copy.deepcopy(dict(linked_release.SCHEMA))
    homes = schema["tables"]["homes"]["columns"]
    homes["county"] = {"type": "category", "levels": ["a", "b"]}
    homes["district"] = {
        "type": "category",
        "levels": [*COUNTY_OF],
        "within": "county",
        "map": COUNTY_OF,
    }
    return schema


def frames():
    """Return both tables; poor households live in other districts than rich ones."""
    found = linked_release.frames(500)
    homes = found["homes"]
    rng = np.random.default_rng(2)
    place = np.clip(rng.integers(0, 3, len(homes)) + 2 * (homes["income"] > 2), 0, 4)
    homes["district"] = np.array([*COUNTY_OF])[place]
    homes["county"] = homes["district"].str[0]
    return found


def assert_in_place(homes):
    districts, counties = homes["district"].to_pylist(), homes["county"].to_pylist()
    assert [COUNTY_OF[each] for each in districts] == counties
    assert {*counties} == {"a", "b"}


@pytest.mark.parametrize("mode", ["posterior", "shared"])
def test_a_release_of_households_in_areas_verifies(tmp_path, mode):
    made, session = linked_release.outcome(frames(), schema=stated(), mode=mode)
    out = linked_release.write(
        tmp_path / "bundle", made, linked_release.published_of(made, session)
    )
    found = verify(out)
    assert found.passed, [check.sentence for check in found.failures]
    for path in sorted(out.glob("synthetic/set-*/homes.parquet")):
        assert_in_place(pq.read_table(path))


@pytest.mark.parametrize("most_cells", [60, posterior_tables.MOST_CELLS])
def test_vacant_dwellings_lie_in_areas_too(monkeypatch, most_cells):
    monkeypatch.setattr(posterior_tables, "MOST_CELLS", most_cells)
    data = frames()
    homes = data["homes"]
    vacant = homes["home"].isin(homes["home"].sample(100, random_state=1))
    left = ~data["people"]["home_id"].isin(homes["home"][vacant])
    data["people"] = data["people"][left].reset_index(drop=True)
    schema = stated() | {"unit": linked_release.VACANCIES["unit"]}
    made, _ = linked_release.outcome(data, schema=schema)
    records = drawn_set(made.plan, made.models, 1).records
    assert_in_place(records.households)
    lived = {*records.persons["home_id"].to_pylist()}
    assert 50 < records.households.num_rows - len(lived) < 150


def test_households_without_drawn_districts_stay_whole(monkeypatch):
    # Only the pairs of small columns are drawn, so a county's households are dealt to districts.
    monkeypatch.setattr(posterior_tables, "MOST_CELLS", 60)
    made, _ = linked_release.outcome(frames(), schema=stated())
    records = drawn_set(made.plan, made.models, 1).records
    assert_in_place(records.households)
    assert records.persons.num_rows > records.households.num_rows
