from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.kernel.extensions import mutual_information as module
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.statistic import Statistic
from dp_core.kernel.questions.vetted import rebuilt, required
from tests.dp_core.kernel.questions.neighbours import (
    all_tables,
    furthest,
    says_what_it_needs,
    values,
)

COLUMNS = ("x", "p")
RELATION = "replace-one"
cells = st.integers(0, 12)
square = st.lists(cells, min_size=9, max_size=9).map(lambda c: np.array(c).reshape(3, 3))
narrow = st.lists(cells, min_size=8, max_size=8).map(lambda c: np.array(c).reshape(2, 4))
nonempty = st.one_of(square, narrow).filter(lambda table: table.any())


def information(rows, grid, binary=False):
    return MutualInformation((("x", ("p",)),), rows, grid, binary)


def score(table, grid, binary=False):
    table = np.asarray(table)
    return int(values(information(int(table.sum()), grid, binary), table, COLUMNS)[0])


def in_bits(table):
    n, found = table.sum(), 0.0
    for (i, j), count in np.ndenumerate(table):
        if count:
            found += count / n * log2(count * n / (table[i].sum() * table[:, j].sum()))
    return found


@given(table=nonempty, grid=st.sampled_from([1, 7, 10**6]))
def test_it_is_the_mutual_information_rounded_to_the_grid(table, grid):
    assert abs(score(table, grid) - grid * in_bits(table)) <= 0.5 + 1e-6


def test_a_copy_of_a_fair_coin_tells_one_bit_and_independence_none():
    assert score([[5, 0], [0, 5]], 2**40) == 2**40
    assert score([[2, 4], [3, 6]], 2**40) == 0
    alone = MutualInformation((("x", ()),), 15, 2**40)
    assert values(alone, np.array([[2, 4], [3, 6]]), COLUMNS).tolist() == [0]


# methods, section 1: bits, for n rows
@pytest.mark.parametrize(
    ("rows", "binary", "bits", "digits"),
    [
        (3000, False, 0.0079956, 5e-8),
        (48842, False, 6.559326e-4, 5e-11),
        (48842, True, 3.484402e-4, 5e-11),
    ],
)
def test_the_sensitivities_of_the_paper(rows, binary, bits, digits):
    grid = 10**15
    assert information(rows, grid, binary).largest_change(RELATION) / grid == pytest.approx(
        bits, abs=digits
    )


@pytest.mark.parametrize("rows", [1, 2, 3, 1000, 2**40])
@pytest.mark.parametrize("binary", [False, True])
def test_the_change_is_the_formula_rounded_up(rows, binary):
    n, grid = rows, 10**6
    rest = (n - 1) / n
    if binary:
        bits = log2(n) / n + (rest * log2(n / (n - 1)) if n > 1 else 0)
    else:
        bits = 2 / n * log2((n + 1) / 2) + (rest * log2((n + 1) / (n - 1)) if n > 1 else 0)
    change = information(rows, grid, binary).largest_change(RELATION)
    assert change in (ceil(grid * bits), ceil(grid * bits + 1e-3))


@pytest.mark.parametrize("rows", [2, 3, 1000, 2**40])
@pytest.mark.parametrize("binary", [False, True])
def test_the_change_has_room_for_the_errors_of_both_values(rows, binary):
    """On a grid so fine that rounding up is nothing, against logarithms of 80 digits."""
    grid, n = 10**50, Decimal(rows)
    with localcontext(prec=80):
        bound = n * n.ln() - (n - 1) * (n - 1).ln()
        if not binary:
            bound = (n + 1) * (n + 1).ln() - (n - 1) * (n - 1).ln() - 2 * Decimal(2).ln()
        bits, unit = bound / n / Decimal(2).ln(), Decimal("1e-30") / Decimal(2).ln()
    change = Fraction(information(rows, grid, binary).largest_change(RELATION), grid)
    room = (change - Fraction(bits)) / Fraction(unit)
    # Each value is off by less than 4 * .51 + 63 * .51 units (`compute`), and there are two.
    assert room > 2 * (4 + 63) * 0.51
    assert 2 * module._SLACK < room < 2 * module._SLACK + 10


@pytest.mark.parametrize(("shape", "binary"), [((2, 3), True), ((3, 2), True), ((3, 3), False)])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_no_small_file_moves_it_further_than_proven(shape, binary, rows):
    statistic = information(rows, 1000, binary)
    far = furthest(statistic, all_tables(shape, rows), COLUMNS, RELATION)
    assert far <= statistic.largest_change(RELATION)


@settings(max_examples=60)
@given(table=nonempty, grid=st.sampled_from([3, 1000, 10**9]))
def test_no_file_moves_it_further_than_proven(table, grid):
    statistic = information(int(table.sum()), grid, table.shape[0] == 2)
    assert furthest(statistic, [table], COLUMNS, RELATION) <= statistic.largest_change(RELATION)


def extremes(half, binary):
    """Return neighbours of 2 half + 1 rows whose mutual information is furthest apart."""
    if binary:
        return np.array([[2 * half + 1, 0], [0, 0]]), np.array([[2 * half, 0], [0, 1]])
    return (
        np.array([[1, half, 0], [half, 0, 0], [0, 0, 0]]),
        np.array([[0, half, 0], [half, 0, 0], [0, 0, 1]]),
    )


@pytest.mark.parametrize("binary", [False, True])
def test_the_bound_is_reached_so_one_smaller_would_be_wrong(binary):
    short = 0
    for half in range(1, 40):
        before, after = extremes(half, binary)
        for grid in (10, 1000, 10**9):
            moved = abs(score(after, grid, binary) - score(before, grid, binary))
            change = information(2 * half + 1, grid, binary).largest_change(RELATION)
            assert change - 1 <= moved <= change
            short += moved == change
    assert short > 20


def test_the_binary_bound_does_not_hold_for_others():
    before, after = extremes(500, False)
    grid = 10**6
    moved = abs(score(after, grid) - score(before, grid))
    assert moved > 1.5 * information(1001, grid, True).largest_change(RELATION)
    with pytest.raises(ValueError, match="two codes"):
        score(before, grid, True)


def test_logarithms_are_right_to_thirty_digits():
    """ln 2 and ln 10: Abramowitz & Stegun, table 1.1."""
    assert module._log(1) == 0
    assert module._log(2) == 693147180559945309417232121458
    assert module._log(10) == 2302585092994045684017991454684
    assert abs(module._log(2**62) - 62 * module._log(2)) <= 62


def test_add_remove_is_refused_and_told_of_the_r_score():
    statistic = information(10, 10)
    for ask in (statistic.largest_change, lambda by: required(statistic.to_json(), Relation(by))):
        with pytest.raises(BadInput, match="R score"):
            ask("add-remove")


def test_another_number_of_rows_than_stated_is_refused():
    with pytest.raises(ValueError, match="rows"):
        values(information(11, 10), np.array([[5, 0], [0, 5]]), COLUMNS)


@pytest.mark.parametrize("binary", [False, True])
def test_sensitivities_follow_from_what_a_receipt_says(binary):
    says_what_it_needs(information(1000, 10**6, binary), (RELATION,))


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"grid": 0}, {"binary": 1}, {"length": None}])
def test_what_it_never_says_is_refused(wrong):
    with pytest.raises(ValueError, match=r"whole number|binary"):
        required(information(10, 10).to_json() | wrong, Relation(RELATION))


@pytest.mark.parametrize("rows_and_grid", [(0, 10), (10, 0), (10.0, 10), (10, 0.5)])
def test_rows_and_a_grid_that_are_no_numbers_of_anything_are_refused(rows_and_grid):
    with pytest.raises(ValueError, match=r"at least 1|Expected"):
        rebuilt(Statistic, information(*rows_and_grid))
