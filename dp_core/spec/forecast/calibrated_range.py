"""From the error that theory expects to the range that contains the error of most files."""

from __future__ import annotations

import math
from dataclasses import dataclass

Range = tuple[float, float]
"""A low and a high value."""

USUAL_COLUMNS = 12
"""Number of columns at which `Calibration.columns` has no effect."""
USUAL_ERROR = 0.05
"""Expected TVD at which `Calibration.level` has no effect."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What files showed beyond theory. Errors are compared as logarithms.

    Attributes:
        bias: Logarithm of the median ratio of the error to what theory expects.
        level: How much that logarithm grows with the logarithm of the expected error.
        columns: How much it grows with the logarithm of the number of columns.
        width: Half of the range's width on the logarithmic scale, for a known dependence.
        spread: Part of the logarithmic range over typical dependences that each half gets besides;
            at most half of 1 + `level`, so that both ends grow with both ends of the theory.
    """

    bias: float
    level: float
    columns: float
    width: float
    spread: float

    def __post_init__(self) -> None:
        if not 0 <= self.spread <= (1 + self.level) / 2 or self.width < 0:
            raise ValueError(f"The width or spread of {self} is out of range.")


def calibrated(by: Calibration, ends: Range, columns: int) -> Range:
    """Return the range of the error, both at most 1.

    Args:
        by: Calibration of the method and mode.
        ends: Error that theory expects at the least and at the largest dependence; without any,
            the range is 0.
        columns: Number of columns.

    >>> by = Calibration(bias=0, level=0, columns=0, width=0.1, spread=0.5)
    >>> [round(end, 4) for end in calibrated(by, (0.02, 0.04), 12)]
    [0.0181, 0.0442]
    """
    if ends[1] <= 0:
        return 0.0, 0.0
    low, high = (math.log(max(end, 1e-12)) for end in ends)
    middle = (low + high) / 2
    centre = (
        middle
        + by.bias
        + by.level * (middle - math.log(USUAL_ERROR))
        + by.columns * math.log(columns / USUAL_COLUMNS)
    )
    half = by.width + by.spread * (high - low)
    return min(1.0, math.exp(centre - half)), min(1.0, math.exp(centre + half))
