"""What releases of the files of `benchmarks/promises.py` showed beyond theory.

Printed by `python benchmarks/promises.py calibrate`, from one half of the files; the other
half checks them (benchmarks/results).
"""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.spec.forecast.calibrated_range import Calibration
from dp_core.spec.release_spec import Mode

TWO_WAY: Mapping[tuple[str, Mode], Calibration] = {
    ("aim", "shared"): Calibration(0.268, 0.077, -0.295, 0.0, 0.48, 0.1),
    ("auto", "noise-aware"): Calibration(0.397, 0.077, -0.295, 0.0, 0.48, 0.1),
    ("auto", "posterior"): Calibration(0.333, 0.077, -0.295, 0.0, 0.48, 0.1),
    ("auto", "shared"): Calibration(0.182, 0.077, -0.295, 0.0, 0.48, 0.1),
    ("auto", "split"): Calibration(0.27, 0.077, -0.295, 0.0, 0.48, 0.1),
    ("densemarg", "noise-aware"): Calibration(0.482, 0.077, -0.295, 0.0, 0.48, 0.1),
    ("densemarg", "posterior"): Calibration(0.29, 0.077, -0.295, 0.0, 0.48, 0.1),
    ("densemarg", "shared"): Calibration(0.069, 0.077, -0.295, 0.0, 0.48, 0.1),
    ("densemarg", "split"): Calibration(0.117, 0.077, -0.295, 0.0, 0.48, 0.1),
    ("mst", "shared"): Calibration(-0.073, 0.1, -0.496, 0.0, 0.711, 0.5),
    ("one_way", "noise-aware"): Calibration(0.468, -0.102, -0.468, 0.0, 0.758, 0.4),
    ("one_way", "shared"): Calibration(0.364, -0.102, -0.468, 0.0, 0.758, 0.4),
}
"""Errors of tables of two columns, by selection method and mode."""

THREE_WAY: Mapping[tuple[str, Mode], Calibration] = {
    ("aim", "shared"): Calibration(-0.082, 0.067, -0.17, 0.0, 0.612, 0.4),
    ("auto", "noise-aware"): Calibration(0.124, 0.067, -0.17, 0.0, 0.612, 0.4),
    ("auto", "posterior"): Calibration(0.184, 0.067, -0.17, 0.0, 0.612, 0.4),
    ("auto", "shared"): Calibration(-0.248, 0.067, -0.17, 0.0, 0.612, 0.4),
    ("auto", "split"): Calibration(-0.0, 0.067, -0.17, 0.0, 0.612, 0.4),
    ("densemarg", "noise-aware"): Calibration(0.236, 0.067, -0.17, 0.0, 0.612, 0.4),
    ("densemarg", "posterior"): Calibration(-0.009, 0.067, -0.17, 0.0, 0.612, 0.4),
    ("densemarg", "shared"): Calibration(-0.172, 0.067, -0.17, 0.0, 0.612, 0.4),
    ("densemarg", "split"): Calibration(-0.019, 0.067, -0.17, 0.0, 0.612, 0.4),
    ("mst", "shared"): Calibration(-0.055, -0.035, -0.422, 0.0, 0.71, 0.4),
    ("one_way", "noise-aware"): Calibration(0.555, -0.227, -0.442, 0.0, 0.904, 0.3),
    ("one_way", "shared"): Calibration(0.522, -0.227, -0.442, 0.0, 0.904, 0.3),
}
"""Errors of tables of three columns, by selection method and mode."""
