"""Files of a panel that differ in one person give codes that differ in one record.

So everything that is calibrated for a person of one row protects a person with all their waves.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from dp_core.confidential.coding import write_codes
from dp_core.confidential.panel.panel_source import PanelSource
from dp_core.confidential.panel.row_columns import row_columns
from dp_core.confidential.source import open_source
from dp_core.kernel.privacy import Relation
from dp_core.schema.reading.schema_file import parse_schema
from tests.panel_files import COLUMNS, WAVES, panel_document, panel_frame, write_waves

PERSONS = 60
CLIPPED = {"income": COLUMNS["income"] | {"out_of_range": "clip", "missing": "level"}}


def codes_of(folder, rows, wave):
    """Return how often each record is stored for a file with these rows."""
    folder.mkdir()
    document = panel_document(wave=wave, repeated="keep_one", columns=COLUMNS | CLIPPED)
    schema = parse_schema(document)
    if wave is None:
        write_waves(folder, rows)
        waves, names = WAVES, [f"wave-{each}.csv" for each in WAVES]
    else:
        rows.to_csv(folder / "rows.csv", index=False)
        waves, names = (None,), ["rows.csv"]
    sources = [
        open_source(name, folder, *row_columns(schema, each))
        for name, each in zip(names, waves, strict=True)
    ]
    source = PanelSource(schema, schema.panel.parts, sources, folder / "records")
    store = write_codes(source, schema, folder / "codes")
    chunks = [store.codes(chunk) for chunk in range(store.chunks)]
    return Counter(map(tuple, np.concatenate(chunks, axis=1).T.tolist()))


def some_rows(rng, person):
    """Return rows of a person: in any waves, repeated, out of range, with constants that differ."""
    number = int(rng.integers(1, 7))
    return pd.DataFrame(
        {
            "id": [person] * number,
            "year": rng.choice(WAVES, number),
            "sex": rng.choice(["1", "2"], number),
            "birth": rng.integers(1940, 2010, number).astype(str),
            "work": rng.choice(["1", "2"], number),
            "income": rng.integers(-5000, 15000, number).astype(str),
            "health": rng.choice(["bad", "fair", "good", ""], number),
        }
    )


def shuffled(rng, rows):
    return rows.sample(frac=1, random_state=int(rng.integers(1 << 30)))


@pytest.mark.parametrize("wave", ["year", None])
@pytest.mark.parametrize("seed", range(8))
def test_one_person_changes_one_record_whatever_their_rows(tmp_path, seed, wave):
    rng = np.random.default_rng(seed)
    rows = panel_frame(PERSONS, seed)
    person = f"p{rng.integers(PERSONS):04d}"
    others = rows[rows["id"] != person]
    one, other = some_rows(rng, person), some_rows(rng, f"{person}x")
    without = codes_of(tmp_path / "without", shuffled(rng, others), wave)
    first = codes_of(tmp_path / "first", shuffled(rng, pd.concat([others, one])), wave)
    second = codes_of(tmp_path / "second", shuffled(rng, pd.concat([others, other])), wave)

    def changed(before, after):
        return sum((before - after).values()), sum((after - before).values())

    assert changed(without, first) == (0, 1)
    assert max(changed(first, second)) <= 1
    # A relation of one row for each person is what this is.
    assert Relation("add-remove").steps == ("add-remove",)
    assert sum(first.values()) == sum(second.values()) == PERSONS
    assert Relation("replace-one").rows_public
