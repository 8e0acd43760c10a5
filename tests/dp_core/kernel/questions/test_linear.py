"""The linear family: sums against their definition, sensitivities against all pairs of records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.questions import linear
from dp_core.kernel.questions.linear import Block, contrasts, largest, matrix, sum_of_term, units
from tests.dp_core.kernel.questions.neighbours import RELATIONS

SIZES = {"a": 3, "b": 2, "c": 4}


@st.composite
def blocks(draw, columns):
    """Return a block over some columns, with any rows and any numbering of their codes."""
    count, width = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["units", "matrix", "contrasts"]))
    if kind == "units":
        rows = units(width, none=draw(st.booleans()))
    elif kind == "contrasts":
        rows = contrasts(np.array(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))))
    else:
        entries = st.lists(st.integers(-4, 4), min_size=width, max_size=width)
        rows = matrix(np.array(draw(st.lists(entries, min_size=count, max_size=count)), np.int64))
    shape = tuple(SIZES[name] for name in columns)
    cells = int(np.prod(shape))
    numbers = draw(st.lists(st.integers(0, rows.count - 1), min_size=cells, max_size=cells))
    table = np.array(numbers, dtype=np.int64).reshape(shape)
    return Block(columns, rows, lambda *codes: table[codes])


@st.composite
def terms(draw):
    parts = st.sampled_from([(("a",), ("b",), ("c",)), (("b", "a"),), (("c",), ("b", "a")), ()])
    return tuple(draw(blocks(columns)) for columns in draw(parts))


def every_cell():
    return np.indices(tuple(SIZES.values())).reshape(len(SIZES), -1).T


def vectors_of(term):
    """Return the vector of a record of every cell: the outer product of the blocks' rows."""
    found = []
    for cell in every_cell():
        own = np.ones(1, dtype=np.int64)
        for block in term:
            codes = [np.array([cell[list(SIZES).index(name)]]) for name in block.columns]
            own = np.multiply.outer(own, block.rows.of(block.number(*codes))[0])
        found.append(own.ravel())
    return np.array(found)


@given(terms(), st.integers(0, 2**32 - 1), st.sampled_from([9, 2**40, 2**57]))
def test_a_sum_is_that_of_the_records_vectors(term, seed, most):
    rng = np.random.default_rng(seed)
    cells = every_cell()[: rng.integers(0, 25)]
    counts = rng.integers(1, most, len(cells))
    expected = counts.astype(object) @ vectors_of(term)[: len(cells)].astype(object)
    dense = [place for place, each in enumerate(term) if not each.rows.unit]
    numbers = [each.numbers(cells, tuple(SIZES)) for each in term]
    found = [sum_of_term(term, tuple(SIZES), cells, counts)]
    found.append(linear._sum_by_cell(term, numbers, dense, counts))
    for each in found:
        assert each.tolist() == (expected if len(cells) else 0 * vectors_of(term)[0]).tolist()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("most", [2**20, 0])
@given(st.lists(terms(), min_size=1, max_size=3))
def test_no_two_records_are_further_apart_than_the_sensitivity(relation, most, asked):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "MOST_COMPARED", most)
        l1, l2_squared = largest(asked, SIZES, relation)
    each = np.concatenate([vectors_of(term) for term in asked], axis=1)
    if relation == "replace-one":
        each = (each[:, None] - each).reshape(-1, each.shape[1])
    far, far_squared = int(np.abs(each).sum(axis=1).max()), int((each**2).sum(axis=1).max())
    assert l1 >= max(1, far)
    assert l2_squared >= max(1, far_squared)
    # Of several blocks or terms all joint cells are listed.
    if most and (len(asked) > 1 or len(asked[0]) > 1):
        listed = sum(map(linear.width_of, asked)) * len(every_cell()) ** 2 <= most
        rows = np.prod([block.rows.count for block in asked[0]]) ** 2 if len(asked) == 1 else 1
        if listed and rows * linear.width_of(asked[0]) <= most and relation == "replace-one":
            assert (l1, l2_squared) == (max(1, far), max(1, far_squared))


@pytest.mark.parametrize("most", [2**20, 0])
@given(st.data())
def test_norms_bound_rows_and_are_exact_where_they_are_compared(most, data):
    width = data.draw(st.integers(1, 3))
    entries = st.lists(st.integers(-(2**34), 2**34), min_size=width, max_size=width)
    rows = np.array(data.draw(st.lists(entries, min_size=1, max_size=5)), dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "MOST_COMPARED", most)
        found = linear.norms_of(rows)
    each = rows.astype(object)
    apart = (each[:, None] - each).reshape(-1, width)
    true = (
        np.abs(each).sum(axis=1).max(),
        (each**2).sum(axis=1).max(),
        (each @ each.T).min(),
        np.abs(apart).sum(axis=1).max(),
        (apart**2).sum(axis=1).max(),
    )
    assert found[:2] == true[:2]
    assert found.least <= true[2]
    assert found.l1_apart >= true[3]
    assert found.l2_squared_apart >= true[4]
    if most or width == 1:
        assert found == true


def test_a_last_row_apart_from_the_others_is_orthogonal_to_them():
    found = linear.norms_of(np.array([[3, 0], [2, 0], [0, 5]]))
    assert found == (5, 25, 0, 8, 34)


def test_rows_of_a_pattern_have_the_norms_of_their_entries():
    rng = np.random.default_rng(4)
    some = [units(width, none=none) for width in (1, 2, 5) for none in (False, True)]
    some += [contrasts(rng.integers(1, 100, size)) for size in (1, 2, 3, 10, 40)]
    for rows in some:
        each = rows.of(np.arange(rows.count))
        assert rows.norms() == linear.norms_of(each)
        assert rows.reach == np.abs(each).max()


def test_a_code_without_a_row_is_refused():
    block = Block(("a",), units(2), lambda codes: codes - 1)
    for code in (0, 3):
        with pytest.raises(ValueError, match="row"):
            block.numbers(np.array([[code]]), ("a",))


@pytest.mark.parametrize(("row", "count"), [(3, 2**53 + 1), (2**33 + 1, 2**50 + 1)])
def test_sums_beyond_floats_and_64_bits_are_exact(row, count):
    block = Block(("a",), matrix(np.array([[row], [1]])), lambda codes: codes)
    cells, counts = np.array([[0], [1]]), np.array([count, 1])
    (found,) = sum_of_term((block,), ("a",), cells, counts)
    assert found == row * count + 1


def test_sums_of_many_large_entries_are_exact():
    """The sizes of a wide block add up beyond 64 bits, which must not look like a small sum."""
    wide = Block(("a",), matrix(np.full((1, 16), 2**58 + 1)), lambda codes: codes)
    one = Block(("b",), matrix(np.array([[1]])), lambda codes: codes)
    found = sum_of_term((wide, one), ("a", "b"), np.array([[0, 0]]), np.array([8]))
    assert found.tolist() == [8 * (2**58 + 1)] * 16
