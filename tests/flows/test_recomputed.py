"""An outsider's recomputation is one, and finds too little noise."""

import ast
import json
from pathlib import Path

import pytest

from tests.dp_core.bundle import recomputed
from tests.dp_core.bundle.forgery import relink


def test_the_outsider_imports_nothing_of_ours():
    tree = ast.parse(Path(recomputed.__file__).read_text(encoding="utf-8"))
    names = {
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }

    assert not any(name.split(".")[0] in ("dp_core", "tasks", "flows", "tests") for name in names)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scale": "1"}, None),
        ({"l2_sensitivity_squared": 0}, "sensitivity"),
    ],
)
def test_the_outsider_finds_too_little_noise(tmp_path, change, words):
    """So that those of `test_presets.py` can fail."""
    from tests.dp_core.bundle.conftest import make_published, write

    folder = write(tmp_path / "out", *make_published(), tmp_path / "scratch")
    assert recomputed.recompute(folder)[0] == pytest.approx(1, abs=1e-6)
    document = json.loads((folder / "release.json").read_bytes())
    charge = next(row for row in document["ledger"]["receipts"] if row["kind"] == "charge")
    charge["body"]["event"] |= change
    relink(document)
    (folder / "release.json").write_text(json.dumps(document))
    with pytest.raises(AssertionError, match=words):
        recomputed.recompute(folder)
