"""Files whose table of all columns has few cells: seeded, NumPy only, nobody's data.

    trees     each column depends on one of those before it
    close     the same, in nearly every record
    cells     every cell of the joint table has a share of its own

A file is named by its kind, the number of cells and the number of records: `trees_64_1000`. When
`auto` measures the joint table was set on files like draw 0, and tried on draw 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from benchmarks.auto_parts.draws import conditional, dataset, given, skewed
from dp_core.kernel.counting.dataset import Dataset

KINDS = ("trees", "cells", "close")
SIZES: Mapping[int, tuple[int, ...]] = {
    math.prod(sizes): sizes
    for sizes in ((2, 3, 4), (2,) * 6, (5, 6, 8), (2,) * 8, (3, 3, 4, 4, 5), (2, 3) * 4)
}
"""Levels of the columns, by the number of cells: 24, 64, 240, 256, 720 and 1,296."""
_SEED = 300
_STRENGTHS = {"trees": 0.5, "close": 0.95}
"""Part of the records in which a column follows another."""
_UNEVEN = 0.4  # parameter of the Dirichlet distribution of the cells' shares


def is_few_cells(name: str) -> bool:
    """Whether this names a file of this module."""
    kind, _, numbers = name.partition("_")
    cells, _, rows = numbers.partition("_")
    return kind in KINDS and cells.isdecimal() and int(cells) in SIZES and rows.isdecimal()


def few_cells(name: str, draw: int = 0) -> Dataset:
    """Return the file of this name; another draw is another file of the same kind."""
    kind, cells, rows = name.split("_")
    sizes, number = SIZES[int(cells)], int(rows)
    rng = np.random.default_rng([_SEED, draw, KINDS.index(kind), int(cells), number])
    if kind == "cells":
        shares = rng.dirichlet(np.full(int(cells), _UNEVEN))
        codes = rng.choice(int(cells), size=number, p=shares)
        return dataset(list(np.unravel_index(codes, sizes)), sizes)
    columns = [rng.choice(sizes[0], size=number, p=skewed(sizes[0], 0.5, rng))]
    for axis, size in enumerate(sizes[1:], start=1):
        parent = int(rng.integers(0, axis))
        table = conditional(sizes[parent], size, _STRENGTHS[kind], rng)
        columns.append(given(columns[parent], table, rng))
    return dataset(columns, sizes)
