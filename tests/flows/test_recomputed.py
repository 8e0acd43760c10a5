"""An outsider's recomputation arrives at the guarantee that a release states, whatever it did."""

from __future__ import annotations

import ast
import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.dp_core.bundle import recomputed
from tests.dp_core.bundle.forgery import relink
from tests.flows.test_presets import town  # noqa: F401
from tests.full import full

pytestmark = pytest.mark.usefixtures("quick")

PURE, LOOSE = "{epsilon: 2, delta: 0", "{epsilon: 2, delta: 1e-6"
REPLACED = ", neighbours: replace-one"
CASES = {
    "privsyn": (LOOSE, "", ""),
    "aim": (LOOSE, REPLACED, ""),
    "mwem": (PURE, "", "select: {picks: 3}\n"),
    "privbayes": (PURE, REPLACED, ""),
    "sba": (LOOSE, REPLACED, ""),
    "laplace-sanitizer": (PURE, "", ""),
    "efpa": (PURE, REPLACED, ""),
    "multinomial-dirichlet": (PURE, "", ""),
}
KINDS: dict[str, set[str]] = {
    "privsyn": {"discrete-gaussian"},
    "aim": {"discrete-gaussian", "noisy-max"},
    "mwem": {"discrete-laplace", "noisy-max"},
    "sba": {"stability-histogram"},
    "efpa": {"discrete-laplace", "noisy-max"},
    "multinomial-dirichlet": {"polya-urn"},
}


SLOW = ("privsyn", "aim")
KEPT = ("aim", "mwem", "sba", "multinomial-dirichlet")
"""Every kind of noise is drawn by one of them."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW) + [full] * (name not in KEPT))
        for name in CASES
    ],
)
def test_an_outsider_arrives_at_what_is_stated(town, name):  # noqa: F811
    privacy, relation, stages = CASES[name]
    if relation:
        town.open_account("replaced", neighbours="replace-one")
    town.write_spec(
        stages + "synthesize: {sets: 1}\n",
        method=name,
        privacy=f"{privacy}{relation}}}",
        account="replaced" if relation else "town",
    )
    town.release()
    document = town.statement()
    epsilon, delta = recomputed.recompute(town.out)
    enforced = document["guarantee"]["enforced"]

    # What follows is no more than was promised, and nearly all of it.
    assert 1.999 <= epsilon <= float(Fraction(enforced["epsilon"]["exact"])) + 1e-9
    assert delta <= Fraction(enforced["delta"]["exact"])
    used = set(document["accounting"]["mechanisms"])
    assert used >= KINDS.get(name, set())
    for mechanism in used:
        assert document["accounting"]["mechanisms"][mechanism]["cost"]


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
    """So that the test above can fail."""
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
