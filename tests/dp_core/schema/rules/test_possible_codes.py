"""Values that obey rules: their distribution, what stays unchanged, and large and private bins."""

import datetime
import itertools

import numpy as np
import pytest
from scipy import stats

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema import decoding
from dp_core.schema.grid import on_grid
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.possible_codes import decode, possible_record, with_possible_values
from tests.statistical import FALSE_ALARM

DATES = {"type": "date", "min": "2000-01-01", "max": "2009-12-31", "bins": "month"}
MONEY = {"type": "number", "min": "0", "max": "1000", "bins": "8", "decimals": "2"}


def schema_of(columns, *rules, **keys):
    return parse_schema(
        {"version": "1", "title": "t", "columns": columns, "rules": list(rules), **keys}
    )


def records(schema, rows, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(size, size=rows) for size in schema.domain.sizes])
    data = Dataset(schema.domain, codes.astype(np.uint16))
    return with_possible_values(schema, schema.zeros.repair(data, rng=rng), rng=rng)


def cents(column):
    return np.rint(column.to_numpy() * 100).astype(np.int64)


def test_values_of_a_comparison_are_uniform_over_the_pairs_that_obey_it():
    ten = {"type": "integer", "min": "0", "max": "4", "edges": ["0", "5"]}
    schema = schema_of({"a": ten, "b": ten}, "a <= b")
    table = decode(
        schema,
        Dataset(schema.domain, np.zeros((2, 30_000), np.uint16)),
        rng=np.random.default_rng(3),
    )
    counts = np.zeros((5, 5), int)
    np.add.at(counts, (table["a"].to_numpy(), table["b"].to_numpy()), 1)
    assert counts[np.tril_indices(5, -1)].sum() == 0
    assert stats.chisquare(counts[np.triu_indices(5)]).pvalue > FALSE_ALARM
    # The test can tell: values that are drawn one after the other are not uniform.
    first, second = np.divmod(np.arange(25), 5)
    other = np.where(first <= second, 1 / (5 * (5 - first)), 0).reshape(5, 5) * 30_000
    assert stats.chisquare(counts[np.triu_indices(5)], other[np.triu_indices(5)]).pvalue < 1e-9


def test_values_of_a_sum_are_uniform_over_the_parts_that_obey_it():
    part = {"type": "integer", "min": "0", "max": "5", "edges": ["0", "6"]}
    total = {"type": "integer", "min": "0", "max": "10", "edges": ["0", "4", "11"]}
    schema = schema_of({"a": part, "b": part, "total": total}, "total = a + b")
    codes = np.zeros((3, 30_000), np.uint16)
    table = decode(schema, Dataset(schema.domain, codes), rng=np.random.default_rng(3))
    a, b = table["a"].to_numpy(), table["b"].to_numpy()
    assert (table["total"].to_numpy() == a + b).all()
    counts = np.bincount(a * 6 + b, minlength=36).reshape(6, 6)
    fits = np.add.outer(range(6), range(6)) <= 3
    assert counts[~fits].sum() == 0
    assert stats.chisquare(counts[fits]).pvalue > FALSE_ALARM


def test_rows_that_obey_and_columns_without_rules_keep_their_values():
    columns = {"start": DATES, "end": {**DATES, "missing": "level"}, "other": MONEY}
    ruled, plain = schema_of(columns, "start <= end"), schema_of(columns, "start >= 2000-01-02")
    plain = parse_schema({key: value for key, value in plain.document.items() if key != "rules"})
    data = records(ruled, 4000)
    with_rules = decode(ruled, data, rng=np.random.default_rng(5)).to_pydict()
    without = decode(plain, data, rng=np.random.default_rng(5)).to_pydict()
    assert with_rules["other"] == without["other"]
    changed = 0
    for start, end, old_start, old_end in zip(
        with_rules["start"], with_rules["end"], without["start"], without["end"], strict=True
    ):
        if old_end is None or old_start <= old_end:
            assert (start, end) == (old_start, old_end)
        else:
            changed += 1
            assert start <= end
            assert (start.year, start.month) == (old_start.year, old_start.month)
    assert 0 < changed < 200


def test_sums_hold_to_the_last_decimal_with_columns_of_different_decimals():
    whole = {**MONEY, "decimals": "0"}
    total = {"type": "number", "min": "-50", "max": "2000", "bins": "11", "decimals": "2"}
    schema = schema_of({"a": MONEY, "b": whole, "total": total}, "total = a - b", "a >= b + 0.5")
    table = decode(schema, records(schema, 3000), rng=np.random.default_rng(1))
    assert (cents(table["total"]) == cents(table["a"]) - cents(table["b"])).all()
    assert (cents(table["a"]) >= cents(table["b"]) + 50).all()
    assert (table["b"].to_numpy() % 1 == 0).all()


def test_rules_hold_on_a_grid_of_positions():
    narrow = {"type": "number", "min": "0", "max": "20", "bins": "8", "decimals": "0"}
    columns = {
        "a": MONEY,
        "b": narrow,
        "total": {**MONEY, "max": "1020"},
        "start": DATES,
        "end": DATES,
    }
    written = schema_of(columns, "total = a + b", "start < end")
    schema = on_grid(written, 4096)
    data = records(schema, 2000)
    table = decode(schema, data, rng=np.random.default_rng(1))
    assert (cents(table["total"]) == cents(table["a"]) + cents(table["b"])).all()
    assert (table["b"].to_numpy() % 1 == 0).all()
    assert all(row["start"] < row["end"] for row in table.to_pylist())
    for column in schema.columns:
        own = decoding.codes_of(column, table.column(column.name).combine_chunks())
        assert own.tolist() == data.column(column.name).tolist()


def test_a_chain_of_rules_in_one_bin_is_obeyed():
    day = {"type": "integer", "min": "0", "max": "20", "edges": ["0", "21"]}
    names = ["a", "b", "c", "d", "e"]
    rules = [f"{one} < {other}" for one, other in itertools.pairwise(names)]
    schema = schema_of(dict.fromkeys(names, day), *rules, "e - a <= 5")
    table = decode(schema, records(schema, 500), rng=np.random.default_rng(1)).to_pandas()
    assert (table[names].diff(axis=1).iloc[:, 1:] > 0).all().all()
    assert (table.e - table.a <= 5).all()


def test_rules_that_contradict_each_other_leave_no_record():
    columns = {"a": MONEY, "b": MONEY, "c": MONEY}
    schema = schema_of(columns, "a < b", "b < c", "c < a")
    with pytest.raises(BadInput, match="a < b"):
        possible_record(schema, rng=np.random.default_rng(0))


def test_a_record_is_found_where_rules_leave_few():
    columns = {"a": MONEY, "b": MONEY, "start": DATES, "end": DATES}
    schema = schema_of(columns, "a + b = 1999.99", "start = end", "start >= 2009-12-31")
    data = Dataset(schema.domain, possible_record(schema, rng=np.random.default_rng(0))[:, None])
    (row,) = decode(schema, data, rng=np.random.default_rng(0)).to_pylist()
    assert round(row["a"] * 100) + round(row["b"] * 100) == 199_999
    assert row["start"] == row["end"] == datetime.date(2009, 12, 31)
