"""What public records predict about the dependence of a pair."""

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.prior import PublicPrior, as_codes
from dp_core.methods.replicates.posterior.pair_prior import Column, Pair
from dp_core.methods.replicates.posterior.public_predictions import with_public_predictions

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
TABLE = np.array([[300.0, 200.0, 100.0], [50.0, 150.0, 200.0]])


def records(table):
    """Return one record for each count of a table, as codes of two columns."""
    cells = np.repeat(np.arange(table.size), table.astype(int).ravel())
    return as_codes(list(np.unravel_index(cells, table.shape)))


def prior(*tables, apart=False):
    sets = tuple(records(table) for table in tables)
    return PublicPrior(DOMAIN.project(("a", "b")), sets, apart)


def told(public, one, other, possible=None):
    expected = np.multiply.outer(one, other) / one.sum()
    possible = np.ones(expected.shape, dtype=bool) if possible is None else possible
    columns = [Column.of(each, np.arange(each.size)) for each in (one, other)]
    pairs = {("a", "b"): Pair(*columns, total=float(one.sum()))}
    found = with_public_predictions(
        public,
        pairs,
        {"a": one, "b": other},
        {("a", "b"): expected},
        {("a", "b"): possible},
    )
    return found["a", "b"].predicted[-1], expected


def test_the_same_margins_predict_the_public_table():
    found, expected = told(prior(1000 * TABLE), TABLE.sum(axis=1), TABLE.sum(axis=0))
    assert np.allclose(found + expected, TABLE, atol=0.01)


def test_other_margins_keep_the_odds_ratios_of_the_public_records():
    one, other = np.array([200.0, 800.0]), np.array([500.0, 300.0, 200.0])
    found, expected = told(prior(1000 * TABLE), one, other)
    table = found + expected

    def odds(counts):
        return counts[0, 0] * counts[1, 2] / (counts[0, 2] * counts[1, 0])

    assert odds(table) == pytest.approx(odds(TABLE), rel=1e-3)
    assert np.allclose(table.sum(axis=1), one, atol=0.1)
    assert np.allclose(table.sum(axis=0), other, atol=0.1)
    assert np.allclose(found.sum(axis=0), 0)


def test_a_cell_without_public_records_is_not_impossible():
    table = TABLE.copy()
    table[0, 0] = 0
    found, expected = told(prior(table), TABLE.sum(axis=1), TABLE.sum(axis=0))
    assert (found + expected)[0, 0] > 0


def test_records_of_unknown_values_do_not_count():
    codes = records(TABLE)
    unknown = np.array([[0, 2], [3, 1]], dtype=codes.dtype)
    public = PublicPrior(
        DOMAIN.project(("a", "b")), (np.concatenate([codes, unknown], axis=1),), False
    )
    (counts,) = public.counts(("a", "b"))
    assert np.array_equal(counts, TABLE)


def test_columns_that_the_records_lack_have_no_prediction():
    public = PublicPrior(DOMAIN.project(("a",)), (records(TABLE)[:1],), apart=False)
    found, _ = told(public, TABLE.sum(axis=1), TABLE.sum(axis=0))
    assert found is None


def test_wide_codes_keep_their_values():
    assert as_codes([np.array([70_000, 1])]).tolist() == [[70_000, 1]]
    assert as_codes([np.array([3, 1])]).dtype == np.uint16


def test_a_column_of_many_codes_is_counted_though_none_of_the_wide_ones_occurs():
    public = PublicPrior(
        Domain(("a", "b"), (70_000, 3)),
        (as_codes([np.array([5, 5, 7]), np.array([0, 0, 2])]),),
        apart=False,
    )
    (counts,) = public.counts(("a", "b"))
    assert (counts[5, 0], counts[7, 2], counts.sum()) == (2, 1, 3)
