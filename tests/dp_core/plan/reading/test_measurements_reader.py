"""The key `measurements`: what was measured is read back exactly, for every method."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from dp_core.errors import BadInput
from dp_core.kernel.ledger.receipts import START, make_receipt
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.plan import make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading.measurements_reader import MEASURING
from dp_core.plan.reading.spec_file import load_spec
from tests.specs import FIXED, SCHEMA, plan_of, write_spec

OPTIONS = {
    "fixed": FIXED,
    "cipher": "",
    "sbhg": "",
}
TABLES = [
    name
    for name, preset in PRESETS.items()
    if preset.select and preset.select not in ("dualquery", "pegs")
]
PRIVACY = {"fdh": "{epsilon: 1}", "cipher": "{epsilon: 1}", "mwem": "{epsilon: 1}"}


def earlier(plan):
    """Return a release with a plan, as the ledger would have it."""
    end = make_receipt(
        number=1, kind="settle", account="town", release="first", at="2026-01-01", body={},
        previous=START,
    )  # fmt: skip
    document = json.loads(json.dumps(plan.document()))
    return EarlierRelease("first", "town", document, (end,))


def reused(folder, plan, text="", **lines):
    """Return the spec of a release that uses the tables of a plan."""
    stated = {"release": "second", "schema": "schema.yaml", "account": "town", **lines}
    path = folder / "second.yaml"
    body = "".join(f"{key}: {value}\n" for key, value in stated.items())
    path.write_text(f"version: 1\nmeasurements: first\n{body}{text}")
    return load_spec(path, find=lambda _name: earlier(plan))


@pytest.mark.parametrize("method", TABLES)
def test_what_was_measured_is_read_back_exactly(tmp_path, method):
    privacy = "{epsilon: 1, delta: 1e-9}"
    schema = SCHEMA.replace("levels: [r, s, t]", "levels: [r, s]").replace("[k, l, m, n]", "[k, l]")
    plan = plan_of(tmp_path, OPTIONS.get(method, ""), method=method, privacy=privacy, schema=schema)

    spec = reused(tmp_path, plan)

    before = plan.spec.document
    for key in ("schema", *MEASURING):
        assert spec.document.get(key) == before.get(key), key
    assert spec.selector == plan.spec.selector
    assert spec.shares == plan.spec.shares
    made = make_plan(spec)
    assert made.promise == (0, 0)
    assert made.currency.limit == 0
    assert sum(made.costs.values(), Fraction(0)) == 0
    assert made.tables == plan.tables
    assert made.fixed_beforehand == plan.fixed_beforehand
    assert made.hash != plan.hash


@pytest.mark.parametrize("sets", [0, 1])
@pytest.mark.parametrize("method", ["auto", "fixed"])
def test_wanted_tables_are_read_back_exactly(tmp_path, method, sets):
    text = "tables:\n  - {of: [a, b], weight: 3}\n  - {of: [b, c]}\n"
    text += f"synthesize: {{sets: {sets}}}\n"
    plan = plan_of(tmp_path, text, method=method, privacy="{epsilon: 1, delta: 1e-9}")

    spec = reused(tmp_path, plan)

    for key in ("schema", *MEASURING):
        assert spec.document.get(key) == plan.spec.document.get(key), key
    assert make_plan(spec).tables == plan.tables
    with pytest.raises(BadInput, match="0 sets would"):
        reused(tmp_path, plan, "synthesize: {sets: 0}\n")


def test_the_hash_of_the_plan_covers_the_release_that_measured(tmp_path):
    plan, other = plan_of(tmp_path), plan_of(tmp_path, f"{FIXED}synthesize: {{seed: 2}}\n")

    one, two = (make_plan(reused(tmp_path, each)).hash for each in (plan, other))

    assert one != two


def test_without_a_ledger_the_key_is_refused_with_its_line(tmp_path):
    write_spec(tmp_path)
    path = tmp_path / "second.yaml"
    path.write_text(
        "version: 1\nrelease: second\nschema: schema.yaml\naccount: town\nmeasurements: first\n"
    )

    with pytest.raises(BadInput, match="line 5, measurements"):
        load_spec(path)


@pytest.mark.parametrize(
    "same",
    [
        "privacy: {epsilon: 1.000}",
        "privacy: {epsilon: 1/1, delta: 0, neighbours: add-remove}",
        "select: {method: fixed, cliques: [[a, b], [b, c]]}",
        "data: data.csv",
        "method: fixed",
        "measure: {noise: auto}",
        "one_way: {share: 0.1}",
    ],
)
def test_a_repeated_value_is_the_same_however_it_is_typed(tmp_path, same):
    assert reused(tmp_path, plan_of(tmp_path), f"{same}\n").measurements is not None


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ("privacy: {epsilon: 1.001}", "privacy.epsilon"),
        ("privacy: {delta: 1e-9}", "privacy.delta"),
        ("privacy: 1", "privacy"),
        ("select: {cliques: [[a, b]]}", "select.cliques"),
        ("select: {cliques: [[a, b], [c, b]]}", "select.cliques"),
        ("select: {method: densemarg}", "select.method"),
        ("select: {clique: [[a, b]]}", "'cliques'"),
        ("data: {database: DB, table: t}", "data"),
        ("measure: {noise: laplace}", "measure.noise"),
        ("domain: {share: 0.1}", "domain"),
        ("measurement: first", "'measurements'"),
    ],
)
def test_another_value_is_refused_by_its_key(tmp_path, other, named):
    with pytest.raises(BadInput) as refused:
        reused(tmp_path, plan_of(tmp_path), f"{other}\n")

    assert named in refused.value.message
    assert "second.yaml, line" in refused.value.message


@pytest.mark.parametrize("typed", ["[first]", "{release: first}", "", "../first"])
def test_what_is_no_name_of_a_release_is_refused_in_one_place(tmp_path, typed):
    (tmp_path / "second.yaml").write_text(f"version: 1\nrelease: second\nmeasurements: {typed}\n")

    with pytest.raises(BadInput) as refused:
        load_spec(tmp_path / "second.yaml", find=lambda name: pytest.fail(name))

    assert refused.value.message.count("second.yaml, line 3, measurements") == 1
