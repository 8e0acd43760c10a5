"""A generated file like the one that the SBHG paper takes from the American Community Survey.

The paper has 200,000 households of 2012 with 35 categorical columns, 1.85e25 cells, and predicts
`FS`, whether a household receives food stamps; which columns it took is not published. Here:

- 35 columns of 2 to 12 levels, 1.8e25 cells;
- a household belongs to one of twelve kinds (such as "retired, owner"), which it is not told;
  in each kind a level of a column has a probability from a Dirichlet distribution whose mean is
  skewed as answers about housing are: level k has a weight of .55^k;
- each column but the first copies, with probability .35, the relative place of the level of the
  column before it, as number of rooms and of bedrooms do;
- `FS` follows a logistic regression on the first eight columns, and is 1 for about an eighth.

It is not the survey: only what depends on size, sparsity and this kind of dependence carries over.
"""

from __future__ import annotations

import numpy as np

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain

SIZES = (
    *(2, 4, 12, 5, 7, 9, 3, 10, 6, 5, 2, 8, 11, 4, 6, 9, 3),
    *(5, 12, 7, 4, 2, 8, 8, 10, 3, 5, 9, 4, 7, 6, 3, 4, 5),
)
KINDS = 12
COPIED = 0.35
SHRINK = 0.55


def census_like(rows: int, seed: int) -> Dataset:
    """Return the file: 34 columns `h1` to `h34`, and `FS`.

    Args:
        rows: Number of households; the paper has 200,000.
        seed: Of the households; the kinds are always the same.
    """
    fixed, rng = np.random.default_rng(2012), np.random.default_rng(seed)
    kinds = rng.choice(KINDS, rows, p=fixed.dirichlet(np.full(KINDS, 3.0)))
    codes = np.empty((len(SIZES) + 1, rows), dtype=np.uint16)
    for column, size in enumerate(SIZES):
        mean = SHRINK ** np.arange(size)
        ends = fixed.dirichlet(4 * mean / mean.sum() + 0.02, KINDS).cumsum(axis=1)
        drawn = (rng.random((rows, 1)) > ends[kinds]).sum(axis=1)
        codes[column] = np.minimum(drawn, size - 1)
        if column:
            copied = rng.random(rows) < COPIED
            before = codes[column - 1, copied].astype(np.int64)
            codes[column, copied] = before * size // SIZES[column - 1]
    places = [codes[column] / (SIZES[column] - 1) for column in range(8)]
    score = np.column_stack(places) @ fixed.normal(0, 2.5, 8)
    # The intercept is of the population, so that a small file has the same regression.
    chance = 1 / (1 + np.exp(-(score + INTERCEPT)))
    codes[-1] = rng.random(rows) < chance
    names = (*(f"h{column + 1}" for column in range(len(SIZES))), "FS")
    return Dataset(Domain(names, (*SIZES, 2)), codes)


INTERCEPT = -5.3
"""Of the regression of `FS`."""
