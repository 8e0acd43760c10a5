"""The constants of `dp_core/plan/forecast/error_calibration.py`, from releases that were made."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.plan.forecast.error_calibration import USUAL_COLUMNS, USUAL_ERROR, Calibration

_DENSE, _TREES = ("auto", "densemarg", "aim"), ("mst", "privbayes")
FAMILIES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (_DENSE, _DENSE),
    (_TREES, _TREES),
    ((*_TREES, "one_way", "fixed"), ("one_way", "fixed")),
)
"""Selections that share everything but their bias, and those of them that get these constants. The
planned tables of the last family leave most of the dependence, so their ranges are wide."""
AIM = 0.92
"""Part of the ranges that contain the error, of files that the constants were not fitted to. Above
nine of ten, because files that nobody saw differ more from one another than those."""
LEAST = 3
"""Cases from which a method and mode get constants."""
_SPREADS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
_TIGHT = 6.0  # ridge of the slopes and of what a kind has besides its selection and mode
_LOOSE = 0.3  # ridge of a selection's and a mode's own bias


@dataclass(frozen=True, slots=True)
class Sample:
    """A release: what theory expected of it, and what it was.

    Attributes:
        file: Its file.
        kind: Selection and mode.
        columns: Number of columns.
        ends: What theory expects, at the least and the largest dependence.
        truth: Mean TVD of its sets.
    """

    file: str
    kind: tuple[str, str]
    columns: int
    ends: tuple[float, float]
    truth: float


def calibrations(samples: Sequence[Sample]) -> dict[tuple[str, str], Calibration]:
    """Return the constants of every kind that has enough cases."""
    found: dict[tuple[str, str], Calibration] = {}
    for family, names in FAMILIES:
        own = [sample for sample in samples if sample.kind[0] in family and sample.truth > 0]
        counts = Counter(sample.kind for sample in own)
        own = [sample for sample in own if counts[sample.kind] >= LEAST]
        if own:
            found |= {kind: each for kind, each in _family(own).items() if kind[0] in names}
    return found


def _family(samples: Sequence[Sample]) -> dict[tuple[str, str], Calibration]:
    kinds = sorted({sample.kind for sample in samples})
    design, ratios = _design(samples, kinds), _ratios(samples)
    fitted = _fit(design, ratios, kinds)
    level, columns = (float(each) for each in fitted[-2:])
    files = np.array([sample.file for sample in samples])
    left = np.zeros(len(samples))
    for file in sorted(set(files)):
        others = files != file
        its = _fit(design[others], ratios[others], kinds)
        left[~others] = np.abs(ratios[~others] - design[~others] @ its)
    ranges = np.array([math.log(sample.ends[1] / sample.ends[0]) for sample in samples])
    best: tuple[float, float, float] | None = None
    for spread in _SPREADS:
        if spread > (1 + level) / 2:
            continue
        width = max(0.0, float(np.quantile(left - spread * ranges, AIM, method="higher")))
        mean = float(np.mean(width + spread * ranges))
        if best is None or mean < best[0]:
            best = mean, width, spread
    assert best is not None
    alone = _design_of_kinds(kinds)
    return {
        kind: Calibration(
            round(float(alone[place] @ fitted[:-2]), 3),
            round(level, 3),
            round(columns, 3),
            round(best[1], 3),
            best[2],
        )
        for place, kind in enumerate(kinds)
    }


def _ratios(samples: Sequence[Sample]) -> NDArray[np.float64]:
    return np.array([math.log(each.truth) - _middle(each) for each in samples])


def _middle(sample: Sample) -> float:
    return (math.log(sample.ends[0]) + math.log(sample.ends[1])) / 2


def _design_of_kinds(kinds: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Return a row for every kind: a constant, its selection, its mode, and itself."""
    names = sorted({name for name, _ in kinds})
    modes = sorted({mode for _, mode in kinds})
    return np.array(
        [
            [
                1.0,
                *(float(kind[0] == name) for name in names),
                *(float(kind[1] == mode) for mode in modes),
                *(float(kind == other) for other in kinds),
            ]
            for kind in kinds
        ]
    )


def _design(samples: Sequence[Sample], kinds: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    of_kind = _design_of_kinds(kinds)
    return np.array(
        [
            [
                *of_kind[kinds.index(each.kind)],
                _middle(each) - math.log(USUAL_ERROR),
                math.log(each.columns / USUAL_COLUMNS),
            ]
            for each in samples
        ]
    )


def _fit(
    design: NDArray[np.float64], ratios: NDArray[np.float64], kinds: Sequence[tuple[str, str]]
) -> NDArray[np.float64]:
    """Return the ridge estimate of all biases and both slopes."""
    names, modes = ({kind[place] for kind in kinds} for place in (0, 1))
    ridge = [
        1e-6,
        *itertools.repeat(_LOOSE, len(names) + len(modes)),
        *itertools.repeat(_TIGHT, len(kinds) + 2),
    ]
    return np.linalg.solve(design.T @ design + np.diag(ridge), design.T @ ratios)


def table(found: dict[tuple[str, str], Calibration]) -> str:
    """Return the text of the table of constants."""
    lines = ["TWO_WAY: Mapping[tuple[str, Mode], Calibration] = {"]
    for kind, each in sorted(found.items()):
        values = ", ".join(str(value) for value in astuple(each))
        lines.append(f'    ("{kind[0]}", "{kind[1]}"): Calibration({values}),')
    lines += ["}", '"""Errors of tables of two columns, by selection method and mode."""', ""]
    return "\n".join(lines)
