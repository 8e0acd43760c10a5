"""The words of a privacy guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Neighbours = Literal["add-remove", "replace-one"]
"""Which pairs of files are neighbours: one row more or less, or one row different."""

Noise = Literal["laplace", "gaussian"]
"""Kind of noise on counts."""

Stage = Literal["total", "one_way", "select", "measure", "checks"]
"""Stages that pay, in their order."""

PAYING_STAGES: tuple[Stage, ...] = ("total", "one_way", "select", "measure", "checks")

TABLE_STAGES: frozenset[str] = frozenset({"total", "one_way", "measure"})
"""Those whose every event is a noisy table of counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """The guarantee asked for.

    Attributes:
        epsilon: Positive.
        delta: 0 for pure differential privacy, otherwise below 1.
        neighbours: Which pairs of files count as neighbours; the unit is one row.
    """

    epsilon: Fraction
    delta: Fraction
    neighbours: Neighbours
