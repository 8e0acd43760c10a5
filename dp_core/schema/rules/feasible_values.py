"""Values within bins that obey all rules: bounds narrowed by the rules, one draw after another.

The columns that rules compare are variables of whole units, between the bounds of their bins. In a
row, a clause whose other conditions hold leaves one or more comparisons, one of which must fail:
a linear inequality. Bounds of the variables are narrowed by all inequalities until nothing changes
(bounds consistency: Apt, K. R. (2003). Principles of Constraint Programming, Chapter 6). Then a
variable is drawn between its bounds, and the others are narrowed again. For differences of two
columns, and for a single sum, this never fails if values exist. Otherwise a row may need several
tries: random ones, or a fixed sequence, whose result depends on the row's codes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import Array, AtMost, Clause, RuleRows, any_holds
from dp_core.schema.rules.unit_bounds import UnitBounds, unit_bounds, units_by_column

_PASSES = 64
"""Most times that all bounds are narrowed by all inequalities."""
FIXED_TRIES = 48
"""Tries that are the same for all rows."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of the variables of a block in each row.

    Attributes:
        low: Least units, shape (variables, rows).
        high: Greatest units, shape (variables, rows).
    """

    low: Ints
    high: Ints

    def rows(self, chosen: Array) -> Range:
        """Return the bounds of some rows."""
        return Range(self.low[:, chosen], self.high[:, chosen])

    def contains(self, units: Ints) -> Flags:
        """Return in which rows all variables are within their bounds, shape (rows,)."""
        return np.asarray(((units >= self.low) & (units <= self.high)).all(axis=0))


class Block:
    """Clauses that are connected by the values that they compare, and the units of their codes.

    Levels and missing values connect nothing, because the codes of a row fix them.

    Attributes:
        clauses: The clauses.
        equalities: The equalities that they state.
        columns: Columns of the domain that they are about, in the schema's order.
        names: Columns that they compare, in the schema's order: the variables.
        units: Units of the variables.
        bounds: Units of each code of a variable.
        sizes: Number of codes of each column without the one for missing.
        missing_codes: Code of missing, for each column that has one.

    Args:
        schema: The schema; its numbers may be on a grid.
        clauses: The clauses, of its rules.
    """

    def __init__(self, schema: Schema, clauses: Iterable[Clause]) -> None:
        self.clauses = tuple(dict.fromkeys(clauses))
        about = {name for clause in self.clauses for each in clause for name in each.columns}
        compared = set[str]().union(*map(_compared_columns, self.clauses))
        stated = [each for rule in schema.rules for each in rule.equalities]
        self.equalities = tuple(each for each in stated if each.terms[0][0] in compared)
        self.columns = tuple(name for name in schema.domain.columns if name in about)
        self.names = tuple(name for name in self.columns if name in compared)
        units = units_by_column(each for rule in schema.rules for each in rule.units)
        self.units = tuple(units[name] for name in self.names)
        self.bounds: Mapping[str, UnitBounds] = {
            each.column: unit_bounds(schema.column(each.column), each) for each in self.units
        }
        self.sizes = {name: schema.column(name).bins for name in self.columns}
        self.missing_codes = {
            name: code
            for name in self.columns
            if (code := schema.column(name).missing_code) is not None
        }

    def range_of(self, codes: Mapping[str, Array]) -> Range:
        """Return the bounds of the variables in rows with some codes."""
        low = [self.bounds[name].low[codes[name]] for name in self.names]
        high = [self.bounds[name].high[codes[name]] for name in self.names]
        rows = next(iter(codes.values())).size
        empty = np.zeros((0, rows), np.int64)
        return Range(np.stack(low), np.stack(high)) if low else Range(empty, empty)

    def rule_rows(self, codes: Mapping[str, Array], units: Ints | None = None) -> RuleRows:
        """Return rows as rules see them.

        Args:
            codes: Codes of the columns of the block, each of shape (rows,).
            units: Values of the variables, shape (variables, rows); None if no value matters.
        """
        missing = {name: codes[name] == code for name, code in self.missing_codes.items()}
        rows = next(iter(codes.values())).size
        values = {} if units is None else dict(zip(self.names, units, strict=True))
        return RuleRows(codes, missing, values, rows)


def blocks_of(schema: Schema) -> tuple[Block, ...]:
    """Return the clauses of a schema's rules that compare values, in blocks.

    No two blocks compare the same column. Structural zeros express the other clauses exactly.
    """
    found: list[tuple[list[Clause], set[str]]] = []
    for clause in (clause for rule in schema.rules for clause in rule.clauses):
        if names := _compared_columns(clause):
            touching = [block for block in found if not block[1].isdisjoint(names)]
            joined = [*(one for block in touching for one in block[0]), clause]
            names = names.union(*(block[1] for block in touching))
            found = [block for block in found if block not in touching] + [(joined, names)]
    return tuple(Block(schema, own) for own, _ in found)


def _compared_columns(clause: Clause) -> set[str]:
    """Return the columns whose values a clause compares."""
    return {name for each in clause if isinstance(each, AtMost) for name in each.columns}


def obedient_values(
    block: Block,
    codes: Mapping[str, Array],
    within: Range,
    *,
    tries: int = FIXED_TRIES,
    rng: np.random.Generator | None = None,
) -> tuple[Flags, Ints]:
    """Return values between bounds that obey all rules, for as many rows as possible.

    Args:
        block: The clauses, and the units of the codes.
        codes: Codes of the columns of the block, each of shape (rows,). Only levels and missing
            values matter.
        within: Bounds of the variables.
        tries: Number of tries.
        rng: Generator for post-processing, which draws the values of each row. None (the default)
            for a fixed sequence of tries: the answer for a row then depends on its codes and
            bounds alone.

    Returns:
        Which rows have values, shape (rows,), and the values in units, shape (variables, rows).
    """
    rows, variables = within.low.shape[1], len(block.units)
    found, values = np.zeros(rows, dtype=bool), np.zeros((variables, rows), np.int64)
    left = np.arange(rows)
    for attempt in range(tries):
        if not left.size:
            break
        draw = np.random.default_rng(attempt) if rng is None else rng
        if rng is None and attempt < 3:
            fractions = np.full((variables, 1), (0.5, 0.0, 1.0 - 1e-12)[attempt])
        else:
            fractions = draw.random((variables, 1 if rng is None else left.size))
        own, between = rows_of(codes, left), within.rows(left)
        drawn, hopeless = _one_try(block, own, between, fractions, draw, each=rng is not None)
        broken = any_holds(block.clauses, block.rule_rows(own, drawn))
        fits = between.contains(drawn) & ~broken
        found[left[fits]] = True
        values[:, left[fits]] = drawn[:, fits]
        left = left[~fits & ~hopeless]
    return found, values


def rows_of(codes: Mapping[str, Array], rows: Array) -> dict[str, Array]:
    """Return the codes of some rows."""
    return {name: each[rows] for name, each in codes.items()}


@dataclass(frozen=True, slots=True)
class _Inequality:
    """A sum of variables that must be at most a bound, in some rows."""

    terms: tuple[tuple[int, int], ...]
    bound: int
    rows: Flags


def _one_try(
    block: Block,
    codes: Mapping[str, Array],
    within: Range,
    fractions: NDArray[np.float64],
    rng: np.random.Generator,
    *,
    each: bool,
) -> tuple[Ints, Flags]:
    """Return values of one try, and the rows that no values can obey.

    Args:
        block: The clauses, and the units of the codes.
        codes: Codes of the columns of the block.
        within: Bounds of the variables.
        fractions: Place of each draw between its bounds, from 0 to below 1.
        rng: Decides the order of the variables, and which of several comparisons must fail.
        each: Whether each row has its own choice of comparisons.
    """
    low, high = within.low.copy(), within.high.copy()
    sure, chosen, impossible = _inequalities(block, codes, within, rng, each=each)
    _narrow(low, high, sure)
    hopeless = impossible | (low > high).any(axis=0)
    inequalities = [*sure, *chosen]
    if chosen:
        _narrow(low, high, inequalities)
    order = rng.permutation(len(low))
    for number, place in enumerate(order):
        width = np.maximum(high[place] - low[place] + 1, 1)
        value = low[place] + np.minimum((fractions[place] * width).astype(np.int64), width - 1)
        low[place] = high[place] = value
        if number + 1 < len(order):
            _narrow(low, high, inequalities)
    return low, hopeless


def _inequalities(
    block: Block, codes: Mapping[str, Array], within: Range, rng: np.random.Generator, *, each: bool
) -> tuple[list[_Inequality], list[_Inequality], Flags]:
    """Return the inequalities that must hold, those chosen among several, and hopeless rows."""
    rows = within.low.shape[1]
    place = {name: number for number, name in enumerate(block.names)}
    seen = block.rule_rows(codes)
    sure: list[_Inequality] = []
    chosen: list[_Inequality] = []
    impossible = np.zeros(rows, dtype=bool)
    for clause in block.clauses:
        alive, comparisons = _possible_rows(clause, block, seen, within, place)
        # Drawn whatever the rows are, so that a row's result does not depend on other rows.
        pick = rng.integers(1 << 30, size=rows if each else 1)
        if not alive.any():
            continue
        open_ones = [(condition.opposite, ~always) for condition, always in comparisons]
        several = np.zeros(rows, dtype=np.int64)
        for _, able in open_ones:
            several += able
        impossible |= alive & (several == 0)
        pick = pick % np.maximum(several, 1)
        before = np.zeros(rows, dtype=np.int64)
        for condition, able in open_ones:
            terms = tuple((place[name], factor) for name, factor in condition.terms)
            forced = alive & able & (several == 1)
            if forced.any():
                sure.append(_Inequality(terms, condition.bound, forced))
            taken = alive & able & (several > 1) & (before == pick)
            if taken.any():
                chosen.append(_Inequality(terms, condition.bound, taken))
            before = before + able
    return sure, chosen, impossible


def _possible_rows(
    clause: Clause, block: Block, seen: RuleRows, within: Range, place: Mapping[str, int]
) -> tuple[Flags, list[tuple[AtMost, Flags]]]:
    """Return the rows in which a clause can still hold, and where each comparison always does."""
    alive = np.ones(seen.rows, dtype=bool)
    comparisons: list[tuple[AtMost, Flags]] = []
    for condition in clause:
        if not isinstance(condition, AtMost):
            alive &= condition.holds(seen)
            continue
        least = np.zeros(seen.rows, dtype=np.int64)
        most = np.zeros(seen.rows, dtype=np.int64)
        for name, factor in condition.terms:
            ends = within.low[place[name]], within.high[place[name]]
            least += factor * ends[factor < 0]
            most += factor * ends[factor > 0]
            if name in block.missing_codes:
                alive &= ~seen.missing[name]
        alive &= least <= condition.bound
        comparisons.append((condition, most <= condition.bound))
    return alive, comparisons


def _narrow(low: Ints, high: Ints, inequalities: Sequence[_Inequality]) -> None:
    """Narrow bounds by inequalities until nothing changes, in place; empty where low > high."""
    if not inequalities:
        return
    involved = np.zeros(low.shape[1], dtype=bool)
    for one in inequalities:
        involved |= one.rows
    rows = np.flatnonzero(involved)
    # Bounds of differences are shortest paths: they are final after as many passes as there are
    # variables, unless no values exist (Bellman, R. (1958). On a routing problem. Quarterly of
    # Applied Mathematics 16, 87-90).
    factors = [sorted(factor for _, factor in one.terms) for one in inequalities]
    differences = all(len(each) == 1 or each == [-1, 1] for each in factors)
    passes = len(low) + 2 if differences else _PASSES
    for _ in range(passes):
        if not rows.size:
            return
        own_low, own_high = low[:, rows], high[:, rows]
        changed = np.zeros(rows.size, dtype=bool)
        for one in inequalities:
            applies = one.rows[rows]
            least = np.zeros(rows.size, dtype=np.int64)
            for place, factor in one.terms:
                least += factor * (own_low[place] if factor > 0 else own_high[place])
            for place, factor in one.terms:
                end, bound = own_low, own_high
                nearer: np.ufunc = np.minimum
                if factor < 0:
                    end, bound, nearer = own_high, own_low, np.maximum
                room = one.bound - least + factor * end[place]
                limit = room // factor if factor > 0 else -(room // -factor)
                new = np.where(applies, nearer(bound[place], limit), bound[place])
                changed |= new != bound[place]
                bound[place] = new
        low[:, rows], high[:, rows] = own_low, own_high
        # Empty bounds would move on and on.
        rows = rows[changed & (own_low <= own_high).all(axis=0)]
    if differences:
        low[:, rows] = high[:, rows] + 1
