import numpy as np
import pytest

from dp_core.confidential.memory_counter import observed_cells
from dp_core.kernel.counting.sparse_cells import pack
from dp_core.tables.cell_keys import count_keys, unpack


@pytest.mark.parametrize("sizes", [(3, 4, 5), (2**16, 2**16, 2**16, 2**16)])  # one word, and two
@pytest.mark.parametrize("rows", [0, 1, 500])
def test_keys_are_counted_once_or_with_counts_alike(sizes, rows):
    rng = np.random.default_rng(rows)
    codes = np.array([rng.integers(0, min(size, 6), rows) for size in sizes], np.uint16)
    codes[:, : rows // 2] = [[size - 1] for size in sizes]
    keys = pack(codes, sizes)
    assert np.array_equal(unpack(keys, sizes), codes.T)
    alone, counts = count_keys(keys)
    weighted = count_keys(keys, np.ones(rows, np.int64))
    assert np.array_equal(alone, weighted[0])
    assert np.array_equal(counts, weighted[1])
    cells, found = observed_cells(codes, sizes)
    expected, of_each = np.unique(codes.T, axis=0, return_counts=True)
    assert np.array_equal(cells, expected)
    assert np.array_equal(found, of_each)
