import errno
import os
import shutil
from pathlib import Path

import pytest

from dp_core.errors import BadInput, LedgerCorrupt, StageFailed
from tasks.support.run_folder import RunFolder, disk_errors, write_atomically

LINK, OTHER = "a" * 64, "b" * 64


def begin(folder):
    folder.begin(spec=Path("/x/spec.yaml"), out=Path("/x/out"))


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "home", "first", LINK)


def mode(path):
    return path.stat().st_mode & 0o777


def test_every_folder_of_a_run_is_for_its_owner_alone(folder):
    before = os.umask(0)
    try:
        begin(folder)
    finally:
        os.umask(before)
    for place in (folder.path, folder.confidential, folder.internal, folder.public):
        assert mode(place) == 0o700


def test_a_folder_that_was_opened_up_is_closed_again(folder):
    begin(folder)
    folder.confidential.chmod(0o755)
    begin(folder)
    assert mode(folder.confidential) == 0o700


def test_every_file_of_a_run_is_for_its_owner_alone(folder):
    before = os.umask(0)
    try:
        folder.begin(spec=Path("/x/spec.yaml"), out=Path("/x/out"))
        detail = folder.keep_detail("a value")
    finally:
        os.umask(before)
    assert mode(detail) == mode(folder.path / "run.json") == 0o600


def test_a_run_remembers_its_spec_and_its_output(folder):
    with pytest.raises(BadInput, match="no run of release 'first'"):
        folder.recorded_paths()
    assert not folder.exists()
    folder.begin(spec=Path("/x/spec.yaml"), out=Path("/x/out"))
    assert folder.exists()
    assert folder.recorded_paths() == (Path("/x/spec.yaml"), Path("/x/out"))
    (folder.path / "run.json").write_text("{")
    with pytest.raises(BadInput, match="no run"):
        folder.recorded_paths()


def test_a_stage_is_done_from_its_finish_to_its_forgetting(folder):
    assert folder.facts_of("measure") is None
    folder.finish("measure", {"rows": None})
    assert folder.facts_of("measure") == {"rows": None}
    folder.forget("measure")
    folder.forget("measure")
    assert folder.facts_of("measure") is None


def test_a_torn_marker_is_no_marker(folder):
    folder.finish("measure")
    (folder.public / "stages" / "measure.json").write_text("{")
    assert folder.facts_of("measure") is None


def test_removing_what_is_confidential_leaves_the_rest(folder):
    begin(folder)
    for place in (folder.confidential, folder.internal, folder.public):
        (place / "file").write_text("x")
    folder.remove_confidential()
    assert not folder.confidential.exists()
    assert (folder.internal / "file").exists()
    assert (folder.public / "file").exists()


def test_a_file_is_whole_or_what_it_was_before(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file"
    write_atomically(path, b"first")
    assert mode(path.parent) == 0o700

    def dies(*_):
        raise KeyboardInterrupt

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, dies)
            with pytest.raises(KeyboardInterrupt):
                write_atomically(path, b"second")
        assert path.read_bytes() == b"first"
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(path.parent) == ["file"]


def test_a_file_is_synced_before_it_is_renamed_and_its_folder_after(tmp_path, monkeypatch):
    order = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: order.append("sync") or sync(fd))
    monkeypatch.setattr(
        os, "replace", lambda a, b, **k: order.append("rename") or rename(a, b, **k)
    )
    write_atomically(tmp_path / "file", b"x")
    assert order == ["sync", "rename", "sync"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_sentence(code):
    with pytest.raises(StageFailed) as failed, disk_errors("the run folder"):
        raise OSError(code, "canary")
    assert failed.value.message == (
        "The disk is full: the run folder could not be written. Free some space, then resume."
    )
    assert failed.value.__suppress_context__


def test_a_disk_that_refuses_is_one_sentence_and_other_errors_are_themselves():
    with pytest.raises(StageFailed) as failed, disk_errors("The key"):
        raise PermissionError(errno.EACCES, "canary")
    assert failed.value.message == (
        "The key could not be written (Permission denied); check the folder, then resume."
    )
    with pytest.raises(FileNotFoundError), disk_errors("x"):
        raise FileNotFoundError(errno.ENOENT, "No such file")
    with pytest.raises(ValueError, match="mine"), disk_errors("x"):
        raise ValueError("mine")


def test_a_folder_that_is_barred_takes_no_result_and_keeps_those_it_has(tmp_path):
    folder = RunFolder(tmp_path, "first", LINK)
    folder.noisy.mkdir(parents=True)
    draft = folder.noisy / "one_way-0.noise.1.tmp"
    draft.write_bytes(b"a draw that was under way")
    with draft.open("ab") as late:
        folder.bar_results()
        late.write(b" and goes on")
    assert folder.batches()
    with pytest.raises(OSError, match=r"Not a directory|No such file"):
        os.link(draft, folder.noisy / "one_way-0.noise")
    with pytest.raises(FileExistsError):
        folder.noisy.mkdir(exist_ok=True)
    folder.bar_results()
    assert folder.batches()


def test_a_folder_without_results_is_barred_as_well(tmp_path):
    folder = RunFolder(tmp_path, "first", LINK)
    folder.bar_results()
    assert not folder.batches()
    with pytest.raises(FileExistsError):
        folder.noisy.mkdir(exist_ok=True)


def test_each_reservation_has_files_of_its_own_and_the_names_lead_to_the_latest(tmp_path):
    first, second = (RunFolder(tmp_path, "town", link) for link in (LINK, OTHER))
    view = RunFolder(tmp_path, "town")
    begin(first)
    (first.confidential / "codes").write_text("of the first input")
    first.finish("discretize")
    assert view.facts_of("discretize") is not None
    begin(second)
    assert view.facts_of("discretize") is None
    assert not first.confidential.exists(), "the codes of a reservation that was given back"
    # A late process of the first goes on where it began.
    first.finish("count")
    first.confidential.mkdir()
    assert second.facts_of("count") is None
    assert view.facts_of("count") is None
    assert list(view.confidential.iterdir()) == []
    begin(first)
    assert view.facts_of("count") is not None


def test_results_of_another_reservation_are_never_passed_over(tmp_path):
    first, second = (RunFolder(tmp_path, "town", link) for link in (LINK, OTHER))
    begin(first)
    first.noisy.mkdir()
    (first.noisy / "total-0.noise").write_bytes(b"may have been read")
    assert first.batches() == {"total-0"}
    for refused in (lambda: begin(second), RunFolder(tmp_path, "town").refuse_results):
        with pytest.raises(LedgerCorrupt) as error:
            refused()
        assert error.value.row == "result-without-charge"
    begin(first)
    assert (first.noisy / "total-0.noise").exists()


def test_what_is_looked_at_is_not_written(tmp_path):
    view = RunFolder(tmp_path, "town")
    with pytest.raises(ValueError, match="folder of its reservation"):
        begin(view)
    with pytest.raises(ValueError, match="reservation"):
        view.remove_confidential()


def test_a_home_that_was_copied_without_its_links_is_one_sentence(folder, tmp_path):
    begin(folder)
    shutil.copytree(tmp_path / "home", tmp_path / "copy")
    with pytest.raises(StageFailed, match="copied without its links"):
        begin(RunFolder(tmp_path / "copy", "first", LINK))
    shutil.copytree(tmp_path / "home", tmp_path / "good", symlinks=True)
    begin(RunFolder(tmp_path / "good", "first", LINK))
