"""Bin edges of a column: from `min`, `max`, `bins` and `edges` of the schema to exact edges.

A bin contains its lower edge and not its upper one. So the edges of integers and dates end one step
(1, a day) after the largest value. The edges of a number end at the largest value, which the last
bin contains, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Literal

from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

MAX_CODES = 1_000_000  # of a column; a release of so many areas has been made
VALUES_WITHOUT_BINS = 100
MAX_INTEGER = 10**18  # within 64 bits, with room for one more
PERIODS = ("year", "quarter", "month", "week", "day")

Scale = Literal["integer", "number", "date"]


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


def read_bins(column: Node, keys: Mapping[str, Node], scale: Scale) -> Bins:
    """Return the bins of a column.

    Raises:
        BadInput: if a key is missing or invalid; the message says what it must be.
    """
    if "bins" in keys and "edges" in keys:
        raise keys["edges"].error("give bins or edges, not both; remove one of the keys.")
    minimum = read_value(keys["min"], scale) if "min" in keys else None
    maximum = read_value(keys["max"], scale) if "max" in keys else None
    if "edges" in keys:
        return _from_edges(keys["edges"], scale, minimum, maximum)
    minimum, maximum = read_limits(column, keys, scale)
    if scale == "date":
        edges = _calendar(column, keys, minimum, maximum)
    elif scale == "integer":
        edges = _whole(column, keys, minimum, maximum)
    else:
        edges = _equal_widths(column, keys, minimum, maximum)
        check_distinct(edges, keys.get("bins", column))
    return Bins(edges=edges, minimum=minimum, maximum=maximum)


def read_limits(column: Node, keys: Mapping[str, Node], scale: Scale) -> tuple[Fraction, Fraction]:
    """Return the smallest and the largest legal value of a column, both of which must be stated."""
    for key in ("min", "max"):
        if key not in keys:
            raise column.error(
                f"the key {key!r} is missing; state the smallest and the largest legal value from"
                " public knowledge."
            )
    minimum, maximum = (read_value(keys[key], scale) for key in ("min", "max"))
    if minimum > maximum:
        raise keys["max"].error(
            f"is smaller than min ({value_text(minimum, scale)}); correct one of them."
        )
    if scale == "number" and minimum == maximum:
        raise keys["max"].error("equals min; it must be larger.")
    return minimum, maximum


def read_value(node: Node, scale: Scale) -> Fraction:
    """Return a value of a column as an exact number (date: day ordinal)."""
    if scale == "date":
        return Fraction(node.date().toordinal())
    if scale == "integer":
        return Fraction(node.integer(minimum=-MAX_INTEGER, maximum=MAX_INTEGER))
    return node.fraction()


def value_text(value: Fraction, scale: Scale) -> str:
    """Return the exact text of a value as a schema writes it.

    >>> value_text(Fraction(693596), "date"), value_text(Fraction(1, 2), "number")
    ('1900-01-01', '0.5')
    """
    if scale == "date":
        if value > datetime.date.max.toordinal():
            return "10000-01-01"
        return datetime.date.fromordinal(int(value)).isoformat()
    return exact_text(value)


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
    scale: Scale,
    minimum: Fraction | None,
    maximum: Fraction | None,
) -> Bins:
    items = node.items(example="[0, 10, 20, 50]")
    if len(items) < 2:
        raise node.error(f"needs at least two edges, for one bin; there are {len(items)}.")
    if len(items) - 1 > MAX_CODES:
        raise node.error(f"makes {len(items) - 1:,} bins; use at most {MAX_CODES:,}.")
    edges = tuple(read_value(item, scale) for item in items)
    for item, (low, high) in zip(items[1:], pairwise(edges), strict=True):
        if high <= low:
            raise item.error(
                f"edges must increase, but {value_text(high, scale)} follows"
                f" {value_text(low, scale)}."
            )
    if scale == "number":
        check_distinct(edges, node)
    step = 0 if scale == "number" else 1
    if minimum is not None and edges[0] != minimum:
        raise node.error(
            f"the first edge must be min, {value_text(minimum, scale)};"
            f" it is {value_text(edges[0], scale)}."
        )
    if maximum is not None and edges[-1] != maximum + step:
        after = {
            "integer": "max + 1, {}, because a bin ends before its upper edge",
            "date": "the day after max, {}, because a bin ends before its upper edge",
            "number": "max, {}",
        }[scale].format(value_text(maximum + step, scale))
        raise node.error(
            f"the last edge must be {after}; it is {value_text(edges[-1], scale)}. Change the edge"
            " or max."
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


def _whole(
    column: Node, keys: Mapping[str, Node], minimum: Fraction, maximum: Fraction
) -> tuple[Fraction, ...]:
    first, values = int(minimum), int(maximum - minimum) + 1
    if "bins" not in keys:
        if values > VALUES_WITHOUT_BINS:
            raise column.error(
                f"has {values} values, more than {VALUES_WITHOUT_BINS} without bins;"
                " give bins (a number) or edges (a list)."
            )
        count = values
    else:
        count = _bin_count(keys["bins"])
        if count > values:
            raise keys["bins"].error(
                f"{count} bins are more than the {values} values from min to max; use fewer bins."
            )
    # Half up in exact arithmetic: widths are at least 1, so no two edges coincide.
    return tuple(
        Fraction(first + (2 * k * values + count) // (2 * count)) for k in range(count + 1)
    )


def _equal_widths(
    column: Node, keys: Mapping[str, Node], minimum: Fraction, maximum: Fraction
) -> tuple[Fraction, ...]:
    if "bins" not in keys:
        raise column.error("needs bins (a number of equal widths) or edges (a list).")
    count = _bin_count(keys["bins"])
    width = (maximum - minimum) / count
    return tuple(minimum + k * width for k in range(count + 1))


def _calendar(
    column: Node, keys: Mapping[str, Node], minimum: Fraction, maximum: Fraction
) -> tuple[Fraction, ...]:
    if "bins" not in keys:
        raise column.error(f"needs bins ({', '.join(PERIODS)}) or edges (a list of dates).")
    period = keys["bins"].choice(PERIODS)
    edges = [int(minimum)]
    while edges[-1] <= maximum:
        if len(edges) > MAX_CODES:
            raise keys["bins"].error(
                f"{period} makes more than {MAX_CODES:,} bins from min to max; use a longer period."
            )
        edges.append(min(_next_boundary(edges[-1], period), int(maximum) + 1))
    return tuple(Fraction(edge) for edge in edges)


def _next_boundary(day: int, period: str) -> int:
    date = datetime.date.fromordinal(day)
    if period == "day":
        return day + 1
    if period == "week":
        return day + 7 - date.weekday()
    months = {"year": 12, "quarter": 3, "month": 1}[period]
    month = (date.month - 1) // months * months + months
    year = date.year + month // 12
    if year > datetime.MAXYEAR:
        return datetime.date.max.toordinal() + 1
    return datetime.date(year, month % 12 + 1, 1).toordinal()


def _bin_count(node: Node) -> int:
    if isinstance(node.content, str) and node.content in PERIODS:
        raise node.error(f"{shown(node.content)} is for dates; give a number of bins.")
    return node.integer(minimum=1, maximum=MAX_CODES)


def empty_bin(edges: tuple[Fraction, ...], decimals: int) -> tuple[Fraction, Fraction] | None:
    """Return the first bin that contains no number with `decimals` decimals; None without any."""
    grid = 10**decimals
    last = len(edges) - 2
    for code, (low, high) in enumerate(pairwise(edges)):
        smallest = Fraction(ceil(low * grid), grid)
        if smallest > high or (smallest == high and code < last):
            return low, high
    return None
