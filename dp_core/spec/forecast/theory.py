"""The expected error of a method's sets in a typical file, by theory, before calibration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.budget.chance import Chance
from dp_core.methods.selection.budget.typical_file import DEPENDENCES, typical_columns
from dp_core.methods.selection.selector import Expected
from dp_core.spec.forecast.planned_error import KnownTable, planned_error
from dp_core.spec.plan import Plan
from dp_core.tables.domain import Domain
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.sensitivity import count_l1, count_l2_squared
from dp_core.wall.released import noise_variance

Ends = tuple[Expected, Expected]
"""Error at the least and at the largest dependence of `DEPENDENCES`."""


def ends_of(plan: Plan, selection: str) -> Ends | None:
    """Return the expected error of a set due to the measurements of a plan.

    Modes other than `shared` and `split` add to it, and so does what a model leaves out. The
    calibration includes both.

    Args:
        plan: Plan of the release, whose schema has `rows_about` and two columns or more.
        selection: Name of the selection method.

    Returns:
        The error at the least and at the largest dependence; None if the theory does not cover the
        method.
    """
    found = _THEORY.get(selection)
    return found(plan) if found else None


def chance_of(domain: Domain, rows: int) -> Expected:
    """Return the mean TVD of the tables of records drawn at random from a typical file.

    Args:
        domain: All columns, two or more.
        rows: Number of records drawn.
    """
    chance = Chance.of(domain, typical_columns(domain.sizes, rows), rows)
    pairs = list(domain.cliques(2))
    two = sum(chance.pair(pair) for pair in pairs) / len(pairs)
    return Expected(two / (2 * rows), math.hypot(two, chance.mean_triple) / (2 * rows))


def _as_auto(plan: Plan) -> Ends | None:
    """Return the error if the budget is divided among columns and pairs to minimise the error."""
    spec, domain = plan.spec, plan.spec.schema.domain
    selector = spec.selector
    if not isinstance(selector, Auto):
        selector = Auto(order=2, basis="tables")
    currency, parts = _currency(plan), spec.shares
    one_way, measure = parts["one_way"], parts["measure"]
    if not one_way:
        # The method measures columns when it needs them.
        one_way, measure = measure / 10, measure * Fraction(9, 10)
    return selector.forecast(
        domain,
        spec.schema.rows_about or 1,
        currency,
        spec.privacy.relation,
        one_way=one_way * currency.limit / plan.replicates,
        measure=measure * currency.limit / plan.replicates,
        roughly=True,
    )


def _of_joint(plan: Plan) -> Ends | None:
    """Return the error if the whole measuring budget measures the table of all columns."""
    spec, currency = plan.spec, _currency(plan)
    return Auto(at_once="joint").forecast(
        spec.schema.domain,
        spec.schema.rows_about or 1,
        currency,
        spec.privacy.relation,
        one_way=Fraction(0),
        measure=spec.shares["measure"] * currency.limit / plan.replicates,
    )


def _of_planned(plan: Plan) -> Ends | None:
    """Return the error that the planned tables leave; None if some column is in none of them."""
    tables = [
        KnownTable(each.clique, noise_variance(each.noise.kind, each.noise.scale), each.interaction)
        for each in plan.tables
        if each.clique
    ]
    return _left(plan, tables)


def _of_tree(plan: Plan) -> Ends | None:
    """Return the error if the measuring budget is divided equally among the pairs of a tree."""
    spec, domain = plan.spec, plan.spec.schema.domain
    currency, relation = _currency(plan), plan.spec.privacy.relation
    edges = list(itertools.pairwise(domain.columns))
    cost = spec.shares["measure"] * currency.limit / (plan.replicates * len(edges))
    noise = currency.noise(cost, l1=count_l1(relation), l2_squared=count_l2_squared(relation))
    tables = [
        KnownTable(each.clique, noise_variance(each.noise.kind, each.noise.scale))
        for each in plan.tables
        if each.clique
    ]
    variance = noise_variance(noise.kind, noise.scale)
    return _left(plan, [*tables, *(KnownTable(edge, variance) for edge in edges)])


def _left(plan: Plan, tables: list[KnownTable]) -> Ends | None:
    domain, rows = plan.spec.schema.domain, plan.spec.schema.rows_about or 1
    told = {name for table in tables if not table.interaction for name in table.clique}
    if told != set(domain.columns):
        return None
    least, most = (planned_error(domain, rows, tables, each) for each in DEPENDENCES)
    return least, most


def _currency(plan: Plan) -> Currency:
    """Return the currency in which the tables of a plan are or were paid."""
    earlier = plan.spec.measurements
    return plan.currency if earlier is None else earlier.currency


_THEORY: Mapping[str, Callable[[Plan], Ends | None]] = {
    "auto": _as_auto,
    "densemarg": _as_auto,
    "aim": _as_auto,
    "mst": _of_tree,
    "privbayes": _of_tree,
    "one_way": _of_planned,
    "fixed": _of_planned,
    "full": _of_joint,
}
"""Theory of a selection by its name in the spec."""
