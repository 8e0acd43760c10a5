"""A panel in a database or in a store gives the records of the same rows in files."""

import fsspec
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy as sa
import yaml

from dp_core.confidential.source import keyed_digest
from dp_core.errors import BadInput
from dp_core.plan.data_location import STORES
from dp_core.plan.reading.spec_file import load_spec
from tasks.inputs.open_input import open_input
from tests.panel_files import WAVES, panel_document, panel_frame, write_waves

KEY = b"0123456789abcdef"


@pytest.fixture
def rows(tmp_path):
    found = panel_frame()
    found.to_csv(tmp_path / "town.csv", index=False)
    write_waves(tmp_path, found)
    return found


def records(folder, data, wave):
    """Return the records of the data that a spec names."""
    document = panel_document(wave=wave)
    (folder / "schema.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    spec = {
        "version": "1",
        "release": "town",
        "data": data,
        "schema": "schema.yaml",
        "account": "town",
        "privacy": {"epsilon": "1"},
    }
    (folder / "release.yaml").write_text(yaml.safe_dump(spec))
    loaded = load_spec(folder / "release.yaml")
    copies = folder / "confidential"
    copies.mkdir(exist_ok=True)
    source = open_input(loaded, loaded.schema, copies)
    table = pa.Table.from_batches([batch.records for batch in source.batches()])
    # A database stores numbers as such.
    frame = table.to_pandas().astype({"id": str}).set_index("id").sort_index()
    texts = frame.map(lambda one: "" if pd.isna(one) else str(one).removesuffix(".0"))
    return texts.to_numpy(object).tolist(), source


@pytest.fixture
def database(tmp_path, rows, monkeypatch):
    url = f"sqlite:///{tmp_path}/town.db"
    monkeypatch.setenv("TOWN_DB", url)
    engine = sa.create_engine(url)
    typed = rows.astype({"birth": int, "income": int, "year": int})
    typed.to_sql("town", engine, index=False)
    for wave in WAVES:
        part = typed[typed["year"] == int(wave)].drop(columns="year")
        part.to_sql(f"wave_{wave}", engine, index=False)
    return {wave: {"database": "TOWN_DB", "table": f"wave_{wave}"} for wave in WAVES}


def test_a_table_and_a_table_for_each_wave_give_the_same_records(tmp_path, database):
    expected, _ = records(tmp_path, "town.csv", "year")
    whole, _ = records(tmp_path, {"database": "TOWN_DB", "table": "town"}, "year")
    assert whole == expected
    apart, source = records(tmp_path, database, None)
    assert apart == expected
    # Snapshots are taken once, and are the same input again.
    again, other = records(tmp_path, database, None)
    assert again == expected
    assert keyed_digest(source, KEY) == keyed_digest(other, KEY)


@pytest.mark.usefixtures("rows")
def test_objects_of_a_store_give_the_same_records(tmp_path, monkeypatch):
    monkeypatch.setitem(STORES, "memory", "fsspec")
    memory = fsspec.filesystem("memory")
    for wave in WAVES:
        memory.pipe(f"/town/{wave}.csv", (tmp_path / f"wave-{wave}.csv").read_bytes())
    expected, _ = records(tmp_path, "town.csv", "year")
    found, _ = records(tmp_path, {wave: f"memory://town/{wave}.csv" for wave in WAVES}, None)
    assert found == expected
    memory.rm("/town", recursive=True)


def test_decimal_identifiers_of_a_database_are_refused(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/town.db"
    monkeypatch.setenv("TOWN_DB", url)
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for wave in WAVES:
            connection.execute(
                sa.text(
                    f"create table wave_{wave} (id numeric(10, 2), sex text, birth int, work text,"
                    " income int, health text)"
                )
            )
            connection.execute(
                sa.text(f"insert into wave_{wave} values (7, '1', 1950, '1', 10, 'bad')")
            )
    places = {wave: {"database": "TOWN_DB", "table": f"wave_{wave}"} for wave in WAVES}
    with pytest.raises(BadInput, match="stored as decimal numbers"):
        records(tmp_path, places, None)
