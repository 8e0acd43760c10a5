"""Functional dependencies: what a column is, by public rule, given another. Nothing is measured.

A follower is derived again in every synthetic row, and every row of the file has to obey or is made
to (`Follower`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.bin_edges import Scale, value_text
from dp_core.schema.definition import MISSING_LABEL, Column, Follower, Schema

Array: TypeAlias = NDArray[Any]


def derive(
    schema: Schema, codes: Mapping[str, Array], values: Mapping[str, Array]
) -> dict[str, NDArray[np.uint16]]:
    """Return the codes of every follower.

    Args:
        schema: With followers; its numbers may stand on a grid.
        codes: Of every column of the domain, each of shape (rows,).
        values: Of every integer, number or date that `followed_by_value` names: its values
            (day ordinals), each of shape (rows,); whatever stands where they are missing.
    """
    found: dict[str, NDArray[np.uint16]] = {}
    for follower in schema.followers:
        place: Array
        if follower.cuts:
            source = schema.column(follower.source)
            place = parts(source, follower.cuts, values[follower.source])
            if source.missing_code is not None:
                missing = codes[follower.source] == source.missing_code
                place = np.where(missing, len(follower.cuts) + 1, place)
        else:
            place = found[follower.source] if follower.source in found else codes[follower.source]
        found[follower.column.name] = np.array(follower.codes, dtype=np.uint16)[place]
    return found


def followed_by_value(schema: Schema) -> tuple[str, ...]:
    """Return the columns whose values, and not only their codes, decide those of followers."""
    return tuple(dict.fromkeys(one.source for one in schema.followers if one.cuts))


def parts(source: Column, cuts: Sequence[Fraction], values: Array) -> NDArray[np.intp]:
    """Return between which cuts values lie, 0 before the first; one on a cut is in the part above.

    Compared as `dp_core.confidential.encoding` compares values with bin edges.
    """
    if source.kind == "number":
        edges: Array = np.array([float(cut) for cut in cuts])
    else:
        edges = np.array([math.ceil(cut) for cut in cuts], dtype=np.int64)
    return np.searchsorted(edges.astype(values.dtype, copy=False), values, side="right")


def origin(schema: Schema, name: str) -> tuple[str, NDArray[np.intp]]:
    """Return the column of the domain that a column follows in the end, and the code by its codes.

    Args:
        schema: As it was written: bins are not positions of a grid.
        name: Of any released column; one of the domain is its own origin.

    Returns:
        The name, and for each of its codes that of the column, shape (codes,).
    """
    followers = {follower.column.name: follower for follower in schema.followers}
    chain: list[Follower] = []
    while name in followers:
        chain.append(followers[name])
        name = chain[-1].source
    column = schema.column(name)
    codes = np.arange(column.size)
    for follower in reversed(chain):
        if follower.cuts:
            codes = np.array([bisect_right(follower.cuts, low) for low in column.edges[:-1]])
            if column.missing_code is not None:
                codes = np.append(codes, len(follower.cuts) + 1)
        codes = np.array(follower.codes, dtype=np.intp)[codes]
    return name, codes


def followed_in_words(follower: Follower, source: Column) -> list[dict[str, str]]:
    """Return which label follows from which label, or from which values, of the source."""
    own = follower.column.code_labels()
    if not follower.cuts:
        labels: Sequence[str] = source.code_labels()
    else:
        cuts = [value_text(cut, scale_of(source)) for cut in follower.cuts]
        labels = [
            f"below {cuts[0]}",
            *(f"from {low}, below {high}" for low, high in pairwise(cuts)),
            f"from {cuts[-1]}",
            MISSING_LABEL,
        ]
    return [
        {"of": label, "is": own[code]} for label, code in zip(labels, follower.codes, strict=False)
    ]


def scale_of(column: Column) -> Scale:
    """Return how the values of an integer, number or date column are written."""
    if column.kind == "integer" or column.kind == "number" or column.kind == "date":
        return column.kind
    raise TypeError(f"Column {column.name!r} of kind {column.kind} has no edges.")
