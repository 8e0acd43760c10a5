from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.errors import BudgetRefused
from dp_core.kernel.cost.currency import Currency, choice_event, largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.extensions import cell_draws, column_draws, thresholds
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.extensions.quantile import Quantile
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms import additive_noise, private_choice
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.kernel.questions.linear_questions import CellSums
from dp_core.kernel.questions.query_scores import QueryDistance, SignedQueries
from dp_core.kernel.questions.table_distance import TableChecks, TableDistance
from dp_core.kernel.requests import Tables
from tests.conftest import DatasetCounter

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))


def curator_of(kind="pure", neighbours="add-remove", *, rows=50, limit=None, max_rows=1):
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, size, rows) for size in DOMAIN.sizes]).astype(np.uint16)
    counter = DatasetCounter(Dataset(DOMAIN, codes), [])
    limit = limit or largest_limit(kind, Fraction(1), Fraction("1e-9"))
    session = MemorySession(Currency(kind, limit), neighbours, max_rows=max_rows)
    return Curator(Kernel(DOMAIN, counter, session)), counter, session


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


class Tame(InDif):
    """Claims that a record changes less, and answers something else."""

    length = 7

    def largest_change(self, _):
        return 1

    def exact(self, _):
        return np.full(7, 10**6)


class TameQueries(Cells):
    def l1(self, _):
        return 1

    def count(self, tables):
        return 10**6 * super().count(tables)


@pytest.mark.usefixtures("no_noise")
def test_nothing_but_the_fields_of_a_question_is_believed():
    curator, counter, session = curator_of("pure")
    pair = InDif((("a", "b"),))
    found = curator.perturb("select", "x", Tame((("a", "b"),)), Fraction(1, 4))
    np.testing.assert_array_equal(found, pair.exact(counter))
    curator.choose("select", "y", Tame((("a", "b"),)), Fraction(1, 4))
    one = TameQueries((("a",), ("b",)), ((0,), (1,)))
    answers = curator.answer("select", "z", one, Fraction(1, 4))
    assert answers.queries == Cells(one.of, one.codes)
    assert answers.values.max() <= 50
    events = [grant.step.event for grant in session.charges]
    assert [event.l1_sensitivity for event in (events[0], events[2])] == [4, 2]
    assert events[1].sensitivity == 4


def test_an_array_that_is_changed_after_the_charge_changes_no_answer(monkeypatch):
    curator, counter, session = curator_of("pure")
    queries = Cells((("a",), ("b",)), ((0,), (1,)))
    signs = np.array([1, -1])
    question = SignedQueries(queries, 1, np.zeros(2, dtype=np.int64), signs)
    exact = question.exact(counter)
    count = counter.count

    def later(cliques):
        signs[:] = 10**6
        return count(cliques)

    monkeypatch.setattr(counter, "count", later)
    monkeypatch.setattr(additive_noise, "add", lambda values, _: values)
    found = curator.perturb("select", "x", question, Fraction(1))
    np.testing.assert_array_equal(found, exact)
    assert signs[0] == 10**6
    assert session.charges[0].step.event.l1_sensitivity == 2


@pytest.mark.parametrize(
    "question",
    [
        type("Unknown", (InDif,), {"NAME": "unknown"})((("a", "b"),)),
        InDif((("a", 1),)),
        InDif([("a", "b"), "ab"]),
        Quantile(column="c", low=0, high=3, part=True, of=2),
        QueryDistance(Cells((("a",),), ((0,),)), np.zeros(1), 1),
        QueryDistance(Cells((("a",),), ((0,),)), np.zeros(1, dtype=np.int64), 1.5),
        TableDistance((("a",),), (np.zeros(2),), 1, (1,), (0,)),
        TableDistance((("a",),), (np.zeros(2, dtype=np.int64),), 1, (0.5,), (0,)),
        TableChecks((("a",),), (np.zeros(2),)),
    ],
)
def test_a_question_of_no_known_kind_or_of_other_values_than_whole_numbers_is_refused(question):
    curator, counter, session = curator_of("pure")
    for ask in (curator.perturb, curator.choose):
        with pytest.raises(ValueError, match=r"has a proven|Expected"):
            ask("select", "x", question, Fraction(1))
    assert counter.asked == []
    assert session.charges == []


def test_a_question_of_another_kind_is_refused_before_it_is_charged():
    curator, counter, session = curator_of("pure")
    pair = InDif((("a", "b"),))
    with pytest.raises(ValueError, match="'indif' is no TableChecks"):
        curator.check("x", pair, Fraction(1))
    with pytest.raises(ValueError, match="'indif' is no Sum"):
        curator.total("select", "x", pair, Fraction(1))
    with pytest.raises(ValueError, match="'cell-sums' is no TableStatistic"):
        curator.choose("select", "x", CellSums(column="c", positions=4), Fraction(1))
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
    curator = Curator(Kernel(domain, DatasetCounter(data, []), session))
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
        Kernel(DOMAIN, DatasetCounter(Dataset(DOMAIN, np.zeros((3, 2), np.uint16)), []), session)
    )
    curator.measure("measure", [("a",)], [Fraction(1)])
    (grant,) = session.charges
    with pytest.raises(TypeError, match="LaplaceEvent"):
        private_choice.choose(np.zeros(2, dtype=np.int64), grant)
    other = dataclasses.replace(grant.step, event=choice_event(session.currency, Fraction(1), 1))
    with pytest.raises(TypeError, match="NoisyMaxEvent"):
        additive_noise.add(np.zeros(2, dtype=np.int64), Grant(1, other))
    with pytest.raises(TypeError, match="int64"):
        additive_noise.add(np.zeros(2), grant)
    counts = np.zeros(2, dtype=np.int64)
    for draw in (
        lambda: column_draws.draw([counts], [()], 1, grant),
        lambda: cell_draws.draw(np.array([[0]]), counts[:1], (2,), grant),
        lambda: thresholds.release(np.array([[0]], np.uint16), counts[:1] + 1, (2,), grant),
    ):
        with pytest.raises(TypeError, match="LaplaceEvent"):
            draw()


@pytest.mark.parametrize(("column", "positions"), [("c", 5), ("c", 2), ("d", 4)])
def test_a_sum_of_other_codes_than_the_files_is_refused_before_it_is_charged(column, positions):
    """Which codes each sum states is tested in tests/contracts/test_sums.py."""
    curator, counter, session = curator_of()

    with pytest.raises(ValueError, match=r"column|codes"):
        curator.total("measure", "x", CellSums(column=column, positions=positions), Fraction(1, 2))

    assert not session.charges
    assert not counter.asked


@pytest.mark.parametrize("step", ["../x", "a/b", "a\nb", "x" * 300])
def test_a_step_whose_result_could_lie_elsewhere_is_not_charged(step):
    asked, _, session = curator_of()
    with pytest.raises(ValueError, match="name of a result's file"):
        asked.total("select", step, CellSums(column="a", positions=2), Fraction(1))
    assert session.charges == []


def test_a_request_that_draws_something_else_is_made_anew():
    curator, counter, _ = curator_of()

    class Exact(Tables):
        def prepare(self, facts):
            asked = super().prepare(facts)
            return asked._replace(draw=lambda of, _: [of.count([("a",)])[("a",)].counts])

    request = Exact(stage="measure", cliques=(("a",),), costs=(Fraction(1, 10**6),))
    ((_, drawn),) = curator._kernel.answer(request)
    exact = counter.count([("a",)])[("a",)].counts
    # Both noises of scale 10^6 are 0 with a probability of 3e-13.
    assert not np.array_equal(drawn, exact)


@pytest.mark.parametrize("number", [{"replicate": -1}, {"round": -1}, {"round": True}])
def test_the_number_of_a_set_or_round_is_a_whole_number(number):
    curator, _, session = curator_of()
    request = Tables(stage="measure", cliques=(("a",),), costs=(Fraction(1, 10),), **number)
    with pytest.raises(ValueError, match="whole number from 0"):
        curator._kernel.answer(request)
    assert session.charges == []


def test_a_table_that_cannot_be_counted_is_not_charged():
    wide = Domain(tuple(f"c{number}" for number in range(32)), (4,) * 32)
    session = MemorySession(Currency("pure", Fraction(1)), "add-remove")
    curator = Curator(Kernel(wide, DatasetCounter(None, []), session))
    with pytest.raises(ValueError, match="at most"):
        curator.measure("measure", [wide.columns], [Fraction(1, 10)])
    assert session.charges == []
