"""Reads the bins of a column: exact edges from `min`, `max`, `bins` and `edges` of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from dp_core.schema.bin_edges import MAX_CODES, check_distinct
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.column_types.registry import types_with_texts
from dp_core.schema.definition import Column
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown


def read_bins(column: Column, node: Node, keys: Mapping[str, Node]) -> Column:
    """Return a column with its bins and limits.

    Args:
        column: The column without them.
        node: Its definition.
        keys: The keys of its definition.

    Raises:
        BadInput: if a key is missing or invalid; the message says what it must be.
    """
    scale = column.scale
    if "bins" in keys and "edges" in keys:
        raise keys["edges"].error("give bins or edges, not both; remove one of the keys.")
    if "edges" in keys:
        minimum = scale.read(keys["min"]) if "min" in keys else None
        maximum = scale.read(keys["max"]) if "max" in keys else None
        edges = _read_edges(keys["edges"], scale, minimum, maximum)
        return replace(column, edges=edges, minimum=edges[0], maximum=edges[-1] - scale.step)
    low, high = read_limits(node, keys, scale)
    for other in types_with_texts():
        if "bins" in keys and keys["bins"].content in other.periods and other is not scale:
            text = shown(str(keys["bins"].content))
            here = (
                f"write {' or '.join(scale.periods)}" if scale.periods else "give a number of bins"
            )
            raise keys["bins"].error(f"{text} is for {other.values}; {here}.")
    return replace(column, edges=scale.edges(node, keys, low, high), minimum=low, maximum=high)


def read_limits(
    column: Node, keys: Mapping[str, Node], scale: ValueType
) -> tuple[Fraction, Fraction]:
    """Return the smallest and the largest legal value of a column, both of which must be stated."""
    for key in ("min", "max"):
        if key not in keys:
            raise column.error(
                f"the key {key!r} is missing; state the smallest and the largest legal value from"
                " public knowledge."
            )
    minimum, maximum = (scale.read(keys[key]) for key in ("min", "max"))
    if minimum > maximum:
        raise keys["max"].error(
            f"is smaller than min ({scale.text(minimum)}); correct one of them."
        )
    if scale.continuous and minimum == maximum:
        raise keys["max"].error("equals min; it must be larger.")
    return minimum, maximum


def _read_edges(
    node: Node,
    scale: ValueType,
    minimum: Fraction | None,
    maximum: Fraction | None,
) -> tuple[Fraction, ...]:
    items = node.items(example="[0, 10, 20, 50]")
    if len(items) < 2:
        raise node.error(f"needs at least two edges, for one bin; there are {len(items)}.")
    if len(items) - 1 > MAX_CODES:
        raise node.error(f"makes {len(items) - 1:,} bins; use at most {MAX_CODES:,}.")
    edges = tuple(scale.read(item) for item in items)
    for item, (low, high) in zip(items[1:], pairwise(edges), strict=True):
        if high <= low:
            raise item.error(
                f"edges must increase, but {scale.text(high)} follows {scale.text(low)}."
            )
    if scale.continuous:
        check_distinct(edges, node)
    step = scale.step
    if minimum is not None and edges[0] != minimum:
        raise node.error(
            f"the first edge must be min, {scale.text(minimum)}; it is {scale.text(edges[0])}."
        )
    if maximum is not None and edges[-1] != maximum + step:
        after = scale.after_max.format(scale.text(maximum + step))
        raise node.error(
            f"the last edge must be {after}; it is {scale.text(edges[-1])}. Change the edge or max."
        )
    return edges
