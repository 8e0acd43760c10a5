"""Synthetic codes and values that obey all rules between columns. Post-processing.

Structural zeros (`dp_core.schema.rules.excluded_boxes`) exclude most other codes before. What is
left are codes that several rules exclude together, and positions of a grid: they are found by a
search for values, and repaired.

Values are first drawn as in a schema without rules, and rows that obey the rules keep them. The
others are drawn again, within the same bins, until they obey the rules: so values have the
distribution that they have without rules, given that the rules hold. A column that an equality
determines is computed from the others. Rows in which that rarely succeeds are drawn one column
after another between bounds that the rules leave, and at last get fixed values. `decode` does this
for the codes of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import Array, any_holds
from dp_core.schema.rules.feasible_values import (
    FIXED_TRIES,
    Block,
    Flags,
    Ints,
    Range,
    blocks_of,
    obedient_values,
    rows_of,
)
from dp_core.schema.rules.unit_bounds import values_of

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 4
_STARTS = 32
"""Random records from which a possible record is searched."""
_MOST_KEYS = 2**62


def with_possible_values(schema: Schema, data: Dataset, *, rng: np.random.Generator) -> Dataset:
    """Return records for which values exist that obey all rules; the others stay unchanged.

    A record without such values first gets another code in one column of the rule: of a schema on a
    grid, within the schema's own bin if possible. If none of its columns can do it, it takes the
    values of all columns of the rules, or else of all columns, from a random possible record.

    Args:
        schema: The schema of the codes, with all bins chosen; its numbers may be on a grid.
        data: Records that break no structural zero.
        rng: Generator for post-processing.

    Raises:
        BadInput: if no record has such values and none is found.
    """
    if not schema.rules:
        return data
    blocks = blocks_of(schema)
    bad: list[Flags] = [~possible(block, data) for block in blocks]
    if not any(rows.any() for rows in bad):
        return data
    mended = Dataset(data.domain, data.codes.copy())
    for block, these in zip(blocks, bad, strict=True):
        if these.any():
            _with_one_code_changed(schema, block, mended, np.flatnonzero(these), rng)
    left = _impossible(schema, blocks, mended)
    donors = np.flatnonzero(~left)
    if left.any() and not donors.size:
        record = possible_record(schema, rng=rng)
        mended.codes[:, np.flatnonzero(left)] = record[:, None]
        return mended
    for names in (*(block.columns for block in blocks), data.domain.columns):
        rows = np.flatnonzero(left)
        if not rows.size:
            break
        chosen = rng.choice(donors, size=rows.size)
        for axis in data.domain.axes(names):
            mended.codes[axis, rows] = mended.codes[axis, chosen]
        left = _impossible(schema, blocks, mended)
    return mended


def possible(block: Block, data: Dataset) -> Flags:
    """Return for which records values that obey the rules of a block are found, shape (rows,)."""
    codes = _codes(data, block)
    domain = data.domain.project(block.columns)
    if domain.size() < _MOST_KEYS:
        keys = np.ravel_multi_index([codes[name] for name in domain.columns], domain.sizes)
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    else:
        together = np.stack([codes[name] for name in domain.columns])
        _, first, place = np.unique(together, axis=1, return_index=True, return_inverse=True)
    own = rows_of(codes, first)
    found, _ = obedient_values(block, own, block.range_of(own))
    return np.asarray(found[place.reshape(-1)])


def possible_record(schema: Schema, *, rng: np.random.Generator) -> Array:
    """Return the codes of a record that obeys all rules of a schema, shape (columns,).

    Args:
        schema: The schema. Bins that are not chosen yet have the values of the whole column.
        rng: Generator for post-processing.

    Raises:
        BadInput: if the rules leave no record possible, or none is found in many tries.
    """
    domain, blocks = schema.domain, blocks_of(schema)
    tried = set()
    for start in _starts(domain, rng):
        found = schema.zeros.possible_record(domain, start, rng=rng)
        if found.tobytes() in tried:
            continue
        tried.add(found.tobytes())
        alone = Dataset(domain, found[:, None])
        if all(possible(block, alone)[0] for block in blocks):
            return found
    texts = "; ".join(f"`{rule.text}`" for rule in schema.rules[:5])
    raise BadInput(
        f"No record was found that obeys all rules of the schema together ({texts}); check that"
        " `rules` and `impossible` leave some record possible."
    )


def _starts(domain: Domain, rng: np.random.Generator) -> Iterator[Array]:
    sizes = np.array(domain.sizes)
    yield np.zeros(len(domain), dtype=domain.code_type)
    yield (sizes // 2).astype(domain.code_type)
    yield (sizes - 1).astype(domain.code_type)
    for _ in range(_STARTS):
        yield rng.integers(sizes).astype(domain.code_type)


def _impossible(schema: Schema, blocks: Sequence[Block], data: Dataset) -> Flags:
    found = schema.zeros.violations(data)
    for block in blocks:
        found = found | ~possible(block, data)
    return found


def _with_one_code_changed(
    schema: Schema, block: Block, data: Dataset, rows: Array, rng: np.random.Generator
) -> None:
    """Change one code of each of the rows so that values exist, where that is possible; in place.

    On a grid, several codes change if they stay within the schema's own bins.
    """
    coarse = None if schema.coarse is None else Block(schema.coarse, block.clauses)
    for names, inside in _ways(block, coarse, rng):
        if not rows.size:
            return
        own = rows_of(_codes(data, block), rows)
        within = _widened_range(block, own, names, inside)
        found, units = obedient_values(block, own, within, tries=_TRIES, rng=rng)
        changed = Dataset(data.domain, data.codes[:, rows])
        for number, name in enumerate(block.names):
            axis = data.domain.axes((name,))[0]
            ends = block.bounds[name].high[: block.sizes[name]]
            codes = np.searchsorted(ends, units[number])
            present = own[name] != block.missing_codes.get(name, -1)
            moves = found & present & (name in names)
            changed.codes[axis] = np.where(moves, codes, changed.codes[axis])
        kept = found & possible(block, changed) & ~schema.zeros.violations(changed)
        data.codes[:, rows[kept]] = changed.codes[:, kept]
        rows = rows[~kept]


def _widened_range(
    block: Block, codes: Mapping[str, Array], names: tuple[str, ...], coarse: Block | None
) -> Range:
    """Return the bounds of the variables in rows with some codes, which some of them may leave.

    Args:
        block: The clauses, and the units of the codes.
        codes: The codes.
        names: Variables that may leave their codes.
        coarse: The block in the schema's own bins, in which they stay; None for any value.
    """
    within = block.range_of(codes)
    low, high = within.low.copy(), within.high.copy()
    for place, name in enumerate(block.names):
        if name not in names:
            continue
        if coarse is None:
            bounds = block.bounds[name]
            low[place], high[place] = bounds.low[0], bounds.high[block.sizes[name] - 1]
            continue
        bounds, size = coarse.bounds[name], coarse.sizes[name]
        # The bin in which the middle of the position lies.
        middle = (low[place] + high[place]) // 2
        code = np.minimum(np.searchsorted(bounds.high[:size], middle), size - 1)
        low[place], high[place] = bounds.low[code], bounds.high[code]
    return Range(low, high)


def _ways(
    block: Block, coarse: Block | None, rng: np.random.Generator
) -> Iterator[tuple[tuple[str, ...], Block | None]]:
    """Yield which variables may leave their codes, and the bins in which they stay, in order."""
    # A number without `decimals` is compared by its bin, which cannot become another one here.
    free = [each.column for each in block.units if not each.edges]
    order = [free[place] for place in rng.permutation(len(free))]
    if coarse is not None:
        yield from (((name,), coarse) for name in order)
        yield tuple(order), coarse
    yield from (((name,), None) for name in order)


def _codes(data: Dataset, block: Block) -> dict[str, Array]:
    return {name: data.column(name) for name in block.columns}


_ROUNDS = 16
"""Rounds in which rows that break a rule are drawn again."""
_VALUE_TRIES = 16
"""Tries to draw a row one column after another."""

Draw = Callable[[str, Array, np.random.Generator], Array]
"""Returns values of a column drawn within the bins of some codes, none of them missing."""


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
        values: Drawn values of the columns that rules compare (dates: day ordinals), each of shape
            (rows,); arbitrary where missing.
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
    codes = {name: every[name] for name in block.columns}
    rows = next(iter(codes.values())).size
    units = np.zeros((len(block.units), rows), dtype=np.int64)
    within = block.range_of(codes)
    for place, each in enumerate(block.units):
        units[place] = each.of(values[each.column])
    # A position that is narrower than a unit may have a value between two units.
    units = np.clip(units, within.low, within.high)
    left = np.flatnonzero(any_holds(block.clauses, block.rule_rows(codes, units)))
    for attempt in range(_ROUNDS):
        if not left.size:
            break
        own = rows_of(codes, left)
        if attempt:
            units[:, left] = _redrawn(block, own, units[:, left], draw, rng)
        tried = _determine_units(block, own, units[:, left], within.rows(left))
        broken = any_holds(block.clauses, block.rule_rows(own, tried))
        good = within.rows(left).contains(tried) & ~broken
        units[:, left[good]] = tried[:, good]
        left = left[~good]
    for tries, by in ((_VALUE_TRIES, rng), (FIXED_TRIES, None)):
        if not left.size:
            break
        own = rows_of(codes, left)
        good, tried = obedient_values(block, own, within.rows(left), tries=tries, rng=by)
        units[:, left[good]] = tried[:, good]
        left = left[~good]
    if left.size:
        raise ValueError("No values of a record's codes obey the rules between columns.")
    return _other_values(schema, block, codes, values, units)


def _other_values(
    schema: Schema,
    block: Block,
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
        present = np.flatnonzero(codes[name] != block.missing_codes.get(name, -1))
        own = codes[name][present]
        new[present] = values_of(schema.column(name), each, units[place, present], own)
        if not np.array_equal(new, values[name]):
            found[name] = new
    return found


def _redrawn(
    block: Block,
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
        present = np.flatnonzero(own != block.missing_codes.get(each.column, -1))
        if present.size:
            drawn = each.of(draw(each.column, own[present], rng))
            bounds = block.bounds[each.column]
            low, high = bounds.low[own[present]], bounds.high[own[present]]
            found[place, present] = np.clip(drawn, low, high)
    return found


def _determine_units(block: Block, codes: Mapping[str, Array], units: Ints, within: Range) -> Ints:
    """Return units in which each equality determines the variable with the widest bin."""
    found = units.copy()
    place = {name: number for number, name in enumerate(block.names)}
    for equality in block.equalities:
        seen = block.rule_rows(codes, found)
        applies = any_holds(equality.when, seen)
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

    All values are drawn as `dp_core.schema.decoding.draw_values` does. Then rows that break a rule
    are drawn again in the columns that rules compare.

    Args:
        schema: Schema with the columns of `data`, in any order.
        data: Synthetic codes, as `dp_core.schema.rules.possible_codes` leaves them.
        rng: Generator for post-processing.

    Returns:
        One column per released column of the schema, in its order; dependent columns are derived
        from the row's value of their source.

    Raises:
        ValueError: if the codes of a record leave no values that obey the rules.
    """
    # Here, because plans use this module and need no Arrow.
    from dp_core.schema.decoding import assemble_columns, draw_values

    codes = {column.name: data.column(column.name) for column in schema.columns}
    arrays = {name: draw_values(schema.column(name), own, rng=rng) for name, own in codes.items()}

    def draw(name: str, own: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        column = schema.column(name)
        return column.scale.values_in(draw_values(column, own, rng=rng))

    compared = [name for block in blocks_of(schema) for name in block.names]
    before = {name: schema.column(name).scale.values_in(arrays[name]) for name in compared}
    for name, values in obey(schema, codes, before, draw, rng=rng).items():
        column = schema.column(name)
        missing = None if column.missing_code is None else codes[name] == column.missing_code
        arrays[name] = column.scale.array(values, missing)
    return assemble_columns(schema, codes, arrays)
