"""Drawn records are moved as little as possible to meet public totals, and never against a rule."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.replicates.met_totals import with_totals
from dp_core.schema.reading.schema_file import parse_schema

LEVELS = ["0", "1", "2"]
NESTED = {
    "district": {
        "type": "category",
        "levels": ["u", "v", "w", "x"],
        "within": "a",
        "map": {"u": "0", "v": "0", "w": "1", "x": "2"},
    }
}


def schema_of(columns=None, **more):
    columns = columns or {name: {"type": "category", "levels": LEVELS} for name in "abc"}
    return parse_schema({"version": "1", "title": "T", "columns": columns, **more})


def drawn(schema, rows=900, seed=1):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, rows) for size in schema.domain.sizes]
    data = Dataset(schema.domain, np.array(codes, dtype=np.uint16))
    return schema.zeros.repair(data, rng=rng)


def met(schema, data, seed=2, **counts):
    wanted = {name: np.array(each) for name, each in counts.items()}
    return with_totals(schema, data, wanted, rng=np.random.default_rng(seed))


def counts_of(data, name, size=3):
    return np.bincount(data.column(name), minlength=size).tolist()


def test_as_few_records_as_possible_get_another_level():
    schema = schema_of()
    data = drawn(schema)
    before = np.array(counts_of(data, "a"))
    found = met(schema, data, a=[500, 100, 300])
    assert counts_of(found, "a") == [500, 100, 300]
    moved = int((found.column("a") != data.column("a")).sum())
    assert moved == int(np.maximum(before - [500, 100, 300], 0).sum())
    assert (found.codes[1:] == data.codes[1:]).all()


def test_records_that_meet_the_totals_are_unchanged():
    schema = schema_of()
    data = drawn(schema)
    found = met(schema, data, a=counts_of(data, "a"), b=counts_of(data, "b"))
    assert (found.codes == data.codes).all()


def test_the_moved_records_are_a_random_part_of_those_with_too_many():
    schema = schema_of()
    data = drawn(schema, rows=30_000)
    mean = met(schema, data, a=[4000, 13000, 13000])
    moved = mean.column("a") != data.column("a")
    for name in "bc":
        was = data.column("a") == 0
        shares = np.bincount(data.column(name)[moved & was]) / (moved & was).sum()
        # About 6,000 moved records: standard error 0.006.
        assert np.abs(shares - 1 / 3).max() < 0.03


def test_totals_hold_with_rules_that_name_the_column():
    rules = [{"a": ["0"], "b": ["1", "2"]}, {"a": ["2"], "c": ["0"]}]
    schema = schema_of(impossible=rules)
    found = met(schema, drawn(schema), a=[250, 50, 600], b=[700, 100, 100])
    assert counts_of(found, "a") == [250, 50, 600]
    assert counts_of(found, "b") == [700, 100, 100]
    assert not schema.zeros.violations(found).any()


def test_totals_hold_where_two_columns_can_only_change_together():
    tied = [{"a": [one], "b": [each for each in LEVELS if each != one]} for one in LEVELS]
    schema = schema_of(impossible=tied)
    found = met(schema, drawn(schema), a=[100, 300, 500], b=[100, 300, 500])
    assert counts_of(found, "a") == counts_of(found, "b") == [100, 300, 500]
    assert (found.column("a") == found.column("b")).all()


def test_sets_meet_totals_that_only_several_exchanges_together_meet():
    # From a = 0 to a = 1 only by way of a = 2, whose number is right.
    allowed = {(0, 0), (2, 0), (2, 1), (1, 1)}
    rules = [
        {"a": str(a), "b": str(b)} for a in range(3) for b in range(3) if (a, b) not in allowed
    ]
    schema = schema_of(impossible=rules)
    cells = np.repeat(np.array(sorted(allowed)), 100, axis=0).T
    codes = np.vstack([cells, np.arange(400) % 3]).astype(np.uint16)
    data = Dataset(schema.domain, codes)
    found = met(schema, data, a=[90, 110, 200], b=[200, 200, 0])
    assert counts_of(found, "a") == [90, 110, 200]
    assert counts_of(found, "b") == [200, 200, 0]
    assert not schema.zeros.violations(found).any()
    assert int((found.codes != data.codes).any(axis=0).sum()) <= 20
    with pytest.raises(BadInput, match="What was paid stays spent"):
        met(schema, data, a=[90, 110, 200], b=[200, 199, 1])


def test_totals_that_the_rules_exclude_are_a_clear_error():
    tied = [{"a": [one], "b": [each for each in LEVELS if each != one]} for one in LEVELS]
    schema = schema_of(impossible=tied)
    with pytest.raises(BadInput, match="cannot be met by records that obey all rules"):
        met(schema, drawn(schema), a=[100, 300, 500], b=[101, 299, 500])


def test_a_moved_record_gets_a_smallest_area_as_often_as_drawn_ones():
    columns = {name: {"type": "category", "levels": LEVELS} for name in "ab"} | NESTED
    schema = schema_of(columns)
    nested, rng = schema.domain.nested, np.random.default_rng(0)
    district = rng.choice(4, 20_000, p=[0.08, 0.02, 0.5, 0.4]).astype(np.uint16)
    codes = {"a": nested.map("a", "district")[district], "b": rng.integers(0, 3, 20_000)}
    codes["district"] = district
    data = Dataset(
        schema.domain, np.array([codes[each] for each in schema.domain.columns], dtype=np.uint16)
    )
    found = met(schema, data, a=[12_000, 8_000, 0])
    assert counts_of(found, "a") == [12_000, 8_000, 0]
    assert (nested.map("a", "district")[found.column("district")] == found.column("a")).all()
    own = np.bincount(district, minlength=2)[:2]
    # Standard error of the share: 0.004.
    after = np.bincount(found.column("district"), minlength=2)[:2]
    assert abs(after[0] / after.sum() - own[0] / own.sum()) < 0.02
