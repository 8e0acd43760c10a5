from __future__ import annotations

import errno
import json
import os
import shutil
import stat

import pytest

from dp_core.bundle import writer
from dp_core.bundle.verification.verify import verify
from dp_core.bundle.writer import check_destination, write_bundle
from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.counting.dataset import Dataset
from tests.dp_core.bundle.conftest import make_published, tallied, write
from tests.raising import raising


@pytest.fixture
def parts(release, bundle):
    """Everything `write_bundle` takes but the folder."""
    published, data = release
    return {
        "published": published,
        "synthetic": dict(enumerate(sorted((bundle / "synthetic").iterdir()), start=1)),
        "tallies": tallied(published, data),
    }


def test_a_bundle_is_readable_by_all_and_has_no_hidden_files(tmp_path, parts):
    before = os.umask(0o077)
    try:
        folder = write_bundle(tmp_path / "new" / "out", **parts)
    finally:
        os.umask(before)

    assert verify(folder).passed
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
    for path in [folder, *folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644)
        assert not path.name.startswith(".")


def test_the_same_release_gives_the_same_bundle_byte_by_byte(tmp_path, bundle, parts):
    folder = write_bundle(tmp_path / "out", **parts)
    for path in bundle.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (folder / path.relative_to(bundle)).read_bytes()


def test_an_empty_folder_is_filled(tmp_path, parts):
    (tmp_path / "out").mkdir()

    assert verify(write_bundle(tmp_path / "out", **parts)).passed


def test_a_relative_folder_is_one_in_the_working_folder(tmp_path, parts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()

    assert write_bundle(tmp_path / "deep" / ".." / "out", **parts).is_dir()
    assert (tmp_path / "out" / "release.json").is_file()


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path, parts):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(BadInput, match="not empty"):
        write_bundle(tmp_path / "out", **parts)
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "mine.txt"]


def test_this_very_bundle_is_left_as_it_is(tmp_path, parts):
    folder = write_bundle(tmp_path / "out", **parts)
    before = (folder / "release.json").stat().st_mtime_ns

    assert write_bundle(folder, **parts) == folder
    assert (folder / "release.json").stat().st_mtime_ns == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", ["release.json", "report.html", "mine.txt"])
def test_a_bundle_that_differs_is_refused_and_left_alone(tmp_path, parts, name):
    folder = write_bundle(tmp_path / "out", **parts)
    (folder / name).write_text("mine")
    with pytest.raises(BadInput, match="not empty"):
        write_bundle(folder, **parts)
    assert (folder / name).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_sets_may_have_different_numbers_of_rows(tmp_path):
    published, data = make_published(mode="split", planned_rows="same", records=296)
    shorter = data[0], Dataset(data[1].domain, data[1].codes[:, :-7])
    folder = write(tmp_path / "out", published, shorter, tmp_path / "scratch")

    assert json.loads((folder / "release.json").read_bytes())["sets"]["rows"] == [300, 293]
    assert verify(folder).passed
    # As many rows as records: the report has nothing to add. It has where they are far apart.
    assert "296 rows on average" not in (folder / "report.html").read_text()
    published, _ = make_published(mode="split", planned_rows="same")
    folder = write(tmp_path / "far", published, shorter, tmp_path / "scratch")
    assert "296 rows on average" in (folder / "report.html").read_text()


def test_a_file_a_link_and_a_place_below_a_file_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for path, words in [
        (tmp_path / "file", "is a file or a link"),
        (tmp_path / "link", "is a file or a link"),
        (tmp_path / "file" / "out", "cannot be"),
    ]:
        with pytest.raises(BadInput, match=words):
            check_destination(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_place_where_one_may_not_write_is_refused(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(BadInput, match="may"):
        check_destination(tmp_path / "locked" / "out")


def test_a_name_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(BadInput, match="cannot be used"):
        check_destination(tmp_path / ("x" * 300))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("step", ["shutil.copyfile", "settle", "write_marginals", "os.rename"])
def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path, parts, monkeypatch, step, number):
    full = raising(OSError(number, os.strerror(number)))
    monkeypatch.setattr(writer, step, full) if "." not in step else monkeypatch.setattr(
        f"dp_core.bundle.writer.{step}", full
    )
    with pytest.raises(StageFailed, match="disk is full"):
        write_bundle(tmp_path / "out", **parts)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_nothing(tmp_path, parts, monkeypatch):
    monkeypatch.setattr(writer, "report", raising(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_bundle(tmp_path / "out", **parts)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_attempt_left_is_cleared_away(tmp_path, parts):
    (tmp_path / ".out.partial").mkdir()
    (tmp_path / ".out.partial" / "half").write_text("x")
    write_bundle(tmp_path / "out", **parts)

    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_look_at_the_place_leaves_nothing_nor_does_one_that_was_killed(tmp_path):
    check_destination(tmp_path / "out")
    assert not list(tmp_path.iterdir())
    (tmp_path / ".out.probe").mkdir()  # killed before it took it away
    check_destination(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_synthetic_set_that_has_gone_is_a_failed_stage(tmp_path, parts):
    gone = {**parts["synthetic"], 2: tmp_path / "gone.parquet"}
    with pytest.raises(StageFailed, match=r"synthetic/set-2\.parquet is missing"):
        write_bundle(tmp_path / "out", **{**parts, "synthetic": gone})
    assert list(tmp_path.iterdir()) == []


def test_the_sources_stay_where_they_are(tmp_path, parts):
    paths = {
        number: type(tmp_path)(shutil.copy(path, tmp_path))
        for number, path in parts["synthetic"].items()
    }
    folder = write_bundle(tmp_path / "out", **{**parts, "synthetic": paths})
    paths[1].write_bytes(b"changed afterwards")

    assert verify(folder).passed


def test_a_number_of_sets_that_does_not_fit_is_refused(tmp_path, parts):
    with pytest.raises(ValueError, match="2 sets"):
        write_bundle(tmp_path / "out", **{**parts, "synthetic": {1: parts["synthetic"][1]}})
