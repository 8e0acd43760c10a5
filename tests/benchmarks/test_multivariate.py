"""The script for the papers of the multivariate methods: what it counts, and that it releases."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.papers import multivariate
from benchmarks.papers.multivariate import (
    CLAIMS,
    Way,
    boxes,
    clusters,
    counts,
    distance,
    normal_file,
    released,
    smoothed,
    table_distance,
    two_normals,
    voters,
)
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_ranges_are_counted_the_same_from_a_table_and_record_by_record(columns):
    rng = np.random.default_rng(columns)
    data = normal_file(columns, 12, 400)(rng)
    ranges = boxes(data.domain, rng)[:60]
    by_table = counts(data, ranges)
    wide = Domain((*data.domain.columns, "wide"), (*data.domain.sizes, 2**16))
    more = Dataset(wide, np.vstack([data.codes, np.zeros((1, 400), data.codes.dtype)]))
    whole = np.tile(np.array([[0, 2**16 - 1]]), (len(ranges), 1))[:, None, :]
    by_record = counts(more, np.concatenate([ranges, whole], axis=1))
    np.testing.assert_array_equal(by_table, by_record)
    assert by_table.max() > 0


def test_distances_are_those_of_distribution_functions_and_tables():
    domain = Domain(("x", "y"), (3, 2))
    one = Dataset(domain, np.array([[0, 1, 2, 2], [0, 0, 1, 1]], dtype=np.uint16))
    two = Dataset(domain, np.array([[2, 2, 2, 2], [0, 0, 1, 1]], dtype=np.uint16))
    assert distance(one, two) == 0.5
    assert table_distance(one, two, (0,)) == 0.5
    assert table_distance(one, two, (1,)) == 0


def test_the_generated_files_are_of_the_stated_kinds():
    data = normal_file(3, 64, 20_000)(np.random.default_rng(1))
    np.testing.assert_allclose(np.corrcoef(data.codes)[0], [1, 0.6, 0.36], atol=0.03)
    assert clusters(500, 64)(np.random.default_rng(1)).domain.sizes == (64, 64)
    assert voters(300)(np.random.default_rng(1)).domain.sizes == (2, 4, 3, 5, 2, 6, 3, 4)
    assert two_normals(256).sum() == pytest.approx(1)
    np.testing.assert_allclose(smoothed(np.ones(50), 0.1), 1 / 50)


def test_a_release_has_as_many_records_as_its_file():
    data = clusters(500, 64)(np.random.default_rng(1))
    made, seconds = released(Way("dpcube", numeric=True, bins=8), data, Fraction(1), 1)
    assert made.rows == 500
    assert seconds > 0
    assert set(CLAIMS) == {"dpcopula", "dpcube", "noisy_ecdf", "kde", "steps"}
    assert all(f"`{name}`" in str(multivariate.__doc__) for name in CLAIMS)
