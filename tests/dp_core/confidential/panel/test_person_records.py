"""The records of a panel are what pandas' pivot gives, whatever the files and their order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.confidential.panel import person_records
from dp_core.confidential.panel.panel_source import PanelSource
from dp_core.confidential.panel.row_columns import row_columns
from dp_core.confidential.source import keyed_digest, keyed_digests, open_source
from dp_core.errors import BadInput, SchemaViolation
from dp_core.kernel.coding import raw_rows
from dp_core.schema.panel.panel_waves import ABSENT
from dp_core.schema.reading.schema_file import parse_schema
from tests.panel_files import (
    COLUMNS,
    CONSTANT,
    VARYING,
    WAVES,
    panel_document,
    panel_frame,
    write_waves,
)

KEY = b"0123456789abcdef"


def opened(folder, rows, kind="csv", *, parts=1, **keys):
    """Write the rows as so many files, and return them as a source of records."""
    for old in folder.glob("rows-*"):
        old.unlink()
    for number in range(parts):
        part = rows.iloc[number::parts]
        path = folder / f"rows-{number}.{kind}"
        if kind == "csv":
            part.to_csv(path, index=False)
        else:
            whole = {"id": "str", "year": "int32", "sex": "int8", "birth": "int16"}
            stored = part.astype({n: t for n, t in whole.items() if n in part and t != "str"})
            stored["income"] = stored["income"].replace("", None).astype("Int32")
            pq.write_table(pa.Table.from_pandas(stored, preserve_index=False), path)
    schema = parse_schema(panel_document(**keys))
    source = open_source(f"rows-*.{kind}", folder, *row_columns(schema))
    return PanelSource(schema, schema.panel.parts, (source,), folder / "confidential")


def by_wave(folder, rows, **keys):
    """Write a file for each wave, and return them as a source of records."""
    write_waves(folder, rows)
    schema = parse_schema(panel_document(wave=None, **keys))
    sources = [
        open_source(f"wave-{wave}.csv", folder, *row_columns(schema, wave)) for wave in WAVES
    ]
    return PanelSource(schema, schema.panel.parts, sources, folder / "confidential")


def records(source):
    """Return the records as texts by person, with nothing for null."""
    table = pa.Table.from_batches([batch.records for batch in source.batches()])
    frame = table.to_pandas().astype({"id": str}).set_index("id").sort_index()
    return frame.map(lambda v: "" if pd.isna(v) else str(int(v) if isinstance(v, float) else v))


def pivoted(rows):
    """Return the records as pandas makes them."""
    wide = rows.pivot(index="id", columns="year", values=list(VARYING))
    found = pd.DataFrame(index=wide.index)
    first = rows.sort_values("year").groupby("id").first()
    for name in CONSTANT:
        found[name] = first[name]
    here = rows.assign(one=1).pivot(index="id", columns="year", values="one").notna()
    for wave in WAVES:
        found[f"in_{wave}"] = np.where(here[wave], "yes", "no")
        for name in VARYING:
            absent = ABSENT if name == "work" else ""
            found[f"{name}_{wave}"] = wide[name, wave].where(here[wave], absent)
    return found.sort_index()


def same(one, other):
    """Return whether two frames have the same persons and texts."""
    texts = (one.to_numpy(object), other.to_numpy(object))
    return list(one.index) == list(other.index) and np.array_equal(*texts)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("parts", [1, 4])
def test_records_are_the_pivot_of_the_rows(tmp_path, monkeypatch, kind, parts):
    monkeypatch.setattr(raw_rows, "BATCH_ROWS", 97)
    monkeypatch.setattr(person_records, "GROUP_ROWS", 50)
    rows = panel_frame()
    made = records(opened(tmp_path, rows, kind, parts=parts))
    expected = pivoted(rows)
    assert same(made[expected.columns], expected)
    assert len(made.columns) == len(expected.columns)


def test_a_file_for_each_wave_gives_the_same_records(tmp_path):
    rows = panel_frame()
    assert records(by_wave(tmp_path, rows)).equals(records(opened(tmp_path, rows)))


def test_neither_the_order_of_rows_nor_that_of_files_matters(tmp_path):
    rows = panel_frame()

    def first_to_last(source):
        return pa.Table.from_batches([batch.records for batch in source.batches()])

    one = first_to_last(opened(tmp_path, rows))
    assert one.equals(first_to_last(opened(tmp_path, rows.iloc[::-1], parts=3)))


def test_files_that_differ_in_one_person_differ_in_one_record(tmp_path):
    rows = panel_frame()
    person = rows["id"] == "p0007"
    assert person.sum() > 1
    whole = records(opened(tmp_path, rows))

    without = records(opened(tmp_path, rows[~person]))
    assert without.equals(whole.drop("p0007"))

    other = rows.copy()
    other.loc[person, ["sex", "work", "income"]] = ["2", "2", "17"]
    other = other.drop(index=other.index[person][0])
    replaced = records(opened(tmp_path, other))
    assert list(replaced.index) == list(whole.index)
    changed = (replaced.to_numpy(object) != whole.to_numpy(object)).any(axis=1)
    assert list(whole.index[changed]) == ["p0007"]


def test_blanks_around_an_identifier_do_not_make_another_person(tmp_path):
    rows = panel_frame()
    spaced = rows.assign(id=np.where(rows["year"] == "2024", " " + rows["id"] + " ", rows["id"]))
    assert records(opened(tmp_path, spaced)).equals(records(opened(tmp_path, rows)))


def test_of_a_constant_column_the_first_wave_of_the_person_decides(tmp_path):
    rows = panel_frame()
    rows["sex"] = np.where(rows["year"] == "2023", "1", "2")
    made = records(opened(tmp_path, rows))
    assert (made["sex"] == np.where(made["in_2023"] == "yes", "1", "2")).all()
    with pytest.raises(SchemaViolation, match="whose sex differs between waves"):
        records(opened(tmp_path, rows, disagreeing="reject"))


def test_blanks_and_missing_numbers_are_no_disagreement(tmp_path):
    rows = panel_frame()
    spaced = rows.assign(sex=np.where(rows["year"] == "2024", " " + rows["sex"], rows["sex"]))
    assert len(records(opened(tmp_path, spaced, disagreeing="reject"))) == rows["id"].nunique()
    schema = parse_schema(panel_document(disagreeing="reject"))
    stored = rows.assign(birth=np.nan)
    stored["income"] = pd.to_numeric(stored["income"])
    frame = pa.table({name: pa.array(stored[name], from_pandas=False) for name in stored})
    pq.write_table(frame, tmp_path / "nan.parquet")
    source = open_source("nan.parquet", tmp_path, *row_columns(schema))
    made = records(PanelSource(schema, schema.panel.parts, [source], tmp_path / "confidential"))
    assert len(made) == rows["id"].nunique()


def test_of_several_rows_in_a_wave_one_is_kept_by_the_rows_of_the_person(tmp_path):
    rows = panel_frame()
    again = rows.sample(150, random_state=1).assign(income="3", work="1")
    more = pd.concat([rows, again, again.iloc[:40].assign(income="9")])
    made = records(opened(tmp_path, more, repeated="keep_one"))
    other_order = more.sample(frac=1, random_state=2)
    assert made.equals(records(opened(tmp_path, other_order, parts=3, repeated="keep_one")))

    kept = {(person, wave): [] for person in made.index for wave in WAVES}
    for row in more.itertuples():
        kept[row.id, row.year].append((row.work, row.income, row.health))
    chosen = {
        (person, wave): tuple(made.loc[person, f"{name}_{wave}"] for name in VARYING)
        for person, wave in kept
    }
    several = [place for place, each in kept.items() if len({*each}) > 1]
    assert all(chosen[place] in kept[place] for place in several)
    # Neither the first row of the file nor the last one is preferred.
    assert {kept[place].index(chosen[place]) for place in several} >= {0, 1}
    # What other persons have does not matter.
    some = [f"p{number:04d}" for number in range(0, 400, 3)]
    part = records(opened(tmp_path, more[more["id"].isin(some)], repeated="keep_one"))
    assert same(part, made.loc[made.index.isin(some)])


def test_rows_of_ignored_waves_are_left_out(tmp_path):
    rows = panel_frame()
    more = pd.concat([rows, rows.iloc[:50].assign(year="2022", income="not read")])
    made = records(opened(tmp_path, more, ignore_waves=["2022"]))
    assert made.equals(records(opened(tmp_path, rows)))


def bad(rows, **changes):
    return pd.concat([rows, rows.iloc[[3]].assign(**changes)])


@pytest.mark.parametrize(
    ("rows", "keys", "message", "detail"),
    [
        (lambda r: bad(r), {}, "several rows in wave", "1 persons with several rows"),
        (lambda r: bad(r, year="2022"), {}, "a wave that the schema does not", "1 rows of wave"),
        (lambda r: bad(r, year=""), {}, "a wave that the schema does not name", "wave ''"),
        (lambda r: bad(r, id=" "), {}, "without an identifier in 'id'", "1 rows without"),
        (lambda r: r, {"everyone": "true"}, "persons without a row in wave 2023, 2024", "persons"),
    ],
    ids=["repeated", "unknown", "blank", "nobody", "absent"],
)
def test_rows_that_do_not_fit_are_refused_without_a_count(tmp_path, rows, keys, message, detail):
    source = opened(tmp_path, rows(panel_frame()), **keys)
    with pytest.raises(SchemaViolation, match=message) as caught:
        records(source)
    assert detail in caught.value.internal
    assert "p0" not in caught.value.message
    assert not list((tmp_path / "confidential").glob("panel-*"))


def test_a_file_without_a_row_of_the_waves_is_refused(tmp_path):
    rows = panel_frame().assign(year="2022")
    with pytest.raises(SchemaViolation, match="no row of a wave"):
        records(opened(tmp_path, rows, ignore_waves=["2022"]))


def test_if_everyone_takes_part_records_have_no_column_about_it(tmp_path):
    rows = panel_frame(everyone=True)
    made = records(opened(tmp_path, rows, everyone="true"))
    assert not [name for name in made.columns if name.startswith("in_")]
    expected = pivoted(rows)
    assert same(made, expected[made.columns])


def test_a_column_of_some_waves_is_read_in_these_only(tmp_path):
    columns = COLUMNS | {"health": COLUMNS["health"] | {"waves": ["2024", "2025"]}}
    rows = panel_frame()
    write_waves(tmp_path, rows)
    first = pd.read_csv(tmp_path / "wave-2023.csv", dtype=str).drop(columns="health")
    first.to_csv(tmp_path / "wave-2023.csv", index=False)
    schema = parse_schema(panel_document(wave=None, columns=columns))
    sources = [open_source(f"wave-{w}.csv", tmp_path, *row_columns(schema, w)) for w in WAVES]
    made = records(PanelSource(schema, schema.panel.parts, sources, tmp_path / "confidential"))
    expected = pivoted(rows).drop(columns="health_2023")
    assert same(made[expected.columns], expected)
    assert "health_2023" not in made.columns


def test_files_that_store_a_number_in_two_types_give_the_same_records(tmp_path):
    rows = panel_frame().drop(columns="health")
    columns = {name: COLUMNS[name] for name in ("sex", "birth", "work", "income")}
    for number, kind in enumerate(("int64", "float64")):
        part = rows.iloc[number::2].astype({"income": kind, "birth": "int64"})
        table = pa.Table.from_pandas(part, preserve_index=False)
        pq.write_table(table, tmp_path / f"rows-{number}.parquet")
    schema = parse_schema(panel_document(columns=columns))
    source = open_source("rows-*.parquet", tmp_path, *row_columns(schema))
    mixed = records(PanelSource(schema, schema.panel.parts, (source,), tmp_path / "confidential"))
    assert mixed.equals(records(opened(tmp_path, rows, columns=columns)))


def test_the_digest_covers_all_files_and_one_file_has_its_own(tmp_path):
    rows = panel_frame()
    source = by_wave(tmp_path, rows)
    before = keyed_digest(source, KEY)
    later = tmp_path / "wave-2025.csv"
    later.write_text(later.read_text() + "p9999,1,1950,1,10,bad\n")
    assert keyed_digest(by_wave(tmp_path, rows), KEY) == before
    changed = pd.concat([rows, rows.iloc[[0]].assign(id="p9999", year="2025")])
    assert keyed_digest(by_wave(tmp_path, changed), KEY) != before
    assert keyed_digest(opened(tmp_path, rows), KEY) == keyed_digest(
        open_source("rows-*.csv", tmp_path, ["income"], rows.columns), KEY
    )


def test_each_wave_in_a_file_of_its_own_is_a_part(tmp_path):
    source = by_wave(tmp_path, panel_frame())
    digests = keyed_digests(source, KEY)
    alone = [keyed_digest(rows, KEY) for rows in source.rows]
    names = [f"wave {wave}" for wave in WAVES]
    assert digests.parts == dict(zip(names, alone, strict=True))
    assert len({digests.whole, *alone}) == len(alone) + 1


def test_a_file_that_changes_after_it_was_opened_is_refused(tmp_path):
    source = opened(tmp_path, panel_frame())
    path = tmp_path / "rows-0.csv"
    path.write_text(path.read_text() + "p9999,2023,1,1950,1,10,bad\n")
    with pytest.raises(BadInput, match="changed while"):
        records(source)
