"""Synthetic values that obey all rules between columns. Post-processing.

Values are first drawn as in a schema without rules, and rows that obey the rules keep them. The
others are drawn again, within the same bins, until they obey the rules: so values have the
distribution that they have without rules, given that the rules hold. A column that an equality
determines is computed from the others. Rows in which that rarely succeeds are drawn one column
after another between bounds that the rules leave, and at last get fixed values. `decode` does this
for the codes of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema import decoding
from dp_core.schema.decoding import assemble_columns, draw_values
from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import Array, all_hold
from dp_core.schema.rules.feasible_values import (
    Bins,
    Block,
    Ints,
    Range,
    blocks_of,
    broken,
    drawn_values,
    witnesses,
)
from dp_core.schema.rules.unit_bounds import values_of

_ROUNDS = 16
"""Rounds in which rows that break a rule are drawn again."""
_TRIES = 16
"""Tries to draw a row one column after another."""

Draw = Callable[[str, Array, np.random.Generator], Array]
"""Returns values of a column drawn within the bins of some codes, none of them missing."""


def compared_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns whose values rules compare, in the schema's order."""
    return tuple(name for block in blocks_of(schema) for name in block.names)


def obey(
    schema: Schema,
    codes: Mapping[str, Array],
    values: Mapping[str, Array],
    draw: Draw,
    *,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """Return values that obey all rules; rows that obey them already keep their values.

    Args:
        schema: The schema of the codes; its numbers may be on a grid.
        codes: Codes of every column of the domain, each of shape (rows,).
        values: Drawn values of the columns that `compared` names (dates: day ordinals), each of
            shape (rows,); arbitrary where missing.
        draw: Draws values again.
        rng: Generator for post-processing.

    Returns:
        The values of the columns that changed.

    Raises:
        ValueError: if no values that obey the rules are found for the codes of a row.
    """
    found: dict[str, Array] = {}
    for block in blocks_of(schema):
        found |= _obedient_values(schema, block, codes, values, draw, rng)
    return found


def _obedient_values(
    schema: Schema,
    block: Block,
    every: Mapping[str, Array],
    values: Mapping[str, Array],
    draw: Draw,
    rng: np.random.Generator,
) -> dict[str, Array]:
    bins = Bins(schema, block)
    codes = {name: every[name] for name in block.columns}
    rows = next(iter(codes.values())).size
    units = np.zeros((len(block.units), rows), dtype=np.int64)
    within = bins.range_of(codes)
    for place, each in enumerate(block.units):
        units[place] = each.of(values[each.column])
    # A position that is narrower than a unit may have a value between two units.
    units = np.clip(units, within.low, within.high)
    left = np.flatnonzero(broken(block, bins.seen(codes, units)))
    for attempt in range(_ROUNDS):
        if not left.size:
            break
        own = {name: each[left] for name, each in codes.items()}
        if attempt:
            units[:, left] = _redrawn(block, bins, own, units[:, left], draw, rng)
        tried = _determine_units(block, bins, own, units[:, left], within.rows(left))
        good = within.rows(left).contains(tried) & ~broken(block, bins.seen(own, tried))
        units[:, left[good]] = tried[:, good]
        left = left[~good]
    for last in (False, True):
        if not left.size:
            break
        own = {name: each[left] for name, each in codes.items()}
        if last:
            good, tried = witnesses(bins, own)
        else:
            good, tried = drawn_values(bins, own, within.rows(left), tries=_TRIES, rng=rng)
        units[:, left[good]] = tried[:, good]
        left = left[~good]
    if left.size:
        raise ValueError("No values of a record's codes obey the rules between columns.")
    return _other_values(schema, block, bins, codes, values, units)


def _other_values(
    schema: Schema,
    block: Block,
    bins: Bins,
    codes: Mapping[str, Array],
    values: Mapping[str, Array],
    units: Ints,
) -> dict[str, Array]:
    """Return the values of the columns in which a row has another value than before.

    A value between two units, which a part of a bin without a whole unit has, changes too.
    """
    found: dict[str, Array] = {}
    for place, each in enumerate(block.units):
        if each.edges:
            continue
        name, new = each.column, values[each.column].copy()
        present = np.flatnonzero(codes[name] != bins.missing_codes.get(name, -1))
        own = codes[name][present]
        new[present] = values_of(schema.column(name), each, units[place, present], own)
        if not np.array_equal(new, values[name]):
            found[name] = new
    return found


def _redrawn(
    block: Block,
    bins: Bins,
    codes: Mapping[str, Array],
    before: Ints,
    draw: Draw,
    rng: np.random.Generator,
) -> Ints:
    """Return new draws of all variables."""
    found = before.copy()
    for place, each in enumerate(block.units):
        if each.edges:  # its bin is its unit
            continue
        own = codes[each.column]
        present = np.flatnonzero(own != bins.missing_codes.get(each.column, -1))
        if present.size:
            drawn = each.of(draw(each.column, own[present], rng))
            bounds = bins.bounds[each.column]
            low, high = bounds.low[own[present]], bounds.high[own[present]]
            found[place, present] = np.clip(drawn, low, high)
    return found


def _determine_units(
    block: Block, bins: Bins, codes: Mapping[str, Array], units: Ints, within: Range
) -> Ints:
    """Return units in which each equality determines the variable with the widest bin."""
    found = units.copy()
    place = {name: number for number, name in enumerate(block.names)}
    for equality in block.equalities:
        seen = bins.seen(codes, found)
        applies = np.zeros(seen.rows, dtype=bool)
        for when in equality.when:
            applies |= all_hold(when, seen)
        for name, _ in equality.terms:
            if name in seen.missing:
                applies &= ~seen.missing[name]
        able = [(place[name], factor) for name, factor in equality.terms if abs(factor) == 1]
        if not able:
            continue
        widths = np.stack([within.high[at] - within.low[at] for at, _ in able])
        total = np.zeros(seen.rows, dtype=np.int64)
        for name, factor in equality.terms:
            total += factor * found[place[name]]
        widest = widths.argmax(axis=0)
        for number, (at, factor) in enumerate(able):
            solved = found[at] + factor * (equality.value - total)
            found[at] = np.where(applies & (widest == number), solved, found[at])
    return found


def decode(schema: Schema, data: Dataset, *, rng: np.random.Generator) -> pa.Table:
    """Return synthetic codes as values in the schema's own labels and units, which obey its rules.

    Without rules it is `dp_core.schema.decoding.decode`. With rules, all values are drawn in the
    same way; then rows that break a rule are drawn again in the columns that rules compare.

    Args:
        schema: Schema with the columns of `data`, in any order.
        data: Synthetic codes, as `dp_core.schema.rules.possible_codes` leaves them.
        rng: Generator for post-processing.

    Returns:
        One column per released column of the schema, in its order.

    Raises:
        ValueError: if the codes of a record leave no values that obey the rules.
    """
    if not schema.rules:
        return decoding.decode(schema, data, rng=rng)
    codes = {column.name: data.column(column.name) for column in schema.columns}
    arrays = {name: draw_values(schema.column(name), own, rng=rng) for name, own in codes.items()}

    def draw(name: str, own: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        column = schema.column(name)
        return column.scale.values_in(draw_values(column, own, rng=rng))

    before = {
        name: schema.column(name).scale.values_in(arrays[name]) for name in compared_columns(schema)
    }
    for name, values in obey(schema, codes, before, draw, rng=rng).items():
        column = schema.column(name)
        missing = None if column.missing_code is None else codes[name] == column.missing_code
        arrays[name] = column.scale.array(values, missing)
    return assemble_columns(schema, codes, arrays)
