"""What a person of up to k rows costs: exact bounds, against every way the rows can lie."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.client.noise_scale import sensitivities
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import count_bounds, of_unit
from dp_core.kernel.document import MOST_ROWS
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent, differing_draws
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.extensions.thresholds import StabilityEvent, kept_by_chance
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.kernel.questions.linear_questions import CellSums
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.kernel.questions.vetted import bounds
from dp_core.methods.drawn_events import draws_event, threshold_event, urn_event

KS = (1, 2, 5)


def spreads(most, cells):
    """Yield every way in which up to `most` rows can lie in cells."""
    for found in itertools.product(range(most + 1), repeat=cells):
        if sum(found) <= most:
            yield np.array(found)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_person_moves_a_table_further_than_its_bounds_and_one_reaches_them(k):
    people = list(spreads(k, 3))
    added = [person for person in people if person.any()]
    moves = {
        "add-remove": added,
        "replace-one": [one - other for one in added for other in added],
    }
    for neighbours, differences in moves.items():
        change, l1, l2_squared = count_bounds(Relation(neighbours, k))
        assert max(np.abs(each).max() for each in differences) == change
        assert max(np.abs(each).sum() for each in differences) == l1
        assert max((each**2).sum() for each in differences) == l2_squared


@pytest.mark.parametrize("k", KS)
def test_a_table_costs_what_the_formula_says(k):
    assert count_bounds(Relation("add-remove", k)) == (k, k, k**2)
    assert count_bounds(Relation("replace-one", k)) == (k, 2 * k, 2 * k**2)


@pytest.mark.parametrize("k", KS)
def test_other_statistics_cost_a_chain_of_rows(k):
    pair = InDif((("a", "b"), ("a", "c")))
    assert bounds(pair, Relation("add-remove", k)) == (4 * k, 8 * k, 32 * k**2)
    assert bounds(pair, Relation("replace-one", k)) == (6 * k, 12 * k, 72 * k**2)
    numbers = CellSums(column="x", positions=11)
    assert bounds(numbers, Relation("add-remove", k)) == (10 * k, 10 * k, 100 * k**2)
    assert bounds(numbers, Relation("replace-one", k)) == (20 * k, 20 * k, 400 * k**2)


def test_a_number_of_rows_that_varies_counts_where_rows_alone_keep_it():
    # Replacing a row leaves the number of rows; replacing a person of two rows by one of one not.
    total = QueryCounts(Cells(((), ("a",)), ((), (0,))))
    assert sensitivities(total, Relation("replace-one")) == (1, 1)
    assert sensitivities(total, Relation("replace-one", 2)) == (4, 8)


def test_what_needs_a_public_number_of_rows_is_refused_where_a_person_has_several():
    asked = MutualInformation((("a", ("b",)),), rows=100, grid=1000)
    assert bounds(asked, Relation("replace-one", 1))[0] > 0
    with pytest.raises(BadInput, match="one row per person"):
        bounds(asked, Relation("replace-one", 2))
    assert [Relation("replace-one", k).rows_public for k in KS] == [True, False, False]
    assert [Relation("replace-one", k).of_rows for k in KS] == ["replace-one"] + ["add-remove"] * 2


@pytest.mark.parametrize("rows", [0, -1, MOST_ROWS + 1, True, 2.0])
def test_a_person_has_a_number_of_rows(rows):
    with pytest.raises(ValueError, match="from 1 to"):
        Relation("add-remove", rows)


def test_a_bound_that_is_larger_for_a_row_more_counts():
    found = of_unit(
        Relation("replace-one", 3), lambda r: (5, 5, 25) if r == "add-remove" else (1, 1, 1)
    )
    assert found == (15, 15, 225)


# -- thresholds


def kept(scale, threshold, count):
    """Return P(count + Z >= threshold) by summing the distribution."""
    z = np.arange(-400, 401)
    mass = np.exp(-np.abs(z) / scale)
    return float(mass[count + z >= threshold].sum() / mass.sum())


def partitions(total, most=None):
    """Yield every way to write a number as a sum of whole ones."""
    if total == 0:
        yield ()
    for first in range(min(total, most or total), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0, 12.0])
def test_the_delta_of_a_threshold_covers_every_spread_of_a_persons_rows(k, scale):
    for threshold in (k, k + 1, k + 9, k + 40):
        stated = float(kept_by_chance(Fraction(scale), threshold, k))
        sums = {
            cells: sum(kept(scale, threshold, count) for count in cells)
            for total in range(1, k + 1)
            for cells in partitions(total)
        }
        worst = max(sums, key=sums.get)
        assert sums[worst] <= stated * (1 + 1e-9)
        # It is no more than the worst spread, all in one cell or each in its own.
        assert stated == pytest.approx(sums[worst], rel=1e-9)
        assert len(worst) in (1, k)


def test_both_spreads_of_a_persons_rows_can_be_the_worst():
    single, spread = (float(kept_by_chance(Fraction(scale), 50, 4)) for scale in (1, 20))
    assert single == pytest.approx(kept(1, 50, 4))
    assert spread == pytest.approx(4 * kept(20, 50, 1), rel=1e-6)


def test_a_threshold_of_one_row_is_what_it_was():
    for scale, threshold in ((Fraction(4), 35), (Fraction(1, 3), 2), (Fraction(77, 5), 300)):
        event = StabilityEvent(scale, 1, threshold)
        assert (
            event.own_delta()
            == kept_by_chance(scale, threshold, 1)
            == kept_by_chance(scale, threshold, 1)
        )
        assert "rows" not in event.to_json()
    with pytest.raises(ValueError, match="at least 3, not 2"):
        StabilityEvent(Fraction(4), 3, 2, 3)


def ratios(scale, threshold, before, after):
    """Return the worst delta at each epsilon of the histogram of two files, cell by cell, exactly.

    A cell's outcome is "not shown" or its noisy count; a cell without a record is never shown. The
    counts of the cells are few, so the joint distribution is a product that can be listed.
    """
    values = np.arange(threshold, threshold + 60)

    def outcomes(count):
        if count == 0:
            return np.concatenate([[1.0], np.zeros(len(values))])
        a = math.exp(-1 / scale)
        mass = (1 - a) / (1 + a) * a ** np.abs(values - count).astype(float)
        mass[-1] = kept(scale, values[-1], count)
        return np.concatenate([[1 - mass.sum()], mass])

    joint = [np.ones(1), np.ones(1)]
    for one, other in zip(before, after, strict=True):
        joint = [
            np.multiply.outer(table, outcomes(count)).ravel()
            for table, count in zip(joint, (one, other), strict=True)
        ]
    return joint


@pytest.mark.parametrize(
    ("relation", "before", "after"),
    [
        (Relation("add-remove"), (0,), (1,)),
        (Relation("add-remove"), (3,), (4,)),
        (Relation("replace-one"), (1, 0), (0, 1)),
        (Relation("replace-one"), (1, 1), (0, 2)),
        (Relation("replace-one"), (1, 4), (0, 5)),
        (Relation("add-remove", 2), (0, 0, 1), (1, 1, 1)),
        (Relation("add-remove", 2), (0, 1, 0), (2, 1, 0)),
        (Relation("add-remove", 2), (0, 1, 0), (1, 2, 0)),
        (Relation("replace-one", 2), (2, 0, 0), (0, 1, 1)),
        (Relation("replace-one", 2), (1, 1, 1), (0, 2, 2)),
        (Relation("replace-one", 2), (3, 0, 1), (1, 1, 2)),
        (Relation("add-remove", 3), (0, 0, 0), (1, 1, 1)),
        (Relation("add-remove", 3), (0, 0, 0), (3, 0, 0)),
    ],
)
@pytest.mark.parametrize("scale", [0.8, 2.0])
def test_the_histogram_of_two_files_keeps_epsilon_and_delta_exactly(relation, before, after, scale):
    l1, k = count_bounds(relation)[1], relation.max_rows
    event = StabilityEvent(Fraction(scale), l1, k + 3, k)
    p, q = ratios(scale, k + 3, before, after)
    factor, delta = math.exp(event.epsilon()), float(event.own_delta())
    for one, other in ((p, q), (q, p)):
        assert np.maximum(one - factor * other, 0).sum() <= delta * (1 + 1e-9)


def test_the_delta_of_one_row_would_not_cover_a_person():
    # All a person's rows in cells of their own: 0 of them are on the other file.
    p, q = ratios(2.0, 6, (1, 1, 1), (0, 0, 0))
    excess = np.maximum(p - math.exp(3 / 2.0) * q, 0).sum()
    assert float(kept_by_chance(Fraction(2), 6, 1)) < 0.5 * excess
    assert excess <= float(kept_by_chance(Fraction(2), 6, 3))


# -- draws


@pytest.mark.parametrize("k", KS)
def test_draws_cost_a_person_what_group_privacy_says(k):
    one, several = PerturbedDrawsEvent(Fraction(9), 12), PerturbedDrawsEvent(Fraction(9), 12, k)
    assert several.epsilon() == k * one.epsilon()
    assert several.rho() == k**2 * one.rho()
    one, several = PolyaUrnEvent(Fraction(9), 12), PolyaUrnEvent(Fraction(9), 12, k)
    assert several.epsilon() == k * one.epsilon()
    assert several.rho() == k**2 * one.rho()
    assert differing_draws(2, 10, 3, Relation("add-remove", k)) == 20
    assert differing_draws(2, 10, 3, Relation("replace-one", k)) == 40


@pytest.mark.parametrize("k", [1, 2, 3])
def test_an_urn_keeps_its_epsilon_for_every_person(k):
    records, scale = 3, 2.0
    most = float(PolyaUrnEvent(Fraction(2), records, k).epsilon())

    def log_chances(counts):
        found = []
        for drawn in itertools.product(range(len(counts)), repeat=records):
            urn, total = [count + scale for count in counts], 0.0
            for cell in drawn:
                total += math.log(urn[cell] / sum(urn))
                urn[cell] += 1
            found.append(total)
        return np.array(found)

    worst = 0.0
    for common in ((0, 0), (1, 0), (2, 3)):
        for one, other in itertools.product(spreads(k, 2), repeat=2):
            if one.any() and other.any():
                gap = log_chances(common + one) - log_chances(common + other)
                worst = max(worst, float(np.abs(gap).max()))
    assert worst <= most * (1 + 1e-12)
    # One row's bound would be too small for two rows or more.
    assert k == 1 or worst > float(PolyaUrnEvent(Fraction(2), records).epsilon())


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("k", KS)
def test_what_is_bought_for_a_person_costs_no_more_than_was_paid(kind, k):
    currency, cost = Currency(kind, Fraction(2), Fraction(1, 10**6)), Fraction(1, 2)
    events = (
        draws_event(currency, cost, 30, k),
        urn_event(currency, cost, 30, k),
        threshold_event(currency, cost, Fraction(1, 10**6), l1=k, rows=k),
    )
    for event in events:
        assert event.rows == k
        assert currency.cost(event) <= cost
        assert currency.cost(event) > Fraction(49, 100) or isinstance(event, PolyaUrnEvent)
        assert event_from_json(event.to_json()) == event
        assert ("rows" in event.to_json()) == (k > 1)
    assert events[2].own_delta() <= Fraction(1, 10**6)


@pytest.mark.parametrize("rows", [0, True, "2", 1])
def test_an_event_with_a_wrong_number_of_rows_is_none(rows):
    values = PolyaUrnEvent(Fraction(9), 12, 2).to_json() | {"rows": rows}
    with pytest.raises(ValueError, match=r"positive|whole|sensitivity|fields"):
        event_from_json(values)
