from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dp_core.client.released import Answers, Measurement
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.query_scores import QueryDistance
from dp_core.lab.measures.table_errors import relative_entropy
from dp_core.methods.reconstruction.joint.weighting import FittedJoint
from dp_core.methods.selection.mwem import MOST_ROUNDS, Mwem, _Schedule, parities, rounds_of_theory
from tests.measured import NONE, curator_of, method_inputs
from tests.statistical import FALSE_ALARM

DOMAIN_C = Domain(("a", "b", "c"), (2, 2, 2))
TABLE_C = np.array([10, 20, 30, 5, 8, 12, 6, 9]).reshape(2, 2, 2)
DOMAIN_F = Domain(("a", "b", "c", "d"), (2, 2, 3, 3))
TABLE_F = np.array(
    [
        [[[4, 10, 7], [6, 6, 4], [2, 9, 3]], [[15, 14, 15], [5, 2, 2], [4, 7, 4]]],
        [[[4, 3, 4], [18, 4, 6], [5, 6, 4]], [[6, 2, 3], [6, 1, 1], [4, 2, 2]]],
    ]
).reshape(DOMAIN_F.sizes)
PAPER = {"updates": "steps"}


def records(domain, table):
    found = np.indices(table.shape, dtype=np.uint16).reshape(table.ndim, -1)
    return Dataset(domain, np.repeat(found, table.ravel(), axis=1))


def asked(domain, table, *, kind="pure", neighbours="replace-one", limit=None):
    limit = limit or largest_limit(kind, Fraction(1), Fraction("1e-9"))
    return curator_of(records(domain, table), limit, kind, neighbours)


def select(domain, table, *, zeros=NONE, known=(), part=Fraction(1, 2), **options):
    where = {key: options.pop(key) for key in ("kind", "neighbours", "limit") if key in options}
    curator, session = asked(domain, table, **where)
    left = session.currency.limit
    if known:
        known = curator.measure("total", known, [left / 10 / len(known)] * len(known))
        left -= left / 10
    selection = Mwem(**options).select(
        method_inputs(
            curator,
            domain,
            known=known,
            select_cost=left * part,
            measure_cost=left * (1 - part),
            zeros=zeros,
        )
    )
    return selection, session


@pytest.mark.usefixtures("no_noise")
def test_without_noise_the_papers_algorithm_takes_known_steps():
    selection, _ = select(DOMAIN_C, TABLE_C, picks=4, **PAPER)
    picked = [answer.queries.cliques for answer in selection.measured]
    assert picked == [(("b", "c"),), (("a",),), (("b", "c"),), (("a",),)]
    joint, deviations, entropies = np.full((2, 2, 2), 100 / 8), [], []
    for number, answer in enumerate(selection.measured, start=1):
        (clique,) = answer.queries.cliques
        even = np.indices((2, 2, 2))[list(DOMAIN_C.axes(clique))].sum(axis=0) % 2 == 0
        deviations.append((answer.values[0] - joint[even].sum()) / 100)
        fitted = FittedJoint(DOMAIN_C, np.ones((2, 2, 2), bool), 100, updates="steps")
        fitted.add(selection.measured[:number])
        joint = 100 * fitted.joint
        entropies.append(relative_entropy(TABLE_C, joint))
    # Computed without this package.
    assert deviations == pytest.approx([-0.18, 0.15, -0.1351211076, 0.1125701547], abs=1e-10)
    assert relative_entropy(TABLE_C, np.ones((2, 2, 2))) == pytest.approx(0.1743073312, abs=1e-10)
    assert entropies[0] == pytest.approx(0.1459518755, abs=1e-10)
    assert entropies[3] == pytest.approx(0.0991548951, abs=1e-10)


# By exp(epsilon_0 n|d| / 4) with epsilon_0 = 0.4; computed without this package.
CHOSEN = [0.253546, 0.056574, 0.084398, 0.093274, 0.169957, 0.342251]


def test_half_a_round_pays_for_choices_of_a_quarter_not_of_a_half():
    curator, session = asked(DOMAIN_C, TABLE_C, kind="zcdp", limit=Fraction(500))
    queries = parities(DOMAIN_C, (1, 2))
    assert queries.cliques[3:] == (("a", "b"), ("a", "c"), ("b", "c"))
    statistic = QueryDistance(queries, np.full(6, 50_000), 1000)
    # A choice of epsilon_0 / 2 is of bounded range: rho = (epsilon_0 / 2)^2 / 8.
    cost = Fraction("0.2") ** 2 / 8
    exact = statistic.compute(MemoryCounter(records(DOMAIN_C, TABLE_C)).count(statistic.cliques))
    picked = curator.choose_several("select", "many", statistic, [cost] * 3000)
    odds = np.exp(exact / float(session.charges[-1].step.event.scale))
    assert odds / odds.sum() == pytest.approx(CHOSEN, abs=1e-6)
    assert exact.max() == 1000 * (50 - 32)
    seen = np.bincount(picked, minlength=6)
    assert stats.chisquare(seen, 3000 * np.array(CHOSEN) / sum(CHOSEN)).pvalue > FALSE_ALARM
    printed = (odds**2 / (odds**2).sum()) * 3000
    assert stats.chisquare(seen, printed).pvalue < FALSE_ALARM


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_a_round_costs_its_part_whatever_is_picked(kind, neighbours):
    selection, session = select(
        DOMAIN_C, TABLE_C, kind=kind, neighbours=neighbours, known=[()], picks=5, orders=(1, 2, 3)
    )
    assert session.spent() == session.currency.limit
    rounds = session.charges[1:]
    assert len(rounds) == 10
    assert len(selection.measured) == 5
    each = session.currency.limit * Fraction(9, 10) / 10
    for grant in rounds:
        assert grant.step.cost == each
        assert session.currency.cost(grant.step.event) <= each
    for answers in selection.measured:
        # One query moves by one under either relation.
        expected = 1 / float(each) if kind == "pure" else math.sqrt(1 / (2 * float(each)))
        assert answers.scale == pytest.approx(expected)


@given(
    st.fractions(Fraction(1, 300), 1, max_denominator=300),
    st.sampled_from([1, 2, 4]),
    st.lists(st.booleans(), max_size=400),
)
def test_adaptive_rounds_never_cost_more_than_there_is_and_leave_nothing(first, growth, weak):
    schedule = _Schedule(first, growth)
    seen = iter(weak)
    parts = []
    for part in schedule:
        assert part > 0
        parts.append(part)
        assert sum(parts) <= 1
        schedule.saw(0.0 if next(seen, False) else 10.0, 1.0)
    assert sum(parts) == 1
    # All but the last, which takes what is left, cost the first part doubled some times over.
    for before, after in itertools.pairwise(parts[:-1]):
        assert after in (before, growth * before)


@pytest.mark.usefixtures("no_noise")
def test_where_nothing_stands_out_any_more_the_parts_double(monkeypatch):
    first = Fraction(1, 40)
    monkeypatch.setattr(Mwem, "_first_part", lambda *_, **__: first)
    even = np.full((2, 2, 2), 5)
    _, session = select(DOMAIN_C, even)
    costs = [grant.step.cost for grant in session.charges if grant.step.stage == "measure"]
    whole = session.currency.limit / 2
    assert [cost / whole * 40 for cost in costs] == [1, 2, 4, 8, 25]
    _, session = select(DOMAIN_C, even, kind="zcdp")
    costs = [grant.step.cost for grant in session.charges if grant.step.stage == "measure"]
    whole = session.currency.limit / 2
    assert [cost / whole * 40 for cost in costs] == [1, 4, 16, 19]
    # A large signal is asked about with the same noise again, as long as it lasts.
    first = Fraction(1, 8)
    _, session = select(DOMAIN_C, 1000 * TABLE_C, **PAPER)
    costs = [grant.step.cost for grant in session.charges if grant.step.stage == "measure"]
    assert costs == [session.currency.limit / 16] * 8


def test_by_default_the_first_round_is_one_of_as_many_as_there_are_queries():
    assert Mwem().choices(DOMAIN_C) == 10  # 6 queries, but at least ten rounds
    assert Mwem().choices(DOMAIN_F) == 47  # 10 + 37 queries
    assert Mwem(orders=(1, 2, 3)).choices(DOMAIN_F) == 64  # 107, but at most 64 rounds
    assert Mwem(picks=3).choices(DOMAIN_F) == 3
    # In pure epsilon, where the noise grows faster with the rounds, it is one of half as many.
    for kind, rounds in (("zcdp", 47), ("pure", 23)):
        _, session = select(DOMAIN_F, TABLE_F, kind=kind)
        costs = [grant.step.cost for grant in session.charges if grant.step.stage == "measure"]
        assert costs[0] == session.currency.limit / 2 / rounds


def bound(kind, rounds, *, cost, rows, cells, queries):
    """Return the paper's bound of the largest error (Lemma 3.1), without its constant."""
    each = 2 * cost / rounds if kind == "pure" else math.sqrt(32 * cost / rounds)
    return math.sqrt(math.log(cells) / rounds) + math.log(queries) / (each * rows)


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("rows", [300, 3000])
@pytest.mark.parametrize("cost", [Fraction(1, 100), Fraction(1, 20)])
def test_the_rounds_of_theory_minimise_the_bound_of_the_paper(kind, rows, cost):
    of = {"rows": rows, "cells": 64, "queries": 21}
    found = rounds_of_theory(kind, cost, cost, **of)
    best = min(range(1, MOST_ROUNDS + 1), key=lambda each: bound(kind, each, cost=cost, **of))
    assert abs(found - best) <= 1


def test_the_rounds_of_theory_lie_between_1_and_their_limit():
    of = {"cells": 2**20, "queries": 4}
    assert rounds_of_theory("pure", Fraction(1), Fraction(1), rows=10**9, **of) == MOST_ROUNDS
    assert rounds_of_theory("zcdp", Fraction(1, 10**9), Fraction(1), rows=1, **of) == 1
    assert rounds_of_theory("pure", Fraction(1), Fraction(1), rows=0.5, cells=1, queries=1) == 1


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_the_rounds_of_theory_have_equal_parts_of_the_whole_budget(kind):
    _, session = select(DOMAIN_C, 50 * TABLE_C, picks="theory", kind=kind)
    of = {"rows": 5000, "cells": 8, "queries": 6}
    half = session.currency.limit / 2
    rounds = rounds_of_theory(kind, half, half, **of)
    for stage in ("select", "measure"):
        costs = [grant.step.cost for grant in session.charges if grant.step.stage == stage]
        assert costs == [half / rounds] * rounds


def test_a_histogram_start_is_a_table_with_noise_on_every_cell():
    selection, session = select(DOMAIN_C, TABLE_C, picks=2, histogram=Fraction(1, 4))
    start, *rest = selection.measured
    assert isinstance(start, Measurement)
    assert start.clique == DOMAIN_C.columns
    assert all(isinstance(item, Answers) for item in rest)
    assert [grant.step.cost for grant in session.charges if grant.step.stage == "measure"] == [
        Fraction(1, 8),
        Fraction(3, 16),
        Fraction(3, 16),
    ]
    assert session.spent() == 1
    assert Mwem(histogram=Fraction(1, 4)).gives == {"tables", "answers"}
    assert DOMAIN_C.columns in Mwem(histogram=Fraction(1, 4)).needs(DOMAIN_C)


def test_parities_are_asked_where_all_columns_are_binary():
    assert isinstance(select(DOMAIN_C, TABLE_C, picks=1)[0].measured[-1].queries, Parities)
    _, session = select(DOMAIN_C, TABLE_C, picks=1, queries="cells")
    assert {grant.step.asks.get("length", 18) for grant in session.charges} == {6 + 12}
    assert isinstance(select(DOMAIN_F, TABLE_F, picks=1)[0].measured[-1].queries, Cells)
    with pytest.raises(BadInput, match="'c' has 3"):
        Mwem(queries="parities").check(DOMAIN_F)


@pytest.mark.parametrize(
    "wrong",
    [
        {"orders": ()},
        {"orders": (0,)},
        {"picks": 0},
        {"histogram": Fraction(1)},
    ],
)
def test_options_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Mwem(**wrong)


def test_domains_that_are_too_large_are_refused_with_what_fits():
    with pytest.raises(BadInput, match="method: privsyn"):
        Mwem().check(Domain(tuple(f"x{axis}" for axis in range(30)), (2,) * 30))
    with pytest.raises(BadInput, match="smaller orders"):
        Mwem(orders=(8,), queries="cells").check(
            Domain(tuple(f"x{axis}" for axis in range(20)), (2,) * 20)
        )
