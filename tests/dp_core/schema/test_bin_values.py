"""Quantiles and moments of the values within bins, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.schema.bin_pieces import BinPieces
from dp_core.schema.bin_values import BinValues
from dp_core.schema.definition import Column, Level


def column(kind="integer", edges=(0, 4, 10), cuts=(0, 1, 4, 6, 10), **others):
    weights = (250_000, 750_000, 900_000, 100_000)
    pieces = BinPieces(tuple(map(Fraction, cuts)), weights)
    return Column(name="x", kind=kind, edges=tuple(map(Fraction, edges)), pieces=pieces, **others)


def test_every_whole_value_has_its_probability():
    values = BinValues.of(column())
    codes = np.array([0] * 4 + [1] * 6)
    upto = np.array([0.25, 0.5, 0.75, 1, 0.45, 0.9, 0.925, 0.95, 0.975, 1])
    assert values.quantile(codes, upto).tolist() == list(range(10))
    assert values.quantile(codes[1:4], upto[1:4] - 0.01).tolist() == [1, 2, 3]
    assert values.quantile(np.array([0, 1]), np.zeros(2)).tolist() == [0, 4]
    assert values.mean() == pytest.approx([1.5, 0.9 * 4.5 + 0.1 * 7.5])
    exact = np.array([0.45, 0.45, 0.025, 0.025, 0.025, 0.025]) @ (np.arange(4, 10) - 4.8) ** 2
    assert values.variance() == pytest.approx([1.25, exact])


@pytest.mark.parametrize("decimals", [None, 1])
def test_numbers_are_whole_units_only_with_decimals(decimals):
    values = BinValues.of(column("number", decimals=decimals))
    assert (values.whole, values.steps) == ((True, 10) if decimals else (False, 1))
    codes, parts = np.array([0, 0, 1]), np.array([0.25, 1.0, 0.9])
    found = values.quantile(codes, parts) / values.steps
    assert found == pytest.approx([0.9, 3.9, 5.9] if decimals else [1, 4, 6])


def test_a_number_whose_bin_has_no_decimal_is_real():
    narrow = Column(
        name="x", kind="number", edges=(Fraction(1, 4), Fraction(2, 7), Fraction(1)), decimals=1
    )
    assert not BinValues.of(narrow).whole


def test_without_pieces_values_are_uniform():
    values = BinValues.of(Column(name="x", kind="integer", edges=(Fraction(0), Fraction(4))))
    parts = np.array([0.25, 0.5, 0.75, 1])
    assert values.quantile(np.zeros(4, dtype=int), parts).tolist() == [*range(4)]
    with pytest.raises(ValueError, match="levels"):
        BinValues.of(Column(name="x", kind="category", levels=(Level("a", "a"),)))


@pytest.mark.parametrize(
    ("edges", "weights"),
    [((0, 1), (-1,)), ((0, 1, 1), (1, 1)), ((0, 1), (1, 1)), ((1, 0), (1,))],
)
def test_pieces_of_no_distribution_are_refused(edges, weights):
    with pytest.raises(ValueError, match=r"piece|edges"):
        BinPieces(tuple(map(Fraction, edges)), weights)


def test_pieces_must_fit_the_bins():
    pieces = BinPieces(tuple(map(Fraction, (0, 1, 2, 4))), (1, 0, 0))
    assert pieces.places((Fraction(0), Fraction(4))) == (0, 3)
    for edges in ((0, 3, 4), (0, 2), (1, 4), (0, 2, 4)):
        with pytest.raises(ValueError, match=r"edge of a bin|weight 0"):
            pieces.places(tuple(map(Fraction, edges)))
