from __future__ import annotations

import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_core.bundle.verification.verify import verify
from tests.dp_core.bundle.forgery import failed, resealed, statement_of
from tests.full import examples


def test_one_flipped_byte_in_any_file_fails_and_names_it(broken):
    rng = np.random.default_rng(5)
    files = [path for path in sorted(broken.rglob("*")) if path.is_file()]
    assert len(files) == 8
    for path in files:
        content = path.read_bytes()
        places = {0, len(content) - 1, *rng.integers(0, len(content), examples(12)).tolist()}
        for place in places:
            changed = bytearray(content)
            changed[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(changed))
            sentences = " ".join(failed(verify(broken)).values())
            assert path.relative_to(broken).as_posix() in sentences, (path, place)
        path.write_bytes(content)
    assert verify(broken).passed


@pytest.mark.parametrize(
    "name",
    [
        "marginals.parquet",
        "report.html",
        "datapackage.json",
        "registry.yaml",
        "CITATION.cff",
        "synthetic/set-2.parquet",
    ],
)
def test_a_missing_file_is_named(broken, name):
    (broken / name).unlink()
    found = failed(verify(broken))

    assert f"{name} is missing." in found["files"]


def test_a_file_cut_short_and_a_folder_in_its_place_are_named(broken):
    path = broken / "marginals.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert "marginals.parquet" in failed(verify(broken))["files"]
    path.unlink()
    path.mkdir()
    assert "marginals.parquet" in failed(verify(broken))["files"]


def test_a_file_that_does_not_belong_is_named(broken):
    (broken / "synthetic" / "notes.txt").write_text("hello")

    assert "synthetic/notes.txt does not belong" in failed(verify(broken))["files"]


def test_links_are_not_followed(broken, tmp_path):
    outside = tmp_path / "outside.html"
    shutil.move(broken / "report.html", outside)
    (broken / "report.html").symlink_to(outside)
    assert "report.html is not an ordinary file" in failed(verify(broken))["files"]
    (broken / "loop").symlink_to(broken)
    assert "loop does not belong" in failed(verify(broken))["files"]


def test_sets_that_are_not_as_described_show(broken):
    document = statement_of(broken)
    path = broken / "synthetic" / "set-1.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.slice(1).rename_columns(["sex", "age", "height", "day"]), path)
    found = resealed(broken, document)["sets"]

    assert "number of rows" in found
    assert "other columns" in found
