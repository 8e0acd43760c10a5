"""The files of the benchmark by name: generated ones, and the two that are measured at the end.

NLTCS and Adult are not in the repository (their conditions differ): they come by path. `auto` has
its constants from the generated files alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.auto_parts.few_cells import KINDS as FEW_KINDS
from benchmarks.auto_parts.few_cells import few_cells, is_few_cells
from benchmarks.auto_parts.generated import GENERATED
from benchmarks.auto_parts.wide import KINDS, is_wide, wide
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain

REAL = ("nltcs", "adult")


@dataclass(frozen=True, slots=True)
class Places:
    """Where files come from.

    Attributes:
        nltcs: 16 columns of 0 and 1 with a header.
        adult: With the columns of the UCI repository; coded as `benchmarks/adult.py` does.
        draw: Which draw of the generated files; constants were set on draw 0.
    """

    nltcs: Path | None = None
    adult: Path | None = None
    draw: int = 0


def names_of(asked: Sequence[str], places: Places) -> list[str]:
    """Return names of files; `generated` and `all` stand for several.

    Raises:
        SystemExit: if there is no such file, or a real one has no path.
    """
    found: list[str] = []
    for name in asked:
        if name == "generated":
            found += GENERATED
        elif name == "all":
            found += [*GENERATED, *(real for real in REAL if getattr(places, real))]
        elif name in GENERATED or is_wide(name) or is_few_cells(name):
            found.append(name)
        elif name not in REAL:
            any_width = (f"{kind}_COLUMNS" for kind in KINDS)
            any_size = (f"{kind}_CELLS_ROWS" for kind in FEW_KINDS)
            known = ", ".join(("generated", "all", *REAL, *GENERATED, *any_width, *any_size))
            raise SystemExit(f"There is no file {name}; known are {known}.")
        elif getattr(places, name) is None:
            raise SystemExit(f"The file {name} is not in the repository: give --{name} PATH.")
        else:
            found.append(name)
    return list(dict.fromkeys(found))


def load(name: str, places: Places) -> Dataset:
    """Return a file as codes."""
    if name in GENERATED:
        return GENERATED[name](places.draw)
    if is_wide(name):
        return wide(name, places.draw)
    if is_few_cells(name):
        return few_cells(name, places.draw)
    path: Path = getattr(places, name)
    if name == "adult":
        from adult import load as load_adult  # beside the script

        return load_adult(path)
    with path.open(encoding="utf-8") as file:
        columns = tuple(file.readline().strip().split(","))
        codes = np.loadtxt(file, delimiter=",", dtype=np.uint16)
    return Dataset(Domain(columns, (2,) * len(columns)), np.ascontiguousarray(codes.T))


def fingerprint(data: Dataset) -> str:
    """Return eight digits that change with the file, so that old results are not taken for new."""
    shape = repr((data.domain.columns, data.domain.sizes)).encode()
    return f"{zlib.crc32(np.ascontiguousarray(data.codes).tobytes(), zlib.crc32(shape)):08x}"


def rows_about(data: Dataset) -> int:
    """Return what a schema would say in `rows_about`: two digits of the number of rows."""
    return int(float(f"{data.rows:.1e}"))
