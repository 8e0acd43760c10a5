"""What releases of the files of `benchmarks/promises.py` showed beyond theory.

Printed by `python benchmarks/promises.py calibrate`, from one half of the files; the
other half checks them (benchmarks/results). Those of `full` are for the joint table of `auto`; they
were set by hand on files like those of `benchmarks/auto_parts/few_cells.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.spec.forecast.calibrated_range import Calibration
from dp_core.spec.release_spec import Mode

TWO_WAY: Mapping[tuple[str, Mode], Calibration] = {
    ("aim", "noise-aware"): Calibration(0.419, 0.089, -0.285, 0.448, 0.2),
    ("aim", "shared"): Calibration(0.195, 0.089, -0.285, 0.448, 0.2),
    ("auto", "noise-aware"): Calibration(0.365, 0.089, -0.285, 0.448, 0.2),
    ("auto", "posterior"): Calibration(0.307, 0.089, -0.285, 0.448, 0.2),
    ("auto", "shared"): Calibration(0.173, 0.089, -0.285, 0.448, 0.2),
    ("auto", "split"): Calibration(0.268, 0.089, -0.285, 0.448, 0.2),
    ("densemarg", "noise-aware"): Calibration(0.454, 0.089, -0.285, 0.448, 0.2),
    ("densemarg", "posterior"): Calibration(0.305, 0.089, -0.285, 0.448, 0.2),
    ("densemarg", "shared"): Calibration(0.09, 0.089, -0.285, 0.448, 0.2),
    ("densemarg", "split"): Calibration(0.148, 0.089, -0.285, 0.448, 0.2),
    ("fixed", "posterior"): Calibration(0.494, 0.071, -0.483, 0.852, 0.5),
    ("fixed", "shared"): Calibration(-0.202, 0.071, -0.483, 0.852, 0.5),
    ("fixed", "split"): Calibration(-0.295, 0.071, -0.483, 0.852, 0.5),
    ("full", "noise-aware"): Calibration(-0.05, 0.1, 0.0, 0.5, 0.0),
    ("full", "posterior"): Calibration(0.25, 0.1, 0.0, 0.5, 0.0),
    ("full", "shared"): Calibration(0.0, 0.1, 0.0, 0.5, 0.0),
    ("full", "split"): Calibration(-0.15, 0.1, 0.0, 0.5, 0.0),
    ("mst", "noise-aware"): Calibration(0.053, 0.165, -0.345, 0.341, 0.5),
    ("mst", "shared"): Calibration(-0.186, 0.165, -0.345, 0.341, 0.5),
    ("mst", "split"): Calibration(0.048, 0.165, -0.345, 0.341, 0.5),
    ("one_way", "noise-aware"): Calibration(0.494, 0.071, -0.483, 0.852, 0.5),
    ("one_way", "shared"): Calibration(0.235, 0.071, -0.483, 0.852, 0.5),
    ("one_way", "split"): Calibration(-0.283, 0.071, -0.483, 0.852, 0.5),
    ("privbayes", "shared"): Calibration(-0.052, 0.165, -0.345, 0.341, 0.5),
}
"""Errors of tables of two columns, by selection method and mode."""

THREE_WAY: Mapping[tuple[str, Mode], Calibration] = {
    ("aim", "noise-aware"): Calibration(0.115, 0.071, -0.177, 0.619, 0.2),
    ("aim", "shared"): Calibration(-0.14, 0.071, -0.177, 0.619, 0.2),
    ("auto", "noise-aware"): Calibration(0.121, 0.071, -0.177, 0.619, 0.2),
    ("auto", "posterior"): Calibration(0.118, 0.071, -0.177, 0.619, 0.2),
    ("auto", "shared"): Calibration(-0.225, 0.071, -0.177, 0.619, 0.2),
    ("auto", "split"): Calibration(0.037, 0.071, -0.177, 0.619, 0.2),
    ("densemarg", "noise-aware"): Calibration(0.224, 0.071, -0.177, 0.619, 0.2),
    ("densemarg", "posterior"): Calibration(0.047, 0.071, -0.177, 0.619, 0.2),
    ("densemarg", "shared"): Calibration(-0.157, 0.071, -0.177, 0.619, 0.2),
    ("densemarg", "split"): Calibration(0.022, 0.071, -0.177, 0.619, 0.2),
    ("fixed", "posterior"): Calibration(0.529, -0.058, -0.449, 1.128, 0.4),
    ("fixed", "shared"): Calibration(-0.136, -0.058, -0.449, 1.128, 0.4),
    ("fixed", "split"): Calibration(-0.095, -0.058, -0.449, 1.128, 0.4),
    ("full", "noise-aware"): Calibration(-0.15, 0.1, 0.0, 0.6, 0.0),
    ("full", "posterior"): Calibration(0.25, 0.1, 0.0, 0.6, 0.0),
    ("full", "shared"): Calibration(0.0, 0.1, 0.0, 0.6, 0.0),
    ("full", "split"): Calibration(-0.15, 0.1, 0.0, 0.6, 0.0),
    ("mst", "noise-aware"): Calibration(-0.155, 0.047, -0.295, 0.478, 0.4),
    ("mst", "shared"): Calibration(-0.216, 0.047, -0.295, 0.478, 0.4),
    ("mst", "split"): Calibration(0.085, 0.047, -0.295, 0.478, 0.4),
    ("one_way", "noise-aware"): Calibration(0.474, -0.058, -0.449, 1.128, 0.4),
    ("one_way", "shared"): Calibration(0.282, -0.058, -0.449, 1.128, 0.4),
    ("one_way", "split"): Calibration(-0.163, -0.058, -0.449, 1.128, 0.4),
    ("privbayes", "shared"): Calibration(-0.115, 0.047, -0.295, 0.478, 0.4),
}
"""Errors of tables of three columns, by selection method and mode."""
