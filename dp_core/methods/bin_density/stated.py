"""Fitted densities as a statement states them, and back."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from dp_core.methods.bin_density.fitting import may_have_density
from dp_core.schema.bin_pieces import WHOLE, BinPieces
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.definition import Column, Schema

_EXACT = re.compile(r"-?[0-9]{1,40}([.][0-9]{1,20}|/[0-9]{1,40})?")
ROUNDING = 4
"""Largest difference of two weights that floating-point arithmetic of two machines may explain."""


def statement(schema: Schema) -> list[dict[str, object]]:
    """Return the fitted densities for the statement of a release; empty if there are none.

    Each column has its bins with more than one piece: the code of the bin, where each piece begins,
    and the weight of each piece in millionths of the bin's records.
    """
    found: list[dict[str, object]] = []
    for column in schema.columns:
        if column.pieces is None:
            continue
        places = column.pieces.places(column.edges)
        starts = [column.scale.text(edge) for edge in column.pieces.edges[:-1]]
        bins = [
            {
                "code": code,
                "from": starts[low:high],
                "millionths": list(column.pieces.weights[low:high]),
            }
            for code, (low, high) in enumerate(pairwise(places))
            if high - low > 1
        ]
        found.append({"column": column.name, "bins": bins})
    return found


def with_statement(schema: Schema, entries: object) -> Schema:
    """Return the schema with the densities that a statement states.

    Args:
        schema: Schema of the release, as written.
        entries: What `statement` returned, read from a file.

    Raises:
        Exception: a lookup, type or value error if the entries do not have that shape, or do not
            fit the schema.
    """
    if not isinstance(entries, list):
        raise TypeError("The densities must be a list.")
    found = {entry["column"]: entry["bins"] for entry in entries}
    if len(found) != len(entries) or not {*found} <= {
        column.name for column in schema.columns if may_have_density(column)
    }:
        raise ValueError("A density is stated twice, or for a column that has none.")
    columns = tuple(
        dataclasses.replace(column, pieces=_pieces(column, found[column.name]))
        if column.name in found
        else column
        for column in schema.columns
    )
    return dataclasses.replace(schema, columns=columns)


def agree(one: BinPieces | None, other: BinPieces | None) -> bool:
    """Return whether two densities are the same, except for the rounding of their weights."""
    if one is None or other is None:
        return one is other
    return one.edges == other.edges and all(
        abs(weight - another) <= ROUNDING
        for weight, another in zip(one.weights, other.weights, strict=True)
    )


def _pieces(column: Column, bins: Sequence[Mapping[str, object]]) -> BinPieces:
    stated = {entry["code"]: entry for entry in bins}
    if len(stated) != len(bins) or not {*stated} <= {*range(column.bins)}:
        raise ValueError("A bin is stated twice, or does not exist.")
    edges: list[Fraction] = []
    weights: list[int] = []
    for code in range(column.bins):
        starts, own = [column.edges[code]], [WHOLE]
        if code in stated:
            texts, given = stated[code]["from"], stated[code]["millionths"]
            if not isinstance(texts, list) or not isinstance(given, list):
                raise TypeError("Pieces must be lists.")
            if any(type(weight) is not int for weight in given) or sum(given) != WHOLE:
                raise ValueError("The weights of a bin must be whole and sum to a million.")
            starts, own = [_value(text, column.scale) for text in texts], given
        if len(starts) != len(own) or starts[0] != column.edges[code]:
            raise ValueError("A bin must begin with its first piece.")
        edges += starts
        weights += own
    found = BinPieces((*edges, column.edges[-1]), tuple(weights))
    found.places(column.edges)
    return found


def _value(text: object, scale: ValueType) -> Fraction:
    """Return the value of a text as `ValueType.text` writes it."""
    if isinstance(text, str) and scale.own_texts:
        return scale.parse(text)
    if not isinstance(text, str) or not _EXACT.fullmatch(text):
        raise ValueError("not the text of a value")
    return Fraction(text)
