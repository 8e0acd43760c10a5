"""Data files are found by name: a wrong path is told at once, and nothing is opened."""

import sys
from pathlib import Path

import pytest

from dp_core.confidential.data_files import find_data_files
from dp_core.errors import BadInput
from tests.new_python import new_python
from tests.raising import raising


def test_a_glob_gives_its_files_in_order_and_their_kind(tmp_path):
    for name in ("b.csv", "a.CSV.GZ", "c.txt"):
        (tmp_path / name).write_text("")
    files, kind = find_data_files("[ab].*", tmp_path)
    assert [path.name for path in files] == ["a.CSV.GZ", "b.csv"]
    assert kind == "csv"
    assert find_data_files(str(tmp_path / "b.csv"), tmp_path / "elsewhere") == (
        [tmp_path / "b.csv"],
        "csv",
    )


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("nosuch.csv", "No data file matches 'nosuch.csv'"),
        ("*.pq", r"No data file matches '\*.pq'"),
        ("folder.csv", "is a folder"),
        ("letter.txt", "not of a known kind"),
        ("[ab].*", "matches CSV and Parquet files"),
    ],
)
def test_a_wrong_path_is_one_sentence(tmp_path, pattern, says):
    (tmp_path / "folder.csv").mkdir()
    for name in ("letter.txt", "a.csv", "b.parquet"):
        (tmp_path / name).write_text("")
    with pytest.raises(BadInput, match=says):
        find_data_files(pattern, tmp_path)


def test_a_folder_that_may_not_be_searched_is_one_sentence(tmp_path, monkeypatch):
    # Root may search any folder.
    monkeypatch.setattr(Path, "exists", raising(PermissionError(13, "Permission denied")))
    with pytest.raises(BadInput, match="may not search") as failed:
        find_data_files("closed/a.csv", tmp_path)
    assert failed.value.row == "data-damaged"


def test_a_file_that_nobody_may_open_is_found(tmp_path):
    (tmp_path / "a.csv").write_text("")

    def opened(event, *_):
        if watching and event == "open":
            raise AssertionError("A file was opened.")

    watching = []
    sys.addaudithook(opened)
    watching.append(True)
    try:
        assert find_data_files("a.csv", tmp_path)[1] == "csv"
        assert find_data_files("*.csv", tmp_path)[1] == "csv"
    finally:
        watching.clear()


def test_no_library_that_reads_data_is_loaded():
    script = (
        "import sys, dp_core.confidential.data_files;"
        " print(sorted({'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    assert new_python(script).stdout == "[]\n"


def test_a_name_that_is_not_utf_8_is_refused_by_name(tmp_path):
    """Such names come out of ZIP files that were made on Windows."""
    try:
        (tmp_path / "gr\udcf6.csv").write_text("a\n1\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with pytest.raises(BadInput, match=r"gr\\udcf6.*rename") as caught:
        find_data_files("*.csv", tmp_path)
    caught.value.message.encode()
