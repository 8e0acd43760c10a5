"""Which relations the sets of a release carry, and which counts hardly stand out of their noise.

Both are known from public figures before anybody analyses a set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from dp_core.domain import Clique
from dp_core.inference.carried import not_carried
from dp_core.inference.faint import Faint, faint
from dp_core.marginals import Measurement, Released, SparseTable, Totals
from dp_core.schema import Schema
from dp_core.sums.binned_counts import BinnedCounts

_NAMED = 20
"""Pairs, and levels, that are named; of more the number is given."""


@dataclass(frozen=True, slots=True)
class Relations:
    """What is known about the pairs and the levels of a release.

    Attributes:
        pairs: Number of pairs of columns.
        carried: How many of them a measured table holds.
        missing: The others, `_NAMED` at most, as "a × b".
        more: How many others there are beside these.
        faint: Levels near to zero for their noise, `_NAMED` at most, as "column: level".
        faint_more: How many there are beside these.
    """

    pairs: int
    carried: int
    missing: tuple[str, ...]
    more: int
    faint: tuple[str, ...]
    faint_more: int


def relations(released: Sequence[Released], schema: Schema) -> Relations:
    """Return what the tables of a release hold.

    Args:
        released: Everything that was measured.
        schema: As published; its numbers may stand on a grid.
    """
    tables, _ = measured_cliques(released)
    groups = list(combinations(schema.domain.columns, 2))
    missing = not_carried(groups, tables)
    weak = faint_levels(released, schema, schema.domain.columns)
    return Relations(
        pairs=len(groups),
        carried=len(groups) - len(missing),
        missing=tuple(" × ".join(pair) for pair in missing[:_NAMED]),
        more=max(len(missing) - _NAMED, 0),
        faint=weak[:_NAMED],
        faint_more=max(len(weak) - _NAMED, 0),
    )


def measured_cliques(
    released: Sequence[Released],
) -> tuple[dict[int, list[Clique]], dict[int, list[Clique]]]:
    """Return the columns of every measured table, and of every sum, by the set it is for."""
    tables: dict[int, list[Clique]] = {}
    sums: dict[int, list[Clique]] = {}
    for item in released:
        if isinstance(item, Measurement | SparseTable) and item.clique:
            tables.setdefault(item.replicate, []).append(item.clique)
        elif isinstance(item, Totals) and isinstance(item.of, BinnedCounts):
            tables.setdefault(item.replicate, []).append(item.of.clique)
        elif isinstance(item, Totals):
            sums.setdefault(item.replicate, []).append(item.of.clique)
    return tables, sums


def faint_levels(
    released: Sequence[Released], schema: Schema, columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the levels of some columns whose counts hardly stand out of their noise.

    Bins of numbers are left out: nobody reads one by itself, and tails are thin by nature.

    Args:
        released: Everything that was measured; of sets with their own tables, those of the first.
        schema: As published.
        columns: Names; those without levels are left out.
    """
    own = [item for item in released if isinstance(item, Measurement) and item.replicate in (0, 1)]
    wanted: list[Clique] = [(name,) for name in columns if schema.column(name).levels]
    if not own or not wanted:
        return ()
    found = faint(schema.domain, own, wanted, zeros=schema.zeros)
    return tuple(_named(cell, schema) for cell in found)


def _named(cell: Faint, schema: Schema) -> str:
    (column,), (code,) = cell.clique, cell.codes
    return f"{column}: {schema.column(column).code_labels()[code]}"
