from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.client.released import Table
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.bayes_network import (
    BayesNetwork,
    BayesNetworkModel,
    Factor,
    clipped,
    conditional,
    network,
)
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import summed
from tests.measured import NONE, noisy_table

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 2, 4))


def exact(clique, joint, domain=DOMAIN, scale=1e-3):
    values = summed(joint, domain, clique)
    return noisy_table(domain.project(clique), values, noise="laplace", scale=scale)


def fit(given, domain=DOMAIN, *, zeros=NONE, rows=None, **options):
    return BayesNetwork(**options).fit(
        domain, given, rows=rows, zeros=zeros, rng=np.random.default_rng(0)
    )


def chain():
    """Counts of a -> b -> c -> d, every conditional far from even."""
    rng = np.random.default_rng(4)
    a = np.array([0.3, 0.7])
    b, c, d = (rng.dirichlet(np.full(n, 0.5), m) for m, n in ((2, 3), (3, 2), (2, 4)))
    joint = np.einsum("a,ab,bc,cd->abcd", a, b, c, d)
    return np.rint(joint * 10**7).astype(np.int64)


@pytest.mark.parametrize("cleaning", ["clip", "agree"])
def test_the_joint_of_a_chain_comes_back_from_its_pairs(cleaning):
    joint = chain()
    given = [exact(clique, joint) for clique in (("c", "d"), ("a", "b"), ("b", "c"))]
    data = fit(given, tables=cleaning).sample(200_000, rng=np.random.default_rng(1))
    cells = np.ravel_multi_index(tuple(data.codes.astype(np.int64)), DOMAIN.sizes)
    seen = np.bincount(cells, minlength=DOMAIN.size()) / data.rows
    wanted = joint.ravel() / joint.sum()
    # Six standard errors of each cell's frequency.
    error = 6 * np.sqrt(wanted * (1 - wanted) / data.rows) + 1e-6
    assert (np.abs(seen - wanted) <= error).all()


def test_the_tables_of_a_network_are_drawn_in_its_order():
    cliques = [("a", "b", "c"), ("b", "d"), ("e",), ("a", "d", "e", "f")]
    assert network(cliques) == (
        Factor(0, (), ("a", "b", "c")),
        Factor(1, ("b",), ("d",)),
        Factor(3, ("a", "d"), ("e", "f")),
    )


def test_a_table_inside_a_later_one_still_decides_its_own_column():
    # x's parent is a; a later table holds both, and must not come before x's own.
    cliques = [("a", "b"), ("a", "x"), ("x", "y"), ("a", "b", "x", "z")]
    assert network(cliques) == (
        Factor(0, (), ("a", "b")),
        Factor(1, ("a",), ("x",)),
        Factor(3, ("a", "b", "x"), ("z",)),
        Factor(2, ("x",), ("y",)),
    )


def test_one_way_tables_do_not_cut_a_tree_apart():
    columns = [(name,) for name in "abcdef"]
    tree = [("a", "b"), ("c", "d"), ("b", "c"), ("e", "f"), ("d", "e")]
    for order in itertools.permutations(tree):
        factors = network([*columns, *order])
        assert [len(factor.drawn) for factor in factors] == [2, 1, 1, 1, 1]


def test_every_column_is_drawn_once_from_whatever_tables():
    rng = np.random.default_rng(0)
    for _ in range(200):
        cliques = [
            tuple(sorted(rng.choice(list("abcdefg"), size=rng.integers(1, 5), replace=False)))
            for _ in range(rng.integers(1, 8))
        ]
        factors = network(cliques)
        drawn = [name for factor in factors for name in factor.drawn]
        assert sorted(drawn) == sorted({name for clique in cliques for name in clique})
        seen: set[str] = set()
        for factor in factors:
            assert set(factor.given) <= seen
            assert set(factor.given) | set(factor.drawn) == set(cliques[factor.table])
            seen |= set(factor.drawn)


def said_of(table, step, state, zeros=NONE):
    """Return the shares that a conditional has for a state of the columns given."""
    found = conditional(table, step, zeros)
    assert found.clique == (*step.given, *step.drawn)
    shares = found.values.reshape(-1, found.domain.size(step.drawn))[state]
    return shares / shares.sum()


def test_a_state_of_which_nothing_is_known_takes_the_column_s_own_table():
    values = np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    table = Table(Domain(("a", "b"), (2, 3)), values)
    step = Factor(0, ("a",), ("b",))
    np.testing.assert_allclose(said_of(table, step, 1), [0.75, 0.25, 0])
    rule = StructuralZeros((Rule(("a", "b"), ((1,), (0,)), "rule"),))
    assert said_of(table, step, 1, rule)[1] == 1.0
    wider = StructuralZeros((Rule(("a", "b"), ((1,), (0, 1)), "rule"),))
    assert said_of(table, step, 1, wider)[2] == 1.0


def test_a_conditional_is_of_the_columns_in_the_order_of_the_step():
    values = np.zeros((2, 3, 2))
    values[1, 2, 0], values[0, 1, 1] = 5.0, 7.0
    table = Table(Domain(("a", "b", "c"), (2, 3, 2)), values)
    found = said_of(table, Factor(0, ("c",), ("a", "b")), 1)
    assert found[1] == 1.0  # a = 0, b = 1
    found = said_of(table, Factor(0, ("b", "c"), ("a",)), 2 * 2)
    assert found[1] == 1.0  # b = 2, c = 0: a = 1


def test_clipping_is_of_each_table_by_itself():
    domain = Domain(("a", "b"), (2, 2))
    one = noisy_table(domain.project(("a",)), np.array([-5, 20]), noise="laplace")
    two = noisy_table(domain.project(("b",)), np.array([-7, -3]), noise="laplace", grant=2)
    (first, second), total = clipped(domain, [one, two], rows=10, zeros=NONE)
    assert total == 10
    np.testing.assert_array_equal(first.values, [0, 10])
    np.testing.assert_array_equal(second.values, [5, 5])


def test_a_column_in_no_table_is_even():
    model = fit([exact(("a", "b"), chain())])
    assert {name for table in model.tables for name in table.clique} == set("abcd")
    seen = np.bincount(model.sample(40_000, rng=np.random.default_rng(1)).column("d"))
    np.testing.assert_allclose(seen / 40_000, 0.25, atol=7 * np.sqrt(3 / 16 / 40_000))


def test_pieces_of_a_set_are_drawn_independently_of_its_size():
    model = fit([exact(("a", "b"), chain()), exact(("b", "c", "d"), chain())])
    assert model.streams
    once = model.sample(300_000, rng=np.random.default_rng(1))
    assert isinstance(model, BayesNetworkModel)
    assert once.rows == 300_000
    # More rows than the words drawn at a time: the second piece has the tables as well.
    for part in (once.codes[:, :250_000], once.codes[:, 265_000:]):
        pair = np.bincount(part[0].astype(np.int64) * 3 + part[1], minlength=6) / part.shape[1]
        wanted = chain().sum(axis=(2, 3)).ravel() / chain().sum()
        np.testing.assert_allclose(pair, wanted, atol=7 * 0.5 / np.sqrt(part.shape[1]))


def test_projections_are_those_of_the_smallest_table_that_holds_the_columns():
    model = fit([exact(("a", "b"), chain()), exact(("b", "c", "d"), chain())])
    np.testing.assert_allclose(model.project(("b", "a")), chain().sum(axis=(2, 3)).T)
    with pytest.raises(KeyError, match="No table holds"):
        model.project(("a", "c"))
