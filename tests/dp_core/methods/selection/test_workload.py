"""The workload: its error in closed form, the division of the budget, and what is promised."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.privacy import Relation
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.budget.costs import Costs
from dp_core.methods.selection.budget.wanted_shares import (
    Basis,
    candidates,
    closed_form,
    for_tables,
    margins,
    told_by,
    weighted_error,
)
from dp_core.methods.selection.budget.workload import (
    Told,
    WantedTable,
    mean_variance,
    normalise,
    precisions,
    shares,
    weight,
    worths,
)
from dp_core.methods.selection.fixed import Fixed
from dp_core.methods.selection.selector import Terms
from dp_core.plan.procedure import carry_out

DOMAIN = Domain(tuple("abcd"), (2, 5, 8, 12))
TABLES = (
    WantedTable(of=("a", "b"), weight=Fraction(3)),
    WantedTable(of=("c", "d"), prefixes=("d",), missing=("d",)),
    WantedTable(of=("a", "b", "c"), ranges=("c",)),
)
RHO, DELTA = Fraction(15, 1000), Fraction("1e-9")


def terms(kind="zcdp", neighbours="add-remove", known=()):
    limit = Fraction(1) if kind == "pure" else RHO
    return Terms(
        currency=Currency(kind, limit),
        relation=Relation(neighbours),
        measure=limit,
        known=dict(known),
    )


def rows_of_queries(table, name, size):
    """Return the questions about a column, one a row, written out."""
    last = size - (name in table.missing)
    if name in table.prefixes:
        pairs = [(0, high) for high in range(last)]
    elif name in table.ranges:
        pairs = [(low, high) for low in range(last) for high in range(low, last)]
    else:
        return np.eye(size)
    return np.array([[low <= code <= high for code in range(size)] for low, high in pairs]) * 1.0


@pytest.mark.parametrize("table", TABLES)
def test_the_error_of_an_entry_is_that_of_least_squares_over_all_its_questions(table):
    """Against generalised least squares with matrices that are written out."""
    sizes = DOMAIN.project(table.of).sizes
    cells = math.prod(sizes)
    told = [
        Told((), 30.0),
        *(Told((name,), 7.0) for name in table.of),
        Told(table.of, 5.0),
        Told(table.of[:2], 2.0, alone=True),
    ]
    inverse = np.zeros((cells, cells))
    for each in told:
        of_columns = [
            np.eye(size) if name in each.clique else np.ones((1, size))
            for name, size in zip(table.of, sizes, strict=True)
        ]
        if each.alone:
            of_columns = [
                np.eye(size) - 1 / size if name in each.clique else np.ones((1, size))
                for name, size in zip(table.of, sizes, strict=True)
            ]
        design = np.ones((1, 1))
        for one in of_columns:
            design = np.kron(design, one)
        inverse += design.T @ design / each.variance
    covariance = np.linalg.inv(inverse)
    questions = np.ones((1, 1))
    for name, size in zip(table.of, sizes, strict=True):
        questions = np.kron(questions, rows_of_queries(table, name, size))
    expected = np.einsum("ij,jk,ik->i", questions, covariance, questions).mean()
    found = mean_variance(table, told, DOMAIN, rows_public=False)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_part_that_nothing_tells_leaves_the_error_infinite():
    told = [Told(("a",), 1.0), Told(("b",), 1.0)]
    table = WantedTable(of=("a", "b"))
    assert mean_variance(table, told, DOMAIN, rows_public=False) == math.inf


def test_the_closed_form_holds_for_the_noise_of_the_smallest_epsilon():
    price = np.full(2, 1e24)
    assert closed_form(np.array([1e6, 4e6]), price, np.zeros(2)) == pytest.approx([1 / 3, 2 / 3])


@pytest.mark.parametrize("before", [0.0, 0.02])
def test_the_closed_form_is_the_optimum_of_a_numerical_optimiser(before):
    rng = np.random.default_rng(3)
    worth, price = rng.uniform(0.1, 5, 7), rng.uniform(1, 50, 7)
    known = before * rng.uniform(0, 5, 7)
    if not before:
        known[:] = 0

    def error(shares):
        return float((worth / (known + shares / price)).sum())

    found = closed_form(worth, price, known)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    if before:
        assert (found == 0).any()  # the case that the closed form must find by itself
    other = minimize(
        lambda x: error(np.exp(x) / np.exp(x).sum()), np.zeros(7), tol=1e-14, method="BFGS"
    )
    assert error(found) <= other.fun * (1 + 1e-9)
    assert error(found) == pytest.approx(other.fun, rel=1e-4)


@pytest.mark.parametrize("kind", ["zcdp", "pure"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("known", [(), tuple(((name,), 90.0) for name in "abcd")])
def test_the_division_is_as_good_as_that_of_a_numerical_optimiser(kind, neighbours, known):
    given = terms(kind, neighbours, known)
    found = Fixed(workload=TABLES)
    error = weighted_error(found, DOMAIN, given)
    worth = worths(TABLES, DOMAIN)
    if neighbours == "replace-one":
        worth.pop(())
    costs = Costs(given.currency, given.relation, given.measure, whole=False)
    every = candidates(list(worth), DOMAIN, costs, Basis())
    before = precisions(worth, [Told(*each) for each in known], DOMAIN)
    tells = np.array(
        [
            [*precisions(worth, [Told(one.clique, one.variance, one.alone)], DOMAIN).values()]
            for one in every
        ]
    )

    def value(x):
        shares = np.exp(x - x.max())
        shares /= shares.sum()
        precision = np.array([*before.values()]) + shares**costs.exponent @ tells
        return math.log((np.array([*worth.values()]) / precision).sum())

    rng = np.random.default_rng(0)
    starts = [np.zeros(len(every)), *rng.normal(0, 2, (4, len(every)))]
    best = min(minimize(value, start, method="L-BFGS-B").fun for start in starts)
    # Coefficients of interactions are rounded, so tables may be better by some per mille; a few
    # small shares are left out, which may cost one.
    assert error <= math.exp(best) * 1.01


def test_with_gaussian_noise_under_add_remove_every_part_is_measured_alone():
    known = tuple(((name,), 1e12) for name in "abcd")
    found = Fixed(workload=TABLES).certain(DOMAIN, terms(known=known)).selection
    assert found.interactions == {clique for clique in found.cliques if clique}
    assert () in found.cliques  # interactions do not tell the number of records
    shares = dict(zip(found.cliques, map(float, found.weights), strict=True))
    worth = worths(TABLES, DOMAIN)
    price = {part: math.prod(1 - 1 / DOMAIN.size((name,)) for name in part) for part in worth}
    root = {part: math.sqrt(worth[part] * price[part]) for part in worth}
    for part, share in shares.items():
        assert share == pytest.approx(root[part] / sum(root.values()), rel=0.03)


def test_weights_matter_relative_to_one_another_only():
    pair = [WantedTable(of=("a", "b"), weight=Fraction(2)), WantedTable(of=("c",))]
    same = [WantedTable(of=each.of, weight=each.weight * 500) for each in pair]
    basis = Basis()
    one, other = (for_tables(each, DOMAIN, terms(), basis) for each in (pair, same))
    assert one.cliques == other.cliques
    assert [float(x) for x in one.weights] == pytest.approx([float(x) for x in other.weights])


def table_of(plan, counts, **more):
    domain = plan.spec.schema.domain
    codes = np.stack(
        np.unravel_index(np.repeat(np.arange(counts.size), counts.ravel()), counts.shape)
    ).astype(np.uint16)
    return carry_out(plan, MemoryCounter(Dataset(domain, codes)), **more)


COUNTS = np.random.default_rng(5).poisson(6, (2, 5, 8))
SMALL = Domain(tuple("abc"), (2, 5, 8))
WANTED = (WantedTable(of=("a", "b"), weight=Fraction(3)), WantedTable(of=("b", "c")))


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_the_margin_in_the_plan_is_the_pooled_one_of_the_release(noise, neighbours):
    plan = trial_plan(
        SMALL, "fixed", Fraction(1), DELTA, neighbours=neighbours, noise=noise, sets=0,
        select={"workload": WANTED, "columns": False},
    )  # fmt: skip
    outcome = table_of(plan, COUNTS)
    rows = float(COUNTS.sum()) if neighbours == "replace-one" else None
    pooled = pool(SMALL, outcome.released, rows=rows)
    for each in margins(plan.spec.selector, SMALL, plan.terms):
        assert pooled.half_width(each.table.of) == pytest.approx(each.half_width, rel=1e-9)
    spent = outcome.session.spent()
    assert spent == plan.currency.limit


def test_what_auto_measures_besides_only_narrows_the_margins():
    plan = trial_plan(
        SMALL, "auto", Fraction(1), DELTA, noise="gaussian", select={"workload": WANTED}
    )
    outcome = table_of(plan, COUNTS)
    pooled = pool(SMALL, outcome.released)
    for each in margins(plan.spec.selector, SMALL, plan.terms):
        assert pooled.half_width(each.table.of) <= each.half_width * (1 + 1e-6)
    certain = plan.spec.selector.certain(SMALL, plan.terms)
    (selected,) = outcome.selections
    weights = dict(zip(selected.cliques, selected.weights, strict=True))
    for clique, least in zip(certain.selection.cliques, certain.selection.weights, strict=True):
        assert weights[clique] >= least * certain.share
        assert (clique in selected.interactions) == (clique in certain.selection.interactions)


def test_auto_measures_nothing_else_if_the_workload_gets_everything():
    plan = trial_plan(
        SMALL, "auto", Fraction(1), DELTA,
        select={"workload": WANTED, "tables_share": Fraction(1)},
    )  # fmt: skip
    assert plan.costs["select"] == 0
    outcome = table_of(plan, COUNTS)
    (selected,) = outcome.selections
    assert selected == plan.spec.selector.certain(SMALL, plan.terms).selection


def test_what_is_certain_does_not_depend_on_the_file():
    plans = [
        trial_plan(SMALL, "auto", Fraction(1), DELTA, select={"workload": WANTED}) for _ in range(2)
    ]
    certain = [each.spec.selector.certain(SMALL, each.terms) for each in plans]
    assert certain[0] == certain[1]
    for plan, counts in zip(plans, (COUNTS, COUNTS[::-1] * 40), strict=True):
        (selected,) = table_of(plan, counts).selections
        least = dict(zip(certain[0].selection.cliques, certain[0].selection.weights, strict=True))
        found = dict(zip(selected.cliques, selected.weights, strict=True))
        assert all(found[clique] >= weight / 2 for clique, weight in least.items())


def test_the_division_of_the_rest_knows_what_the_workload_tells():
    """A pair that the workload measures well gets less of the rest than without it."""
    hidden = np.random.default_rng(2).integers(0, 4, 4000)
    codes = np.stack([hidden, hidden, hidden, hidden]).astype(np.uint16)
    domain = Domain(tuple("abcd"), (4,) * 4)
    counter = MemoryCounter(Dataset(domain, codes))

    def share(**select):
        plan = trial_plan(domain, "auto", Fraction(8), DELTA, noise="gaussian", select=select)
        (selected,) = carry_out(plan, counter).selections
        weights = dict(zip(selected.cliques, selected.weights, strict=True))
        certain = plan.spec.selector.certain(domain, plan.terms)
        if certain is None:
            return float(weights[("a", "b")])
        own = dict(zip(certain.selection.cliques, certain.selection.weights, strict=True))
        rest = weights[("a", "b")] - certain.share * own[("a", "b")]
        return float(rest / (1 - certain.share))

    assert share(workload=(WantedTable(of=("a", "b")),)) < share() / 2


def test_fixed_divides_the_budget_among_listed_tables_by_the_workload():
    tables = (("a", "b", "c"), ("a", "b"), ("b", "c"))
    method = Fixed(cliques=tables, workload=WANTED)
    method.check(SMALL)
    given = terms(known=[(("a",), 50.0), (("b",), 50.0), (("c",), 50.0)])
    found = method.certain(SMALL, given).selection
    assert not found.interactions
    assert set(found.cliques) <= set(tables)
    told = told_by(found, SMALL, given)
    whole = Costs(given.currency, given.relation, given.measure, whole=True).table
    even = [Told(clique, 3 * whole) for clique in tables]
    known = [Told(clique, variance) for clique, variance in given.known.items()]
    error = [
        sum(
            float(table.weight) * mean_variance(table, each, SMALL, rows_public=False)
            for table in WANTED
        )
        for each in (told, [*known, *even])
    ]
    assert error[0] < error[1]


def test_a_wanted_table_that_no_listed_one_contains_is_refused():
    with pytest.raises(BadInput, match="b x c"):
        Fixed(cliques=(("a", "b"),), workload=WANTED).check(SMALL)


def test_columns_of_no_wanted_table_are_measured_if_sets_need_them():
    one = (WantedTable(of=("a", "b")),)
    covered = Fixed(workload=one).certain(SMALL, terms()).selection
    assert ("c",) in covered.cliques
    assert ("c",) not in covered.interactions
    known = [((name,), 9.0) for name in "abc"]
    assert ("c",) not in Fixed(workload=one).certain(SMALL, terms(known=known)).selection.cliques
    only = Fixed(workload=one, columns=False).certain(SMALL, terms()).selection
    assert all({*clique} <= {"a", "b"} for clique in only.cliques)


@pytest.mark.parametrize("share", ["0", "-1", "11/10"])
def test_a_share_of_nothing_or_of_more_than_everything_is_refused(share):
    with pytest.raises(ValueError, match="tables_share"):
        Auto(tables_share=Fraction(share))


def test_many_tables_take_one_pass():
    domain = Domain(tuple(f"c{number}" for number in range(24)), (3,) * 24)
    pairs = [WantedTable(of=pair) for pair in itertools.combinations(domain.columns, 2)]
    found = for_tables(pairs, domain, terms(), Basis())
    assert len(found.cliques) == 1 + 24 + 276
    assert sum(found.weights) == 1


def test_an_interaction_whose_noise_cannot_be_drawn_is_left_out_and_refuses_nothing():
    costs = Costs(
        Currency("pure", Fraction(1, 1000)), Relation("replace-one"), Fraction(1, 1000), False
    )

    assert costs.measurable((4, 4))
    assert not costs.measurable((24, 24, 24))
    assert not costs.apart((24, 24, 24))


CELLS = st.lists(st.integers(1, 10**9), min_size=1, max_size=30)


def test_the_shares_of_8_27_and_64_cells_are_4_9_and_16_parts():
    assert shares([8, 27, 64]) == (Fraction(4, 29), Fraction(9, 29), Fraction(16, 29))


def test_under_pure_epsilon_shares_go_as_square_roots():
    assert shares([4, 9, 25], "epsilon") == (Fraction(2, 10), Fraction(3, 10), Fraction(5, 10))


def test_equal_shares_do_not_look_at_cells():
    assert shares([1, 1000], "equal") == (Fraction(1, 2), Fraction(1, 2))


@given(CELLS, st.sampled_from(["rho", "epsilon", "equal"]))
def test_shares_are_positive_and_sum_to_exactly_one(cells, allocation):
    found = shares(cells, allocation)
    assert sum(found) == 1
    assert all(share > 0 for share in found)


@given(st.integers(1, 10**12))
def test_a_weight_is_the_root_to_six_decimals(cells):
    assert weight(cells) ** 3 <= cells**2 * 10**18 < (weight(cells) + 1) ** 3
    assert weight(cells, "epsilon") ** 2 <= cells * 10**12 < (weight(cells, "epsilon") + 1) ** 2


@given(CELLS)
def test_no_other_division_has_less_summed_noise(cells):
    best = shares(cells)

    def noise(parts):
        return sum(c * float(part) ** -0.5 for c, part in zip(cells, parts, strict=True))

    for other in (shares(cells, "equal"), shares(cells, "epsilon"), normalise(cells)):
        assert noise(best) <= noise(other) * (1 + 1e-9)


def test_a_table_without_cells_is_refused():
    with pytest.raises(ValueError, match="at least one cell"):
        shares([3, 0])
