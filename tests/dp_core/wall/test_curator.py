from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.errors import BudgetRefused
from dp_core.schema.privacy import Relation
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.tables.marginal import Marginal
from dp_core.wall.accounting.currency import Currency, largest_limit
from dp_core.wall.curator import Curator, choice_event
from dp_core.wall.ledger.session import Grant, MemorySession
from dp_core.wall.noise import drawn_cells, granted_noise, perturbed_draws, stability
from dp_core.wall.statistics import (
    SUMS,
    InDif,
    bounds,
    check_codes,
    required,
    sum_from_json,
)
from dp_core.wall.statistics.binned_counts import BinnedCounts
from dp_core.wall.statistics.box_counts import BoxCounts
from dp_core.wall.statistics.histograms.cosines import CosineSums
from dp_core.wall.statistics.interactions import Interaction
from dp_core.wall.statistics.kernel_counts import KernelCounts
from dp_core.wall.statistics.limited.limited_sums import LimitedSums
from dp_core.wall.statistics.moments import CellCounts, CellSums, Products
from dp_core.wall.statistics.regressions.features import Features, Levels, Number
from dp_core.wall.statistics.regressions.gradients import ClassGradient, NumberGradient
from dp_core.wall.statistics.regressions.minimisers import ClassMinimiser
from dp_core.wall.statistics.regressions.shortened import Scores, SecondMoments
from tests.conftest import DatasetCounter

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))


def curator_of(kind="pure", neighbours="add-remove", *, rows=50, limit=None, max_rows=1):
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, size, rows) for size in DOMAIN.sizes]).astype(np.uint16)
    counter = DatasetCounter(Dataset(DOMAIN, codes), [])
    limit = limit or largest_limit(kind, Fraction(1), Fraction("1e-9"))
    session = MemorySession(Currency(kind, limit), neighbours, max_rows=max_rows)
    return Curator(DOMAIN, counter, session), counter, session


@pytest.fixture
def no_noise(monkeypatch):
    """Mechanisms that add nothing: what is left is the exact answer."""
    monkeypatch.setattr(granted_noise, "add", lambda values, _: values)
    monkeypatch.setattr(granted_noise, "choose", lambda values, _: int(np.argmax(values)))


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
def test_without_noise_the_answers_are_the_exact_tables(kind):
    curator, counter, session = curator_of(kind)
    cliques = [(), ("a",), ("c", "b")]
    costs = [session.currency.limit / 6] * 3
    found = curator.measure("measure", cliques, costs)
    exact = counter.count(cliques)
    for measurement, clique in zip(found, cliques, strict=True):
        assert measurement.clique == clique
        np.testing.assert_array_equal(measurement.values, exact[clique].counts)
    statistic = InDif((("a", "b"), ("b", "c")))
    scores = curator.perturb("select", "indif", statistic, session.currency.limit / 6)
    np.testing.assert_array_equal(scores, statistic.compute(counter.count(statistic.cliques)))
    assert [grant.number for grant in session.charges] == [1, 2, 3, 4]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
def test_every_answer_costs_what_was_set_aside_and_the_event_no_more(kind, neighbours):
    curator, _, session = curator_of(kind, neighbours)
    limit = session.currency.limit
    curator.measure("measure", [("a",), ("b",)], [limit / 3, limit / 6])
    curator.perturb("select", "indif", InDif((("a", "b"), ("b", "c"))), limit / 2)
    assert session.spent() == limit
    for grant in session.charges:
        cost = session.currency.cost(grant.step.event)
        assert grant.step.cost * Fraction(999_999, 10**6) <= cost <= grant.step.cost
    change = 4 if neighbours == "add-remove" else 6
    event = session.charges[-1].step.event
    if kind == "pure":
        assert event.l1_sensitivity == 2 * change
    else:
        assert event.l2_sensitivity_squared == 2 * change**2


def test_a_grant_that_is_too_small_is_refused_before_any_count():
    curator, counter, session = curator_of("pure")
    with pytest.raises(BudgetRefused, match="is left"):
        curator.measure("measure", [("a",), ("b",)], [Fraction(2, 3)] * 2)
    assert counter.asked == []
    assert session.charges == []


def test_an_answer_given_before_is_given_again_and_costs_nothing():
    curator, counter, session = curator_of("pure")
    first = curator.measure("measure", [("a",)], [Fraction(1)])
    asked = len(counter.asked)
    again = curator.measure("measure", [("a",)], [Fraction(1)])
    np.testing.assert_array_equal(first[0].values, again[0].values)
    assert session.spent() == 1
    assert len(counter.asked) == asked


def test_a_statistic_without_a_proof_is_refused():
    class Homemade(InDif):
        def largest_change(self, _):
            return 1

    curator, counter, session = curator_of("pure")
    for ask in (curator.perturb, curator.choose):
        with pytest.raises(TypeError, match="no proven sensitivity"):
            ask("select", "x", Homemade((("a", "b"),)), Fraction(1))
    assert counter.asked == []
    assert session.charges == []


def test_a_check_of_another_kind_is_refused_before_it_is_charged():
    curator, counter, session = curator_of("pure")
    with pytest.raises(TypeError, match="TableChecks, not for InDif"):
        curator.check("x", InDif((("a", "b"),)), Fraction(1))
    assert counter.asked == []
    assert session.charges == []


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("max_rows", [1, 3])
def test_a_choice_is_made_at_the_largest_change_of_its_relation(kind, neighbours, max_rows):
    curator, _, session = curator_of(kind, neighbours, max_rows=max_rows)
    statistic = InDif((("a", "b"), ("b", "c")))
    curator.choose("select", "indif", statistic, Fraction(1, 100))
    (grant,) = session.charges
    change = max_rows * (4 if neighbours == "add-remove" else 6)
    assert grant.step.event.sensitivity == change
    assert session.currency.cost(grant.step.event) <= Fraction(1, 100)


def test_the_number_of_rows_is_public_under_replace_one_only():
    assert curator_of(neighbours="replace-one")[0].public_rows() == 50
    curator, counter, _ = curator_of(neighbours="add-remove")
    assert curator.public_rows() is None
    assert counter.asked == []


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_a_private_choice_takes_the_largest_score(kind):
    curator, counter, session = curator_of(kind)
    statistic = InDif((("a", "b"), ("b", "c"), ("a", "c")))
    exact = statistic.compute(counter.count(statistic.cliques))
    chosen = curator.choose("select", "round 1", statistic, session.currency.limit)
    assert chosen == int(np.argmax(exact))


@given(cost=st.fractions(min_value=Fraction(1, 10**5), max_value=5, max_denominator=10**6))
def test_a_private_choice_costs_at_most_its_budget(cost):
    for kind in ("pure", "zcdp"):
        event = choice_event(Currency(kind, Fraction(10)), cost, 4)
        paid = Currency(kind, Fraction(10)).cost(event)
        assert cost * (1 - Fraction(1, 10**9)) <= paid <= cost
        assert event.gumbel == (kind == "zcdp")
    with pytest.raises(ValueError, match="use zcdp"):
        choice_event(Currency("gaussian", Fraction(10)), cost, 4)


def test_no_two_tables_have_the_same_step_whatever_columns_are_called():
    columns = ("a", "b", "a x b", "'a x b'", "rows", "'rows'", '"rows"', "set 1: a")
    domain = Domain(columns, (2,) * len(columns))
    data = Dataset(domain, np.zeros((len(columns), 4), dtype=np.uint16))
    session = MemorySession(Currency("pure", Fraction(2)), "add-remove")
    curator = Curator(domain, DatasetCounter(data, []), session)
    cliques = [(), ("a", "b"), *((column,) for column in columns)]
    for replicate in (0, 1):
        curator.measure("measure", cliques, [Fraction(1, 10)] * 10, replicate=replicate)
    assert len({grant.step.name for grant in session.charges}) == 20


def test_a_batch_is_not_given_for_other_tables_than_it_was_drawn_for():
    curator, _, _ = curator_of("pure")
    curator.measure("measure", [("a",)], [Fraction(1, 2)])
    with pytest.raises(ValueError, match="other steps"):
        curator.measure("measure", [("b",)], [Fraction(1, 2)])


def test_a_marginal_shows_no_counts_and_is_not_pickled():
    marginal = Marginal(Domain(("a",), (2,)), np.array([41, 43]))
    assert "41" not in repr(marginal)
    with pytest.raises(TypeError, match="confidential"):
        pickle.dumps(marginal)


def test_noise_refuses_a_grant_for_another_mechanism():
    _, _, session = curator_of("pure")
    curator = Curator(
        DOMAIN, DatasetCounter(Dataset(DOMAIN, np.zeros((3, 2), np.uint16)), []), session
    )
    curator.measure("measure", [("a",)], [Fraction(1)])
    (grant,) = session.charges
    with pytest.raises(TypeError, match="LaplaceEvent"):
        granted_noise.choose(np.zeros(2, dtype=np.int64), grant)
    other = dataclasses.replace(grant.step, event=choice_event(session.currency, Fraction(1), 1))
    with pytest.raises(TypeError, match="NoisyMaxEvent"):
        granted_noise.add(np.zeros(2, dtype=np.int64), Grant(1, other))
    with pytest.raises(TypeError, match="int64"):
        granted_noise.add(np.zeros(2), grant)
    counts = np.zeros(2, dtype=np.int64)
    for draw in (
        lambda: perturbed_draws.draw([counts], [()], 1, grant),
        lambda: drawn_cells.draw(np.array([[0]]), counts[:1], (2,), grant),
        lambda: stability.release(np.array([[0]], np.uint16), counts[:1] + 1, (2,), grant),
    ):
        with pytest.raises(TypeError, match="LaplaceEvent"):
            draw()


def sums_of(a=2, b=3, c=4, name="a"):
    """Return one sum of each kind, of columns that they take to have so many codes."""
    features = Features(
        (Levels(name=name, size=a), Number(name="c", positions=c, centre=0, reach=1, missing=True))
    )
    target = Number(name="c", positions=c, centre=0, reach=1)
    levels = Features((Levels(name=name, size=a),))
    present = Features((Levels(name=name, size=a), target))
    return (
        BinnedCounts(columns=(name, "c"), sizes=(a, c), edges=(None, (0, c))),
        BoxCounts(columns=(name, "c"), sizes=(a, c), boxes=((0, 1, 0, c), (1, 2, 0, 1))),
        CosineSums(column="c", size=c, edges=(0, 1, c), kept=2),
        KernelCounts(column="c", positions=c, edges=(0, 1, c), weights=(2, 1)),
        CellCounts(by=(name, "b"), sizes=(a, b), numbers=("c",), positions=(c,)),
        CellSums(column="c", positions=c, by=(name,), sizes=(a,)),
        LimitedSums(
            by=(name,),
            sizes=(a,),
            edges=(None,),
            column="c",
            positions=c,
            runs=(0, 0, 2),
            lows=(0,) * a,
            highs=(4,) * a,
            centres=(1,) * a,
            factors=(3,) * a,
        ),
        Products(columns=("c", "c"), positions=(c, c), about="cells", by=(name,), sizes=(a,)),
        NumberGradient(target=target, features=levels, at=(0,) * levels.width),
        ClassGradient(
            column="b", classes=b, features=features, at=(0,) * ((b - 1) * features.width)
        ),
        ClassGradient(
            column="c", classes=2, missing_from=c, features=levels, at=(0,) * levels.width
        ),
        ClassMinimiser(column="b", classes=b, features=features, ridge=1),
        SecondMoments(features=present, transform=(1,) * present.width, length_limit=9),
        Scores(
            outcome=Levels(name=name, size=a),
            features=Features((target,)),
            transform=(1, 1),
            at=(0,) * 2 * (a - 1),
            length_limit=9,
        ),
        Scores(
            outcome=target,
            features=levels,
            transform=(1,) * levels.width,
            at=(0,) * levels.width,
            length_limit=9,
        ),
        Interaction((name, "b"), (a, b)),
    )


def test_sums_of_the_files_own_codes_are_answered():
    assert {type(sum) for sum in sums_of()} == set(SUMS.values())
    for sum in sums_of():
        check_codes(sum, DOMAIN)
    # A number may have a code for missing beside its positions; a table is of all codes.
    for sum in sums_of(c=3)[3:]:
        check_codes(sum, DOMAIN)


MISTAKEN = [
    pytest.param(mistaken, id=f"{right.NAME} {change}")
    for change in ({"a": 3}, {"b": 2}, {"b": 4}, {"c": 5}, {"c": 2}, {"name": "d"})
    for right, mistaken in zip(sums_of(), sums_of(**change), strict=True)
    if right != mistaken  # it states that column
]


@pytest.mark.parametrize("sum", MISTAKEN)
def test_a_sum_of_other_codes_than_the_files_is_refused_before_it_is_charged(sum):
    curator, counter, session = curator_of()

    with pytest.raises(ValueError, match=r"column|codes"):
        curator.total("measure", "x", sum, Fraction(1, 2))

    assert not session.charges
    assert not counter.asked


@pytest.mark.parametrize("asked", sums_of(), ids=lambda asked: asked.NAME)
def test_a_description_with_a_key_that_its_sum_does_not_know_is_refused(asked):
    document = asked.to_json()
    assert sum_from_json(document) == asked
    relation = Relation("add-remove", 1)
    assert required(document, relation) == bounds(asked, relation)
    for read in (sum_from_json, lambda changed: required(changed, relation)):
        with pytest.raises(ValueError, match=r"Expected|unknown"):
            read({**document, "weight": 2})
