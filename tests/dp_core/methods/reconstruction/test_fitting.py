"""Fits to targets that contradict each other, or a rule of impossible cells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.raking import margin
from dp_core.methods.reconstruction.graphical import junction_fit
from dp_core.methods.reconstruction.graphical.answers import Answers
from dp_core.methods.reconstruction.graphical.junction_fit import Target, fit_tree
from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree
from dp_core.methods.reconstruction.kernels.junction_sweeps import solve
from dp_core.methods.reconstruction.pgm import within_rules
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.full import examples

PERSONS = Domain(("age", "marital", "income"), (3, 4, 5))
CHILDREN = StructuralZeros((Rule(("age", "marital"), ((0,), (1, 2)), "no married children"),))
LARGEST = 60.0


def powers(low, high):
    return st.floats(low, high).map(lambda power: 10.0**power)


def target(domain, columns, values, penalty):
    project = domain.project(columns)
    values = np.asarray(values, dtype=float).reshape(project.sizes)
    return Target(project, values, np.full(project.sizes, penalty))


def fitted(domain, wanted, total, zeros=CHILDREN, start=None, sweeps=5000, tolerance=1e-13):
    held = within_rules(domain, [each.domain.columns for each in wanted], zeros, most_cells=1e6)
    tree = JunctionTree.of(domain, held)
    options = {"start": start, "sweeps": sweeps, "tolerance": tolerance}
    return fit_tree(tree, wanted, total=total, zeros=zeros, **options)


def table(fit, columns):
    return Answers(fit.tree, fit.tables).table(columns)


@settings(max_examples=examples(500), deadline=None)
@given(
    powers(-140, 6),
    st.floats(-LARGEST, LARGEST),
    st.floats(-1e4, 1e6) | powers(-12, 6),
    powers(-3, 6),
)
def test_a_log_factor_solves_its_equation_or_is_as_far_as_one_may_be(mass, before, wanted, penalty):
    x = solve(mass, before, wanted, penalty)
    assert -LARGEST <= x <= LARGEST
    left = mass * np.exp(x - before) + penalty * x
    # Newton ends at a step of 1e-10, which a penalty of a million makes a ten-thousandth record.
    close = 1e-6 * max(1.0, abs(wanted), penalty * abs(x), 1e-3 * penalty)
    if x == LARGEST:
        assert left <= wanted + close
    elif x == -LARGEST:
        assert left >= wanted - close
    else:
        assert left == pytest.approx(wanted, abs=close)


def random_rules(domain, cliques, rng):
    rules = []
    for _ in range(rng.integers(4)):
        columns = cliques[rng.integers(len(cliques))]
        codes = [np.flatnonzero(rng.random(size) < 0.5) for size in domain.project(columns).sizes]
        if all(each.size for each in codes):
            rules.append(Rule(columns, tuple(tuple(each.tolist()) for each in codes), "no"))
    return StructuralZeros(tuple(rules)).with_empty_levels(domain, most_cells=1000)


def random_values(cells, total, rng):
    values = rng.dirichlet(np.full(cells, 10.0 ** rng.uniform(-2, 1))) * total
    kind = rng.integers(5)
    if kind == 0:  # all in one cell
        values = np.eye(cells)[rng.integers(cells)] * total
    elif kind == 1:  # of another total
        values *= 10.0 ** rng.uniform(-3, 3)
    elif kind == 2:
        values = np.zeros(cells)
    elif kind == 3:  # as noise leaves them
        values -= rng.random(cells) * total / 10
    return values


def test_whatever_is_wanted_the_tables_are_finite_legal_and_agree():
    refused = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        columns = tuple("abcdef"[: rng.integers(2, 7)])
        domain = Domain(columns, tuple(rng.integers(1, 6, len(columns)).tolist()))
        cliques = [c for size in (1, 2, 3) for c in itertools.combinations(columns, size)]
        chosen = rng.permutation(len(cliques))[: rng.integers(1, 9)]
        total = 10.0 ** rng.uniform(0, 6)
        wanted = []
        for clique in [cliques[place] for place in chosen]:
            penalty = 10.0 ** rng.uniform(-3, 6) if rng.random() < 0.5 else 1e-3
            values = random_values(domain.size(clique), total, rng)
            wanted.append(target(domain, clique, values, penalty))
        start = {
            each.domain.columns: rng.uniform(-LARGEST, LARGEST, each.domain.sizes)
            for each in wanted
            if seed % 2
        }
        zeros = random_rules(domain, cliques, rng)
        try:
            fit = fitted(domain, wanted, total, zeros, start, int(rng.integers(1, 60)), 1e-6)
        except BadInput:
            refused += 1
            continue
        for each in fit.tables:
            assert np.isfinite(each.values).all()
            assert (each.values >= 0).all()
            assert not each.values[zeros.mask(each.domain)].any()
            assert each.values.sum() == pytest.approx(total)
        for one, two in itertools.combinations(fit.tables, 2):
            both = tuple(name for name in one.clique if name in two.clique)
            np.testing.assert_allclose(margin(one, both), margin(two, both), atol=1e-9 * total)
        for clique in cliques:
            assert table(fit, clique).sum() == pytest.approx(total)
    assert refused < 200


def test_a_contradiction_is_settled_by_least_squares_among_what_is_possible():
    # Of 42 records 31 are to be children, and all married: 15.5 children are nearest to both.
    wanted = [
        target(PERSONS, ("age",), [31, 11, 0], 0.3),
        target(PERSONS, ("marital",), [0, 0, 42, 0], 0.3),
        target(PERSONS, ("income",), [20, 5, 5, 5, 7], 1e-4),
    ]
    fit = fitted(PERSONS, wanted, 42.0)
    np.testing.assert_allclose(table(fit, ("age",)), [15.5, 18.75, 7.75], atol=0.2)
    np.testing.assert_allclose(table(fit, ("marital",)), [7.75, 0, 26.5, 7.75], atol=0.2)
    np.testing.assert_allclose(table(fit, ("income",)), [20, 5, 5, 5, 7], atol=0.01)


@pytest.mark.parametrize("sweeps", [20, 1000])
def test_a_contradiction_beyond_what_a_log_factor_may_be_costs_no_more_than_it_must(sweeps):
    wanted = [
        target(PERSONS, ("age",), [31, 11, 0], 1e-3),
        target(PERSONS, ("marital",), [0, 0, 42, 0], 1e-3),
        target(PERSONS, ("income",), [42, 0, 0, 0, 0], 1e-3),
    ]
    fit = fitted(PERSONS, wanted, 42.0, sweeps=sweeps)
    errors = [np.abs(table(fit, each.domain.columns) - each.values).sum() for each in wanted]
    # Each child too many is two records off in marital, each too few two in age.
    assert sum(errors) == pytest.approx(62, abs=1)
    assert table(fit, ("age", "marital"))[0, 1:3].sum() == 0


def test_every_log_factor_stands_where_its_equation_holds():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        total = 10.0 ** rng.uniform(1, 4)
        cliques = [("age",), ("marital",), ("income",), ("age", "income"), ("marital", "income")]
        wanted = [
            target(
                PERSONS,
                clique,
                rng.dirichlet(np.full(PERSONS.size(clique), 0.5)) * total,
                total * 10.0 ** rng.uniform(-2, 1),
            )
            for clique in cliques
        ]
        fit = fitted(PERSONS, wanted, total)
        for each in wanted:
            x = fit.potentials[each.domain.columns]
            over = table(fit, each.domain.columns) + each.penalty * x - each.values
            assert (over[x < LARGEST] > -1e-7 * total).all()
            assert (over[x > -LARGEST] < 1e-7 * total).all()


def test_a_clique_with_very_many_below_it_keeps_what_they_say():
    # Every message is e^-30 but for one code, so the product of all is e^-1500 for each code.
    names = tuple(f"column {number}" for number in range(61))
    domain = Domain(names, (6, *[2] * 60))
    rng = np.random.default_rng(0)
    first = rng.dirichlet(np.ones(6))
    wanted = [
        target(domain, (names[0], name), first[:, None] * rng.dirichlet(np.ones(2), 6) * 1e4, 1e-3)
        for name in names[1:]
    ]
    none = StructuralZeros()
    last = fitted(domain, wanted, 1e4, none, sweeps=30)
    start = {}
    for number, each in enumerate(wanted):
        lowered = np.full((6, 1), -30.0)
        lowered[number % 6] = 0
        start[each.domain.columns] = last.potentials[each.domain.columns] + lowered
    again = fitted(domain, wanted, 1e4, none, start, sweeps=1)
    for one, two in zip(last.tables, again.tables, strict=True):
        np.testing.assert_allclose(one.values, two.values, atol=1)


def all_alike(columns):
    """Return a domain of yes and no, and rules that every column says the same."""
    domain = Domain(columns, (2,) * len(columns))
    rules = [
        Rule(pair, ((code,), (1 - code,)), "alike")
        for pair in itertools.pairwise(columns)
        for code in (0, 1)
    ]
    return domain, StructuralZeros(tuple(rules))


def test_what_every_clique_had_given_up_comes_back_when_it_is_wanted():
    # 40 columns say no by a factor of e^-60 each, which is e^-2400 together.
    domain, zeros = all_alike(tuple(f"column {number}" for number in range(40)))
    start = {(name,): np.array([60.0, -60.0]) for name in domain.columns}
    wanted = [target(domain, (name,), [25, 75], 1e-3) for name in domain.columns]
    fit = fitted(domain, wanted, 100.0, zeros, start, sweeps=50)
    for each in fit.tables:
        np.testing.assert_allclose(np.diag(each.values), [25, 75], atol=0.1)


def test_what_one_clique_had_given_up_comes_back_when_it_is_wanted():
    # The same by the 15 tables of four columns, in a single clique.
    domain, zeros = all_alike(tuple("abcd"))
    tables = [c for size in (1, 2, 3, 4) for c in itertools.combinations("abcd", size)]
    wanted, start = [], {}
    for clique in tables:
        values, factors = np.zeros((2, *domain.project(clique).sizes))
        values.flat[0], values.flat[-1] = 25, 75
        factors.flat[0], factors.flat[-1] = 60, -60
        wanted.append(target(domain, clique, values, 1e-3))
        start[clique] = factors
    fit = fitted(domain, wanted, 100.0, zeros, start, sweeps=50)
    np.testing.assert_allclose(fit.tables[0].values.flat[[0, -1]], [25, 75], atol=0.1)


def test_targets_that_lie_where_nothing_is_possible_leave_an_even_table():
    domain = Domain(("a", "b"), (2, 2))
    zeros = StructuralZeros((Rule(("a", "b"), ((0,), (0, 1)), "no a 0"),))
    wanted = [target(domain, ("a", "b"), [10, 10, 0, 0], 1e-12)]
    fit = fitted(domain, wanted, 20.0, zeros)
    np.testing.assert_allclose(fit.tables[0].values, [[0, 0], [10, 10]])


def test_rules_that_leave_nothing_are_named():
    zeros = StructuralZeros((Rule(("age",), ((0, 1, 2),), "nobody"),))
    with pytest.raises(BadInput, match="impossible"):
        fitted(PERSONS, [target(PERSONS, ("age",), [1, 1, 1], 1.0)], 3.0, zeros)


@pytest.mark.parametrize("sweeps", [1, 3, 50])
def test_cells_of_the_same_count_share_a_solution_without_a_change_of_the_fit(monkeypatch, sweeps):
    """Exactly the same floats: a solution is taken over only if all that it follows from agrees."""
    domain, rng = Domain(("a", "b", "c"), (60, 5, 4)), np.random.default_rng(4)
    wanted = []
    for columns in (("a",), ("a", "b"), ("b", "c"), ("b",)):
        part = domain.project(columns)
        penalty = rng.choice([0.01, 0.5], part.sizes)
        wanted.append(Target(part, np.rint(rng.normal(2, 2, part.sizes)), penalty))
    fits = {}
    for most in (1, 10_000):
        monkeypatch.setattr(junction_fit, "_MANY_CELLS", most)
        fits[most] = fitted(domain, wanted, 300, StructuralZeros(), sweeps=sweeps)
    shared, alone = fits[1], fits[10_000]
    assert shared.sweeps == alone.sweeps
    for one, other in zip(shared.tables, alone.tables, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    for columns, factors in shared.potentials.items():
        np.testing.assert_array_equal(factors, alone.potentials[columns])
    assert np.unique(junction_fit._first_like(wanted[0])).size == 60
    monkeypatch.setattr(junction_fit, "_MANY_CELLS", 1)
    assert np.unique(junction_fit._first_like(wanted[0])).size < 40
