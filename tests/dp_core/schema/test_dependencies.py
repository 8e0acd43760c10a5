"""Columns that follow from others: the rule, every row of it, and how the schema states it."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dp_core.bundle.report.pictures.column_picture import picture
from dp_core.confidential.between_columns import DependencyCheck
from dp_core.confidential.coding import write_codes
from dp_core.confidential.original_values import original_values
from dp_core.confidential.source import open_source
from dp_core.errors import BadInput, SchemaViolation
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.metrics.marginal_error import Tally
from dp_core.schema.dependencies import dependency_in_words, origin
from dp_core.schema.grid import on_grid
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.reading.schema_file import load_schema, parse_schema
from dp_core.schema.rules.possible_codes import decode
from tasks.validation.expectations import validate
from tests.full import some
from tests.measured import noisy_table
from tests.schema_texts import assert_reads_back

CODES = "code,label,parent\nA,Farming,\nA1,Crops,A\nA2,Cattle,A\nB,Trade,\nB1,Food,B\nB2,Books,B\n"

COLUMNS = """\
  group:   {type: ordinal, levels: [child, adult, old], follows: age, edges: [15, 65]}
  age:     {type: integer, min: 0, max: 99, edges: [0, 15, 40, 65, 100], missing: level}
  works:
    {type: category, levels: {0: none, 1: job}, follows: group, map: {child: 0, adult: job, old: 0}}
  trade:   {type: category, codes: codes.csv, group: 2}
  sector:  {type: category, codes: codes.csv, group: 1, follows: trade}
  born:    {type: date, min: 1990-01-01, max: 2009-12-31, bins: year}
  century: {type: category, levels: [old, new], follows: born, edges: [2000-01-01]}
  share:   {type: number, min: 0, max: 1, edges: [0, 0.1, 0.3, 1]}
  low:     {type: category, levels: [low, high], follows: share, edges: [0.1]}
"""
NAMES = ("group", "age", "works", "trade", "sector", "born", "century", "share", "low")


def read(folder, columns=COLUMNS, extra=""):
    (folder / "codes.csv").write_text(CODES)
    (folder / "s.yaml").write_text(f"version: 1\ntitle: t\ncolumns:\n{columns}{extra}")
    return load_schema(folder / "s.yaml")


@pytest.fixture
def schema(tmp_path):
    return read(tmp_path)


def test_dependent_columns_are_released_and_not_in_the_domain(schema):
    assert schema.names == NAMES
    assert schema.domain.columns == ("age", "trade", "born", "share")
    assert schema.reads == (*schema.domain.columns, "group", "works", "sector", "century", "low")
    # What it follows can be missing, and so can it and what follows it.
    missing = [c.name for c in schema.released if c.missing_code is not None]
    assert missing == ["group", "age", "works"]


@pytest.mark.parametrize("positions", [None, 64, 4096])
def test_every_synthetic_row_obeys(schema, positions):
    fine = schema if positions is None else on_grid(schema, positions)
    rng = np.random.default_rng(3)
    rows = 3_000
    data = Dataset(
        fine.domain,
        np.stack([rng.integers(0, size, rows) for size in fine.domain.sizes]).astype(np.uint16),
    )

    table = decode(fine, data, rng=rng)

    assert table.column_names == list(NAMES)
    found = table.to_pylist()
    for row in found:
        age = row["age"]
        group = None if age is None else "child" if age < 15 else "adult" if age < 65 else "old"
        assert row["group"] == group
        assert row["works"] == {None: None, "child": "none", "adult": "job", "old": "none"}[group]
        assert row["sector"] == {"C": "Farming", "F": "Trade", "B": "Trade"}[row["trade"][0]] or (
            row["trade"] == "Cattle"
        )
        assert row["century"] == ("new" if row["born"] >= datetime.date(2000, 1, 1) else "old")
        assert row["low"] == ("low" if row["share"] < 0.1 else "high")
    assert {row["group"] for row in found} == {None, "child", "adult", "old"}
    assert {row["sector"] for row in found} == {"Farming", "Trade"}


def test_a_column_leads_back_to_one_of_the_domain(schema):
    assert origin(schema, "age")[1].tolist() == [0, 1, 2, 3, 4]
    name, codes = origin(schema, "works")
    assert (name, codes.tolist()) == ("age", [0, 1, 1, 0, 2])
    name, codes = origin(schema, "sector")
    assert (name, codes.tolist()) == ("trade", [0, 0, 1, 1])
    assert origin(schema, "low")[1].tolist() == [0, 1, 1]


def test_a_picture_shows_the_counts_of_what_is_followed(schema):
    name, becomes = origin(schema, "works")
    domain = schema.domain.project(("age",))
    noisy = noisy_table(domain, np.array([10, 20, 30, 40, 0]), scale=2.0, stage="one_way")
    tally = Tally(schema.domain, [("age",)])
    codes = np.zeros((4, 5), dtype=np.uint16)
    codes[0] = [0, 1, 2, 3, 4]
    tally.add(Dataset(schema.domain, codes))

    column = schema.column("works")
    shown = picture(
        column, pool(schema.domain, [noisy]), [tally], records=100, origin=(name, becomes)
    )

    assert [mark.label for mark in shown.marks] == ["none", "job", "(missing)"]
    assert [mark.synthetic for mark in shown.marks] == [40, 40, 20]
    assert [mark.noisy for mark in shown.marks] == [50, 50, 0]
    # Two noisy counts make one: the noise of the sum.
    wide = shown.marks[0].noisy_high - shown.marks[0].noisy
    assert wide == pytest.approx(np.sqrt(2) * 4, rel=0.05)
    assert shown.source == "a noisy table"


def test_the_document_reads_back_as_the_same_schema(schema):
    assert_reads_back(schema)


def test_the_rule_is_part_of_the_hash(tmp_path, schema):
    other = read(tmp_path, COLUMNS.replace("[15, 65]", "[15, 40]"))
    mapped = read(tmp_path, COLUMNS.replace("old: 0", "old: 1"))

    assert len({schema_hash(one) for one in (schema, other, mapped)}) == 3


def test_a_rule_is_told_in_words(schema):
    by_name = {one.column.name: one for one in schema.dependents}

    words = dependency_in_words(by_name["century"], schema.column("born"))
    assert words == [
        {"of": "below 2000-01-01", "is": "old"},
        {"of": "from 2000-01-01", "is": "new"},
    ]
    assert dependency_in_words(by_name["works"], schema.column("group"))[2:] == [
        {"of": "old", "is": "none"},
        {"of": "(missing)", "is": "(missing)"},
    ]


def test_structural_zeros_may_speak_of_a_dependent_column(tmp_path):
    rules = "impossible:\n  - {works: job, sector: Trade}\n  - {group: missing, low: high}\n"
    zeros = read(tmp_path, extra=rules).zeros.rules

    assert (zeros[0].columns, zeros[0].codes) == (("age", "trade"), ((1, 2), (2, 3)))
    assert (zeros[1].columns, zeros[1].codes) == (("age", "share"), ((4,), (1, 2)))


def test_conditions_on_one_origin_are_met_together(tmp_path):
    (rule,) = read(
        tmp_path, extra='impossible:\n  - {group: adult, age: ">=40", low: low}\n'
    ).zeros.rules

    assert (rule.columns, rule.codes) == (("age", "share"), ((2,), (0,)))
    with pytest.raises(BadInput, match=r"no value of column .age. .* and the conditions"):
        read(tmp_path, extra='impossible:\n  - {group: child, age: ">=40", low: low}\n')


def test_a_map_may_be_a_file(tmp_path):
    (tmp_path / "map.csv").write_text("sex,title,note\n1,Mr,x\n2,Ms,y\n")
    columns = (
        "  sex: {type: category, levels: {1: male, 2: female}}\n"
        "  title: {type: category, levels: [Mr, Ms], follows: sex, map: map.csv}\n"
    )
    schema = read(tmp_path, columns)
    (tmp_path / "map.csv").unlink()

    assert schema.dependents[0].codes == (0, 1)
    assert parse_schema(schema.document) == schema


# -- the file

HEADER = "age,group,works,trade,sector,born,century,share,low\n"
GOOD = "7,child,0,A1,A,1999-12-31,old,0.1,high\n,,,B2,B,2000-01-01,new,0.09,low\n"
FAULTS = {
    "group": GOOD.replace("7,child", "7,adult"),
    "works": GOOD.replace("child,0", "child,1"),
    "sector": GOOD.replace("A1,A,", "A1,B,"),
    "century": GOOD.replace("1999-12-31,old", "1999-12-31,new"),
    "low": GOOD.replace("0.1,high", "0.1,low"),
}


def source_of(folder: Path, schema, text: str):
    (folder / "f.csv").write_text(HEADER + text)
    return open_source("f.csv", folder, schema.reads, ())


def test_a_file_that_obeys_is_coded_without_its_dependent_columns(tmp_path, schema):
    source = source_of(tmp_path, schema, GOOD)

    validate(source, schema, tmp_path / "internal")
    store = write_codes(source, schema, tmp_path / "codes")

    assert store.codes(0).shape == (4, 2)


@pytest.mark.parametrize("name", FAULTS)
def test_a_row_that_does_not_obey_is_refused_without_its_value(tmp_path, schema, name):
    source = source_of(tmp_path, schema, FAULTS[name])

    with pytest.raises(SchemaViolation) as caught:
        write_codes(source, schema, tmp_path / "codes")

    message = caught.value.message
    # What follows the column that is wrong is compared with what that one should be.
    assert message.startswith(f"Column {name!r} does not follow from ")
    assert message.count("in every row") == 1
    assert "1999" not in message
    assert not any(figure in message for figure in "0123456789")


@pytest.mark.parametrize("policy", some(["missing", "clip"], "clip".__eq__))
@pytest.mark.parametrize("name", FAULTS)
def test_with_another_policy_the_value_that_follows_wins(tmp_path, name, policy):
    text = COLUMNS.replace("  works:\n   ", "  works:")
    columns = "".join(
        line.replace("}\n", f", out_of_range: {policy}}}\n", 1)
        if line.startswith(f"  {name}:") and not line.endswith("}}\n")
        else line.replace("}}\n", f"}}, out_of_range: {policy}}}\n")
        if line.startswith(f"  {name}:")
        else line
        for line in text.splitlines(keepends=True)
    )
    schema = read(tmp_path, columns)
    source = source_of(tmp_path, schema, FAULTS[name].replace("child,1", "child,maybe"))

    validate(source, schema, tmp_path / "internal")
    write_codes(source, schema, tmp_path / "codes")

    good = original_values(source_of(tmp_path, schema, GOOD), schema, NAMES)
    assert good.to_pylist()[0]["works"] == "none"
    assert original_values(source_of(tmp_path, schema, FAULTS[name]), schema, NAMES).equals(good)


def test_a_dependent_column_that_is_no_level_is_refused_by_validation(tmp_path, schema):
    source = source_of(tmp_path, schema, GOOD.replace("new", "newest"))

    with pytest.raises(SchemaViolation, match="'century' holds texts that are not among"):
        validate(source, schema, tmp_path / "internal")


def test_missing_where_the_source_is_not_does_not_follow(tmp_path, schema):
    check = DependencyCheck(schema)
    source = source_of(tmp_path, schema, GOOD.replace("7,child", "7,"))
    (batch,) = source.batches()
    codes = [pa.array([0, 4], pa.uint16()).to_numpy(), *np.array([[0, 3], [9, 10], [1, 0]])]

    assert check.refused(batch.records, codes) == {
        "group": 1,
        "works": 0,
        "sector": 0,
        "century": 0,
        "low": 0,
    }


def test_a_text_that_cannot_be_read_does_not_follow_whatever_should_stand_there(tmp_path, schema):
    source = source_of(tmp_path, schema, GOOD.replace("child,0", "child,none at all"))
    (batch,) = source.batches()
    codes = [pa.array([0, 4], pa.uint16()).to_numpy(), *np.array([[0, 3], [9, 10], [1, 0]])]

    assert DependencyCheck(schema).refused(batch.records, codes)["works"] == 1


# -- mistakes

A = "  a: {type: category, levels: [x, y]}\n"
N = "  n: {type: integer, min: 0, max: 9, edges: [0, 3, 6, 10]}\n"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            A + "  b: {type: category, levels: [u, v], follows: c, map: {x: u, y: v}}\n",
            "no column 'c'",
        ),
        (A + "  b: {type: category, levels: [u, v], follows: a}\n", "'map' is missing"),
        (A + "  b: {type: category, levels: [u, v], follows: a, map: {x: u}}\n", "'y' of 'a' is"),
        (A + "  b: {type: category, levels: [u], follows: a, map: {x: u, y: w}}\n", "'w' is not"),
        (
            A + "  b: {type: category, levels: [u], follows: a, map: {x: u, y: u, z: u}}\n",
            "'z'",
        ),
        (
            A + "  b: {type: category, levels: [u], follows: a, map: {x: u, y: missing}}\n",
            "no missing level",
        ),
        (A + "  b: {type: category, levels: [u], follows: a, edges: [1]}\n", "'a' has levels"),
        (
            A + "  b: {type: category, levels: [u], follows: a, map: no.csv}\n",
            "there is no such file",
        ),
        (A + "  b: {type: category, levels: [u], map: {x: u}}\n", "`follows`"),
        (A + "  b: {type: integer, min: 0, max: 1, follows: a, map: {}}\n", "`follows`"),
        (A + "  b: {type: category, levels: [u], role: id, follows: a}\n", "neither read nor"),
        (N + "  b: {type: category, levels: [u, v], follows: n}\n", "'edges' is missing"),
        (N + "  b: {type: category, levels: [u, v], follows: n, edges: [3, 6]}\n", "1 edges"),
        (N + "  b: {type: category, levels: [u, v], follows: n, edges: [4]}\n", "3 and 6"),
        (N + "  b: {type: category, levels: [u, v, w], follows: n, edges: [6, 3]}\n", "edges"),
        (N + "  b: {type: category, levels: [u], follows: n, edges: []}\n", "one level only"),
        (N + "  b: {type: category, levels: [u, v], follows: n, map: {1: u}}\n", "'n'"),
        (
            "  n: {type: integer, min: 0, max: 1, missing: level}\n"
            "  b: {type: category, levels: [u, v], follows: n, edges: [1], missing: reject}\n",
            "missing: level",
        ),
        (
            A + "  b: {type: category, levels: [x, y], follows: c, map: {x: x, y: y}}\n"
            "  c: {type: category, levels: [x, y], follows: b, map: {x: x, y: y}}\n",
            "follows itself",
        ),
        (
            "  a: {type: category, codes: codes.csv, group: 1}\n"
            "  b: {type: category, levels: [u, v], follows: a,"
            " map: {A: u, A1: u, A2: v, B: v, B1: v, B2: v}}\n",
            "'A' and 'A2'",
        ),
    ],
)
def test_a_rule_that_does_not_say_it_all_is_refused(tmp_path, columns, said):
    with pytest.raises(BadInput) as caught:
        read(tmp_path, columns)

    assert said in caught.value.message
    assert caught.value.message.startswith("s.yaml, line ")
    assert len(caught.value.message) < 400
