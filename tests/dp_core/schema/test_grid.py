from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.confidential.encoding import Encoder
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.definition import Column, Schema
from dp_core.schema.grid import Coarsening, on_grid, variables
from dp_core.schema.rules.possible_codes import decode
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.tables.coarse_counter import CoarseCounter


def column(kind, edges, *, name="x", missing="reject", **rest):
    return Column(name=name, kind=kind, edges=tuple(map(Fraction, edges)), missing=missing, **rest)


def schema(*columns, zeros=()):
    return Schema(title="t", columns=columns, zeros=StructuralZeros(tuple(zeros)), document={})


def positions_of(fine, values):
    (own,) = fine.columns
    return Encoder(own).encode(pa.array(values)).codes


def test_every_whole_number_has_a_position_where_they_fit():
    fine = on_grid(schema(column("integer", [0, 1, 5, 81])), 4096)
    (variable,) = variables(fine)
    assert variable.positions == 81
    assert variable.bins == (0, 1, 5, 81)
    assert positions_of(fine, [0, 4, 80]).tolist() == [0, 4, 80]
    assert variable.value(np.array([0.0, 4.0, 80.0])).tolist() == [0, 4, 80]
    assert variable.position(np.array([-3.0, 3.6, 99.0])).tolist() == [0, 4, 80]


def test_more_whole_numbers_than_positions_share_one_evenly():
    fine = on_grid(schema(column("integer", [0, 1000, 10_001])), 100)
    (variable,) = variables(fine)
    assert variable.positions == 100
    assert positions_of(fine, [0, 100, 101, 10_000]).tolist() == [0, 0, 1, 99]
    # 0 to 100 are one position: their mean is what it stands for.
    assert variable.value(np.array([0.0])) == pytest.approx(50)


def test_the_grid_of_a_number_meets_its_bin_edges_where_it_can():
    fine = on_grid(schema(column("number", [0, "0.3", "1.2", 3])), 1000)
    (variable,) = variables(fine)
    assert [fine.columns[0].edges[place] for place in variable.bins] == [
        0,
        Fraction("0.3"),
        Fraction("1.2"),
        3,
    ]
    assert variable.positions <= 1000
    assert len({b - a for a, b in zip(fine.columns[0].edges, fine.columns[0].edges[1:])}) == 1  # noqa: B905


def test_edges_between_positions_go_to_the_nearest():
    fine = on_grid(schema(column("number", [0, "0.123456789", 1])), 100)
    (variable,) = variables(fine)
    assert variable.positions == 100
    assert variable.bins == (0, 12, 100)


@pytest.mark.parametrize(
    ("columns", "positions", "told"),
    [
        ([column("number", [0, "0.5001", "0.5002", 1])], 100, "two of its bin edges"),
        ([column("number", [0, 1])], 1, "2 to 65,534 positions"),
        ([column("number", [0, 1])], 65_535, "2 to 65,534 positions"),
        ([column("number", [1, "1.000000000001"])], 60_000, "floating point"),
    ],
)
def test_a_grid_that_will_not_do_is_refused(columns, positions, told):
    with pytest.raises(BadInput, match=told):
        on_grid(schema(*columns), positions)


def test_missing_is_the_code_after_the_last_position():
    fine = on_grid(schema(column("number", [0, 1, 2], missing="level")), 50)
    (variable,) = variables(fine)
    assert (variable.positions, variable.size, variable.missing) == (50, 51, True)
    assert Encoder(fine.columns[0]).encode(pa.array([None, 2.0])).codes.tolist() == [50, 49]


@settings(max_examples=50)
@given(
    edges=st.lists(st.integers(0, 500), min_size=2, max_size=6, unique=True).map(sorted),
    positions=st.integers(600, 5000),
    missing=st.sampled_from(["reject", "level"]),
    seed=st.integers(0, 99),
)
def test_positions_become_the_bins_that_the_values_have(edges, positions, missing, seed):
    written = schema(column("integer", edges, missing=missing))
    fine = on_grid(written, positions)
    values = np.random.default_rng(seed).integers(edges[0], edges[-1], 40).tolist()
    values += [None] * (missing == "level")
    coarse = Encoder(written.columns[0]).encode(pa.array(values)).codes
    codes = Encoder(fine.columns[0]).encode(pa.array(values)).codes
    assert Coarsening(fine).codes("x", codes).tolist() == coarse.tolist()
    # And what is drawn there is again within the bin.
    drawn = decode(fine, Dataset(fine.domain, codes[None]), rng=np.random.default_rng(1))
    assert Encoder(written.columns[0]).encode(drawn.column(0)).codes.tolist() == coarse.tolist()


def test_a_structural_zero_speaks_of_all_positions_of_its_bins():
    rule = Rule(("x", "y"), ((1, 2), (0,)), "x: >=5, y: 0")
    written = schema(
        column("integer", [0, 5, 8], missing="level"),
        column("integer", [0, 1, 2], name="y"),
        zeros=[rule],
    )
    fine = on_grid(written, 4096)
    assert fine.zeros.rules[0].codes == ((5, 6, 7, 8), (0,))


def test_a_structural_zero_between_positions_is_refused():
    rule = Rule(("x",), ((0,),), "x: <0.123456789")
    written = schema(column("number", [0, "0.123456789", 1]), zeros=[rule])
    with pytest.raises(BadInput, match=r"`impossible` rule \{x: <0.123456789\}"):
        on_grid(written, 100)


def test_coarse_counts_are_those_of_the_bins():
    written = schema(column("integer", [0, 5, 8]), column("integer", [0, 1, 4], name="y"))
    fine = on_grid(written, 4096)
    codes = np.array([[0, 4, 5, 7], [0, 1, 3, 0]], dtype=np.uint16)
    counter = CoarseCounter(MemoryCounter(Dataset(fine.domain, codes)), Coarsening(fine))
    assert counter.count([("y", "x")])[("y", "x")].counts.tolist() == [[1, 1], [1, 1]]
    cells, counts = counter.observed(("x",))
    assert (cells.tolist(), counts.tolist()) == ([[0], [1]], [2, 2])
    assert Coarsening(fine).domain == Domain(("x", "y"), (2, 2))
