from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.contingency_tables import contingency_table
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.lab.measures.table_errors import relative_entropy
from dp_core.methods.reconstruction.joint.weighting import FittedJoint, Updates
from dp_core.methods.reconstruction.multiplicative_weights import MultiplicativeWeights
from dp_core.methods.selection.mwem import cells, parities
from tests.exact_tables import query_counts
from tests.measured import NONE, noisy_answers, noisy_table

TABLE_C = np.array([10, 20, 30, 5, 8, 12, 6, 9]).reshape(2, 2, 2)
DOMAIN_C = Domain(("a", "b", "c"), (2, 2, 2))


def domain_of(table):
    return Domain(tuple(f"x{axis}" for axis in range(table.ndim)), table.shape)


def answers(domain, table, queries, *, scale=1e-3, noise="laplace", round=0, error=0):
    values = query_counts(table, domain, queries) + error
    return noisy_answers(queries, values, noise=noise, scale=scale, round=round)


def fit(domain, released, *, rows, zeros=NONE, **options):
    method = MultiplicativeWeights(**options)
    return method.fit(domain, released, rows=rows, zeros=zeros, rng=np.random.default_rng(0))


# From the published tables, computed without this package (iterative proportional fitting).
UNIFORM = {"czech": 0.5504454691, "mildew": 1.5463637909, "rochdale": 1.7538759423}
TWO_WAY = {"czech": 0.0128601246, "mildew": 0.1051699993, "rochdale": 0.1086902368}


@pytest.mark.parametrize("kind", [parities, cells])
@pytest.mark.parametrize("name", TWO_WAY)
def test_exact_answers_of_order_two_give_the_two_way_fit(name, kind):
    table = contingency_table(name)
    domain, rows = domain_of(table), int(table.sum())
    assert relative_entropy(table, np.ones(table.shape)) == pytest.approx(UNIFORM[name], abs=1e-9)
    model = fit(domain, [answers(domain, table, kind(domain, (1, 2)))], rows=rows)
    found = relative_entropy(table, model.project(domain.columns))
    assert found == pytest.approx(TWO_WAY[name], abs=2e-5)


def test_answers_to_one_question_are_averaged_by_their_precision():
    column = Parities((("a",),))
    first = answers(DOMAIN_C, TABLE_C, column, scale=1.0, error=5)
    second = answers(DOMAIN_C, TABLE_C, Cells((("a",),), ((0,),)), scale=2.0, error=-15)
    # The even parity of one column is its cell 0, asked in other words: 4/5 of 5, 1/5 of -15.
    model = fit(DOMAIN_C, [first, second], rows=100, prior=1e-6)
    assert model.project(("a",))[0] == pytest.approx(65 + 1, abs=1e-3)
    third = answers(DOMAIN_C, TABLE_C, column, scale=2.0, error=-15)
    parity = fit(DOMAIN_C, [first, third], rows=100, prior=1e-6)
    assert parity.project(("a",))[0] == pytest.approx(65 + 1, abs=1e-3)
    twice = fit(DOMAIN_C, [first, first], rows=100, prior=1e-6)
    assert twice.project(("a",))[0] == pytest.approx(70, abs=1e-3)


def test_the_prior_holds_back_what_is_within_the_noise():
    error = [0, 30, 0]
    noisy = answers(DOMAIN_C, TABLE_C, parities(DOMAIN_C, (1,)), scale=30.0, error=error)
    away = []
    for prior in (1, 10, 100):
        even = fit(DOMAIN_C, [noisy], rows=100, prior=prior).project(("b",))
        away.append(even[0] - 50)
    assert away[0] > 2 * away[1] > 4 * away[2] > 0


def test_an_answer_that_no_table_has_leaves_every_cell_some_mass():
    impossible = answers(DOMAIN_C, TABLE_C, parities(DOMAIN_C, (1,)), scale=20.0, error=90)
    model = fit(DOMAIN_C, [impossible], rows=100)
    assert model.project(("a", "b", "c")).min() > 0.01


def test_the_number_of_records_is_among_the_answers_or_asked_for():
    queries = Parities(((), ("a",), ("b",)))
    assert fit(DOMAIN_C, [answers(DOMAIN_C, TABLE_C, queries)], rows=None).rows == 100
    with pytest.raises(BadInput, match="stage `total`"):
        fit(DOMAIN_C, [answers(DOMAIN_C, TABLE_C, parities(DOMAIN_C, (1,)))], rows=None)


def test_one_step_is_the_papers_update():
    asked = Parities((("b", "c"),))
    model = fit(DOMAIN_C, [answers(DOMAIN_C, TABLE_C, asked)], rows=100, updates="steps")
    joint = model.project(("a", "b", "c")) / 100
    # 32 of 100 are even, the even table says 50: d = -0.18.
    growth = np.exp(-0.18 * np.array([[1, 0], [0, 1]]))
    expected = np.broadcast_to(growth / growth.sum() / 2, (2, 2, 2))
    np.testing.assert_allclose(joint, expected, rtol=1e-12)
    assert relative_entropy(TABLE_C, joint) == pytest.approx(0.1459518755, abs=1e-9)


@pytest.mark.parametrize(
    "released",
    [
        Parities((("a",),)),
        Cells((("a",),), ((0,),)),
        Cells((("a",), ("a",)), ((0,), (1,))),
    ],
)
def test_the_three_kinds_of_steps_agree_where_they_ask_the_same(released):
    fitted = FittedJoint(DOMAIN_C, np.ones((2, 2, 2), bool), 100, updates="steps")
    fitted.add([answers(DOMAIN_C, TABLE_C, released)] * 300)
    np.testing.assert_allclose(100 * fitted.joint.sum(axis=(1, 2)), [65, 35], atol=1e-6)
    np.testing.assert_allclose(100 * fitted.joint.sum(axis=(0, 2)), [50, 50], atol=1e-6)


def test_many_replays_end_where_the_limit_is():
    noisy = answers(DOMAIN_C, TABLE_C, parities(DOMAIN_C, (1, 2)))
    limit = fit(DOMAIN_C, [noisy], rows=100).project(("a", "b", "c"))
    fitted = FittedJoint(DOMAIN_C, np.ones((2, 2, 2), bool), 100, updates="steps")
    fitted.add([noisy] * 2000)
    np.testing.assert_allclose(100 * fitted.joint, limit, atol=2e-3)


def test_a_step_is_that_of_the_figure_of_the_paper():
    asked = [answers(DOMAIN_C, TABLE_C, Parities((("a",),)))]
    model = fit(DOMAIN_C, asked, rows=100, updates="steps")
    assert np.log(np.divide(*model.project(("a",)))) == pytest.approx(0.15, rel=1e-9)


def test_the_average_is_of_the_tables_after_each_answer():
    first = answers(DOMAIN_C, TABLE_C, Parities((("a",),)), round=1)
    second = answers(DOMAIN_C, TABLE_C, Parities((("b",),)), round=2)
    fitted = FittedJoint(DOMAIN_C, np.ones((2, 2, 2), bool), 100, updates="steps")
    tables = [100 * fitted.joint.sum(axis=2) for _ in fitted.each([first, second])]
    # They are followed in the order of their rounds.
    average = fit(DOMAIN_C, [second, first], rows=100, updates="steps")
    np.testing.assert_allclose(average.project(("a", "b")), np.mean(tables, axis=0), rtol=1e-12)


def test_a_noisy_joint_table_is_the_start_with_what_stands_out(monkeypatch):
    # What is left without the step towards the table itself.
    monkeypatch.setattr(Updates, "follow", lambda *_: None)
    values = np.array([400, 3, -2, 1, 2, -3, 500, 0]).reshape(2, 2, 2)
    noisy = noisy_table(DOMAIN_C, values, noise="laplace", scale=2.0)
    joint = fit(DOMAIN_C, [noisy], rows=1000, updates="steps").project(("a", "b", "c"))
    assert joint[0, 0, 0] == pytest.approx(400)
    assert joint[1, 1, 0] == pytest.approx(500)
    np.testing.assert_allclose(np.delete(joint.ravel(), [0, 6]), 100 / 6)
    nothing = noisy_table(DOMAIN_C, values % 4, noise="laplace", scale=2.0)
    even = fit(DOMAIN_C, [nothing], rows=1000, updates="steps").project(("a", "b", "c"))
    np.testing.assert_allclose(even, 125)


def test_a_table_that_is_too_large_is_refused_with_what_fits():
    large = Domain(tuple(f"x{axis}" for axis in range(30)), (2,) * 30)
    with pytest.raises(BadInput, match="method: privsyn"):
        MultiplicativeWeights().check(large)


def test_a_prior_that_means_nothing_is_refused():
    with pytest.raises(ValueError, match="prior"):
        MultiplicativeWeights(prior=0.0)


def test_shares_of_a_rare_level_are_not_pulled_with_the_options_against_it():
    domain = Domain(("a",), (2,))
    table = noisy_table(domain, np.array([1950, 50]), scale=40.0)

    def pulled(**options):
        return float(fit(domain, [table], rows=2000, **options).project(("a",))[1]) - 50

    assert pulled() > 2
    assert 0 <= pulled(**MultiplicativeWeights.unpulled) < pulled() / 2
