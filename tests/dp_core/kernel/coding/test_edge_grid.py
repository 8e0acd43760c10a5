import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_core.confidential.encoding import Encoder
from dp_core.kernel.coding.edge_grid import EdgeGrid
from dp_core.kernel.coding.raw_values import State, Values
from dp_core.schema.definition import Column
from tests.full import examples

KINDS = (np.int64, np.float32, np.float64)


@st.composite
def ranges_and_edges(draw):
    """Edges of one type, close together or far apart, and a range that need not hold them all."""
    kind = draw(st.sampled_from(KINDS))
    if kind is np.int64:
        number = st.integers(-(2**63), 2**63 - 2) | st.integers(-300, 300)
    else:
        width = 32 if kind is np.float32 else 64
        number = st.floats(width=width, allow_nan=False, allow_infinity=False) | st.integers(-9, 9)
    edges = np.array(sorted(draw(st.lists(number, max_size=8))), dtype=kind)
    low, high = sorted(np.array(draw(st.lists(number, min_size=2, max_size=2)), dtype=kind))
    return edges, low, high


def beside(values):
    """Return values and their nearest neighbours."""
    if values.dtype.kind == "i":
        return np.unique(np.concatenate([values[values > np.iinfo(np.int64).min] - 1, values]))
    down, up = (np.nextafter(values, values.dtype.type(end)) for end in (-np.inf, np.inf))
    return np.unique(np.concatenate([down, values, up]))


def whole(edges, low, high):
    return np.array(edges), np.int64(low), np.int64(high)


@example(whole([0], -(2**63), 2**63 - 2), 0)  # wider than the type
@example(whole([2**63 - 5], 2**63 - 100, 2**63 - 1), 0)  # no number is above all
@given(ranges_and_edges(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(150))
def test_values_are_placed_as_a_search_among_the_edges_places_them(case, seed):
    edges, low, high = case
    some = np.random.default_rng(seed).random(50)
    with np.errstate(over="ignore", invalid="ignore"):
        between = np.nan_to_num(float(low) + some * (float(high) - float(low))).astype(edges.dtype)
        values = np.concatenate([beside(np.append(edges, [low, high])), between])
    values = values[(values >= low) & (values <= high)]
    expected = np.searchsorted(edges, values, side="right")
    assert EdgeGrid(edges, low, high).place(values).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_the_edges_of_a_hundred_bins_are_placed_without_a_search(kind):
    edges = np.linspace(0, 4_200_000, 101).astype(kind)[1:-1]
    grid = EdgeGrid(edges, kind(0), kind(4_200_000))
    grid._edges = None  # what a search would look at
    values = beside(edges)
    expected = np.searchsorted(edges, values, side="right")
    assert grid.place(values).tolist() == expected.tolist()


def values_of(kind, data, state):
    """Return typed values as the reader makes them: 0 where there is no value."""
    states = np.array(state, np.uint8)
    return Values(np.where(states == State.VALUE, np.array(data, kind), kind(0)), states, None)


@pytest.mark.parametrize("missing", ["level", "reject"])
@pytest.mark.parametrize("out_of_range", ["reject", "missing", "clip"])
@pytest.mark.parametrize(("first", "last"), [(-5, 5), (10, 20), (-20, -10), (10, 10**6)])
def test_batches_without_a_stranger_are_encoded_as_row_by_row(missing, out_of_range, first, last):
    column = Column(
        name="c", kind="integer", edges=(first, first + 3, last + 1), minimum=first, maximum=last,
        missing=missing, out_of_range=out_of_range,
    )  # fmt: skip
    encoder = Encoder(column)
    state = [0, 1, 0, 2, 0]
    for data in ([first, 0, last, 0, first + 3], [first - 1, 0, last, 0, last + 1]):
        whole = encoder.place(values_of(np.int64, data, state))
        alone = [
            encoder.place(values_of(np.int64, [one], [its]))
            for one, its in zip(data, state, strict=True)
        ]
        assert whole.codes.tolist() == [one.codes[0] for one in alone]
        bad = [False if one.bad is None else bool(one.bad[0]) for one in alone]
        assert (np.zeros(5, bool) if whole.bad is None else whole.bad).tolist() == bad
        assert sum(whole.problems.values()) == sum(sum(one.problems.values()) for one in alone)


def test_rows_without_a_number_do_no_harm_however_far_the_range_is_from_0():
    far = 2.0**70
    edges = (far, 1.5 * far, 2 * far)
    column = Column(
        name="c", kind="number", edges=edges, minimum=far, maximum=2 * far, missing="level"
    )
    assert Encoder(column).encode(pa.array([far, None, 2 * far])).codes.tolist() == [0, 2, 1]
    near = dataclasses.replace(
        column, edges=(1e12, 1e12 + 1, 1e12 + 2), minimum=1e12, maximum=1e12 + 2
    )
    assert Encoder(near).encode(pa.array([None, 1e12 + 1])).codes.tolist() == [2, 1]


@pytest.mark.parametrize("start", [0, 1, 7, 8, 13])
@pytest.mark.parametrize("length", [1, 8, 17])
def test_missing_values_are_seen_in_any_slice_of_a_batch(start, length):
    column = Column(
        name="c", kind="integer", edges=(0, 5, 10), minimum=0, maximum=9, missing="level"
    )
    rows = [None if row % 3 == 1 else row % 10 for row in range(30)]
    some = pa.array(rows, pa.int32()).slice(start, length)
    codes = Encoder(column).encode(some).codes
    assert codes.tolist() == [2 if row is None else row // 5 for row in some.to_pylist()]
