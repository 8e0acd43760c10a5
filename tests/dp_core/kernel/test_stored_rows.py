"""The kernel weighs the units of the finished code store, and adds up every exact table."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.code_store import StoreWriter
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import StageFailed
from dp_core.kernel.coding.raw_rows import UnitNotes
from dp_core.kernel.coding.unit_hashes import identifiers
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting import stored_rows
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.counting.linked_columns import LinkedColumns
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.counting.stored_rows import CheckedCounter, StoredRows, checked_rows
from dp_core.kernel.document import protected_unit
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms import additive_noise
from dp_core.tables.household_rows import HouseholdRows, pair_row_pieces

DOMAIN = Domain(("a", "b"), (3, 300))
LINKED = LinkedColumns(household_columns=("h",), person_columns=("p",), max_members=4)
PAIRS = Domain(LINKED.columns, (3, 4, 2, 3))
WEIGHT, TABLE = "of another weight than its document states", "does not add up to the stored rows"


def document(domain, unit, **records):
    rules = [
        {
            "name": name,
            "kind": "integer",
            "codes": size,
            "low": "0",
            "high": str(size - 1),
            "edges": list(map(str, range(size + 1))),
            "missing": "reject",
            "missing_values": [],
            "out_of_range": "reject",
        }
        for name, size in zip(domain.columns, domain.sizes, strict=True)
    ]
    return {"unit": unit, "columns": rules, "records": records}


def of_persons(most, domain=DOMAIN):
    unit = {"word": "person", "identified_by": "id", "most": most, "missing_values": []}
    return document(domain, unit, of="rows")


def of_households():
    unit = {
        "word": "household",
        "identified_by": "id",
        "most": 4,
        "missing_values": [],
        "link": "i",
    }
    return document(PAIRS, unit, of="households", min_members=1)


def hashes(persons, key=b"k"):
    return identifiers("A column", pa.array(list(map(str, persons))), []).hashes(1, key)[:, 0]


def store(folder, persons, chunk_rows=50):
    rows = len(persons)
    with StoreWriter(folder, DOMAIN, chunk_rows=chunk_rows, units=True) as writer:
        writer.append([*np.zeros((len(DOMAIN), rows), np.uint8), hashes(persons)])
    return folder


def read(folder, stated, whose, role="identified_by"):
    """Note the raw rows as the kernel's readers do; return the document."""
    unit = protected_unit(stated["unit"])
    notes = UnitNotes(unit, (), folder, "A column", role, b"k")
    path = folder / "raw.csv"
    path.write_text("i,id\n" + "".join(f"{one},{one}\n" for one in whose))
    with path.open("rb") as stream:
        for rows in notes.csv_rows(path, stream, ["id", "i"]):
            notes.require_coded(rows, [])
    notes.finish(folder)
    return stated


def limited(persons, most):
    """The rows of each person that may stay, in another order."""
    return [one for one, rows in Counter(persons).items() for _ in range(min(rows, most))]


@given(persons=st.lists(st.integers(0, 9), max_size=80), most=st.integers(1, 12))
def test_a_store_passes_if_every_person_has_the_rows_that_may_stay(tmp_path_factory, persons, most):
    stays = limited(persons, most)
    folder = store(tmp_path_factory.mktemp("s"), stays)
    stated = read(folder, of_persons(most), persons)
    assert checked_rows(folder, stated) == StoredRows(len(stays), len(stays))
    if len(stays) < len(persons):
        store(folder, persons)
        with pytest.raises(StageFailed, match=WEIGHT):
            checked_rows(folder, read(folder, stated, persons))


PERSONS = [*range(100), 3, *range(100, 150)]


@pytest.mark.parametrize(
    "stored",
    [
        [*PERSONS, 7],
        PERSONS[1:],
        [*PERSONS[:-1], "another"],
        [*range(len(PERSONS))],
        ["one"] * 2,
    ],
    ids=["a row twice", "a row lost", "another person", "another column", "one for all"],
)
def test_a_store_of_other_units_than_were_read_is_refused(tmp_path, stored):
    stated = read(store(tmp_path, stored), of_persons(2), PERSONS)
    with pytest.raises(StageFailed, match="holds a person " + WEIGHT):
        checked_rows(tmp_path, stated)


def test_rows_of_a_person_in_several_files_and_parts_are_one_persons(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_rows, "_PART_ROWS", 7)
    folder = store(tmp_path, PERSONS)
    assert checked_rows(folder, read(folder, of_persons(2), PERSONS)).rows == 151
    with pytest.raises(StageFailed, match="holds a person " + WEIGHT):
        checked_rows(folder, read(folder, of_persons(1), PERSONS))


def test_a_person_of_a_panel_has_one_record_or_none(tmp_path):
    stated = of_persons(1)
    stated["unit"]["waves"] = ["2024", "2025"]
    read(tmp_path, stated, [1, 1, 2, 3, 3])
    assert checked_rows(store(tmp_path, [3, 1]), read(tmp_path, stated, [1, 1, 2, 3])).rows == 2
    for stored in ([1, 1, 2], [1, 4]):
        with pytest.raises(StageFailed, match="holds a person " + WEIGHT):
            checked_rows(store(tmp_path, stored), read(tmp_path, stated, [1, 1, 2, 3]))


def test_a_store_without_the_notes_of_its_unit_is_refused(tmp_path):
    store(tmp_path, [1])
    other = of_persons(9)
    other["unit"]["identified_by"] = "i"
    read(tmp_path, other, [1])
    assert checked_rows(tmp_path, other).rows == 1
    with pytest.raises(StageFailed, match="is damaged"):
        checked_rows(tmp_path, of_persons(9))


def test_a_store_without_hashes_or_with_other_columns_is_refused(tmp_path):
    row = document(DOMAIN, {"word": "row"}, of="rows")
    for folder in ("bare", "lost"):
        with StoreWriter(tmp_path / folder, DOMAIN) as writer:
            writer.append(list(np.zeros((2, 5), np.uint8)))
    assert checked_rows(tmp_path / "bare", read(tmp_path / "bare", row, "abcde")) == (
        StoredRows(5, 5)
    )
    with pytest.raises(StageFailed, match="holds another number of rows than were read"):
        checked_rows(tmp_path / "lost", read(tmp_path / "lost", row, "abcdef"))
    store(tmp_path / "units", [1])
    for folder, stated in (
        (tmp_path / "bare", of_persons(9)),
        (tmp_path / "units", row),
        (tmp_path / "units", of_persons(9, Domain(("b", "a"), (3, 300)))),
        (tmp_path / "units", of_persons(9, Domain(("a", "b"), (3, 30)))),
    ):
        with pytest.raises(StageFailed, match="has other columns than its document"):
            checked_rows(folder, read(folder, stated, [1]))


def test_the_hash_of_a_unit_is_keyed_and_does_not_depend_on_how_it_is_stored():
    texts = pa.array([" 7", "007", "8", "7.0"])
    found = identifiers("A column", texts, []).hashes(1, b"k")[:, 0]
    assert len({*found.tolist()}) == 2
    assert np.array_equal(found, hashes([7, 7, 8, 7]))
    numbers = identifiers("A column", pa.array([7.0, 7.0, 8.0, 7.0]), []).hashes(1, b"k")[:, 0]
    assert np.array_equal(found, numbers)
    assert not {*found.tolist()} & {*hashes([7, 8], b"another").tolist()}


def test_rows_of_nobody_are_counted():
    values = pa.array(["a", None, " ", "NA ", "b", "", "a", "NA"])
    for stored in (values, values.dictionary_encode()):
        assert identifiers("A column", stored, ["NA"]).without == 5


def households(sizes):
    persons = sum(sizes)
    return HouseholdRows(
        np.zeros((1, len(sizes)), np.uint16),
        np.array(sizes, np.int64),
        np.zeros((1, persons), np.uint16),
        hashes(range(len(sizes))),
    )


def pair_store(folder, rows, change=lambda columns: columns, linked_to=None):
    """Store households; the persons of the raw rows are linked to these by default."""
    homes = range(len(rows.sizes))
    with StoreWriter(folder, PAIRS, units=True) as writer:
        for piece, units, _ in pair_row_pieces(LINKED, PAIRS, rows):
            writer.append(change([*piece.codes, units]))
    read(folder, of_households(), homes)
    read(folder, of_households(), rows.household_of if linked_to is None else linked_to, "link")
    return folder


def test_the_pair_rows_of_every_household_are_its_shares(tmp_path):
    folder = pair_store(tmp_path, households([1, 2, 4, 3, 4]))
    assert checked_rows(folder, of_households()) == StoredRows(1 + 2 + 12 + 6 + 12, 5 * 12)


@pytest.mark.parametrize(
    ("linked_to", "right"),
    [
        ([0, 1, 1, 2, 2, 2, 2], True),
        ([0, 1, 1, 2, 2, 2, 2, 2], True),
        ([0, 1, 1, 2, 2, 2], False),
        ([0, 1, 2, 2, 2, 2], False),
        ([0, 1, 1, 1, 2, 2, 2, 2], False),
        ([0, 1, 1, 2, 2, 2, 2, 3], False),
        ([0, 1, 2, 3, 4, 5, 6], False),
    ],
)
def test_a_household_has_the_members_that_are_linked_to_it(tmp_path, linked_to, right):
    folder = pair_store(tmp_path, households([1, 2, 4]), linked_to=linked_to)
    if right:
        assert checked_rows(folder, of_households()).total == 3 * 12
        return
    with pytest.raises(StageFailed, match="holds a household " + WEIGHT):
        checked_rows(folder, of_households())


def one_row_less(columns):
    return [column[1:] for column in columns]


def one_row_more(columns):
    return [np.append(column, column[-1]) for column in columns]


def all_twice(columns):
    return [np.tile(column, 2) for column in columns]


def as_if_larger(columns):
    codes = columns[1].copy()
    codes[:2] = 2  # two members, with the weight of rows of three
    return [columns[0], codes, *columns[2:]]


@pytest.mark.parametrize("fault", [one_row_less, one_row_more, all_twice, as_if_larger])
def test_a_household_with_other_pair_rows_than_its_own_is_refused(tmp_path, fault):
    folder = pair_store(tmp_path, households([2, 3, 4]), fault)
    with pytest.raises(StageFailed, match="holds a household " + WEIGHT):
        checked_rows(folder, of_households())


# -- tables

DATA = Dataset(DOMAIN, np.array([[0, 1, 2, 2], [5, 5, 0, 299]], np.uint16))


class Changed(MemoryCounter):
    """A counter of which a part is at fault; the rest of the program does not know."""

    def __init__(self, table=lambda counts: counts, cells=lambda *found: found):
        super().__init__(DATA)
        self.table, self.cells = table, cells

    def count(self, cliques):
        found = super().count(cliques)
        return {
            clique: SimpleNamespace(domain=each.domain, counts=self.table(each.counts.copy()))
            for clique, each in found.items()
        }

    def observed(self, clique):
        return self.cells(*super().observed(clique))


def moved(counts):
    """A count below 0, with the right sum."""
    counts.flat[0] -= 9
    counts.flat[1] += 9
    return counts


def lost(counts):
    counts.flat[np.argmax(counts)] -= 1
    return counts


WRONG = {
    "twice": lambda counts: 2 * counts,
    "lost": lost,
    "negative": moved,
    "no whole numbers": lambda counts: counts.astype(float),
    "another type": lambda counts: counts.astype(np.int32),
    "another shape": lambda counts: counts[..., None],
    "transposed": lambda counts: counts.T,
    "wrapped around": lambda counts: counts + np.int64(2**62),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_table_that_counts_no_row_once_is_refused_before_a_draw(monkeypatch, fault):
    monkeypatch.setattr(additive_noise, "add", lambda *_: pytest.fail("noise was drawn"))
    session = MemorySession(Currency("zcdp", Fraction(1)), "add-remove")
    curator = Curator(Kernel(DOMAIN, Changed(WRONG[fault]), session, StoredRows(4, 4)))
    with pytest.raises(StageFailed, match=TABLE):
        curator.measure("measure", [("b", "a")], [Fraction(1, 2)])


def test_a_right_table_is_drawn_from():
    session = MemorySession(Currency("zcdp", Fraction(1)), "add-remove")
    curator = Curator(Kernel(DOMAIN, Changed(), session, StoredRows(4, 4)))
    (found,) = curator.measure("measure", [("b", "a")], [Fraction(1, 2)])
    assert found.values.shape == (300, 3)


WRONG_CELLS = {
    "twice": lambda cells, counts: (cells, 2 * counts),
    "lost": lambda cells, counts: (cells[1:], counts[1:]),
    "an empty cell": lambda cells, counts: (
        np.insert(cells, 0, 0, axis=0),
        np.insert(counts, 0, 0),
    ),
    "a cell in two parts": lambda cells, counts: (
        np.repeat(cells, 2, axis=0),
        np.tile([2, -1], len(counts)),
    ),
    "in another order": lambda cells, counts: (cells[::-1], counts),
    "another domain": lambda cells, counts: (cells + np.uint16(1), counts),
    "fewer columns": lambda cells, counts: (cells[:, :1], counts),
}


@pytest.mark.parametrize("fault", WRONG_CELLS)
def test_cells_that_count_no_row_once_are_refused(fault):
    right = CheckedCounter(Changed(), DOMAIN, 4).observed(("a", "b"))
    assert right[1].tolist() == [1, 1, 1, 1]
    with pytest.raises(StageFailed, match=TABLE):
        CheckedCounter(Changed(cells=WRONG_CELLS[fault]), DOMAIN, 4).observed(("a", "b"))


MARGINS = {name: np.bincount(codes) for name, codes in zip("ab", DATA.codes, strict=True)}


def another_row_twice(counts):
    """One row is counted twice and another one never; the sum is right."""
    one, other = np.flatnonzero(counts)[:2]
    counts.flat[one] += 1
    counts.flat[other] -= 1
    return counts


def test_a_table_with_other_margins_than_the_stored_rows_is_refused():
    pairs = [("a", "b"), ("b", "a"), ("a",), ()]
    assert len(CheckedCounter(Changed(), DOMAIN, 4, MARGINS).count(pairs)) == 4
    assert len(CheckedCounter(Changed(), DOMAIN, 4, MARGINS).observed(("b", "a"))[1]) == 4
    for clique in pairs[:3]:
        twice = Changed(another_row_twice)
        assert CheckedCounter(twice, DOMAIN, 4).count([clique])
        with pytest.raises(StageFailed, match=TABLE):
            CheckedCounter(twice, DOMAIN, 4, MARGINS).count([clique])
    twice = Changed(cells=lambda cells, counts: (cells[1:], np.add(counts[1:], [1, 0, 0])))
    with pytest.raises(StageFailed, match=TABLE):
        CheckedCounter(twice, DOMAIN, 4, MARGINS).observed(("a", "b"))


def test_margins_are_counted_in_the_store(tmp_path):
    codes = [np.arange(7, dtype=np.uint8) % 3, np.arange(7, dtype=np.uint16) * 9]
    with StoreWriter(tmp_path, DOMAIN, chunk_rows=2) as writer:
        writer.append(codes)
    row = document(DOMAIN, {"word": "row"}, of="rows")
    found = checked_rows(tmp_path, read(tmp_path, row, range(7))).margins
    assert {name: counts.tolist() for name, counts in found.items()} == {
        "a": [3, 2, 2],
        "b": np.bincount(codes[1], minlength=300).tolist(),
    }


def test_without_a_store_tables_that_are_counted_together_add_up_alike():
    class First(Changed):
        def count(self, cliques):
            first, *others = cliques
            return {**MemoryCounter.count(self, [first]), **super().count(others)}

    pairs = [("a",), ("a", "b")]
    assert len(CheckedCounter(First(), DOMAIN).count(pairs)) == 2
    with pytest.raises(StageFailed, match=TABLE):
        CheckedCounter(First(WRONG["twice"]), DOMAIN).count(pairs)
    with pytest.raises(StageFailed, match=TABLE):
        CheckedCounter(Changed(), Domain(("a", "b"), (4, 300))).count([("a",)])


def test_a_table_of_households_adds_up_to_their_shares(tmp_path):
    rows = households([1, 3, 4])
    ((pairs, _, _),) = pair_row_pieces(LINKED, PAIRS, rows)
    found = checked_rows(pair_store(tmp_path, rows), of_households())
    counter = HouseholdCounter(MemoryCounter(pairs), LINKED)
    checked = CheckedCounter(counter, PAIRS, found.total, found.margins)
    tables = checked.count([*((name,) for name in PAIRS.columns), ("h", "members"), ()])
    assert int(tables[()].counts) == 36
    with pytest.raises(StageFailed, match=TABLE):
        CheckedCounter(counter, PAIRS, found.rows).count([("p",)])


def test_an_empty_file_has_empty_tables():
    empty = MemoryCounter(Dataset(DOMAIN, np.empty((2, 0), np.uint16)))
    checked = CheckedCounter(empty, DOMAIN, 0)
    assert checked.count([("a",)])["a",].counts.tolist() == [0, 0, 0]
    assert not len(checked.observed(("a", "b"))[1])
    assert isinstance(checked.count([()])[()], Marginal)
