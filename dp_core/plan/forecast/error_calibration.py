"""What releases of the files of `benchmarks/promises.py` showed beyond the theory of their error.

`python benchmarks/promises.py calibrate` prints `TWO_WAY`, from one half of the files; the other
half checks it (benchmarks/results). The rows of `full` are for the joint table of `auto`; they were
set by hand on files like those of `benchmarks/auto_parts/few_cells.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dp_core.plan.release_spec import Mode

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

    def range(self, ends: Range, columns: int) -> Range:
        """Return the range that contains the error of most files, both ends at most 1.

        Args:
            ends: Error that theory expects at the least and at the largest dependence; without any,
                the range is 0.
            columns: Number of columns.

        >>> by = Calibration(bias=0, level=0, columns=0, width=0.1, spread=0.5)
        >>> [round(end, 4) for end in by.range((0.02, 0.04), 12)]
        [0.0181, 0.0442]
        """
        if ends[1] <= 0:
            return 0.0, 0.0
        low, high = (math.log(max(end, 1e-12)) for end in ends)
        middle = (low + high) / 2
        centre = (
            middle
            + self.bias
            + self.level * (middle - math.log(USUAL_ERROR))
            + self.columns * math.log(columns / USUAL_COLUMNS)
        )
        half = self.width + self.spread * (high - low)
        return min(1.0, math.exp(centre - half)), min(1.0, math.exp(centre + half))


TWO_WAY: Mapping[tuple[str, Mode], Calibration] = {
    ("aim", "shared"): Calibration(0.195, 0.089, -0.285, 0.448, 0.2),
    ("auto", "posterior"): Calibration(0.307, 0.089, -0.285, 0.448, 0.2),
    ("auto", "shared"): Calibration(0.173, 0.089, -0.285, 0.448, 0.2),
    ("auto", "split"): Calibration(0.268, 0.089, -0.285, 0.448, 0.2),
    ("densemarg", "posterior"): Calibration(0.305, 0.089, -0.285, 0.448, 0.2),
    ("densemarg", "shared"): Calibration(0.09, 0.089, -0.285, 0.448, 0.2),
    ("densemarg", "split"): Calibration(0.148, 0.089, -0.285, 0.448, 0.2),
    ("fixed", "posterior"): Calibration(0.494, 0.071, -0.483, 0.852, 0.5),
    ("fixed", "shared"): Calibration(-0.202, 0.071, -0.483, 0.852, 0.5),
    ("fixed", "split"): Calibration(-0.295, 0.071, -0.483, 0.852, 0.5),
    ("full", "posterior"): Calibration(0.25, 0.1, 0.0, 0.5, 0.0),
    ("full", "shared"): Calibration(0.0, 0.1, 0.0, 0.5, 0.0),
    ("full", "split"): Calibration(-0.15, 0.1, 0.0, 0.5, 0.0),
    ("mst", "shared"): Calibration(-0.186, 0.165, -0.345, 0.341, 0.5),
    ("mst", "split"): Calibration(0.048, 0.165, -0.345, 0.341, 0.5),
    ("one_way", "shared"): Calibration(0.235, 0.071, -0.483, 0.852, 0.5),
    ("one_way", "split"): Calibration(-0.283, 0.071, -0.483, 0.852, 0.5),
    ("privbayes", "shared"): Calibration(-0.052, 0.165, -0.345, 0.341, 0.5),
}
"""Errors of tables of two columns, by selection method and mode."""
