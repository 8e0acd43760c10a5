"""Numeric columns on a fine public grid, for methods that work with numbers and not with bins.

The codes of a numeric column become positions: equal steps from its smallest to its largest legal
value. The schema's own bins become ranges of positions.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes, code_type
from dp_core.schema.bin_pieces import common_step, exact_text
from dp_core.schema.definition import Column, Schema
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.schema.variables import Variable, Variables
from dp_core.tables.coarse_counter import Recoding

POSITIONS = 4096
"""Default number of positions of a numeric column."""
MOST_POSITIONS = 2**16 - 2
"""Largest number of positions, so that their codes and one for missing have 16 bits."""


def on_grid(schema: Schema, positions: int) -> Schema:
    """Return the schema with its numeric columns on a grid; `coarse` is the schema itself.

    Whole numbers and dates get one position each if they fit. Otherwise steps are equal and meet
    the schema's own edges if possible.

    Args:
        schema: The schema as written.
        positions: Most positions of a column, 2 to 65,534.

    Raises:
        BadInput: if two edges of a column fall on one position, or a structural zero has a bin
            whose edges are not positions.
    """
    if not 2 <= positions <= MOST_POSITIONS:
        raise BadInput(
            f"A grid has 2 to {MOST_POSITIONS:,} positions, not {positions:,}; change the number."
        )
    compared = {each.column for rule in schema.rules for each in rule.units if not each.edges}
    columns = tuple(
        _fine(column, _most_positions(column, positions) if column.name in compared else positions)
        for column in schema.columns
    )
    fine = dataclasses.replace(schema, columns=columns, coarse=schema)
    return dataclasses.replace(fine, zeros=zeros_on_grid(fine))


def zeros_on_grid(schema: Schema) -> StructuralZeros:
    """Return the structural zeros of a schema on a grid, from those of the schema as written.

    Raises:
        BadInput: if a structural zero that is stated has a bin whose edges are not positions.
    """
    coarse = schema.coarse
    assert coarse is not None
    found = [_on_positions(rule, coarse, schema.columns) for rule in coarse.zeros.rules]
    return StructuralZeros(tuple(rule for rule in found if all(rule.codes)))


def stored_variable(column: Column) -> Variable:
    """Return a column as it is stored (`Column.stored`), with its bins if it is on a grid."""
    return _variable(column.stored, column)


def variables(schema: Schema) -> Variables:
    """Return the columns of a schema on a grid as parametric methods see them."""
    if schema.coarse is None:
        raise ValueError("The schema's numeric columns are not on a grid.")
    return Variables(
        tuple(
            _variable(fine, coarse)
            for fine, coarse in zip(schema.columns, schema.coarse.columns, strict=True)
        )
    )


class Coarsening(Recoding):
    """Recodes positions to the schema's own bins."""

    def __init__(self, schema: Schema) -> None:
        """Prepare the bin of every position of a schema on a grid."""
        assert schema.coarse is not None
        tables: dict[str, Codes] = {}
        for variable in variables(schema).numeric:
            positions = np.arange(variable.positions)
            bins = np.searchsorted(np.array(variable.bins[1:-1]), positions, side="right")
            # Missing is the last code of both.
            own = [*bins, len(variable.bins) - 1] if variable.missing else bins
            tables[variable.name] = np.array(own, dtype=code_type(len(variable.bins)))
        super().__init__(schema.coarse.domain, tables)


def _most_positions(column: Column, positions: int) -> int:
    """Return a number of positions, each of which contains a number with the column's decimals."""
    if not column.type.continuous or column.decimals is None:
        return positions
    units = (column.edges[-1] - column.edges[0]) * 10**column.decimals
    return max(2, min(positions, int(units)))


def _fine(column: Column, positions: int) -> Column:
    if column.levels:
        return column
    if column.choice is not None:
        # Its bins are not chosen yet; their edges will be among these positions.
        return dataclasses.replace(column, edges=column.choice.among.edges, choice=None)
    low, high = column.edges[0], column.edges[-1]
    span = high - low
    if column.type.continuous:
        # The largest step that meets every edge, divided; or equal steps if that one is too small.
        meeting = common_step([edge - low for edge in column.edges[1:]])
        step = meeting / (positions // (span / meeting)) if span / meeting <= positions else None
        step = step or span / positions
    else:
        step = Fraction(math.ceil(span / positions))
    number = math.ceil(span / step)
    edges = (*(low + step * index for index in range(number)), high)
    if any(float(one) == float(other) for one, other in pairwise(edges)):
        raise BadInput(
            f"Column {column.name!r}: {number:,} positions between {exact_text(low)} and"
            f" {exact_text(high)} are equal in floating point; use fewer positions."
        )
    fine = dataclasses.replace(column, edges=edges)
    if len(set(_bins(fine, column))) != len(column.edges):
        raise BadInput(
            f"Column {column.name!r}: two of its bin edges fall on one of {number:,} positions; use"
            " more positions, or wider bins."
        )
    return fine


def with_values(schema: Schema, names: Collection[str]) -> Schema:
    """Return the schema with numeric columns stored on a grid, so that their values can be summed.

    Bins, levels and domain do not change; `Schema.stored` does. Columns of levels, and columns with
    privately chosen bins, which are stored on a grid anyway, stay as they are.

    Args:
        schema: The schema as written.
        names: Names of columns of the domain.

    Raises:
        BadInput: if no grid that contains the bin edges of a column is fine enough to store, or an
            `impossible` rule cannot be stated on the grid.
    """
    grids = {
        column.name: _through_edges(column)
        for column in schema.columns
        if column.name in names and not column.levels and column.choice is None
    }
    return with_own_grids(schema, grids)


def with_own_grids(schema: Schema, grids: Mapping[str, Column]) -> Schema:
    """Return the schema with numeric columns stored on given grids.

    Args:
        schema: The schema as written.
        grids: By name, columns on a grid that contains all of their bin edges.

    Raises:
        BadInput: if an `impossible` rule cannot be stated on the grids.
    """
    columns = tuple(
        dataclasses.replace(column, grid=grids.get(column.name, column.grid))
        for column in schema.columns
    )
    fine = tuple(column.grid or column for column in columns)
    stated = [rule for rule in schema.zeros.rules if not rule.derived]
    rules = tuple(_on_positions(rule, schema, fine) for rule in stated)
    return dataclasses.replace(schema, columns=columns, stored_zeros=StructuralZeros(rules))


def _through_edges(column: Column) -> Column:
    """Return a column on a grid of equal steps that contains all of its edges.

    The grid has at most `MOST_POSITIONS` positions, and at least `POSITIONS` if such a grid exists.
    An integer or a date has at most one position for each value.
    """
    low, high = column.edges[0], column.edges[-1]
    meeting, span = common_step([edge - low for edge in column.edges[1:]]), high - low
    most = int(MOST_POSITIONS // (span / meeting))
    if not most:
        raise BadInput(
            f"Column {column.name!r} is in a declared analysis, so its values are stored on a grid"
            f" of at most {MOST_POSITIONS:,} equal steps that contains all bin edges. Its edges"
            " need more steps; state edges whose distances are multiples of"
            f" {_stated_step(column)}."
        )
    if column.type.continuous:
        parts = min(most, math.ceil(POSITIONS / (span / meeting)))
    else:
        if meeting.denominator != 1:
            raise BadInput(
                f"Column {column.name!r} is in a declared analysis, which needs bin edges that are"
                " whole numbers; write such edges."
            )
        # The grid's step must be a whole number, so that a position has equally many values.
        parts = max(part for part in range(1, most + 1) if int(meeting) % part == 0)
    step = meeting / parts
    return dataclasses.replace(
        column, edges=tuple(low + step * place for place in range(int(span / step) + 1)), grid=None
    )


def _stated_step(column: Column) -> str:
    """Return a round step with at most `MOST_POSITIONS` positions, for a message."""
    span = column.edges[-1] - column.edges[0]
    power = Fraction(10) ** (math.floor(math.log10(span / MOST_POSITIONS)))
    step = next(
        power * times for times in (1, 2, 5, 10) if span / (power * times) <= MOST_POSITIONS
    )
    if column.type.continuous:
        return f"{float(step):.10f}".rstrip("0").rstrip(".") + ", or other bins"
    step = max(step, Fraction(1))
    unit = f" {column.scale.difference}".rstrip()
    return f"{int(step)}{unit}, the last of which is max + 1"


def _bins(fine: Column, coarse: Column) -> tuple[int, ...]:
    """Return the coarse edges as positions, each the nearest."""
    found = []
    for edge in coarse.edges:
        place = bisect_left(fine.edges, edge)
        if place and edge - fine.edges[place - 1] < fine.edges[place] - edge:
            place -= 1
        found.append(place)
    return tuple(found)


def _variable(fine: Column, coarse: Column) -> Variable:
    missing = fine.missing_code is not None
    if fine.levels:
        return Variable(name=fine.name, size=fine.size, missing=missing)
    step = fine.edges[1] - fine.edges[0]
    # The position of a whole number represents that number, not half a unit above it.
    shift = Fraction(0) if fine.type.continuous else (step - 1) / 2 - step / 2
    low = fine.edges[0] + shift
    return Variable(
        name=fine.name,
        size=fine.size,
        positions=fine.bins,
        low=float(low),
        high=float(low + step * fine.bins),
        bins=_bins(fine, coarse),
        missing=missing,
        pieces=() if coarse.choice is None else coarse.choice.pieces,
    )


def _on_positions(rule: Rule, schema: Schema, columns: tuple[Column, ...]) -> Rule:
    """Return a structural zero in positions.

    A bin of a rule between columns whose edges are not positions gets the positions inside it.
    """
    found = []
    for name, codes in zip(rule.columns, rule.codes, strict=True):
        coarse = schema.column(name)
        fine = columns[schema.domain.axes((name,))[0]]
        if coarse.levels:
            found.append(codes)
            continue
        exact = {edge: place for place, edge in enumerate(fine.edges)}
        positions: list[int] = []
        for code in codes:
            if code == coarse.missing_code:
                positions.append(fine.bins)
                continue
            edges = coarse.edges[code], coarse.edges[code + 1]
            if rule.derived:
                first, end = bisect_left(fine.edges, edges[0]), bisect_right(fine.edges, edges[1])
                positions += range(first, end - 1)
                continue
            if not set(edges) <= set(exact):
                raise BadInput(
                    f"The `impossible` rule {{{rule.text}}} has a bin of {name!r} whose edges are"
                    " not positions of its grid; use more positions, or edges that are multiples of"
                    " a common step."
                )
            positions += range(exact[edges[0]], exact[edges[1]])
        found.append(tuple(sorted(positions)))
    return dataclasses.replace(rule, codes=tuple(found))
