"""Whether `auto` measures only tables that are known beforehand, in one step. Decided publicly.

Under pure epsilon, a divided budget buys less than a whole one: two measurements of a table with
the parts `a` and `1 - a` of a budget have together `a^2 + (1 - a)^2` of the precision of one. So it
costs accuracy to look at columns and pairs before measuring. These looks are left out if schema,
`rows_about` and budget determine beforehand what is best: the table of all columns if it has few
cells, or the columns alone if noise hides everything else. The result is a plan whose every cost is
known before any data are read.

`many_levels` finds columns with very many levels for their number of records, by the schema alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dp_core.client.noise_scale import noise_for, sensitivities
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.selector import Selector
from dp_core.plan.currency_choice import expected_error
from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.release_spec import ReleaseSpec
from dp_core.schema.definition import Column, Schema

_MOST_COLUMNS = 16  # with more, Gaussian noise is smaller; and plans must be fast
# Within these limits, looking first is hardly ever nearer (benchmarks/notes/auto.md).
_FEW_CELLS = 256
_CELLS_OFF = 0.95  # largest expected TVD of the joint table by noise alone
_COLUMNS = 1.05  # largest expected error of columns alone, if pairs depend as much as is usual
_HIDDEN = 3.0  # noise of the mean score relative to the records; the largest score is 2


def better_plan(spec: ReleaseSpec) -> Plan | None:
    """Return the plan by which `auto` looks first, or that by which it measures in one step.

    Args:
        spec: Spec whose shares are all from the preset.

    Returns:
        The plan of the joint table if it has few cells, otherwise the one with the smaller expected
        error. If it measures in one step, `select.at_once` of its spec names the tables, and the
        stage `measure` has the shares of `one_way` and `select`. None if there was nothing to
        compare, because the selection is not `auto` with default options or public values exclude
        measuring in one step.
    """
    if not _open(spec):
        return None
    joint = _plan_at_once(spec, "joint") if spec.schema.domain.size() <= _FEW_CELLS else None
    laplace = Currency("pure", spec.privacy.epsilon)
    if joint is not None and joint.tables[0].tvd(spec.schema.rows_about or 1) <= _CELLS_OFF:
        return joint
    if not _noise_hides_scores(spec, laplace):
        return None
    try:
        looking = make_plan(spec)
    except BadInput:
        return None  # whoever makes the plan reports it
    columns = (
        _plan_at_once(spec, "columns") if _noise_hides_scores(spec, looking.currency) else None
    )
    # Measuring pairs helps most if they depend as much as they usually do at most.
    if columns is None or _expected_error(columns) > _COLUMNS * _expected_error(looking):
        return looking
    return columns


def _open(spec: ReleaseSpec) -> bool:
    """Return whether the spec leaves it open what is measured, and public values can decide it."""
    selector, schema = spec.selector, spec.schema
    if not isinstance(selector, Auto):
        return False
    # `basis` has no effect on known tables; every other option is the user's decision.
    usual = dataclasses.replace(selector, basis="interactions") == Auto()
    known = bool(schema.rows_about) and not schema.private and spec.measurements is None
    if schema.linked is not None or schema.has_drawn_tables:
        # The columns alone say nothing about members or smaller areas, and a joint table would hold
        # two columns of which one decides the other. Public totals need the tables of pairs.
        return False
    few = 2 <= len(schema.domain) <= _MOST_COLUMNS
    return usual and known and few and spec.sets > 0 and spec.noise != "gaussian"


def _plan_at_once(spec: ReleaseSpec, what: Literal["columns", "joint"]) -> Plan | None:
    """Return the plan in which `auto` measures known tables with the shares of the looks.

    It is None if that is impossible, or has no pure epsilon.
    """
    assert isinstance(spec.selector, Auto)
    selector = dataclasses.replace(spec.selector, at_once=what)
    freed = {stage: Fraction(0) for stage in selector.idle}
    measure = spec.shares["measure"] + sum(spec.shares[stage] for stage in freed)
    shares = {**spec.shares, **freed, "measure": measure}
    other = dataclasses.replace(spec, selector=selector, shares=shares)
    try:
        other.selector.check(spec.schema.domain)
        plan = make_plan(other)
    except BadInput:
        return None
    return plan if plan.currency.kind == "pure" else None


def _expected_error(plan: Plan) -> float:
    """Return the expected error of pairs and triples at the largest usual dependence of pairs."""
    found = expected_error(plan.spec, plan.currency)
    assert found is not None, "`auto` has a forecast, and `rows_about` is known."
    return found[1].two + found[1].three


def _noise_hides_scores(spec: ReleaseSpec, currency: Currency) -> bool:
    """Return whether noise hides even the mean of all scores, from which posterior sets learn."""
    statistic = spec.selector.statistic(spec.schema.domain)
    if statistic is None:
        return True
    l1, l2_squared = sensitivities(statistic, spec.privacy.relation)
    cost = spec.shares["select"] * currency.limit
    stddev = noise_for(currency, cost, l1=l1, l2_squared=l2_squared).stddev
    rows = spec.schema.rows_about or 1
    return stddev > _HIDDEN * rows * math.sqrt(statistic.length)


MANY = 1000
"""Least number of levels of a column that is named."""
FEW_ROWS = 10
"""Records per level below which merging rare levels is more exact than tables of all levels
(`benchmarks/many_levels.py`)."""


@dataclass(frozen=True, slots=True)
class ManyLevels:
    """A category that has very many levels for its file.

    Attributes:
        column: Name of the column.
        levels: Number of its levels.
        rows_per_level: Records per level, by `rows_about`.
        never_with: Columns with which the method never measures it, since their table is too large.
        in_words: Sentences that say what this means, and what to write instead.
    """

    column: str
    levels: int
    rows_per_level: float
    never_with: tuple[str, ...]
    in_words: str


def many_levels(schema: Schema, selector: Selector) -> Iterator[ManyLevels]:
    """Yield the categories that have fewer than `FEW_ROWS` records for each of many levels.

    Args:
        schema: The schema; without `rows_about` nothing is yielded.
        selector: Selection of the release.
    """
    rows = schema.rows_about
    if rows is None:
        return
    many = [
        column
        for column in schema.columns
        if not column.type.ordered
        and column.choice is None
        and column.bins >= MANY
        and rows < FEW_ROWS * column.bins
    ]
    if not many:
        return
    pairs = {frozenset(clique) for clique in selector.needs(schema.domain) if len(clique) == 2}
    for column in many:
        never = tuple(
            other.name
            for other in schema.columns
            if pairs and other is not column and {column.name, other.name} not in pairs
        )
        each = rows / column.bins
        yield ManyLevels(column.name, column.bins, each, never, _in_words(column, each, never))


def _in_words(column: Column, rows_per_level: float, never_with: Sequence[str]) -> str:
    never = ""
    if never_with:
        named = ", ".join(never_with[:5])
        more = len(never_with) - 5
        named += f" and {more} more columns" if more > 0 else ""
        never = f" Its tables with {named} are too large and are never measured."
    # A code list has its own groups.
    groups = "" if column.codes else ", and list all levels under `groups: {codes: [...]}`"
    return (
        f"{column.name}: {column.bins:,} levels with about {rows_per_level:.2g} rows each;"
        f" noise may hide most of their counts.{never} To measure only the 200 most frequent"
        " levels and draw the others at random, write `levels: {private: 200, rest: drawn}` in"
        f" the schema{groups}."
    )
