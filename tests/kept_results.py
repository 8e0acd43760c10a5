"""Results of pure functions that hundreds of tests ask for again are computed once.

- Edges of equally wide bins: a function of the range and the number, each an exact fraction. They
  took a third of the time to read a spec.
- What `auto` forecasts from a schema: a seventh of the time of a release of the survey.
- The speed of this machine, which a home does not know yet: 40 ms for nearly every test.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from fractions import Fraction

import pytest

from dp_core.methods.selection.auto import Auto
from dp_core.schema.bin_pieces import bin_count
from dp_core.schema.column_types.number import Number
from dp_core.text.documents.node import Node
from tasks.run import home_notes

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
def results_are_kept() -> Iterator[None]:
    """Keep the results of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Number, "edges", _edges)
        patch.setattr(Auto, "forecast", functools.lru_cache(maxsize=MOST)(Auto.forecast))
        measure = functools.lru_cache(home_notes.measure_machine)
        patch.setattr(home_notes, "measure_machine", measure)
        yield
