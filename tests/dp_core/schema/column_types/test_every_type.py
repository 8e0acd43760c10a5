"""What a column type must keep, for every module of the folder: files, texts and schemas agree."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dp_core.confidential.row_digest import RowDigest
from dp_core.confidential.sources.common_types import is_readable
from dp_core.kernel.coding.coding_rule import coding_rule
from dp_core.schema.column_types.registry import column_type, value_types, words
from dp_core.schema.compiled import coding_document
from dp_core.schema.definition import Column
from dp_core.schema.reading.schema_file import parse_schema

VALUES = pytest.mark.parametrize("scale", value_types(), ids=lambda each: each.word)


def some_values(scale):
    first, last = scale.span or (-9, 9)
    return np.linspace(first, last, 12).round().astype(float if scale.continuous else np.int64)


def rule_of(scale):
    """Return the rule of a column of the type, with all values there are."""
    first, last = scale.span or (-9, 9)
    ends = {"minimum": Fraction(first), "maximum": Fraction(last)}
    edges = (Fraction(first), Fraction(last + 1))
    return coding_rule(coding_document(Column(name="a", kind=scale.word, edges=edges, **ends)))


@pytest.mark.parametrize("word", [word for word in words() if column_type(word).example])
def test_its_example_is_a_column(word):
    definition = yaml.load(column_type(word).example[0], yaml.BaseLoader)
    schema = parse_schema({"version": "1", "title": "t", "columns": {"a": definition}})
    assert schema.column("a").kind == word


@VALUES
def test_a_set_keeps_its_values(scale, tmp_path):
    values = some_values(scale)
    missing = np.arange(values.size) % 3 == 0
    array = scale.array(values, missing)
    pq.write_table(pa.table({"a": array}), tmp_path / "set.parquet")
    read = pq.read_table(tmp_path / "set.parquet")["a"].combine_chunks()

    assert read.type == array.type == scale.stored
    assert np.array_equal(read.is_null().to_numpy(zero_copy_only=False), missing)
    assert np.array_equal(scale.values_in(read)[~missing], values[~missing])


@VALUES
def test_its_texts_are_read_by_schemas_and_from_files(scale):
    values = some_values(scale)
    texts = [scale.text(Fraction(value)) for value in values.tolist()]
    parsed, valid = rule_of(scale).parsed(pa.array(texts))

    assert [scale.parse(text) for text in texts] == [Fraction(value) for value in values.tolist()]
    assert valid.all()
    assert np.array_equal(parsed, values)
    scale.parse(scale.sample)
    assert scale.pattern is None or all(map(scale.pattern.match, (scale.sample, *texts)))


@VALUES
def test_what_it_stores_can_be_read_again_and_has_a_digest(scale):
    values = some_values(scale)
    array = scale.array(values, None)
    digest = RowDigest(b"0123456789abcdef", ["a"], frozenset())
    digest.add(pa.RecordBatch.from_arrays([array], names=["a"]))

    assert is_readable(scale.stored)
    assert scale.is_stored(scale.stored)
    assert rule_of(scale).is_stored(scale.stored)
    assert digest.hexdigest()
    if scale.own_texts:
        assert np.array_equal(rule_of(scale).stored_values(array), values)
