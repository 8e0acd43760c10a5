"""One byte of a SQLite ledger is not what was written: it is found, or it held nothing."""

import random
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from dp_core.errors import BadInput, LedgerCorrupt
from tasks.ledger.database.database_errors import Damaged
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.full import at_full_size
from tests.ledgers import HOME, KEY, LAPLACE, WHO, begin, open_town, spend, steps_of
from tests.specs import plan_of

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file of a ledger, its entries and its totals."""
    folder = tmp_path_factory.mktemp("whole")
    path = folder / "ledger.db"
    ledger = Ledger(f"sqlite:///{path}")
    open_town(ledger)
    ledger.raise_account("town", epsilon=Fraction(5, 2), **WHO)
    for number in range(3):
        spend(ledger, plan_of(folder, LAPLACE, release=f"r{number}", privacy="{epsilon: 0.25}"))
    plan = plan_of(folder, LAPLACE, release="last", privacy="{epsilon: 0.25}")
    with both_writers(ledger, "last", HOME) as writer:
        writer.charge(begin(writer, plan), "one_way-0", steps_of(plan, "one_way"))
    ledger.approve("plan", **WHO)
    return path.read_bytes(), list(ledger.all_entries())


@pytest.fixture
def content(whole):
    """The bytes of the ledger."""
    return whole[0]


@pytest.fixture
def path(tmp_path):
    """Where a changed ledger is put."""
    return tmp_path / "ledger.db"


PLACES = (
    "Entry ",
    "The running total",
    "A running total",
    "Every entry of the ledger is correct",
    "The lease of release",
)


def everything(content):
    """Return every row of every table, the triggers, and the tables' and indexes' columns."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.deserialize(content)
        memory.text_factory = bytes
        query = "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite%'"
        parts = [(kind.decode(), name.decode()) for kind, name in memory.execute(query)]
        found = {"parts": parts}
        for kind, name in parts:
            asked = {
                "table": (f"SELECT * FROM {name}", f"PRAGMA table_info({name})"),
                "index": (f"PRAGMA index_xinfo({name})",),
                "trigger": (f"SELECT sql FROM sqlite_master WHERE name = '{name}'",),
            }
            found[name] = [memory.execute(query).fetchall() for query in asked[kind]]
        return found


def outcome(path, whole):
    """Open and check a file: what the sentence says, or None where all is as it was."""
    try:
        ledger = Ledger(f"sqlite:///{path}")
        ledger.verify(KEY)
    except (LedgerCorrupt, BadInput) as found:
        said = found.message
    else:
        assert list(ledger.all_entries()) == whole[1]
        assert everything(path.read_bytes()) == everything(whole[0])
        return None
    # A table whose name is another now is not there; and there is the mark of the version itself.
    assert "\n" not in said
    assert said.startswith(PLACES) or "is damaged" in said or "newer version" in said, said
    return said


def flip(content, offset, bits):
    changed = bytearray(content)
    changed[offset] ^= bits
    return bytes(changed)


@pytest.mark.parametrize("release", ["r0", "last"])
def test_every_byte_of_a_lease_is_found(whole, content, path, release):
    """The holder of a lease that ended was not covered by anything."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.deserialize(content)
        memory.text_factory = bytes
        query = "SELECT holder FROM leases WHERE release = ?"
        (holder,) = memory.execute(query, (release,)).fetchone()
    begins = content.index(holder)
    step = 3 if at_full_size() else 7
    # The release and its fence stand before the holder, and the checksum after it.
    for offset in range(begins - len(release) - 1, begins + len(holder) + 64, step):
        path.write_bytes(flip(content, offset, 0x01))
        assert outcome(path, whole) is not None, offset - begins


def test_a_byte_anywhere_in_the_file_is_found_or_held_nothing(whole, content, path):
    choose = random.Random(3)
    offsets = sorted(choose.sample(range(len(content)), 260 if at_full_size() else 40)) + list(
        range(0, 100, 3)
    )
    path.write_bytes(content)
    assert outcome(path, whole) is None
    found = []
    for offset in offsets:
        path.write_bytes(flip(content, offset, choose.randrange(1, 256)))
        found.append(outcome(path, whole))
    assert sum(what is not None for what in found) > len(offsets) // 10


def payloads(content):
    """Return where in the file the rows of entries lie, from their own texts."""
    places = []
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.deserialize(content)
        memory.text_factory = bytes
        rows = memory.execute(
            "SELECT position, salt, signature, link, body FROM entries"
        ).fetchall()
    for position, salt, _, link, body in rows:
        # A row is one piece: hash, then salt, then link stand beside each other in it.
        at = content.find(salt + link)
        if at >= 0:
            places.append((position, content.rfind(body, 0, at), at + len(salt + link)))
    return places


def test_every_byte_of_an_entry_is_found_and_names_it(whole, content, path):
    places = payloads(content)
    assert len(places) > 20
    choose = random.Random(4)
    for position, begins, ends in (places[1], places[5], places[-1]):
        assert 0 < begins < ends
        for offset in range(begins - 40, ends, 7 if at_full_size() else 17):
            path.write_bytes(flip(content, offset, choose.choice((1, 2, 4, 16, 32, 128, 255))))
            said = outcome(path, whole)
            assert said is not None, (position, offset - begins)
            assert said.startswith((f"Entry {position} ", "Entry ")), said
            if offset >= begins:
                assert said.startswith(f"Entry {position} "), said


def roots(content):
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.deserialize(content)
        found = memory.execute("SELECT name, type, rootpage FROM sqlite_master WHERE rootpage > 0")
        return {name: (kind, page) for name, kind, page in found}


def test_a_table_that_cannot_be_read_is_one_sentence_that_names_the_first_entry(
    whole, content, path
):
    _, page = roots(content)["entries"]
    path.write_bytes(flip(content, (page - 1) * PAGE, 0xFF))
    assert outcome(path, whole).startswith("Entry 1 of the ledger cannot be read")
    ledger = Ledger(f"sqlite:///{path}")
    for read in (ledger.head, ledger.accounts, ledger.releases, lambda: ledger.account("town")):
        with pytest.raises(Damaged, match="is damaged and cannot be read completely") as found:
            read()
        assert found.value.exit_code == 5


def test_totals_that_cannot_be_read_are_named_by_their_entry(whole, content, path):
    _, page = roots(content)["totals"]
    path.write_bytes(flip(content, (page - 1) * PAGE, 0xFF))
    assert outcome(path, whole).startswith("The running totals at entry ")


def test_the_entries_before_a_damaged_page_are_checked_first(whole, content, path):
    """A walk that stops at the damage would not tell of a wrong entry before it."""
    places = payloads(content)
    (first, begins, _), (last, _, ends) = places[3], places[-1]
    both = flip(flip(content, begins + 2, 1), ends - 3, 0x80)
    path.write_bytes(both)
    assert first < last
    assert outcome(path, whole).startswith(f"Entry {first} ")


@pytest.mark.parametrize("index", ["sqlite_autoindex_totals_1", "entries_of_kind"])
def test_an_index_that_leaves_a_row_out_is_found(whole, path, index):
    """By an index a balance is looked up: with a row left out it would be an older one."""
    content = bytearray(whole[0])
    _, page = roots(whole[0])[index]
    start = (page - 1) * PAGE
    if content[start] == 2:  # it has more than one page: the last of them
        page = int.from_bytes(content[start + 8 : start + 12], "big")
        start = (page - 1) * PAGE
    assert content[start] == 10  # a leaf of an index
    cells = int.from_bytes(content[start + 3 : start + 5], "big")
    content[start + 3 : start + 5] = (cells - 1).to_bytes(2, "big")
    path.write_bytes(bytes(content))
    said = outcome(path, whole)
    assert said.startswith(("Every entry of the ledger is correct", "The running total"))


def test_a_file_that_was_cut_short_is_found(whole, path):
    for part in (1, 2, 3):
        path.write_bytes(whole[0][: len(whole[0]) * part // 4])
        assert outcome(path, whole) is not None


def test_a_damaged_ledger_takes_no_new_one_into_its_file(whole, path):
    for offset in (0, 16, 20, 59, 100, 104):
        content = flip(whole[0], offset, 0x02)
        path.write_bytes(content)
        said = outcome(path, whole)
        assert said is not None
        assert path.read_bytes() == content
