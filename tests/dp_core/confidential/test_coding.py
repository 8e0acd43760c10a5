from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.confidential.code_store import MANIFEST, CodeStore
from dp_core.confidential.coding import write_codes
from dp_core.confidential.source import open_source
from dp_core.errors import SchemaViolation, StageFailed
from dp_core.kernel.counting.stored_rows import checked_rows
from dp_core.schema.compiled import file_document
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tasks.validation.expectations import validate
from tests.full import at_full_size

AGES = tuple(Fraction(edge) for edge in (0, 15, 65, 100))
CHILD_MARRIED = Rule(("age", "marital"), ((0,), (1,)), 'age: "<15", marital: married')


def schema_of(marital=None, zeros=(CHILD_MARRIED,)):
    age = Column(name="age", kind="integer", edges=AGES, minimum=AGES[0], maximum=AGES[-1] - 1)
    levels = (Level("s", "single"), Level("m", "married"))
    return Schema(
        title="t",
        columns=(age, Column(name="marital", kind="category", levels=levels, **(marital or {}))),
        zeros=StructuralZeros(tuple(zeros)),
        document={},
    )


def write_files(folder, ages, maritals, cuts, kind):
    """Write the rows cut anywhere, as CSV files or as the row groups of Parquet files."""
    for number, (start, stop) in enumerate(zip((0, *cuts), (*cuts, len(ages)), strict=True)):
        table = pa.table({"marital": maritals[start:stop], "age": ages[start:stop]})
        if kind == "csv":
            lines = [f"{m},{a}\n" for m, a in zip(*table.to_pydict().values(), strict=True)]
            (folder / f"{number:03}.csv").write_text("marital,age\n" + "".join(lines))
        else:
            pq.write_table(table, folder / f"{number:03}.parquet", row_group_size=7)
    return open_source(f"*.{kind}", folder, ("age", "marital"), [])


def codes_of(store):
    return np.concatenate([store.codes(chunk) for chunk in range(store.chunks)], axis=1)


@given(
    rows=st.lists(st.tuples(st.integers(15, 99), st.sampled_from("sm")), min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    kind=st.sampled_from(["csv", "parquet"]),
)
@settings(deadline=None, max_examples=15 if at_full_size() else 6)
def test_codes_do_not_depend_on_kind_or_cut_of_the_files(tmp_path_factory, rows, cuts, kind):
    folder = tmp_path_factory.mktemp("d")
    ages, maritals = map(list, zip(*rows, strict=True))
    cuts = sorted(min(cut, len(rows)) for cut in cuts)
    source = write_files(folder, ages, maritals, cuts, kind)
    store = write_codes(source, schema_of(), folder / "codes")
    expected = [[1 if age < 65 else 2 for age in ages], [int(m == "m") for m in maritals]]
    assert codes_of(store).tolist() == expected
    validate(source, schema_of(), folder / "internal", codes=folder / "left")
    assert checked_rows(folder / "left", file_document(schema_of())).rows == len(rows)
    assert codes_of(CodeStore(folder / "left", schema_of().domain)).tolist() == expected


def test_progress_is_told(tmp_path):
    done = []
    source = write_files(tmp_path, [20], ["s"], [], "parquet")
    write_codes(source, schema_of(), tmp_path / "codes", done.append)
    assert done == [1]


def test_a_broken_rule_stops_with_its_text_and_leaves_no_store(tmp_path):
    source = write_files(tmp_path, [3, 4, 30], ["m", "m", "m"], [2], "csv")
    with pytest.raises(SchemaViolation) as caught:
        write_codes(source, schema_of(), tmp_path / "codes")
    assert '{age: "<15", marital: married}' in caught.value.message
    assert "2" not in caught.value.message
    assert caught.value.internal == '2 rows: age: "<15", marital: married'
    with pytest.raises(StageFailed):
        CodeStore(tmp_path / "codes", schema_of().domain)
    # Validation finds it in its own pass, so that the stage that fails does not tell the kind.
    with pytest.raises(SchemaViolation) as found:
        validate(source, schema_of(), tmp_path / "internal", codes=tmp_path / "left")
    assert found.value.message == caught.value.message
    assert not (tmp_path / "left" / MANIFEST).exists()


def test_a_rule_is_settled_where_the_schema_says_so(tmp_path):
    schema = schema_of({"missing": "level", "out_of_range": "missing"})
    source = write_files(tmp_path, [3, 30], ["m", "m"], [], "csv")
    assert codes_of(write_codes(source, schema, tmp_path / "codes")).tolist() == [[0, 1], [2, 1]]


def test_values_outside_the_schema_stop_it_even_without_validation(tmp_path):
    source = write_files(tmp_path, [3, 100, 200], ["s", "s", "zq7canary"], [1], "csv")
    with pytest.raises(SchemaViolation) as caught:
        write_codes(source, schema_of(), tmp_path / "codes")
    assert "'age', 'marital'" in caught.value.message
    assert "zq7canary" not in caught.value.message
    assert caught.value.internal == "2 rows: age\n1 rows: marital"
    with pytest.raises(SchemaViolation):
        validate(source, schema_of(), tmp_path / "internal", codes=tmp_path / "left")
    assert not (tmp_path / "left" / MANIFEST).exists()


def test_a_store_that_was_garbled_since_validation_is_refused(tmp_path):
    source = write_files(tmp_path, [20], ["s"], [], "csv")
    validate(source, schema_of(), tmp_path / "internal", codes=tmp_path / "left")
    (chunk,) = (tmp_path / "left").glob("chunk-*")
    chunk.write_bytes(bytes(chunk.stat().st_size))
    with pytest.raises(StageFailed, match="is damaged"):
        checked_rows(tmp_path / "left", file_document(schema_of()))
