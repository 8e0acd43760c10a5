from __future__ import annotations

import datetime
import errno

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_core.bundle.files import parquet_file
from dp_core.bundle.files.marginals_file import read_marginals, write_marginals
from dp_core.bundle.files.parquet_file import write_synthetic
from dp_core.bundle.verification.examined import counts_of_sets
from dp_core.client.released import Measurement, SparseTable
from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.full import examples
from tests.raising import raising


def schema(sizes: dict[str, int]) -> Schema:
    columns = tuple(
        Column(
            name=name,
            kind="category",
            levels=tuple(Level(str(code), f"same {code % 3}") for code in range(size)),
        )
        for name, size in sizes.items()
    )
    return Schema(title="t", columns=columns, zeros=StructuralZeros(), document={})


def measured(domain: Domain, clique: tuple[str, ...], grant: int, **changes: object) -> Measurement:
    sizes = domain.project(clique).sizes
    values = np.random.default_rng(grant).integers(-(2**40), 2**40, size=sizes)
    fields = {
        "noise": "gaussian",
        "scale": 20.123456789,
        "stage": "measure",
        "replicate": 0,
        **changes,
    }
    return Measurement(
        domain=domain.project(clique),
        values=np.asarray(values, dtype=np.int64),
        grant=grant,
        **fields,  # type: ignore[arg-type]
    )


def same(first: Measurement, second: Measurement) -> bool:
    names = ("domain", "noise", "scale", "stage", "replicate", "grant")
    return all(getattr(first, name) == getattr(second, name) for name in names) and np.array_equal(
        first.values, second.values
    )


def test_noisy_tables_survive_the_file_exactly(tmp_path):
    public = schema({"a": 3, "b": 5, "c": 1, "long": 600})
    domain = public.domain
    tables = (
        measured(domain, (), 4, stage="total", noise="laplace", scale=1.5),
        measured(domain, ("a",), 9, stage="one_way", replicate=2),
        measured(domain, ("b", "a"), 10),
        measured(domain, ("c",), 11, scale=float(np.nextafter(17.3, 18))),
        measured(domain, ("long",), 12),
        measured(domain, ("a",), 13, stage="one_way", replicate=3),
    )
    rows = write_marginals(tmp_path / "m.parquet", tables, public)
    found = read_marginals(tmp_path / "m.parquet")

    assert rows == 1 + 3 + 15 + 1 + 600 + 3
    assert len(found) == len(tables)
    assert all(same(a, b) for a, b in zip(tables, found, strict=True))


def test_a_large_table_spans_row_groups_and_survives(tmp_path):
    public = schema({"a": 500, "b": 600, "c": 2})
    tables = [measured(public.domain, clique, 7 + len(clique)) for clique in [("a", "b"), ("c",)]]
    write_marginals(tmp_path / "m.parquet", tables, public)

    with pq.ParquetFile(tmp_path / "m.parquet") as file:
        assert file.num_row_groups > 2
    found = read_marginals(tmp_path / "m.parquet")
    assert all(same(a, b) for a, b in zip(tables, found, strict=True))


def test_no_noisy_table_at_all_is_an_empty_file(tmp_path):
    write_marginals(tmp_path / "m.parquet", [], schema({"a": 2}))

    assert read_marginals(tmp_path / "m.parquet") == ()


@pytest.mark.parametrize("content", [None, b"", b"PAR1", b"hello, world", b"PAR1" * 50])
def test_what_is_no_file_of_tables_is_refused_by_name(tmp_path, content):
    if content is not None:
        (tmp_path / "m.parquet").write_bytes(content)
    with pytest.raises(BadInput, match=r"m\.parquet"):
        read_marginals(tmp_path / "m.parquet")


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marginals")
    public = schema({"a": 3, "b": 2})
    cliques = [("a",), ("b",), ("a", "b")]
    tables = [measured(public.domain, clique, 1 + i) for i, clique in enumerate(cliques)]
    write_marginals(folder / "m.parquet", tables, public)
    return folder / "m.parquet"


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_but_never_crashes(small_file, data):
    content = bytearray(small_file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    damaged = small_file.with_name("damaged.parquet")
    damaged.write_bytes(bytes(content))
    tables, message = (), "damaged.parquet"
    try:
        tables = read_marginals(damaged)
    except BadInput as error:
        message = error.message

    assert "damaged.parquet" in message
    assert all(table.values.shape == table.domain.sizes for table in tables)


@pytest.mark.parametrize("what", ["order", "missing", "noise", "scale", "grant", "twice"])
def test_a_table_that_is_not_whole_is_refused(tmp_path, what):
    public = schema({"a": 3, "b": 2})
    tables = [measured(public.domain, ("a",), 1), measured(public.domain, ("b",), 2)]
    write_marginals(tmp_path / "m.parquet", tables, public)
    rows = pq.read_table(tmp_path / "m.parquet")
    if what == "order":
        rows = rows.take([1, 0, 2, 3, 4])
    elif what == "missing":
        rows = rows.take([0, 2, 3, 4])
    elif what == "twice":
        rows = rows.take([0, 3, 4, 1, 2])
    else:
        value = {
            "noise": pa.array(["uniform"] * 5),
            "scale": pa.array([-1.0] * 5),
            "grant": pa.array([1, 2, 1, 2, 2]),
        }[what]
        rows = rows.set_column(rows.schema.get_field_index(what), what, value)
    pq.write_table(rows, tmp_path / "bad.parquet")

    with pytest.raises(BadInput, match=r"bad\.parquet"):
        read_marginals(tmp_path / "bad.parquet")


def table(rows: int) -> pa.Table:
    rng = np.random.default_rng(rows)
    return pa.table(
        {
            "sex": pa.DictionaryArray.from_arrays(
                pa.array(rng.integers(0, 2, rows).astype(np.int8), mask=rng.random(rows) < 0.1),
                pa.array(["f", "m"]),
                ordered=True,
            ),
            "n": pa.array(rng.integers(0, 9, rows)),
            "x": pa.array(rng.random(rows)),
            "day": pa.array([datetime.date(2020, 1, 1)] * rows, pa.date32()),
        }
    )


@pytest.mark.parametrize("size", [1, 999, 131_072, 200_000])
def test_bytes_do_not_depend_on_how_the_rows_were_cut(tmp_path, size):
    whole = table(300_000 if size > 1000 else 2_000)
    write_synthetic(tmp_path / "a" / "one.parquet", [whole])
    pieces = (whole.slice(start, size) for start in range(0, whole.num_rows, size))
    rows = write_synthetic(tmp_path / "a" / "two.parquet", pieces)

    assert rows == whole.num_rows
    one = (tmp_path / "a" / "one.parquet").read_bytes()
    assert one == (tmp_path / "a" / "two.parquet").read_bytes()
    found = pq.read_table(tmp_path / "a" / "one.parquet")
    assert found.equals(whole)
    assert found.schema.field("sex").type.ordered


def test_an_empty_set_keeps_its_columns(tmp_path):
    assert write_synthetic(tmp_path / "s.parquet", [table(0)]) == 0
    assert pq.read_table(tmp_path / "s.parquet").column_names == ["sex", "n", "x", "day"]


def test_no_piece_at_all_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one piece"):
        write_synthetic(tmp_path / "s.parquet", [])


def test_pandas_metadata_does_not_reach_the_file(tmp_path):
    labelled = table(5).replace_schema_metadata({"pandas": "{}", "host": "secret"})
    write_synthetic(tmp_path / "s.parquet", [labelled])

    assert b"secret" not in (tmp_path / "s.parquet").read_bytes()


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(
        parquet_file, "settle", raising(OSError(errno.ENOSPC, "No space left on device"))
    )
    with pytest.raises(StageFailed, match="disk is full"):
        write_synthetic(tmp_path / "s.parquet", [table(5)])
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_nothing(tmp_path):
    def pieces():
        yield table(5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_synthetic(tmp_path / "s.parquet", pieces())
    assert list(tmp_path.iterdir()) == []


def test_a_set_is_counted_to_its_last_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_file, "ROW_GROUP", 4)
    labels = pa.array(["same 0", "same 1", "same 2"])
    codes = pa.array([0] * 4 + [1] * 4 + [2, 2], pa.int8())
    path = tmp_path / "synthetic" / "set-1.parquet"
    write_synthetic(path, [pa.table({"a": pa.DictionaryArray.from_arrays(codes, labels)})])
    with pq.ParquetFile(path) as file:
        assert file.num_row_groups == 3

    (tally,) = counts_of_sets(tmp_path, schema({"a": 3}), (1,), [("a",)])
    assert tally.count(("a",)).tolist() == [4, 4, 2]


def kept(domain: Domain, cells: list[list[int]]) -> SparseTable:
    return SparseTable(
        domain=domain,
        cells=np.array(cells, domain.code_type),
        values=np.arange(1, len(cells) + 1),
        threshold=1,
        capacity=9,
        noise="gaussian",
        scale=2.0,
        stage="measure",
        replicate=0,
        grant=1,
    )


def test_cells_of_codes_beyond_16_bits_survive(tmp_path):
    public = schema({"area": 70_000, "a": 2})
    dense = measured(public.domain, ("area",), 3)
    sparse = kept(public.domain, [[4463, 1], [65_536, 0], [69_999, 1]])
    write_marginals(tmp_path / "m.parquet", [dense, sparse], public)

    for found in (
        read_marginals(tmp_path / "m.parquet"),
        read_marginals(tmp_path / "m.parquet", public),
    ):
        assert same(found[0], dense)
        assert np.array_equal(found[1].cells, sparse.cells)
        assert found[1].cells.dtype == np.uint32
        assert np.array_equal(found[1].values, sparse.values)


def test_a_code_that_16_bits_would_cut_to_another_one_is_refused(tmp_path):
    wide, narrow = schema({"area": 70_000, "a": 2}), schema({"area": 5000, "a": 2})
    write_marginals(tmp_path / "m.parquet", [kept(wide.domain, [[69_999, 1]])], wide)
    table = pq.read_table(tmp_path / "m.parquet")
    sizes = pa.array([[5000, 2]] * table.num_rows, table.schema.field("sizes").type)
    place = table.schema.get_field_index("sizes")
    pq.write_table(table.set_column(place, "sizes", sizes), tmp_path / "m.parquet")

    assert narrow.domain.code_type == np.uint16
    with pytest.raises(BadInput, match="not a complete noisy table"):
        read_marginals(tmp_path / "m.parquet")
