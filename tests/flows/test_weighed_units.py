"""Faults outside the kernel that let a unit weigh more end a release before it is charged."""

import numpy as np
import pyarrow as pa
import pytest

from dp_core.confidential import coding, person_rows
from dp_core.confidential.code_store import StoreWriter
from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.errors import StageFailed
from tasks.counting import dask_counter
from tests.confidential_side import raises_inside
from tests.flows.test_reserved_rules import PROJECTS

pytestmark = pytest.mark.usefixtures("quick")
WEIGHT, TABLE = "of another weight than its document states", "does not add up to the stored rows"


def no_limit_of_rows(patch):
    patch.setattr(person_rows, "kept_rows", lambda persons, *_: np.ones(len(persons), np.bool_))


def every_row_another_person(patch):
    """The limit is applied, to persons of one row each."""
    add = person_rows.RowLimit.add

    def apart(self, persons, codes):
        first = np.arange(self.rows, self.rows + len(persons), dtype=np.uint64)
        add(self, np.stack([first, persons[:, 1]], axis=1), codes)

    patch.setattr(person_rows.RowLimit, "add", apart)


def two_records_of_a_person(patch):
    tables = PersonRecords.tables

    def twice(self):
        for table in tables(self):
            yield pa.concat_tables([table, table])

    patch.setattr(PersonRecords, "tables", twice)
    no_limit_of_rows(patch)


def a_household_twice(patch):
    """Instead of another one, so that their number is right."""
    pieces = coding.pair_row_pieces

    def twice(linked, domain, rows):
        last = rows.sizes.size - 1
        return pieces(linked, domain, rows.take(np.minimum(np.arange(last + 1), last - 1)))

    patch.setattr(coding, "pair_row_pieces", twice)


def a_lost_pair_row(patch):
    pieces = coding.pair_row_pieces

    def lost(*given):
        for piece, units, done in pieces(*given):
            rows = np.arange(piece.rows) != 1
            yield type(piece)(piece.domain, piece.codes[:, rows]), units[rows], done

    patch.setattr(coding, "pair_row_pieces", lost)


def a_part_written_twice(patch):
    append = StoreWriter.append

    def twice(self, columns):
        append(self, columns)
        if self.folder.name == "codes":
            append(self, columns)

    patch.setattr(StoreWriter, "append", twice)


def a_part_counted_twice(patch):
    count = dask_counter._count_part

    def twice(store, plan):
        pairs = zip(count(store, plan), count(store.part(0, 1), plan), strict=True)
        return [one + again for one, again in pairs]

    patch.setattr(dask_counter, "_count_part", twice)


def a_part_lost(patch):
    count = dask_counter._count_part
    lost = lambda store, plan: count(store.part(1, store.chunks), plan)  # noqa: E731
    patch.setattr(dask_counter, "_count_part", lost)


OF_EVERY_UNIT = {a_part_counted_twice: TABLE, a_part_lost: TABLE}
FAULTS = {
    "persons": {
        no_limit_of_rows: WEIGHT,
        every_row_another_person: WEIGHT,
        a_part_written_twice: WEIGHT,
        **OF_EVERY_UNIT,
    },
    "panel": {two_records_of_a_person: WEIGHT, **OF_EVERY_UNIT},
    "households": {
        a_household_twice: WEIGHT,
        a_lost_pair_row: WEIGHT,
        a_part_written_twice: WEIGHT,
        **OF_EVERY_UNIT,
    },
}
CASES = [(kind, fault) for kind, faults in FAULTS.items() for fault in faults]


@pytest.mark.parametrize(("kind", "fault"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_a_unit_that_weighs_more_ends_a_release_before_a_charge(
    kind, fault, tmp_path, home, monkeypatch
):
    project = PROJECTS[kind](tmp_path / "work", home)
    with monkeypatch.context() as patch:
        fault(patch)
        with raises_inside(StageFailed, match=FAULTS[kind][fault]):
            project.release()
    assert "charge" not in project.kinds()


def test_codes_that_a_fault_of_the_machine_spoilt_are_made_again(tmp_path, home, monkeypatch):
    project = PROJECTS["persons"](tmp_path / "work", home)
    with monkeypatch.context() as patch:
        no_limit_of_rows(patch)
        with raises_inside(StageFailed, match=WEIGHT):
            project.release()
    project.release()
    assert "charge" in project.kinds()
