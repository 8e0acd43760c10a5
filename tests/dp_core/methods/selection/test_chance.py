"""What chance puts into tables, against the exact distribution of counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection.budget import chance
from dp_core.methods.selection.budget.chance import HALF_NORMAL, Chance, bin_widths, deviation


def poisson(mean):
    """Mean absolute deviation of a Poisson number (Crow 1958)."""
    whole = math.floor(mean)
    logs = -mean + (whole + 1) * math.log(mean) - math.lgamma(whole + 1)
    return 2 * math.exp(logs)


@pytest.mark.parametrize("mean", [1e-4, 0.01, 0.1, 0.3, 0.6, 1.0, 2.5, 30.0, 1e4])
def test_counts_deviate_as_poisson_numbers_do(mean):
    assert HALF_NORMAL * deviation(np.array(mean)) == pytest.approx(poisson(mean), rel=0.12)


def uneven(size, rows):
    column = 1 / np.arange(1, size + 1)
    return column * (rows / column.sum())


@pytest.mark.parametrize(("sizes", "rows"), [((6, 9), 5000.0), ((40, 100), 3000.0)])
def test_a_pairs_is_the_sum_over_its_cells(sizes, rows):
    columns = [uneven(size, rows) for size in sizes]
    chance = Chance.of(Domain(("a", "b"), sizes), columns, rows)
    own = math.prod(1 - 1 / size for size in sizes)
    cells = own * np.multiply.outer(*columns) / rows
    assert chance.pair(("a", "b")) == pytest.approx(sum(map(poisson, cells.ravel())), rel=0.08)
    assert chance.mean_triple == 0


@pytest.mark.parametrize("rows", [300.0, 20_000.0])
def test_the_mean_of_triples_is_that_of_each(rows):
    sizes = (2, 3, 5, 12, 40)
    domain = Domain(tuple("abcde"), sizes)
    chance = Chance.of(domain, [uneven(size, rows) for size in sizes], rows)
    every = [chance.triple(clique) for clique in itertools.combinations("abcde", 3)]
    assert chance.mean_triple == pytest.approx(np.mean(every))
    cells = []
    for triple in itertools.combinations(range(5), 3):
        own = math.prod(1 - 1 / sizes[axis] for axis in triple)
        columns = [uneven(sizes[axis], 1.0) for axis in triple]
        expected = rows * own * np.einsum("i,j,k->ijk", *columns)
        cells.append(sum(map(poisson, expected.ravel())))
    assert chance.mean_triple == pytest.approx(np.mean(cells), rel=0.12)
    assert chance.mean_triple <= 2 * rows


ROWS = 20_000.0
LONG = 1 / np.arange(1, 65_001)
LONG = LONG * (ROWS / LONG.sum())
SHORT = np.array([5_000.0, 15_000.0])


@pytest.mark.parametrize("others", [[], [SHORT], [SHORT, SHORT]])
def test_levels_of_like_counts_are_together_without_changing_the_sum_of_the_widths(
    others, monkeypatch
):
    counts, widths = bin_widths([LONG, *others], ROWS, 0.3)
    monkeypatch.setattr(chance, "_MOST_LEVELS", LONG.size)
    each_counts, each_widths = bin_widths([LONG, *others], ROWS, 0.3)

    assert counts.sum() == pytest.approx(each_counts.sum(), rel=1e-3)
    assert (counts * widths).sum() == pytest.approx((each_counts * each_widths).sum(), rel=1e-4)


def test_cells_without_expected_records_are_left_out():
    counts, _ = bin_widths([np.array([100.0, 0.0, 50.0])], 150.0, 1.0)

    assert counts.sum() == 2
