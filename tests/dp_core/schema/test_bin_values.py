"""Distribution, quantiles and truncated draws within bins agree with each other, exactly."""

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
    upto = values.cdf(codes, np.arange(10))
    assert upto == pytest.approx([0.25, 0.5, 0.75, 1, 0.45, 0.9, 0.925, 0.95, 0.975, 1])
    assert values.quantile(codes, upto).tolist() == list(range(10))
    assert values.cdf(codes, np.arange(10) - 100).tolist() == [0.0] * 10
    assert values.cdf(codes, np.arange(10) + 100).tolist() == [1.0] * 10
    assert values.mean() == pytest.approx([1.5, 0.9 * 4.5 + 0.1 * 7.5])
    exact = np.array([0.45, 0.45, 0.025, 0.025, 0.025, 0.025]) @ (np.arange(4, 10) - 4.8) ** 2
    assert values.variance() == pytest.approx([1.25, exact])
    assert (values.least(np.array([0, 1])).tolist(), values.most(np.array([0, 1])).tolist()) == (
        [0, 4],
        [3, 9],
    )


def test_a_quantile_is_the_smallest_value_that_reaches_a_part():
    values = BinValues.of(column())
    parts = np.linspace(0, 1, 1001)
    for code in (0, 1):
        codes = np.full(parts.size, code)
        found = values.quantile(codes, parts)
        assert (values.cdf(codes, found) >= parts - 1e-12).all()
        above = found > values.least(codes)
        assert (values.cdf(codes, found - 1)[above] < parts[above] + 1e-12).all()


@pytest.mark.parametrize("decimals", [None, 1])
def test_numbers_are_whole_units_only_with_decimals(decimals):
    values = BinValues.of(column("number", decimals=decimals))
    assert (values.whole, values.steps) == ((True, 10) if decimals else (False, 1))
    codes, parts = np.array([0, 0, 1]), np.array([0.25, 1.0, 0.9])
    found = values.quantile(codes, parts) / values.steps
    assert found == pytest.approx([0.9, 3.9, 5.9] if decimals else [1, 4, 6])
    back = values.cdf(codes, values.quantile(codes, parts))
    assert back == pytest.approx(parts)


def test_a_number_whose_bin_has_no_decimal_is_real():
    narrow = Column(
        name="x", kind="number", edges=(Fraction(1, 4), Fraction(2, 7), Fraction(1)), decimals=1
    )
    assert not BinValues.of(narrow).whole


@pytest.mark.parametrize("kind", ["integer", "number", "date"])
def test_draws_stay_within_their_limits_and_follow_the_density(kind):
    values = BinValues.of(column(kind))
    rng, codes = np.random.default_rng(1), np.full(100_000, 1)
    low, high = np.full(codes.size, 5), np.full(codes.size, 7)
    found = values.draw(codes, low=low, high=high, rng=rng)
    assert ((found >= 5) & (found <= 7)).all()
    begin = 5 - values.whole
    ends = np.array([begin, 6 - values.whole, 7])
    upto = values.cdf(np.ones(3, dtype=int), ends)
    share = (upto[1] - upto[0]) / (upto[2] - upto[0])
    part = np.mean(found <= ends[1])
    # Five standard errors of a share of 100,000: a false alarm in 3.5 million.
    assert abs(part - share) < 5 * np.sqrt(share * (1 - share) / codes.size)
    free = values.draw(codes, rng=rng)
    error = np.sqrt(values.variance()[1] / codes.size)
    assert abs(free.mean() - values.mean()[1]) < 5 * error
    same = values.draw(codes, rng=np.random.default_rng(2))
    assert np.array_equal(same, values.draw(codes, rng=np.random.default_rng(2)))


def test_limits_without_a_value_are_refused():
    values = BinValues.of(column())
    with pytest.raises(ValueError, match="limits"):
        values.draw(np.array([0]), low=np.array([4]), rng=np.random.default_rng(1))
    one = values.draw(
        np.array([0, 1]), low=np.array([3, 9]), high=np.array([8, 9]), rng=np.random.default_rng(1)
    )
    assert one.tolist() == [3, 9]


def test_without_pieces_values_are_uniform():
    values = BinValues.of(Column(name="x", kind="integer", edges=(Fraction(0), Fraction(4))))
    assert values.cdf(np.zeros(4, dtype=int), np.arange(4)).tolist() == [0.25, 0.5, 0.75, 1]
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
