"""Frames of every kind of measurement."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dp_core.analysis.notebook.noisy_tables import NoisyTables
from dp_core.bundle.reading import Bundle
from dp_core.client.released import Answers, Measurement, SparseTable, Totals
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.linear_questions import CellCounts, Interaction
from dp_core.metrics.noise_size import half_width
from dp_core.schema.reading.schema_file import parse_schema

SCHEMA = parse_schema(
    {
        "version": "1",
        "title": "Kinds",
        "columns": {
            "sex": {"type": "category", "levels": ["m", "f"]},
            "count": {"type": "category", "levels": ["none", "one", "two"]},
            "pay": {"type": "integer", "min": "0", "max": "1"},
        },
    }
)
DOMAIN = SCHEMA.domain
ABOUT = {"noise": "gaussian", "scale": 2.0, "stage": "measure", "grant": 1}
MARGIN = half_width("gaussian", 2.0)


def tables(*measured):
    claims = SimpleNamespace(schema=SCHEMA)
    return NoisyTables(Bundle(Path(), claims, "split", 9.0, measured))  # type: ignore[arg-type]


def table(clique, values, **about):
    domain = DOMAIN.project(clique)
    counts = np.array(values, dtype=np.int64).reshape(domain.sizes)
    return Measurement(domain=domain, values=counts, **(ABOUT | about))


def test_several_measurements_of_the_same_columns_are_in_one_frame():
    first = table(("sex", "count"), range(6))
    second = table(("count", "sex"), range(10, 16), scale=5.0, replicate=2)
    frame = tables(first, second)["sex", "count"]

    assert frame["table"].tolist() == [1] * 6 + [2] * 6
    assert set(frame["margin"][6:]) == {half_width("gaussian", 5.0)}
    both = frame[(frame["sex"] == "f") & (frame["column count"] == "two")]
    assert both["count"].tolist() == [5, 15]
    # Row by row of the second table: count is its first column.
    assert frame["count"][6:].tolist() == list(range(10, 16))
    assert frame["sex"][6:].tolist() == ["m", "f"] * 3


def test_a_column_with_the_name_of_a_number_keeps_its_labels():
    frame = tables(table(("count",), [3, 4, 5]))["count"]

    assert frame["column count"].tolist() == ["none", "one", "two"]
    assert frame["count"].tolist() == [3, 4, 5]


def test_the_number_of_records_is_a_table_of_no_columns():
    found = tables(table((), [1234], stage="total"))

    assert list(found) == [()]
    assert found[()].to_dict("list") == {"count": [1234], "margin": [MARGIN], "table": [1]}


def test_a_sparse_table_has_the_cells_that_were_published():
    item = SparseTable(
        domain=DOMAIN,
        cells=np.array([[0, 1, 1], [1, 2, 0]], dtype=np.uint16),
        values=np.array([40, 33]),
        threshold=30,
        capacity=100,
        **ABOUT,
    )
    found = tables(item)
    frame = found["pay", "sex", "count"]

    assert frame[["sex", "column count", "pay"]].astype(str).to_numpy().tolist() == [
        ["m", "one", "1"],
        ["f", "two", "0"],
    ]
    assert frame["count"].tolist() == [40, 33]
    assert found.frame.loc[1, ["kind", "values", "margin"]].tolist() == ["sparse", 2, MARGIN]


def test_single_cells_are_in_the_frames_of_their_columns():
    of, codes = (("sex",), ("sex", "pay"), ("sex",), ("pay", "sex")), ((1,), (0, 1), (0,), (0, 1))
    found = tables(Answers(queries=Cells(of, codes), values=np.array([7, 8, 9, 6]), **ABOUT))

    assert list(found) == [("sex",), ("sex", "pay")]
    assert found["sex"][["sex", "count"]].to_numpy().tolist() == [["f", 7], ["m", 9]]
    pairs = found["sex", "pay"][["sex", "pay", "count"]].astype(str).to_numpy().tolist()
    assert pairs == [["m", "1", "8"], ["f", "0", "6"]]
    assert found.frame.loc[1, ["kind", "columns"]].tolist() == ["cells", "sex, pay"]


def test_counts_of_cells_that_a_sum_gives_are_a_table():
    # By sex, and by whether pay is missing.
    of = CellCounts(by=("sex",), sizes=(2,), numbers=("pay",), positions=(2,))
    found = tables(Totals(of=of, values=np.array([5, 6, 7, 8]), **ABOUT))

    assert found["sex"]["count"].tolist() == [11, 15]
    assert set(found["sex"]["margin"]) == {half_width("gaussian", 2.0 * 2**0.5)}
    assert found.frame["kind"].tolist() == ["sums"]


def test_what_has_no_counts_of_cells_is_listed_only():
    of = Interaction(("sex", "count"), (2, 3))
    found = tables(
        Totals(of=of, values=np.zeros(of.length, dtype=np.int64), **ABOUT),
        Answers(queries=Parities((("sex", "pay"),)), values=np.array([3]), **ABOUT),
    )

    assert len(found) == 0
    assert found.frame["kind"].tolist() == ["interaction", "parities"]
    assert found.frame["columns"].tolist() == ["sex, count", "sex, pay"]
    with pytest.raises(KeyError, match="query"):
        found["sex", "count"]
    assert "2 measurements" in str(found)
