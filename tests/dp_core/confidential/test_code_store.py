import pickle
import pickletools
import shutil
import stat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.confidential.code_store import MANIFEST, CodeStore, RecodedStore, StoreWriter
from dp_core.errors import StageFailed
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.grid import Recoding
from tests.raising import raising

DOMAIN = Domain(("a", "b", "c"), (2, 256, 257))
WIDE = Domain(("a", "b", "c"), (257, 2, 70_000))


def random_columns(rows, seed=0, domain=DOMAIN):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, size, rows).astype(domain.code_type) for size in domain.sizes]


def write(folder, columns, cuts=(), chunk_rows=100, domain=DOMAIN):
    with StoreWriter(folder, domain, chunk_rows=chunk_rows) as writer:
        for start, stop in zip((0, *cuts), (*cuts, len(columns[0])), strict=True):
            writer.append([column[start:stop] for column in columns])
    return CodeStore(folder, domain)


def write_and_be_interrupted(folder):
    with StoreWriter(folder, DOMAIN, chunk_rows=50) as writer:
        writer.append(random_columns(120))
        raise KeyboardInterrupt


@given(
    rows=st.integers(0, 350),
    cuts=st.lists(st.integers(0, 350), max_size=4),
    domain=st.sampled_from([DOMAIN, WIDE]),
)
@settings(deadline=None, max_examples=25)
def test_what_is_written_is_read_however_it_was_cut(tmp_path_factory, rows, cuts, domain):
    columns = random_columns(rows, domain=domain)
    cuts = sorted(min(cut, rows) for cut in cuts)
    store = write(tmp_path_factory.mktemp("s") / "codes", columns, cuts, domain=domain)
    assert store.rows == rows
    assert [chunk.rows for chunk in store.ranges[:-1]] == [100] * ((rows - 1) // 100)
    for number, column in enumerate(columns):
        parts = [store.read(chunk)[number] for chunk in range(store.chunks)]
        assert np.array_equal(np.concatenate([*parts, []]), column)


@pytest.mark.parametrize(
    ("domain", "types", "kept"),
    [
        (DOMAIN, [np.uint8, np.uint8, np.uint16], np.uint16),
        (WIDE, [np.uint16, np.uint8, np.uint32], np.uint32),
    ],
)
def test_columns_are_as_narrow_as_their_size_allows_and_are_not_copied(
    tmp_path, domain, types, kept
):
    store = write(tmp_path / "s", random_columns(150, domain=domain), domain=domain)
    columns = store.read(0)
    assert [column.dtype for column in columns] == types
    assert store.codes(0).dtype == kept
    assert np.array_equal(store.codes(0), np.array(columns))
    assert not any(column.flags.owndata or column.flags.writeable for column in columns)


def test_only_the_owner_may_read(tmp_path):
    store = write(tmp_path / "s", random_columns(150))
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in store.folder.iterdir()} == {0o600}


def test_an_interrupted_store_is_incomplete_and_can_be_made_again(tmp_path):
    write(tmp_path / "s", random_columns(350))
    with pytest.raises(KeyboardInterrupt):
        write_and_be_interrupted(tmp_path / "s")
    with pytest.raises(StageFailed, match="incomplete"):
        CodeStore(tmp_path / "s", DOMAIN)
    assert write(tmp_path / "s", random_columns(10)).rows == 10
    assert len(list((tmp_path / "s").iterdir())) == 2


def test_a_full_disk_leaves_no_temporary_file(tmp_path, monkeypatch):
    with StoreWriter(tmp_path / "s", DOMAIN) as writer:
        monkeypatch.setattr("os.fsync", raising(OSError(28, "No space left on device")))
        writer.append(random_columns(10))
        with pytest.raises(OSError, match="No space"):
            writer._flush()
        monkeypatch.undo()
    assert not list((tmp_path / "s").glob("*.tmp"))


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest", "garbled"])
def test_a_damaged_store_is_refused(tmp_path, damage):
    store = write(tmp_path / "s", random_columns(150))
    chunk = store.folder / store.ranges[1].file
    content = chunk.read_bytes()
    if damage == "cut":
        chunk.write_bytes(content[:-1])
    elif damage == "gone":
        chunk.unlink()
    elif damage == "manifest":
        (store.folder / MANIFEST).write_text("{")
    else:
        chunk.write_bytes(b"x" * len(content))
    with pytest.raises(StageFailed):
        CodeStore(store.folder, DOMAIN).read(1)


def test_a_store_of_another_schema_is_refused(tmp_path):
    store = write(tmp_path / "s", random_columns(10))
    with pytest.raises(StageFailed, match="another schema"):
        CodeStore(store.folder, Domain(("a", "b", "c"), (2, 256, 300)))


def test_parts_of_a_store_are_its_chunks(tmp_path):
    store = write(tmp_path / "s", random_columns(350))
    first, rest = store.part(0, 1), store.part(1, 4)
    assert (first.rows, first.chunks, rest.rows, rest.chunks) == (100, 1, 250, 3)
    for chunk in range(3):
        assert all(map(np.array_equal, rest.read(chunk), store.read(chunk + 1)))
    assert store.chunks == 4


@pytest.mark.parametrize(
    ("rows", "most_rows", "chunks"),
    [
        (0, 10**6, 0),
        (2_000, 10**6, 1),
        (10_000, 10**6, 5),
        (13_583, 10**6, 7),
        (100_000, 10**6, 8),
        (100_000, 30_000, 10),  # equal parts of each of four files
    ],
)
def test_a_store_of_some_thousand_rows_has_several_chunks(tmp_path, rows, most_rows, chunks):
    columns = random_columns(rows)
    store = write(tmp_path / "s", columns, chunk_rows=most_rows)
    assert (store.chunks, store.rows) == (chunks, rows)
    for number, column in enumerate(columns):
        parts = [store.read(chunk)[number] for chunk in range(store.chunks)]
        assert np.array_equal(np.concatenate([*parts, []]), column)


def test_joined_chunks_are_the_files_of_a_part(tmp_path):
    columns = random_columns(10_000)
    store = write(tmp_path / "s", columns, chunk_rows=6_000)
    assert [chunk.rows for chunk in store.joined().ranges] == [6_000, 4_000]
    part = store.part(1, 4).joined()
    assert [(chunk.first, chunk.rows) for chunk in part.ranges] == [(2_000, 4_000), (0, 2_000)]
    found = np.concatenate([part.codes(chunk) for chunk in range(part.chunks)], axis=1)
    assert np.array_equal(found, np.array(columns)[:, 2_000:8_000])


def test_a_pickled_part_reads_the_same_rows_and_holds_no_number_of_rows(tmp_path):
    store = write(tmp_path / "s", random_columns(123_457))
    finer = RecodedStore(store, Recoding(DOMAIN, {}))
    for each in (store.part(2, 5), finer.part(2, 5)):
        sent = pickle.dumps(each)
        numbers = {value for _, value, _ in pickletools.genops(sent) if isinstance(value, int)}
        assert not numbers & {store.rows, each.rows, *(chunk.rows for chunk in store.ranges)}
        received = pickle.loads(sent)
        assert received.is_here()
        assert (received.chunks, received.rows) == (each.chunks, each.rows)
        assert all(map(np.array_equal, received.read(1), each.read(1)))


def test_a_pickled_store_that_was_written_again_is_refused(tmp_path):
    sent = pickle.dumps(write(tmp_path / "s", random_columns(150)))
    write(tmp_path / "s", random_columns(150))
    received = pickle.loads(sent)
    assert not received.is_here()
    with pytest.raises(StageFailed, match="written again"):
        _ = received.rows


def test_parts_of_a_store_in_coarser_codes_are_its_chunks(tmp_path):
    columns = random_columns(250)
    halves = Recoding(
        Domain(DOMAIN.columns, (2, 256, 129)), {"c": np.arange(257, dtype=np.uint16) // 2}
    )
    store = RecodedStore(write(tmp_path / "s", columns), halves)
    for chunk in range(3):
        part = store.part(chunk, chunk + 1).read(0)
        assert all(map(np.array_equal, part, store.read(chunk)))
        assert np.array_equal(part[2], columns[2][100 * chunk : 100 * (chunk + 1)] // 2)


def test_a_store_knows_whether_it_is_in_its_folder(tmp_path):
    store = write(tmp_path / "s", random_columns(150))
    assert store.is_here()
    # The same rows once more, as an earlier attempt leaves them on another machine's disk.
    write(tmp_path / "s", random_columns(150))
    assert not store.is_here()
    (tmp_path / "s" / MANIFEST).write_text("[]")
    assert not store.is_here()
    shutil.rmtree(tmp_path / "s")
    assert not store.is_here()


def test_a_file_whose_codes_have_a_narrower_type_than_the_schema_needs_is_damaged(tmp_path):
    narrow = Domain(WIDE.columns, (257, 2, 300))
    store = write(tmp_path / "s", random_columns(150, domain=narrow), domain=narrow)
    manifest = store.folder / MANIFEST
    manifest.write_text(manifest.read_text().replace("300", "70000"))
    with pytest.raises(StageFailed, match="damaged"):
        CodeStore(store.folder, WIDE).read(0)
