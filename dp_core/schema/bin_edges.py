"""Bin edges of a column: from `min`, `max`, `bins` and `edges` of the schema to exact edges.

A bin contains its lower edge and not its upper one. So the edges of integers and dates end one step
(1, a day) after the largest value. The edges of a number end at the largest value, which the last
bin contains, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

if TYPE_CHECKING:
    from dp_core.schema.column_types.column_type import ValueType

MAX_CODES = 1_000_000  # of a column; a release of so many areas has been made
VALUES_WITHOUT_BINS = 100
MAX_INTEGER = 10**18  # within 64 bits, with room for one more
USUAL_BINS = 20
"""Bins of a draft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Edges and limits of one column.

    Attributes:
        edges: Bin edges, strictly increasing (dates: day ordinals).
        minimum: Smallest legal value.
        maximum: Largest legal value.
    """

    edges: tuple[Fraction, ...]
    minimum: Fraction
    maximum: Fraction


def read_bins(column: Node, keys: Mapping[str, Node], scale: ValueType) -> Bins:
    """Return the bins of a column.

    Raises:
        BadInput: if a key is missing or invalid; the message says what it must be.
    """
    if "bins" in keys and "edges" in keys:
        raise keys["edges"].error("give bins or edges, not both; remove one of the keys.")
    minimum = scale.read(keys["min"]) if "min" in keys else None
    maximum = scale.read(keys["max"]) if "max" in keys else None
    if "edges" in keys:
        return _from_edges(keys["edges"], scale, minimum, maximum)
    minimum, maximum = read_limits(column, keys, scale)
    edges = scale.edges(column, keys, minimum, maximum)
    return Bins(edges=edges, minimum=minimum, maximum=maximum)


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


def exact_text(value: Fraction) -> str:
    """Return the shortest exact text: a decimal of at most 20 digits if there is one, or a ratio.

    >>> exact_text(Fraction(1, 8)), exact_text(Fraction(1, 3)), exact_text(Fraction(-7))
    ('0.125', '1/3', '-7')
    """
    if value.denominator == 1:
        return str(value.numerator)
    for digits in range(1, 21):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            sign = "-" if scaled < 0 else ""
            whole, part = divmod(abs(scaled.numerator), 10**digits)
            return f"{sign}{whole}.{part:0{digits}d}"
    return str(value)


def _from_edges(
    node: Node,
    scale: ValueType,
    minimum: Fraction | None,
    maximum: Fraction | None,
) -> Bins:
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
    return Bins(edges=edges, minimum=edges[0], maximum=edges[-1] - step)


def check_distinct(edges: tuple[Fraction, ...], node: Node) -> None:
    """Refuse edges that are equal as the 64-bit floats of a data file."""
    for low, high in pairwise(edges):
        if float(low) == float(high):
            raise node.error(
                f"the edges near {exact_text(low)} are equal in floating point; make fewer and"
                " wider bins."
            )


def bin_count(node: Node) -> int:
    """Return the number of bins that a schema states."""
    from dp_core.schema.column_types.registry import types_with_texts

    for other in types_with_texts():
        if node.content in other.periods:
            raise node.error(
                f"{shown(str(node.content))} is for {other.values}; give a number of bins."
            )
    return node.integer(minimum=1, maximum=MAX_CODES)


def common_step(numbers: Iterable[Fraction]) -> Fraction:
    """Return the largest number that divides all of these; 0 if all are 0."""
    listed = list(numbers)
    denominator = math.lcm(*(each.denominator for each in listed))
    return Fraction(math.gcd(*(int(each * denominator) for each in listed)), denominator)


def empty_bin(edges: tuple[Fraction, ...], decimals: int) -> tuple[Fraction, Fraction] | None:
    """Return the first bin that contains no number with `decimals` decimals; None without any."""
    grid = 10**decimals
    last = len(edges) - 2
    for code, (low, high) in enumerate(pairwise(edges)):
        smallest = Fraction(math.ceil(low * grid), grid)
        if smallest > high or (smallest == high and code < last):
            return low, high
    return None
