"""Survey weights: the schema's totals, and weights that meet them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from dp_core.bundle.statement.sections import weights_statement
from dp_core.bundle.verification.files_check import misses
from dp_core.errors import BadInput
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.replicates.survey_weights import Calibrator, deviation, rake
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.reading.schema_file import load_schema, parse_schema
from dp_core.schema.rules.possible_codes import decode

COLUMNS = """\
  sex:    {type: category, levels: {1: male, 2: female}}
  region: {type: category, levels: [north, south, west], missing: level}
  age:    {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100]}
  group:  {type: category, levels: [young, old], follows: age, edges: [15]}
  weight: {type: number, min: 0, max: 900, bins: 9, decimals: 2, role: weight}
"""
TOTALS = """\
  - {sex: {male: 1200000, female: 1300000.5}}
  - {columns: [sex, region], totals: {1: {north: 3e5, south: 4e5, west: 4e5, missing: 1e5},
      female: {north: 3e5, south: 4e5, west: 5e5, missing: 100000.5}}}
  - {group: {young: 500000.25, old: 2000000.25}}
"""


def read(folder, totals=TOTALS, columns=COLUMNS, extra=""):
    text = f"version: 1\ntitle: t\ncolumns:\n{columns}{extra}calibrate:\n{totals}"
    (folder / "s.yaml").write_text(text)
    return load_schema(folder / "s.yaml")


def a_set(schema, rows=3000, seed=1):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, rows) for size in schema.domain.sizes]
    data = Dataset(schema.domain, np.stack(codes).astype(np.uint16))
    return decode(schema, data, rng=rng)


def calibrated(schema, tables):
    calibrator = Calibrator(schema)
    for table in tables:
        calibrator.add(table)
    off = calibrator.settle()
    return off, pa.concat_tables([calibrator.apply(table) for table in tables])


def total(table, **of):
    frame = table.to_pandas()
    for name, value in of.items():
        frame = frame[frame[name].isna() if value is None else frame[name] == value]
    return float(np.sum(frame["weight"]))


def test_weights_meet_every_total_in_whatever_pieces_they_come(tmp_path):
    schema = read(tmp_path)
    whole = a_set(schema)

    off, table = calibrated(schema, [whole.slice(0, 1100), whole.slice(1100)])

    assert off <= 1e-12
    assert total(table, sex="male") == pytest.approx(1_200_000, rel=1e-9)
    assert total(table, sex="female", region="west") == pytest.approx(500_000, rel=1e-9)
    assert total(table, sex="female", region=None) == pytest.approx(100_000.5, rel=1e-9)
    assert total(table, group="old") == pytest.approx(2_000_000.25, rel=1e-9)
    # Within a cell of all margins nothing but one factor changes.
    before, after = whole.to_pandas(), table.to_pandas()
    cell = ((before["sex"] == "male") & (before["region"] == "north") & (before["age"] < 15)).array
    ratio = after["weight"][cell] / before["weight"][cell]
    assert ratio.max() - ratio.min() < 1e-12 * ratio.max()
    assert table.drop_columns("weight").equals(whole.drop_columns("weight"))


def test_missing_rows_are_free_where_no_total_speaks_of_them(tmp_path):
    schema = read(tmp_path, "  - {region: {north: 10, south: 20, west: 30}}\n")
    whole = a_set(schema)

    off, table = calibrated(schema, [whole])

    assert off <= 1e-12
    assert total(table, region=None) == pytest.approx(total(whole, region=None), rel=1e-12)
    assert total(table, region="west") == pytest.approx(30, rel=1e-9)


def test_a_level_that_no_row_has_is_stated_and_the_others_take_it_over(tmp_path):
    schema = read(tmp_path)
    whole = a_set(schema)
    whole = whole.filter(pa.array([value != "west" for value in whole["region"].to_pylist()]))

    off, table = calibrated(schema, [whole])

    assert off == 1.0
    assert total(table) == pytest.approx(2_500_000.5, rel=1e-9)
    assert total(table, sex="male") == pytest.approx(1_200_000, rel=1e-9)


def test_rows_without_weight_keep_none(tmp_path):
    schema = read(tmp_path, "  - {region: {north: 10, south: 20, west: 30}}\n")
    whole = a_set(schema)
    axis = whole.schema.get_field_index(schema.weight.name)
    free = [0.0 if place == "west" else 1.0 for place in whole["region"].to_pylist()]
    _, made = calibrated(schema, [whole.set_column(axis, schema.weight.name, pa.array(free))])

    assert total(made, region="west") == 0
    assert total(made, region="north") > 0


def test_a_total_that_no_weight_stands_for_goes_to_the_others_in_proportion():
    totals = np.array([10.0, 20.0, 30.0])

    raked = rake(np.array([5.0, 1.0]), [np.array([0, 1])], [totals])

    assert raked == pytest.approx([20, 40])
    assert deviation(raked, [np.array([0, 1])], [totals]) == pytest.approx(1)


def test_raking_is_the_fit_of_deming_and_stephan():
    table = np.array([[40.0, 30, 20, 10], [35, 50, 100, 75], [30, 80, 70, 120], [20, 30, 40, 50]])
    rows, columns = np.array([150.0, 300, 400, 150]), np.array([200.0, 300, 400, 100])
    members = [np.repeat(np.arange(4), 4), np.tile(np.arange(4), 4)]

    raked = rake(table.ravel(), members, [rows, columns]).reshape(4, 4)

    # Its margins and the odds of the table it starts from: these two things define it.
    change = np.log(raked / table)
    assert np.allclose(change - change[0] - (change[:, :1] - change[0, 0]), 0, atol=1e-10)
    assert np.allclose(raked.sum(axis=1), rows, rtol=1e-11)
    assert np.allclose(raked.sum(axis=0), columns, rtol=1e-11)


def test_what_is_stated_is_looked_for_in_the_sets(tmp_path):
    import pyarrow.parquet as pq

    schema = read(tmp_path)
    off, table = calibrated(schema, [a_set(schema)])
    (tmp_path / "synthetic").mkdir()
    path = tmp_path / "synthetic" / "set-1.parquet"

    pq.write_table(table, path, row_group_size=1000)
    assert pq.read_metadata(path).num_row_groups == 3
    assert misses(tmp_path, schema, {1: off}) == []
    weights = table["weight"].to_numpy().copy()
    weights[7] += 1
    pq.write_table(
        table.set_column(table.schema.get_field_index("weight"), "weight", [weights]), path
    )
    (sentence,) = misses(tmp_path, schema, {1: 0.0})
    assert "synthetic/set-1.parquet" in sentence
    assert misses(tmp_path, schema, {1: 1e-3}) == []


def test_the_statement_says_to_what_and_how_near(tmp_path):
    schema = read(tmp_path)

    assert weights_statement(schema, [3e-13, 0.012301]) == {
        "column": "weight",
        "calibrated_to": [
            "2 totals by sex, together 2500000.5",
            "8 totals by sex and region, together 2500000.5",
            "2 totals by group, together 2500000.5",
        ],
        "largest_deviation": [0, 0.013],
    }
    assert weights_statement(parse_schema(PLAIN), []) is None


PLAIN = {"version": 1, "title": "t", "columns": {"x": {"type": "category", "levels": ["a"]}}}


def test_the_document_reads_back_as_the_same_schema(tmp_path):
    schema = read(tmp_path)
    stored = json.loads(canonical_json(schema.document))

    assert parse_schema(stored) == schema
    assert schema_hash(parse_schema(stored)) == schema_hash(schema)
    assert schema_hash(
        read(tmp_path, TOTALS.replace("500000.25", "500000.50").replace("2000000.25", "2000000"))
    ) != schema_hash(schema)


def test_every_way_to_write_totals_is_the_same(tmp_path):
    (tmp_path / "totals.csv").write_text(
        "region,sex,total\n"
        + "".join(
            f"{region},{sex},{10 + place}\n"
            for place, (sex, region) in enumerate(
                (sex, region) for sex in ("male", "2") for region in ("north", "south", "west")
            )
        )
    )
    rows = (
        "[[male, north, 10], [male, south, 11], [male, west, 12],"
        " [2, north, 13], [2, south, 14], [2, west, 15]]"
    )
    nested = "{1: {north: 10, south: 11, west: 12}, female: {north: 13, south: 14, west: 15}}"

    found = [
        read(tmp_path, f"  - {{columns: [sex, region], totals: {totals}}}\n").calibration
        for totals in ("totals.csv", rows, nested)
    ]

    assert found[0] == found[1] == found[2]
    assert read(tmp_path, "  - 75\n").calibration[0].totals == (((), 75),)


def test_what_cannot_occur_needs_no_total(tmp_path):
    extra = "impossible:\n  - {sex: male, region: [west, missing]}\n"
    totals = (
        "  - {columns: [sex, region], totals: {male: {north: 1, south: 1},"
        " female: {north: 1, south: 1, west: 1}}}\n"
    )

    assert len(read(tmp_path, totals, extra=extra).calibration[0].totals) == 5
    with pytest.raises(BadInput, match="the total of sex = 'male', region = 'west' is missing"):
        read(tmp_path, totals)
    with pytest.raises(BadInput, match="cannot occur"):
        read(tmp_path, totals.replace("south: 1}, f", "south: 1, west: 1}, f"), extra=extra)


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        ("  - {sex: {male: 1}}\n", "the total of sex = 'female' is missing"),
        ("  - {sex: {male: 1, female: 0}}\n", "must be greater than 0"),
        ("  - {sex: {male: 1, femal: 1}}\n", "Did you mean 'female'"),
        ("  - {sex: {male: 1, female: x}}\n", "'x' is not a number"),
        ("  - {sex: {male: 1, 1: 1, female: 1}}\n", "is given twice"),
        ("  - {sx: {male: 1, female: 1}}\n", "there is no column 'sx'"),
        ("  - {age: {1: 1}}\n", "'age' is not a category or an ordinal"),
        (
            "  - {sex: {male: 1, female: 2}}\n  - 4\n",
            "the totals of all rows add up to 4 here and to 3 under sex",
        ),
        ("  - 4\n  - {sex: {male: 1, female: 2}}\n", "to 4 under the total of all rows"),
        (
            "  - {columns: [sex, group],"
            " totals: {male: {young: 1, old: 2}, female: {young: 2, old: 2}}}\n"
            "  - {sex: {male: 2, female: 5}}\n",
            "the totals of sex = 'male' add up to 2 here and to 3 under sex and group",
        ),
        ("  - {sex: {male: 1, female: 2}}\n  - {sex: {male: 1, female: 2}}\n", "an earlier margin"),
        ("  - {sex: {male: 1, female: 2}, region: {}}\n", "one column with its totals"),
        ("  - {columns: [sex], totals: [[male]]}\n", "has 1 values; write sex and the total"),
        ("  - {columns: [sex], totals: no.csv}\n", "no.csv: there is no such file"),
        ("  []\n", "no totals"),
        ("  {sex: {male: 1}}\n", "must be a list"),
    ],
)
def test_totals_that_do_not_say_it_all_are_refused(tmp_path, totals, said):
    with pytest.raises(BadInput) as caught:
        read(tmp_path, totals)

    assert said in caught.value.message
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ("{type: integer, min: 0, max: 9, role: weight}", "type: number"),
        (
            "{type: number, min: 0, max: 9, bins: 3, role: weight, missing: level}",
            "cannot be missing",
        ),
        ("{type: number, min: -1, max: 9, bins: 3, role: weight}", "is not negative"),
        ("{type: number, min: 0, max: 9, bins: 3}", "needs a column of weights"),
        (
            "{type: number, min: 0, max: 9, bins: 3, role: weight}\n"
            "  other: {type: number, min: 0, max: 9, bins: 3, role: weight}",
            "only one column can have",
        ),
    ],
)
def test_a_column_that_cannot_hold_weights_is_refused(tmp_path, weight, said):
    columns = COLUMNS.replace(COLUMNS.splitlines()[-1], f"  weight: {weight}")

    with pytest.raises(BadInput, match=said):
        read(tmp_path, columns=columns)
