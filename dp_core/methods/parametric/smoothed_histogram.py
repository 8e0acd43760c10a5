"""Smoothed histogram: records drawn from the table of all columns mixed with the uniform table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from dp_core.methods.parametric.drawn_records import TableDraws


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothedHistogram(TableDraws):
    """Draw records from (1 - lambda) times the table of all columns plus lambda times uniform.

    Wasserman & Zhou (2010), eqns 6 and 7 of Bowen & Liu (2020): lambda = K/(K + n (e^(epsilon/k) -
    1)) for k records out of a table of n records and K cells. That is a = 1/(e^(epsilon/k) - 1)
    virtual records in every cell, about k/epsilon, under both neighbouring relations. If k = n,
    records are drawn nearly uniformly whatever n is: lambda is about K/(K + epsilon), which is
    20/21 for 20 cells at epsilon 1.

    Attributes:
        kind: `independent`: every record is drawn independently.
    """

    kind: ClassVar[Literal["independent", "urn"]] = "independent"


METHOD = SmoothedHistogram
