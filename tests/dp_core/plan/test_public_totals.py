"""Sets with public totals: their tables, their pieces, and what the totals do not change."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dp_core as dp
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.methods.reconstruction import reconstructor
from dp_core.plan.procedure import SetDrawing, carry_out, sample
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.public_data.frame_codes import frame_codes
from dp_core.schema.reading.schema_file import parse_schema

ROWS = 4000
COLUMNS = {
    "county": {"type": "category", "levels": ["a", "b", "c"]},
    "district": {
        "type": "category",
        "levels": ["u", "v", "w", "x", "y", "z"],
        "within": "county",
        "map": dict(zip("uvwxyz", "aabbcc", strict=True)),
    },
    "sex": {"type": "category", "levels": ["m", "f"]},
    "work": {"type": "category", "levels": ["yes", "no"]},
}
TRUE = np.array([0.2, 0.5, 0.8])
"""Share of each county that works."""


def frame(rows=ROWS):
    """Return rows in which work depends on the county and nothing else depends on anything."""
    rng = np.random.default_rng(11)
    district = rng.choice(6, rows, p=[0.3, 0.2, 0.15, 0.15, 0.1, 0.1])
    county = district // 2
    return pd.DataFrame(
        {
            "county": np.array(list("abc"))[county],
            "district": np.array(list("uvwxyz"))[district],
            "sex": rng.choice(["m", "f"], rows),
            "work": np.where(rng.random(rows) < TRUE[county], "yes", "no"),
        }
    )


def schema_of(*totals, nested=True):
    columns = COLUMNS if nested else {n: c for n, c in COLUMNS.items() if n != "district"}
    document = {"version": 1, "title": "Town", "columns": columns}
    return parse_schema(document | ({"totals": list(totals)} if totals else {}))


def counties(a, b, c):
    return {"county": {"a": a, "b": b, "c": c}, "source": "Census"}


def made(schema, *, epsilon="50", mode="posterior", sets=5):
    stated = {"privacy": {"epsilon": epsilon, "delta": "1e-9", "neighbours": "add-remove"}}
    plan = memory_plan(schema, stated | {"synthesize": {"sets": str(sets), "mode": mode}})
    data = frame_codes(frame()[list(schema.names)], schema)
    return plan, carry_out(plan, MemoryCounter(data)).models


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("mode", ["posterior", "shared"])
def test_every_model_has_the_totals_without_variance(mode, nested):
    schema = schema_of(counties(2100, 1100, 800), nested=nested)
    _, models = made(schema, mode=mode, epsilon="1")
    for model in models.values():
        assert model.rows == ROWS
        np.testing.assert_array_equal(model.project(("county",)), [2100, 1100, 800])
        # Tables of pairs agree with the totals.
        pair = model.project(("county", "work"))
        np.testing.assert_allclose(pair.sum(axis=1), [2100, 1100, 800], rtol=1e-6)


def test_totals_of_smallest_areas_fix_the_larger_areas_too():
    district = dict(zip("uvwxyz", [1300, 800, 600, 500, 400, 400], strict=True))
    _, models = made(schema_of({"district": district, "source": "Census"}), epsilon="1")
    for model in models.values():
        np.testing.assert_array_equal(model.project(("county",)), [2100, 1100, 800])


@pytest.mark.parametrize("times", [0.1, 1, 10])
def test_a_set_of_another_size_keeps_the_relations_of_the_file(times):
    counts = [int(each * times) for each in (2000, 1200, 800)]
    plan, models = made(schema_of(counties(*counts)))
    for number in range(1, 6):
        found = sample(plan, models, number)
        assert np.bincount(found.column("county")).tolist() == counts
        shares = [
            float((found.column("work")[found.column("county") == code] == 0).mean())
            for code in range(3)
        ]
        # A county of 80 records has a standard error of 0.05.
        np.testing.assert_allclose(shares, TRUE, atol=0.15 if times < 1 else 0.05)


@pytest.mark.parametrize("nested", [True, False])
def test_pieces_of_a_set_meet_the_totals_together(monkeypatch, nested):
    plan, models = made(schema_of(counties(2100, 1100, 800), nested=nested), sets=2)
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", len(plan.spec.schema.domain) * 301)
    drawing = SetDrawing(plan, models, 1)
    assert len(drawing.sizes) > 5
    found = sample(plan, models, 1)
    assert np.bincount(found.column("county")).tolist() == [2100, 1100, 800]


def test_totals_of_several_columns_are_met_in_the_whole_set(monkeypatch):
    sex = {"sex": {"m": 2500, "f": 1500}, "source": "Census"}
    plan, models = made(schema_of(counties(2100, 1100, 800), sex), sets=2)
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", 4 * 301)
    assert SetDrawing(plan, models, 1).sizes == (ROWS,)
    found = sample(plan, models, 2)
    assert np.bincount(found.column("county")).tolist() == [2100, 1100, 800]
    assert np.bincount(found.column("sex")).tolist() == [2500, 1500]


def test_answers_from_noisy_tables_do_not_use_totals():
    release = dp.release(frame(), schema_of(counties(9000, 500, 500)), epsilon=8, sets=2)
    cells = release.query("count by county").cells
    # The file has about 2,000 records in county a, whatever the totals say.
    assert cells[0]["estimate"] == pytest.approx(2000, abs=100)
    assert all(cell["margin"] > 0 for cell in cells)
    assert release.query("count").cells[0]["estimate"] == pytest.approx(ROWS, abs=100)


def test_a_public_number_of_rows_is_that_of_the_file_not_of_the_totals():
    release = dp.release(
        frame(), schema_of(counties(3000, 1500, 500)), sets=2, neighbours="replace-one"
    )
    assert release.query("count").cells[0]["estimate"] == ROWS
    assert {len(each) for each in release.sets} == {5000}
