"""Readers that hand over other columns or rows than the file has end a release before a charge."""

from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.confidential import csv_files, source
from dp_core.confidential.coding import Coding
from dp_core.confidential.linked import linked_source
from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.confidential.source import Source
from dp_core.errors import DataRefused, StageFailed
from dp_core.kernel.coding.raw_rows import UnitNotes
from dp_core.kernel.coding.unit_hashes import identifiers
from dp_core.kernel.document import A_ROW
from dp_core.kernel.mechanisms import additive_noise
from tests.confidential_side import raises_inside
from tests.flows.conftest import make_project
from tests.flows.test_reserved_rules import PROJECTS

pytestmark = pytest.mark.usefixtures("quick")

WEIGHT = "of another weight than its document states"
COLUMNS, TWICE = "coded from other columns than those that were read", "was read twice"
LOST = "were not coded"


def parquet_project(folder, home):
    """The file of persons as Parquet, in several row groups."""
    project = PROJECTS["persons"](folder, home)
    frame = pd.read_csv(folder / "town.csv", dtype=str, keep_default_na=False)
    frame.to_parquet(folder / "town.parquet", row_group_size=100)
    project.write_spec(account="people", data="town.parquet")
    return project


def rows_project(folder, home):
    return make_project(folder, home)


KINDS = {**PROJECTS, "parquet": parquet_project, "rows": rows_project}


def batches_become(patch, change):
    """Let every source hand over other batches than the kernel read."""
    batches = Source.batches

    def wrong(self, notes=None):
        yield from change(batches(self, notes))

    patch.setattr(Source, "batches", wrong)


def swapped(one, other):
    """A reader that exchanges the names of two columns."""

    def fault(patch):
        def change(batches):
            for batch in batches:
                names = batch.records.schema.names
                if {one, other} <= {*names}:
                    other_names = [{one: other, other: one}.get(name, name) for name in names]
                    renamed = batch.records.rename_columns(other_names).select(names)
                    batch = replace(batch, records=renamed)
                yield batch

        batches_become(patch, change)

    return fault


def every_batch_twice(patch):
    batches_become(patch, lambda batches: (each for batch in batches for each in (batch, batch)))


def the_first_batch_lost(patch):
    def change(batches):
        next(batches)
        yield from batches

    patch.setattr("dp_core.kernel.coding.raw_rows.BATCH_ROWS", 150)
    batches_become(patch, change)


def every_file_twice(patch):
    init = Source.__init__

    def doubled(self, files, kind, columns):
        init(self, [*files, *files], kind, columns)

    patch.setattr(Source, "__init__", doubled)
    # The ledger's own look at the parts would find equal ones first.
    digests = source.keyed_digests
    patch.setattr(source, "keyed_digests", lambda *given: replace(digests(*given), parts={}))


def with_another_column(patch):
    """A reader that puts a column that the schema ignores in the place of the unit's."""
    read = csv_files.csv_batches

    def wrong(path, columns, notes):
        for rows, done in read(path, [*columns, "batch"], notes):
            found = [rows.column("batch" if name == "interview" else name) for name in columns]
            yield pa.RecordBatch.from_arrays(found, names=list(columns)), done

    patch.setattr(source, "csv_batches", wrong)


def asks_for_another_column(patch):
    """A reader that asks the kernel for another column under the unit's name."""
    read = csv_files.csv_batches

    def wrong(path, columns, notes):
        asked = ["batch" if name == "interview" else name for name in columns]
        for rows, done in read(path, asked, notes):
            yield rows.rename_columns(list(columns)), done

    patch.setattr(source, "csv_batches", wrong)


def read_past_the_notes(patch):
    read = csv_files.csv_batches

    def wrong(path, columns, _notes):
        yield from read(path, columns, UnitNotes(A_ROW, (), None, ""))

    patch.setattr(source, "csv_batches", wrong)


def units_of_another_column(patch):
    """Coding that takes another column of the right rows for the one of persons."""

    def units(self, records, codes):
        whose = identifiers("A column", records.column("age"), ())
        self._limit.add(whose.hashes(2), codes)
        return (whose.hashes(1, self.notes.key)[:, 0],)

    patch.setattr(Coding, "_units", units)


def every_row_its_own_person(patch):
    """The limit finds no two rows of one person, and neither does the store."""

    def units(self, records, codes):
        first = self._limit.rows
        numbers = [f"p{first + row}" for row in range(records.num_rows)]
        whose = identifiers("A column", pa.array(numbers), ())
        self._limit.add(whose.hashes(2), codes)
        return (whose.hashes(1, self.notes.key)[:, 0],)

    patch.setattr(Coding, "_units", units)


def codes_exchanged(patch):
    """The codes of two columns are exchanged after they were made."""
    add = Coding.add

    def wrong(self, records, encoded):
        at = [column.name for column in self._rules.columns].index("sex")
        others = list(encoded)
        others[at], others[at + 1] = others[at + 1], others[at]
        add(self, records, others)

    patch.setattr(Coding, "add", wrong)


def records_of_another_person(patch):
    """Records of a panel bear the identifier of somebody who is not in the file."""
    records = PersonRecords._records

    def wrong(self, tables, target):
        found = records(self, tables, target)
        at = found.schema.names.index(self._panel.person)
        invented = pa.array([f"{name}x" for name in found.column(at).to_pylist()])
        return found.set_column(at, self._panel.person, invented)

    patch.setattr(PersonRecords, "_records", wrong)


def linked_in_turn(patch):
    """The persons are dealt to the households in turn, whatever column links them."""
    members = linked_source.linked_members

    def wrong(linked, keys, links, person_keys):
        rows = range(len(links))
        turns = pa.array([row % len(keys) for row in rows])
        others = pa.array(list(map(str, rows)), person_keys.type)
        return members(linked, keys, keys.take(turns), others)

    patch.setattr(linked_source, "linked_members", wrong)


OF_FILES = {every_file_twice: TWICE, every_batch_twice: COLUMNS, the_first_batch_lost: LOST}
OF_PERSONS = {units_of_another_column: WEIGHT, every_row_its_own_person: WEIGHT}
FAULTS = {
    "rows": {
        "columns swapped": (swapped("sex", "age"), COLUMNS),
        "codes exchanged": (codes_exchanged, COLUMNS),
        **{each.__name__: (each, words) for each, words in OF_FILES.items()},
    },
    "persons": {
        "unit swapped": (swapped("interview", "sex"), COLUMNS),
        "another column": (with_another_column, COLUMNS),
        "past the notes": (read_past_the_notes, COLUMNS),
        **{each.__name__: (each, words) for each, words in (OF_FILES | OF_PERSONS).items()},
    },
    "parquet": {
        "unit swapped": (swapped("interview", "sex"), COLUMNS),
        "columns swapped": (swapped("marital", "sex"), COLUMNS),
        **{each.__name__: (each, words) for each, words in (OF_FILES | OF_PERSONS).items()},
    },
    "panel": {
        "another person": (records_of_another_person, WEIGHT),
        "every_file_twice": (every_file_twice, TWICE),
    },
    "households": {
        "link swapped": (swapped("home_id", "nr"), COLUMNS),
        "columns swapped": (swapped("age", "work"), COLUMNS),
        "linked in turn": (linked_in_turn, WEIGHT),
        "every_file_twice": (every_file_twice, TWICE),
    },
}
CASES = [(kind, name) for kind, faults in FAULTS.items() for name in faults]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_reader_at_fault_ends_a_release_before_a_charge(kind, name, tmp_path, home, monkeypatch):
    fault, words = FAULTS[kind][name]
    project = KINDS[kind](tmp_path / "work", home)
    with monkeypatch.context() as patch:
        fault(patch)
        with raises_inside(StageFailed, match=words):
            project.release()
    assert "charge" not in project.kinds()


def test_a_reader_that_asks_for_another_column_fails(tmp_path, home, monkeypatch):
    project = KINDS["persons"](tmp_path / "work", home)
    with monkeypatch.context() as patch:
        asks_for_another_column(patch)
        with pytest.raises(DataRefused, match="cannot be read"):
            project.release()
    assert "charge" not in project.kinds()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_files_are_released_without_a_fault(kind, tmp_path, home):
    project = KINDS[kind](tmp_path / "work", home)
    project.release()
    assert "charge" in project.kinds()


def test_names_are_those_of_the_file_whatever_a_stream_says(tmp_path, home, monkeypatch):
    """A stream that renames columns in its first line changes no count."""
    project = KINDS["persons"](tmp_path / "work", home)
    monkeypatch.setattr(additive_noise, "add", lambda exact, _grant: exact + 3)
    project.write_spec(account="people", release="right")
    project.release(project.folder / "right")
    read = csv_files._CountedLines.read

    def renamed(self, size=-1):
        found = read(self, size)
        names, line, rest = found.partition(b"\n")
        if b"interview" in names:
            other = names.replace(b"interview", b"was").replace(b"batch", b"interview")
            found = other.replace(b"was", b"batch") + line + rest
        return found

    monkeypatch.setattr(csv_files._CountedLines, "read", renamed)
    project.write_spec(account="people", release="renamed")
    project.release(project.folder / "renamed")
    right, other = (
        pq.read_table(project.folder / name / "marginals.parquet").drop_columns(["grant"])
        for name in ("right", "renamed")
    )
    assert right.equals(other)
