"""`schema check` and the notebook's frames of a panel write no file, not even a temporary one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.panel_files import panel_document, panel_frame, write_waves

ROOT = Path(__file__).parents[3]
WATCH = """
import os, sys
log = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def heard(event, args):
    writes = event == "open" and (args[2] or 0) & WRITING
    if writes or event in ("os.mkdir", "os.rename", "os.link", "tempfile.mkdtemp"):
        os.write(log, f"{{event}} {{args[0]}}\\n".encode())
sys.dont_write_bytecode = True
sys.addaudithook(heard)
"""
COMMAND = "from flows.cli.main import main\nmain()\n"
FRAMES = """
from pathlib import Path
import pandas as pd
from dp_core.public_data.frame_codes import frame_codes
from dp_core.schema.reading.schema_file import load_schema
rows, schema = pd.read_csv("rows.csv", dtype=str), load_schema(Path("schema.yaml"))
assert frame_codes(rows, schema).rows > 300
"""


def written(folder: Path, program: str, *arguments: str) -> tuple[list[str], str]:
    """Run a program; return what it opened to write or made, and what it printed.

    Files that Arrow opens by itself are not seen, but a temporary folder that is made for them is.
    """
    log = folder / "written.log"
    done = subprocess.run(
        [sys.executable, "-c", WATCH.format(log=str(log)) + program, *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DP_RELEASE_HOME": str(folder / "home"),
            "NUMBA_CACHE_DIR": "",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = log.read_text().splitlines()
    ours = [line for line in lines if "/dev/null" not in line and "__pycache__" not in line]
    return ours, done.stdout


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    """A folder with a panel, in one file and in a file for each wave."""
    rows = panel_frame()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    write_waves(tmp_path, rows)
    own = [{"expect_column_values_to_be_between": {"column": "birth", "max_value": "2009"}}]
    one = {**panel_document(), "expectations": own}
    (tmp_path / "schema.yaml").write_text(json.dumps(one))
    (tmp_path / "waves.yaml").write_text(json.dumps(panel_document(wave=None)))
    return tmp_path


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("schema.yaml", ["rows.csv"]),
        ("waves.yaml", ["wave-2023.csv", "wave-2024.csv", "wave-2025.csv"]),
    ],
)
def test_checking_a_panel_writes_nothing(panel, schema, files):
    before = {path: path.stat().st_mtime_ns for path in panel.rglob("*")}

    lines, printed = written(panel, COMMAND, "schema", "check", schema, *files, "--json")

    assert lines == []
    assert {p for p in panel.rglob("*") if p.name != "written.log"} == {*before}
    found = json.loads(printed)
    assert (found["fits"], found["persons"]) == (True, 400)


def test_a_frame_of_a_panel_is_written_nowhere(panel):
    assert written(panel, FRAMES)[0] == []
