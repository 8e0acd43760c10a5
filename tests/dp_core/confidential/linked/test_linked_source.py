"""Two linked tables that are read batch by batch give the same codes as in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dp_core.confidential import source
from dp_core.confidential.linked.linked_source import LinkedSource, household_notes, read_households
from dp_core.confidential.source import keyed_digest, keyed_digests, open_source
from dp_core.errors import BadInput, SchemaViolation
from dp_core.kernel.coding import raw_rows
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.file_rules import file_rules
from dp_core.tables import household_rows
from tests.linked_frames import household_codes, pair_row_codes
from tests.linked_release import SCHEMA, frames

KEY = b"k" * 16


@pytest.fixture
def found():
    return {name: frame.astype(str) for name, frame in frames(80).items()}


@pytest.fixture
def schema():
    return parse_schema(SCHEMA)


def opened(folder, schema, found):
    for name, frame in found.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    linked = schema.linked
    return LinkedSource(
        open_source("homes.csv", folder, linked.household_reads, linked.household_ignore),
        open_source("people.csv", folder, linked.person_reads, linked.person_ignore),
    )


@pytest.mark.parametrize("rows", [1, 7, 1 << 18])
def test_batches_of_any_size_give_the_codes_of_the_whole_tables(
    tmp_path, monkeypatch, schema, found, rows
):
    monkeypatch.setattr(raw_rows, "BATCH_ROWS", rows)
    read = read_households(schema, opened(tmp_path, schema, found))
    whole = household_codes(schema, *(pa.Table.from_pandas(each) for each in found.values()))
    for name in ("households", "sizes", "persons"):
        assert np.array_equal(getattr(read, name), getattr(whole, name))


@pytest.mark.parametrize("rows", [1, 5, 64, 1 << 18])
def test_pieces_of_pair_rows_are_whole_households_and_add_up(
    tmp_path, monkeypatch, schema, found, rows
):
    monkeypatch.setattr(household_rows, "_BLOCK", rows)
    notes = household_notes(file_rules(schema), tmp_path)
    households = read_households(schema, opened(tmp_path, schema, found), notes=notes)
    made = household_rows.pair_row_pieces(schema.linked, schema.domain, households)
    pieces, units, done = zip(*made, strict=True)
    # A household of 4 members has 12 pair rows.
    assert max(piece.rows for piece in pieces) <= max(rows, 12)
    assert list(done) == sorted(done)
    assert done[-1] == 1
    pairs = [max(1, size * (size - 1)) for size in households.sizes.tolist()]
    assert np.array_equal(np.concatenate(units), np.repeat(households.units, pairs))
    assert len({*households.units.tolist()}) == len(pairs)
    joined = np.concatenate([piece.codes for piece in pieces], axis=1)
    whole = pair_row_codes(schema, *(pa.Table.from_pandas(each) for each in found.values()))
    assert np.array_equal(joined, whole.codes)


@pytest.mark.parametrize("rows", [1, 7, 1 << 18])
def test_a_fault_between_batches_is_found(tmp_path, monkeypatch, schema, found, rows):
    monkeypatch.setattr(raw_rows, "BATCH_ROWS", rows)
    found["homes"].loc[79, "home"] = found["homes"].loc[0, "home"]
    with pytest.raises(SchemaViolation, match="repeats a key"):
        read_households(schema, opened(tmp_path, schema, found))


def test_the_keyed_digest_is_that_of_both_tables_in_their_roles(tmp_path, schema, found):
    both = opened(tmp_path, schema, found)
    swapped = LinkedSource(both.persons, both.households)
    digests = {keyed_digest(each, KEY) for each in (both, swapped, both.households, both.persons)}
    assert len(digests) == 4
    assert keyed_digest(opened(tmp_path, schema, found), KEY) in digests


def test_both_tables_and_each_file_of_theirs_are_parts(tmp_path, monkeypatch, schema, found):
    monkeypatch.setattr(source, "PART_ROWS", 1)
    for number in (0, 1):
        found["people"].iloc[number::2].to_csv(tmp_path / f"half-{number}.csv", index=False)
    both = opened(tmp_path, schema, found)
    columns = both.persons.columns
    both = LinkedSource(both.households, open_source("half-*.csv", tmp_path, columns, []))
    halves = [open_source(f"half-{number}.csv", tmp_path, columns, []) for number in (0, 1)]
    assert keyed_digests(both, KEY).parts == {
        "households": keyed_digest(both.households, KEY),
        "persons": keyed_digest(both.persons, KEY),
        "persons, file 1": keyed_digest(halves[0], KEY),
        "persons, file 2": keyed_digest(halves[1], KEY),
    }


@pytest.mark.parametrize("name", ["homes", "people"])
def test_a_table_that_changes_while_it_is_read_is_refused(tmp_path, schema, found, name):
    both = opened(tmp_path, schema, found)
    found[name].iloc[1:].to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.raises(BadInput, match="changed"):
        keyed_digest(both, KEY)
