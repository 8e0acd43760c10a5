"""Records drawn from a whole table: their distribution, and all that they can tell.

The audit is exact: every outcome of the generator is tried on every pair of small neighbouring
files, so the probabilities are those of the very function that draws.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions import cell_draws
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms.additive_noise import LaplaceEvent
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.methods.drawn_answers import draw_cells
from dp_core.methods.drawn_events import draws_event, urn_event

pytestmark = pytest.mark.statistical

KINDS = {"independent": PerturbedDrawsEvent, "urn": PolyaUrnEvent}


def drawn(table, event, shape):
    """Return records drawn from a table of counts, shape as the table's."""
    cells = np.argwhere(table > 0)
    step = Step("measure", "x", Fraction(1), event, shape)
    return cell_draws.draw(cells, table[table > 0], table.shape, Grant(1, step))


def outcomes(monkeypatch, table, event, records):
    """Return the exact probability of every sequence of records."""
    found, script = Counter(), []
    while script is not None:
        sizes = []

        def below(size, sizes=sizes, script=script):
            sizes.append(size)
            return script[len(sizes) - 1] if len(sizes) <= len(script) else 0

        with monkeypatch.context() as patched:
            patched.setattr(cell_draws.secrets, "randbelow", below)
            result = drawn(table, event, (records, table.ndim))
        chance = Fraction(1, math.prod(sizes))
        found[tuple(map(tuple, result.tolist()))] += chance
        full = [*script, *[0] * (len(sizes) - len(script))]
        while full and full[-1] + 1 == sizes[len(full) - 1]:
            full.pop()
        script = [*full[:-1], full[-1] + 1] if full else None
    assert sum(found.values()) == 1
    return found


def neighbours_of(relation, cells, most):
    """Pairs of small tables of one column that differ in one record."""
    for counts in itertools.product(range(most), repeat=cells):
        table = np.array(counts)
        if table.sum() >= most:
            continue
        for place in range(cells):
            more = table.copy()
            more[place] += 1
            if relation == "add-remove":
                yield table, more
                continue
            for other in range(place + 1, cells):
                moved = table.copy()
                moved[other] += 1
                yield more, moved


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_has_the_probability_of_the_proof(monkeypatch, kind):
    table, a = np.array([[2, 0], [1, 0]]), Fraction(1, 2)
    found = outcomes(monkeypatch, table, KINDS[kind](a, 2), 2)
    weights = {place: table[place] + a for place in itertools.product(range(2), repeat=2)}
    total = sum(weights.values())
    assert len(found) == 16
    for (first, second), chance in found.items():
        again = (first == second) if kind == "urn" else 0
        beside = 1 if kind == "urn" else 0
        expected = weights[first] / total * (weights[second] + again) / (total + beside)
        assert chance == expected


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("kind", "records"), [(k, r) for k in KINDS for r in (1, 2, 3)])
def test_whatever_is_drawn_is_as_likely_on_neighbours_as_was_charged(
    monkeypatch, relation, kind, records
):
    event = KINDS[kind](Fraction(1, 2), records)
    claim, known, worst = float(event.epsilon()), {}, 0.0

    def distribution(table):
        key = tuple(table.tolist())
        if key not in known:
            known[key] = outcomes(monkeypatch, table, event, records)
        return known[key]

    cells, most = (2, 3) if records == 3 else (3, 3)
    for first, second in neighbours_of(relation, cells, most):
        one, two = distribution(first), distribution(second)
        assert one.keys() == two.keys()
        worst = max(worst, *(abs(math.log(chance / two[key])) for key, chance in one.items()))
    assert worst <= claim * (1 + 1e-12)
    if relation == "replace-one":
        # Reached: one draw fewer, or a prior by one part larger, would not do.
        assert worst == pytest.approx(claim, rel=1e-12)
    else:
        # Nearly so only in large files, where one record more changes the total by little.
        large = np.array([0, 10**6]), np.array([1, 10**6])
        weights = [[table[0] + event.scale, table.sum() + 2 * event.scale] for table in large]
        loss = sum(
            math.log(
                (weights[1][0] + step)
                / (weights[0][0] + step)
                * (weights[0][1] + step)
                / (weights[1][1] + step)
            )
            for step in (range(records) if kind == "urn" else [0] * records)
        )
        assert claim * (1 - 1e-5) < loss <= claim


def test_the_priors_are_those_of_the_papers():
    """Figures of the comparative study, computed from its formulas; ours are rounded up."""
    whole = Currency("pure", Fraction(1))
    # Multinomial-Dirichlet: one of five sets of 100 records at epsilon 1.
    urn = urn_event(whole, Fraction(1, 5), 100).scale
    assert 0 <= urn - Fraction("451.66555661") < Fraction(1, 500_000)
    # McClure & Reiter, and with it the smoothed histogram: 100 records at epsilon 1.
    draws = draws_event(whole, Fraction(1), 100).scale
    assert 0 <= draws - Fraction("99.50083333") < Fraction(1, 1000)
    assert float((10 + draws) / (100 + 2 * draws)) == pytest.approx(0.36622148, abs=1e-6)
    assert float(10 * draws / (100 + 10 * draws)) == pytest.approx(0.9086764941, abs=1e-6)


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("records", [1, 7, 10**6])
@pytest.mark.parametrize("epsilon", [10**9, 60, 8, 1, Fraction(1, 10**6), Fraction(1, 10**17)])
def test_an_urn_costs_at_most_what_was_given_and_nearly_that(kind, records, epsilon):
    cost = Fraction(epsilon) if kind == "pure" else Fraction(epsilon) ** 2 / 2
    currency = Currency(kind, cost)
    event = urn_event(currency, cost, records)
    assert event.records == records
    assert currency.cost(event) <= cost
    fewer = event.scale * Fraction(10**9 - 1, 10**9) - Fraction(1, 2**20)
    assert fewer <= 0 or currency.cost(PolyaUrnEvent(fewer, records)) > cost
    assert event.own_delta() == 0
    assert event_from_json(event.to_json()) == event


def test_an_urn_is_not_bought_with_what_cannot_pay_for_it():
    with pytest.raises(ValueError, match="Gaussian curve"):
        urn_event(Currency("gaussian", Fraction(1)), Fraction(1), 5)
    pure = Currency("pure", Fraction(1))
    with pytest.raises(ValueError, match="positive"):
        urn_event(pure, Fraction(0), 5)
    with pytest.raises(ValueError, match="1e-18 or more"):
        urn_event(pure, Fraction(1, 10**19), 5)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            PolyaUrnEvent(Fraction(1), wrong)
    with pytest.raises(ValueError, match="scale must be positive"):
        PolyaUrnEvent(Fraction(0), 1)


def test_records_are_not_drawn_by_another_grant_nor_for_fewer():
    table = np.array([1, 2])
    with pytest.raises(TypeError, match="not for drawn records"):
        drawn(table, LaplaceEvent(Fraction(1), 1), (2, 1))
    for kind in KINDS.values():
        with pytest.raises(ValueError, match="2 draws, not for 3"):
            drawn(table, kind(Fraction(1), 2), (3, 1))


def test_a_table_of_more_cells_than_a_machine_counts_is_drawn_from():
    sizes = (60_000,) * 10
    event = PerturbedDrawsEvent(Fraction(1, 10**6), 50)
    step = Step("measure", "x", Fraction(1), event, (50, 10))
    cells = np.zeros((1, 10), dtype=np.int64)
    found = cell_draws.draw(cells, np.array([5]), sizes, Grant(1, step))
    # 6e42 virtual records: none of the five real ones, and every column anywhere.
    assert found.max() < 60_000
    assert (found.max(axis=0) > 30_000).all()
    assert (found.min(axis=0) < 30_000).all()


DOMAIN = Domain(("a", "b"), (2, 9))
DATA = Dataset(DOMAIN, np.array([[0] * 30 + [1] * 50, [0] * 30 + [5] * 50], dtype=np.uint16))
EDGES = (None, (0, 4, 8, 9))


def curator_of(neighbours="add-remove", data=DATA, epsilon=1):
    session = MemorySession(Currency("pure", Fraction(epsilon)), neighbours)
    return Curator(Kernel(data.domain, MemoryCounter(data), session)), session


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", KINDS)
def test_m_sets_cost_an_mth_each_under_both_relations(kind, neighbours):
    curator, session = curator_of(neighbours)
    for replicate in (1, 2, 3, 4, 5):
        draw_cells(
            curator,
            "measure",
            "records",
            DOMAIN.columns,
            Fraction(1, 5),
            records=80,
            kind=kind,
            replicate=replicate,
        )
    assert session.spent() == 1
    for grant in session.charges:
        assert isinstance(grant.step.event, KINDS[kind])
        assert Fraction(1, 5) * Fraction(9999, 10**4) < grant.step.event.epsilon() <= Fraction(1, 5)
    if kind == "urn":
        # n/(e^(epsilon/m) - 1), not n/(e^epsilon - 1).
        assert float(session.charges[0].step.event.scale) == pytest.approx(80 / math.expm1(0.2))


@pytest.mark.parametrize("kind", KINDS)
def test_positions_are_drawn_by_their_bins(kind):
    curator, _ = curator_of(epsilon=2000)
    found = draw_cells(
        curator,
        "measure",
        "x",
        ("b", "a"),
        Fraction(2000),
        records=80,
        kind=kind,
        edges=EDGES[::-1],
    )
    assert found.domain == Domain(("b", "a"), (3, 2))
    # With next to no virtual records an urn or a draw holds what the file does: (0, 0) and (1, 1).
    # Of 80 records .004 are expected elsewhere (a virtual record is at least 1/1024 of one): six
    # are there by chance in less than one of 1e7 runs.
    assert (found.codes[0] != found.codes[1]).sum() + (found.codes[0] > 1).sum() <= 5
    for wrong in ((1, 9), (0, 8), (0, 5, 5, 9), (0,)):
        with pytest.raises(ValueError, match="Edges must ascend"):
            draw_cells(
                curator, "measure", "y", ("b",), Fraction(1), records=1, kind=kind, edges=[wrong]
            )


@pytest.mark.parametrize("kind", KINDS)
def test_records_that_were_paid_for_are_given_back_and_not_drawn_again(kind, monkeypatch):
    curator, session = curator_of()
    asked = {"records": 80, "kind": kind, "edges": EDGES}
    first = draw_cells(curator, "measure", "x", DOMAIN.columns, Fraction(1), **asked)
    with monkeypatch.context() as patched:
        patched.delattr(cell_draws, "draw")
        again = draw_cells(
            Curator(Kernel(DOMAIN, MemoryCounter(DATA), session)),
            "measure",
            "x",
            DOMAIN.columns,
            Fraction(1),
            **asked,
        )
    np.testing.assert_array_equal(first.codes, again.codes)
    assert session.spent() == 1
    with pytest.raises(ValueError, match="other steps"):
        draw_cells(
            curator,
            "measure",
            "x",
            DOMAIN.columns,
            Fraction(1),
            **{**asked, "edges": (None, (0, 8, 9))},
        )
