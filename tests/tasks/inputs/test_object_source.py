import itertools

import fsspec
import pytest

from dp_core.confidential.source import keyed_digest, open_source
from dp_core.errors import BadInput, StageFailed
from dp_core.plan.data_location import STORES, read_object_url
from flows.cli.actions.drafting import draft
from tasks.inputs.object_source import beginning_of, object_source
from tests.raising import raising

KEY = b"a key of sixteen bytes"
MARKER = "AKIA-marker"
URL = "memory://survey/*/part.csv"
PARTS = {"2025": b"a,b\n1,x\n", "2026": b"a,b\n2,y\n3,z\n"}


@pytest.fixture
def store(monkeypatch):
    """A store in memory with two files of one name."""
    monkeypatch.setitem(STORES, "memory", "fsspec")
    files = fsspec.filesystem("memory")
    files.store.clear()
    for name, content in PARTS.items():
        files.pipe(f"/survey/{name}/part.csv", content)
    yield files
    files.store.clear()


def rows(source):
    return [row for batch in source.batches() for row in batch.records.to_pylist()]


def left(folder):
    return [path.name for path in folder.iterdir()]


def test_objects_are_the_input_that_the_same_local_files_are(store, tmp_path):
    for name, content in PARTS.items():
        (tmp_path / "local" / name).mkdir(parents=True)
        (tmp_path / "local" / name / "part.csv").write_bytes(content)
    local = open_source("local/*/part.csv", tmp_path, ("a",), ("b",))
    folder = tmp_path / "[confidential]"
    folder.mkdir()
    copied = object_source(URL, ("a",), ("b",), folder)
    assert rows(copied) == rows(local)
    assert keyed_digest(copied, KEY) == keyed_digest(local, KEY)
    assert {path.stat().st_mode & 0o777 for path in copied.files} == {0o600}
    store.store.clear()
    assert rows(object_source(URL, ("a",), ("b",), folder)) == rows(local)


@pytest.mark.usefixtures("store")
def test_a_copy_that_was_cut_off_is_made_again(tmp_path):
    object_source(URL, ("a", "b"), (), tmp_path).files[1].write_bytes(b"a,b\n")
    assert len(rows(object_source(URL, ("a", "b"), (), tmp_path))) == 3


@pytest.mark.parametrize("changed", ["ukey", "size"])
def test_an_object_that_changes_while_it_is_copied_is_refused(
    store, tmp_path, monkeypatch, changed
):
    looks = itertools.count()
    monkeypatch.setattr(type(store), changed, lambda *_: next(looks))
    with pytest.raises(BadInput, match="changed while it was copied"):
        object_source(URL, ("a", "b"), (), tmp_path)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (RuntimeError(MARKER), StageFailed, "did not answer (RuntimeError)"),
        (OSError(MARKER), StageFailed, "did not answer (OSError)"),
        (PermissionError(MARKER), BadInput, "does not let this user read"),
        (ImportError(MARKER), BadInput, "needs the package 'fsspec'"),
    ],
)
def test_a_store_that_fails_is_told_in_words_of_ours(
    store, tmp_path, monkeypatch, error, kind, words
):
    monkeypatch.setattr(type(store), "ukey", raising(error))
    with pytest.raises(kind) as caught:
        object_source(URL, ("a", "b"), (), tmp_path)
    assert words in caught.value.message
    assert MARKER not in caught.value.message + str(caught.value.internal)
    assert caught.value.__context__ is None
    assert left(tmp_path) == []


@pytest.mark.parametrize("name", ["2025/part.csv", "*/part.csv"])
def test_a_store_that_is_down_is_not_one_without_the_object(store, tmp_path, monkeypatch, name):
    fail = raising(ConnectionError(MARKER))
    monkeypatch.setattr(type(store), "info", fail)
    monkeypatch.setattr(type(store), "find", fail)
    with pytest.raises(StageFailed, match=r"did not answer \(ConnectionError\)"):
        object_source(f"memory://survey/{name}", ("a", "b"), (), tmp_path)


def test_a_draft_reads_the_first_object_and_of_a_csv_file_its_beginning(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr("tasks.inputs.object_source.BLOCK_BYTES", 6)
    place = tmp_path / "home" / "draft"
    place.mkdir(parents=True)
    (place / "left.csv").write_text("of one that was killed")
    with beginning_of(URL, place) as copy:
        assert [path.name for path in place.iterdir()] == ["part.csv"]
        assert copy.name == "part.csv"
        assert copy.read_bytes() == b"a,b\n1,"
        assert copy.stat().st_mode & 0o777 == 0o600
    assert not copy.parent.exists()
    monkeypatch.setenv("DP_RELEASE_HOME", str(tmp_path / "home"))
    assert "\n  a:" in draft(URL, None)
    assert left(tmp_path / "home") == []
    whole = b"PAR1 and so on PAR1"
    store.pipe("/survey/part.parquet", whole)
    with beginning_of("memory://survey/part.parquet", place) as copy:
        assert copy.read_bytes() == whole
    with (
        pytest.raises(BadInput, match="secret"),
        beginning_of("memory://a:b/c.csv", place),
    ):
        pass


def test_nothing_that_matches_and_files_of_no_kind_are_refused(store, tmp_path):
    with pytest.raises(BadInput, match="No object matches"):
        object_source("memory://survey/*.parquet", ("a",), (), tmp_path)
    store.pipe("/survey/2025/notes.txt", b"")
    with pytest.raises(BadInput, match=r"notes\.txt is not of a known kind"):
        object_source("memory://survey/2025/*", ("a",), (), tmp_path)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:MARKER@bucket/x.csv",
        "az://box/x.csv?sig=MARKER",
        "s3://bucket/x.csv#MARKER",
        "https://host/MARKER.csv",
        "zip://MARKER.csv::s3://bucket/x.zip",
        "s3://MARKER",
        "gs://bucket/MARKER/",
    ],
)
def test_a_url_that_may_hold_a_secret_or_names_no_object_is_refused_unseen(url):
    with pytest.raises(ValueError, match="is a URL") as caught:
        read_object_url(url)
    assert "MARKER" not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://bucket/waves/*.parquet", "abfs://box@name.dfs/x.csv"])
def test_a_url_of_bucket_and_objects_is_read(url):
    assert read_object_url(url) == url
