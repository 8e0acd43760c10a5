"""A disk that fills up: one sentence, exit code 4, and nothing is lost when there is room again."""

import errno
import os
import re
import sqlite3
import subprocess

import pytest
import sqlalchemy as sa

from dp_core.errors import StageFailed
from flows.engine.settings import require_room
from tests.confidential_side import own_words
from tests.flows.conftest import assert_charged_once, make_project
from tests.full import some
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def disk(tmp_path):
    """A file system of one and a half megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("free", some([4, 32, 64, 112, 150], lambda free: free in (4, 112)))
def test_a_full_disk_stops_a_release_and_room_lets_it_go_on(
    disk, tmp_path, command, monkeypatch, free
):
    monkeypatch.setenv("DP_RELEASE_HOME", str(disk / "home"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))  # which asks for more room
    project = make_project(tmp_path / "work", disk / "home")
    status = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(status.f_bavail * status.f_frsize - free * 1024))

    answer = command("run", project.spec, "--out", disk / "bundle")
    assert answer.code == 4
    assert answer.err.splitlines()[-1].startswith("dp-release: ")
    assert "Traceback" not in answer.err

    ballast.unlink()
    answer = command("run", project.spec, "--out", disk / "bundle")
    assert (answer.code, "Traceback" in answer.err) == (0, False)
    assert_charged_once(project, out=disk / "bundle")


@pytest.mark.parametrize(
    ("room", "place", "row"), [(2**80, "prefect", "disk-full"), (1, "town.csv/x", "not-written")]
)
def test_prefect_is_not_started_where_it_cannot_write(
    project, command, monkeypatch, room, place, row
):
    """It would show its whole log, and say nothing that helps."""
    folder = project.folder / place
    monkeypatch.setenv("PREFECT_HOME", str(folder))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr("flows.engine.settings.ROOM", room)
    monkeypatch.setattr(
        "flows.engine.settings.prepare", lambda *_, **__: pytest.fail("was started")
    )
    log = project.folder / "log"
    answer = command("run", project.spec, "--out", project.out, "--log-file", log)
    assert answer.code == 4
    (sentence,) = answer.err.splitlines()
    assert str(folder) in sentence
    assert sentence.endswith(f"(runbook: {row})")
    assert "failed" in log.read_text()
    assert project.untouched()
    # Where another's server is used, none is started here.
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    require_room(project.home)


full = raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


WRITES = (
    "tasks.support.run_folder.os.fsync",
    "dp_core.confidential.code_store.write_atomically",
    "tasks.ledger.charging.ledger_session.os.posix_fallocate",  # charged, and drawn again
    "tasks.stages.reconstruct.np.savez",
    "dp_core.bundle.files.parquet_file.write_synthetic",
    "dp_core.confidential.utility.write_utility",
    "dp_core.bundle.writer.shutil.copyfile",
)


def test_a_write_that_fails_anywhere_is_one_sentence(project, command, monkeypatch):
    """One release meets each of them, in the order of the stages, and goes on every time."""
    for target in WRITES:
        with monkeypatch.context() as patch:
            patch.setattr(target, full)
            answer = command("run", project.spec, "--out", project.out)
        assert answer.code == 4, target
        last = answer.err.splitlines()[-1]
        assert last.endswith("(runbook: disk-full)"), target
        assert "resume" in last
        assert "Traceback" not in answer.err
        assert not project.out.exists()

    project.release()
    assert_charged_once(project)
    assert project.redraws() == 1


def test_a_ledger_that_cannot_grow_is_one_sentence(project):
    """One release meets its end thrice, farther on every time."""

    def limit(connection, _):
        (now,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {min(now + 1, most)}")

    for pages in (1, 3, 8):
        with sqlite3.connect(project.home / "ledger.db") as connection:
            most = connection.execute("PRAGMA page_count").fetchone()[0] + pages
        connection.close()
        sa.event.listen(sa.Engine, "connect", limit)
        try:
            with pytest.raises(StageFailed) as stopped:
                project.release()
        finally:
            sa.event.remove(sa.Engine, "connect", limit)
        assert re.match("The disk is full: the ledger at .* resume", own_words(stopped.value))

    project.release()
    assert_charged_once(project)
