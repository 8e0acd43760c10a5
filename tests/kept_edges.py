"""The edges of equally wide bins are computed once for each range and number of bins.

A column may have thousands, each an exact fraction, and hundreds of tests read the same schemas.
The edges are a function of the range and the number; they took a third of the time to read a spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

import pytest

from dp_core.schema.bin_edges import bin_count
from dp_core.schema.column_types.number import Number
from dp_core.text.documents.node import Node

MOST = 500
_compute = Number.edges
_kept: dict[tuple[Fraction, Fraction, int], tuple[Fraction, ...]] = {}


def _edges(
    self: Number, column: Node, keys: Mapping[str, Node], minimum: Fraction, maximum: Fraction
) -> tuple[Fraction, ...]:
    if "bins" not in keys:
        return _compute(self, column, keys, minimum, maximum)
    asked = minimum, maximum, bin_count(keys["bins"])
    if len(_kept) > MOST:
        _kept.clear()
    if asked not in _kept:
        _kept[asked] = _compute(self, column, keys, minimum, maximum)
    return _kept[asked]


@pytest.fixture(scope="session", autouse=True)
def edges_are_kept() -> Iterator[None]:
    """Keep the edges of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Number, "edges", _edges)
        yield
