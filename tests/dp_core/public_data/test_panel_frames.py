"""A public panel in frames gives the records that files would give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dp_core as dp
from dp_core.errors import BadInput
from dp_core.public_data.frame_codes import frame_codes
from dp_core.schema.reading.schema_file import parse_schema
from tests.panel_files import WAVES, panel_document, panel_frame


def by_wave(rows):
    return {int(wave): rows[rows["year"] == wave].drop(columns="year") for wave in WAVES}


def test_one_frame_and_a_frame_for_each_wave_give_the_same_records():
    rows = panel_frame()
    whole = frame_codes(rows, parse_schema(panel_document()))
    typed = rows.astype({"birth": int, "sex": int, "year": int})
    again = frame_codes(typed, parse_schema(panel_document()))
    parts = frame_codes(by_wave(rows), parse_schema(panel_document(wave=None)))
    assert whole.rows == 400
    assert np.array_equal(whole.codes, again.codes)
    assert np.array_equal(whole.codes, parts.codes)


def test_a_release_in_memory_has_records():
    made = dp.release(
        panel_frame(),
        panel_document(),
        method="fixed",
        epsilon=5,
        delta=1e-6,
        tables=[("work_2023", "work_2024")],
    )
    assert "work_2024" in made.sets[0].columns
    assert made.query("share by work_2023, work_2024").determined


def test_what_does_not_fit_is_told_with_its_numbers():
    rows, schema = panel_frame(), parse_schema(panel_document())
    with pytest.raises(BadInput, match="1 person has several rows in wave"):
        frame_codes(pd.concat([rows, rows.iloc[:1]]), schema)
    with pytest.raises(
        BadInput, match="Column 'work': The schema has this column, and the frame does not"
    ):
        frame_codes(rows.drop(columns="work"), schema)
    separate = parse_schema(panel_document(wave=None))
    with pytest.raises(BadInput, match="but the dictionary has 2023, 2024"):
        frame_codes({wave: rows for wave in WAVES[:2]}, separate)
    with pytest.raises(TypeError, match="each with a frame of its own"):
        frame_codes(rows, separate)
