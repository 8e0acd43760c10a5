"""The possible cells of a question: the combinations of its columns' codes that a file may have.

All structural zeros count: those that the schema states, those of a panel, those that follow from
rules between columns, and what several of them exclude together, also by columns that the question
does not name. The possible cells are divided into boxes, so that a sum over them consists of few
sums whose weights are products.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from dp_core.schema.definition import Schema
from dp_core.schema.structure.structural_zeros import Rule

MOST_CELLS = 1 << 18
"""Most cells of a table of rules; codes that every rule treats alike are one code of it."""
MOST_WEIGHTS = 1 << 24
"""Most weights of all parts of a sum."""

Codes: TypeAlias = NDArray[np.bool_]
Table: TypeAlias = tuple[Clique, Codes]
"""Columns, and which combinations of their steps are possible."""


def possible_boxes(schema: Schema, columns: Clique, groups: Clique = ()) -> tuple[Functionals, ...]:
    """Return disjoint boxes of codes that together are the possible cells of some columns.

    A rule is left out if it needs a table of more than `MOST_CELLS` cells. So the boxes may contain
    impossible cells, but they never lack a possible one.

    Args:
        schema: The published schema as written, not on a grid.
        columns: Columns in the order of the domain, at most one of them nested.
        groups: Those that are divided first, so that a code of them is in few boxes; by default
            none is preferred.

    Returns:
        Functionals of one row: weight 1 for each code of the box, and 0 for the others.
    """
    rules = [_of_question(rule, schema, columns) for rule in schema.zeros.rules]
    places = {
        name: _steps([rule[name] for rule in rules if name in rule])
        for name in schema.domain.columns
        if any(name in rule for rule in rules)
    }
    order = sorted(places, key=lambda name: name not in groups)
    names, possible = _joined(_among(_tables(rules, places), columns), tuple(order))
    boxes = [dict(zip(names, box, strict=True)) for box in _boxes(possible)]
    sizes = schema.domain.project(columns).sizes
    return tuple(
        Functionals(
            columns,
            tuple(
                (box[name][places[name]] if name in box else np.ones(size))[None].astype(float)
                for name, size in zip(columns, sizes, strict=True)
            ),
        )
        for box in boxes
    )


def over_possible(
    asked: Functionals, boxes: Sequence[Functionals]
) -> tuple[Functionals, ...] | None:
    """Return the parts of sums of counts in each box; parts without any cell are left out.

    Args:
        asked: Sums of counts.
        boxes: The possible cells of their columns.

    Returns:
        At least one family, in the shape of `asked`. The parts of a sum add up to its sum over the
        possible cells. None if they would have more than `MOST_WEIGHTS` weights.
    """
    some = [each.any(axis=0) for each in asked.weights]
    near = [
        box
        for box in boxes
        if all((own & (each[0] > 0)).any() for own, each in zip(some, box.weights, strict=True))
    ]
    if len(near) > 1 and len(near) * sum(each.size for each in asked.weights) > MOST_WEIGHTS:
        return None
    return tuple(asked.times(box) for box in near or boxes[:1])


def meeting(one: Functionals, other: Functionals) -> bool:
    """Return whether any sum has cells in both of two parts of sums."""
    pairs = zip(one.weights, other.weights, strict=True)
    return all(bool((mine.any(axis=1) & its.any(axis=1)).any()) for mine, its in pairs)


def impossible(asked: Functionals, boxes: Sequence[Functionals]) -> Codes:
    """Return which sums have no possible cell, so that they are exactly 0; shape `asked.shape`."""
    found = np.ones(asked.shape, dtype=bool)
    for box in boxes:
        pairs = zip(asked.weights, box.weights, strict=True)
        some = [((each != 0) & (own > 0)).any(axis=1) for each, own in pairs]
        found &= ~functools.reduce(np.logical_and.outer, some, np.array(True))
    return found


def _of_question(rule: Rule, schema: Schema, columns: Clique) -> dict[str, Codes]:
    """Return which codes a rule excludes together, by column.

    Larger areas than those of the question are areas of the question.
    """
    nested = schema.domain.nested
    own = next((name for name in columns if nested and name in nested.columns), None)
    found: dict[str, Codes] = {}
    for name, codes in zip(rule.columns, rule.codes, strict=True):
        inside = np.isin(np.arange(schema.domain.size((name,))), codes)
        at = name
        if nested and own and name in nested.columns and nested.depth(name) < nested.depth(own):
            at, inside = own, inside[nested.map(name, own)]
        found[at] = inside & found.get(at, True)
    return found


def _steps(rules: Sequence[Codes]) -> NDArray[np.intp]:
    """Return the step of each code: codes that every rule treats alike are one step."""
    alike = np.packbits(np.array(rules), axis=0).T
    return np.unique(alike, axis=0, return_inverse=True)[1].reshape(-1)


def _tables(rules: Sequence[dict[str, Codes]], places: dict[str, NDArray[np.intp]]) -> list[Table]:
    """Return the possible combinations of steps, a table for each set of columns of a rule."""
    found: dict[Clique, Codes] = {}
    for rule in rules:
        names = tuple(name for name in places if name in rule)
        sizes = [int(places[name].max()) + 1 for name in names]
        if math.prod(sizes) <= MOST_CELLS:
            table = found.setdefault(names, np.ones(sizes, dtype=bool))
            table[np.ix_(*[np.unique(places[name][rule[name]]) for name in names])] = False
    return list(found.items())


def _among(tables: list[Table], columns: Clique) -> list[Table]:
    """Return tables of some columns that have the same possible combinations of them.

    Each other column is left out in turn: a combination of the columns in its tables is possible if
    one of its steps is possible with it (Dechter 1999, Artificial Intelligence 113).
    """
    order = tuple(dict.fromkeys(name for names, _ in tables for name in names))
    touching = {
        name: [each for each in tables if name in each[0]] for name in order if name not in columns
    }
    for name in sorted(touching, key=lambda name: _cells(touching[name])):
        own = [each for each in tables if name in each[0]]
        tables = [each for each in tables if name not in each[0]]
        if own and _cells(own) <= MOST_CELLS:
            names, possible = _joined(own, order)
            left = np.asarray(possible.any(axis=names.index(name)))
            if not left.all():
                tables.append((tuple(each for each in names if each != name), left))
    kept: list[Table] = []
    for each in sorted(tables, key=lambda each: each[1].size):
        if _cells([*kept, each]) <= MOST_CELLS:
            kept.append(each)
    return kept


def _cells(tables: Sequence[Table]) -> int:
    """Return the number of cells of tables when joined."""
    sizes: dict[str, int] = {}
    for names, table in tables:
        sizes |= zip(names, table.shape, strict=True)
    return math.prod(sizes.values())


def _joined(tables: Sequence[Table], order: Clique) -> Table:
    """Return one table that has the possible combinations of several."""
    names = tuple(name for name in order if any(name in own for own, _ in tables))
    found = np.array(True)
    for own, table in tables:
        sorted_names = [name for name in names if name in own]
        axes = [own.index(name) for name in sorted_names]
        sizes = [table.shape[own.index(name)] if name in own else 1 for name in names]
        found = found & table.transpose(axes).reshape(sizes)
    return names, found


def _boxes(possible: Codes) -> Iterator[tuple[Codes, ...]]:
    """Yield disjoint boxes that together are the possible cells: the steps of each axis."""
    if possible.ndim == 0:
        if possible:
            yield ()
        return
    rows, index = np.unique(possible.reshape(len(possible), -1), axis=0, return_inverse=True)
    for place, row in enumerate(rows):
        for rest in _boxes(row.reshape(possible.shape[1:])):
            yield index.reshape(-1) == place, *rest
