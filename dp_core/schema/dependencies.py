"""Dependent columns: columns that a public rule computes from another column.

Nothing is measured for them: they are computed again in every synthetic row. If a row of the file
disagrees with the rule, the column's `out_of_range` says whether it is refused or corrected
(`DependentColumn`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes, code_type
from dp_core.schema.definition import MISSING_LABEL, Column, DependentColumn, Schema

if TYPE_CHECKING:
    from dp_core.schema.rules.file_rules import Rules

Array: TypeAlias = NDArray[Any]


def derive(
    schema: Rules, codes: Mapping[str, Array], values: Mapping[str, Array]
) -> dict[str, Codes]:
    """Return the codes of every dependent column.

    Args:
        schema: The schema, whose numbers may be on a grid, or the rules of a file.
        codes: Codes of every column of the domain, each of shape (rows,).
        values: Values of every column that `value_sources` names (dates: day ordinals), each of
            shape (rows,); arbitrary where missing.
    """
    found: dict[str, Codes] = {}
    for dependent in schema.dependents:
        place: Array
        if dependent.cuts:
            source = schema.column(dependent.source)
            place = parts(dependent.cuts, values[dependent.source])
            if source.missing_code is not None:
                missing = codes[dependent.source] == source.missing_code
                place = np.where(missing, len(dependent.cuts) + 1, place)
        else:
            place = (
                found[dependent.source] if dependent.source in found else codes[dependent.source]
            )
        found[dependent.column.name] = np.array(
            dependent.codes, dtype=code_type(dependent.column.size)
        )[place]
    return found


def value_sources(schema: Rules) -> tuple[str, ...]:
    """Return the sources whose values, not only their codes, decide a dependent column."""
    return tuple(dict.fromkeys(one.source for one in schema.dependents if one.cuts))


def parts(cuts: Sequence[Fraction], values: Array) -> NDArray[np.intp]:
    """Return the number of cuts at or below each value.

    Values and cuts are compared as `dp_core.confidential.encoding` compares values and bin edges.
    """
    if values.dtype.kind == "f":
        edges: Array = np.array([float(cut) for cut in cuts])
    else:
        edges = np.array([math.ceil(cut) for cut in cuts], dtype=np.int64)
    return np.searchsorted(edges.astype(values.dtype, copy=False), values, side="right")


def origin(schema: Schema, name: str) -> tuple[str, NDArray[np.intp]]:
    """Return the modelled column that a column depends on, directly or through others.

    Args:
        schema: The schema as written, not on a grid.
        name: Name of a released column; a modelled column is its own origin.

    Returns:
        Name of the origin, and the column's code for each code of the origin, shape (codes,).
    """
    dependents = {dependent.column.name: dependent for dependent in schema.dependents}
    chain: list[DependentColumn] = []
    while name in dependents:
        chain.append(dependents[name])
        name = chain[-1].source
    column = schema.column(name)
    codes = np.arange(column.size)
    for dependent in reversed(chain):
        if dependent.cuts:
            codes = np.array([bisect_right(dependent.cuts, low) for low in column.edges[:-1]])
            if column.missing_code is not None:
                codes = np.append(codes, len(dependent.cuts) + 1)
        codes = np.array(dependent.codes, dtype=np.intp)[codes]
    return name, codes


def dependency_in_words(dependent: DependentColumn, source: Column) -> list[dict[str, str]]:
    """Return the label that follows from each label, or range of values, of the source."""
    own = dependent.column.code_labels()
    if not dependent.cuts:
        labels: Sequence[str] = source.code_labels()
    else:
        cuts = [source.scale.text(cut) for cut in dependent.cuts]
        labels = [
            f"below {cuts[0]}",
            *(f"from {low}, below {high}" for low, high in pairwise(cuts)),
            f"from {cuts[-1]}",
            MISSING_LABEL,
        ]
    return [
        {"of": label, "is": own[code]} for label, code in zip(labels, dependent.codes, strict=False)
    ]
