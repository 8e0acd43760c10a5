"""Synthetic codes for which values exist that obey all rules between columns.

Structural zeros (`dp_core.schema.rules.excluded_boxes`) exclude most other codes before. What is
left are codes that several rules exclude together, and positions of a grid: they are found by a
search for values, and repaired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import Array
from dp_core.schema.rules.feasible_values import (
    Bins,
    Block,
    Flags,
    Range,
    blocks_of,
    drawn_values,
    witnesses,
)

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
    blocks = [Bins(schema, block) for block in blocks_of(schema)]
    bad: list[Flags] = [~possible(bins, data) for bins in blocks]
    if not any(rows.any() for rows in bad):
        return data
    mended = Dataset(data.domain, data.codes.copy())
    for bins, these in zip(blocks, bad, strict=True):
        if these.any():
            _with_one_code_changed(schema, bins, mended, np.flatnonzero(these), rng)
    left = _impossible(schema, blocks, mended)
    donors = np.flatnonzero(~left)
    if left.any() and not donors.size:
        record = possible_record(schema, rng=rng)
        mended.codes[:, np.flatnonzero(left)] = record[:, None]
        return mended
    for bins in blocks:
        rows = np.flatnonzero(left)
        if not rows.size:
            return mended
        chosen, axes = rng.choice(donors, size=rows.size), data.domain.axes(bins.block.columns)
        for axis in axes:
            mended.codes[axis, rows] = mended.codes[axis, chosen]
        left = _impossible(schema, blocks, mended)
    rows = np.flatnonzero(left)
    mended.codes[:, rows] = mended.codes[:, rng.choice(donors, size=rows.size)]
    return mended


def possible(bins: Bins, data: Dataset) -> Flags:
    """Return for which records values that obey the rules of a block are found, shape (rows,)."""
    codes = _codes(data, bins.block)
    domain = data.domain.project(bins.block.columns)
    if domain.size() < _MOST_KEYS:
        keys = np.ravel_multi_index([codes[name] for name in domain.columns], domain.sizes)
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    else:
        together = np.stack([codes[name] for name in domain.columns])
        _, first, place = np.unique(together, axis=1, return_index=True, return_inverse=True)
    found, _ = witnesses(bins, {name: each[first] for name, each in codes.items()})
    return np.asarray(found[place.reshape(-1)])


def possible_record(schema: Schema, *, rng: np.random.Generator) -> Array:
    """Return the codes of a record that obeys all rules of a schema, shape (columns,).

    Args:
        schema: The schema. Bins that are not chosen yet have the values of the whole column.
        rng: Generator for post-processing.

    Raises:
        BadInput: if the rules leave no record possible, or none is found in many tries.
    """
    domain, blocks = schema.domain, [Bins(schema, block) for block in blocks_of(schema)]
    tried = set()
    for start in _starts(domain, rng):
        found = schema.zeros.possible_record(domain, start, rng=rng)
        if found.tobytes() in tried:
            continue
        tried.add(found.tobytes())
        alone = Dataset(domain, found[:, None])
        if all(possible(bins, alone)[0] for bins in blocks):
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


def _impossible(schema: Schema, blocks: Sequence[Bins], data: Dataset) -> Flags:
    found = schema.zeros.violations(data)
    for bins in blocks:
        found = found | ~possible(bins, data)
    return found


def _with_one_code_changed(
    schema: Schema, bins: Bins, data: Dataset, rows: Array, rng: np.random.Generator
) -> None:
    """Change one code of each of the rows so that values exist, where that is possible; in place.

    On a grid, several codes change if they stay within the schema's own bins.
    """
    block = bins.block
    coarse = None if schema.coarse is None else Bins(schema.coarse, block)
    for widened in _ways(bins, coarse, rng):
        if not rows.size:
            return
        own = {name: each[rows] for name, each in _codes(data, block).items()}
        within = widened.of(own)
        found, units = drawn_values(bins, own, within, tries=_TRIES, rng=rng)
        changed = Dataset(data.domain, data.codes[:, rows])
        for number, name in enumerate(block.names):
            axis = data.domain.axes((name,))[0]
            ends = bins.bounds[name].high[: bins.sizes[name]]
            codes = np.searchsorted(ends, units[number])
            present = own[name] != bins.missing_codes.get(name, -1)
            moves = found & present & (name in widened.names)
            changed.codes[axis] = np.where(moves, codes, changed.codes[axis])
        kept = found & possible(bins, changed) & ~schema.zeros.violations(changed)
        data.codes[:, rows[kept]] = changed.codes[:, kept]
        rows = rows[~kept]


@dataclass(frozen=True, slots=True)
class _Widened:
    """Bounds of the variables if some of them may leave their codes.

    Attributes:
        bins: Units of the codes.
        names: Variables that may leave their codes.
        coarse: Units of the schema's own bins, in which they stay; None if they may have any value.
    """

    bins: Bins
    names: tuple[str, ...]
    coarse: Bins | None

    def of(self, codes: Mapping[str, Array]) -> Range:
        """Return the bounds in rows with some codes."""
        within = self.bins.range_of(codes)
        low, high = within.low.copy(), within.high.copy()
        for place, name in enumerate(self.bins.block.names):
            if name not in self.names:
                continue
            if self.coarse is None:
                bounds = self.bins.bounds[name]
                low[place], high[place] = bounds.low[0], bounds.high[self.bins.sizes[name] - 1]
                continue
            bounds, size = self.coarse.bounds[name], self.coarse.sizes[name]
            # The bin in which the middle of the position lies.
            middle = (low[place] + high[place]) // 2
            code = np.minimum(np.searchsorted(bounds.high[:size], middle), size - 1)
            low[place], high[place] = bounds.low[code], bounds.high[code]
        return Range(low, high)


def _ways(bins: Bins, coarse: Bins | None, rng: np.random.Generator) -> Iterator[_Widened]:
    """Yield which variables may leave their codes, in the order in which it is tried."""
    # A number without `decimals` is compared by its bin, which cannot become another one here.
    free = [each.column for each in bins.block.units if not each.edges]
    order = [free[place] for place in rng.permutation(len(free))]
    if coarse is not None:
        for name in order:
            yield _Widened(bins, (name,), coarse)
        yield _Widened(bins, tuple(order), coarse)
    for name in order:
        yield _Widened(bins, (name,), None)


def _codes(data: Dataset, block: Block) -> dict[str, Array]:
    return {name: data.column(name) for name in block.columns}
