"""Files of any number of columns whose structure is known: seeded, NumPy only, nobody's data.

No constant of `auto` was set on them. All have 50,000 records, and columns of 2 to 20 levels with
uneven shares:

    independent   no column depends on another
    chains        blocks of six columns, each column depending on the one before it
    tree          each column depends on one of the ten before it
    factors       all columns depend on two hidden factors

A file is named by its kind and the number of its columns: `chains_60`.
"""

from __future__ import annotations

import numpy as np

from benchmarks.auto_parts.draws import dataset
from dp_core.kernel.counting.dataset import Dataset

KINDS = ("independent", "chains", "tree", "factors")
ROWS = 50_000
_SEED = 7
_BLOCK = 6
_REACH = 10
"""A column of a tree depends on one of so many before it."""


def is_wide(name: str) -> bool:
    """Whether this names a file of this module."""
    kind, _, columns = name.rpartition("_")
    return kind in KINDS and columns.isdecimal() and int(columns) > 1


def wide(name: str, draw: int = 0) -> Dataset:
    """Return the file of this name; another draw is another file of the same kind."""
    kind, _, columns = name.rpartition("_")
    rng = np.random.default_rng(_SEED + draw)
    sizes = rng.integers(2, 21, int(columns))
    scales = _scales(kind, len(sizes), rng)
    return dataset(
        [_in_levels(scale, int(size), rng) for scale, size in zip(scales, sizes, strict=True)],
        [int(size) for size in sizes],
    )


def _scales(kind: str, columns: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return what lies behind each column: a standard normal number for each record."""
    hidden = rng.normal(size=(2, ROWS))
    scales: list[np.ndarray] = []
    for number in range(columns):
        own = rng.normal(size=ROWS)
        if kind == "chains" and number % _BLOCK:
            own = 0.8 * scales[-1] + 0.6 * own
        elif kind == "tree" and number:
            own = 0.8 * scales[rng.integers(max(0, number - _REACH), number)] + 0.6 * own
        elif kind == "factors":
            part = rng.normal(size=2)
            part *= 0.7 / np.linalg.norm(part)
            own = part @ hidden + np.sqrt(0.51) * own
        scales.append(own)
    return scales


def _in_levels(scale: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return levels of uneven shares that grow with the scale."""
    from scipy.special import ndtr

    shares = np.sort(rng.dirichlet(np.full(size, 2.0)))
    return np.searchsorted(np.cumsum(shares)[:-1], ndtr(scale))
