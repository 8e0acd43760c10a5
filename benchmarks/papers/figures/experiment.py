"""Experiments that give the numbers of figures, divided into settings and blocks of repeats."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

Setting: TypeAlias = Mapping[str, str | int | float]
"""One point of a figure: method, epsilon, file and so on. Its values fit JSON."""

Values: TypeAlias = Mapping[str, Sequence[float]]
"""By metric one figure for each repeat; not a number where a repeat gives none."""


@dataclass(frozen=True, slots=True)
class Context:
    """What all cells of a run share.

    Attributes:
        seed: Seed of data and post-processing. The noise of releases takes no seed.
        data: Folder with the papers' files, or None.
    """

    seed: int = 1
    data: Path | None = None

    def file(self, name: str) -> Path:
        """Return the path of a file of the data folder."""
        if self.data is None:
            raise FileNotFoundError(f"{name} is needed: state its folder with --data.")
        return self.data / name

    def generator(self, *key: object) -> np.random.Generator:
        """Return the generator of a key: the same in every run with this seed."""
        words = [zlib.crc32(str(part).encode()) for part in key]
        return np.random.default_rng([self.seed, *words])


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment, whose results one or several figures show.

    Attributes:
        name: Name of the experiment and of its file of results.
        settings: All settings.
        run: Takes the context, a setting and the numbers of repeats, and returns their values.
            Repeat r has the same data whatever the method and the other repeats are.
        repeats: Number of repeats, unless the command line states another.
        published: Number of repeats in the paper; 0 if it does not say.
        block: Number of repeats in one cell.
        needs: File of the data folder that it needs; empty if none.
    """

    name: str
    settings: tuple[Setting, ...]
    run: Callable[[Context, Setting, range], Values]
    repeats: int
    published: int
    block: int
    needs: str = ""

    def cells(self, context: Context, repeats: int) -> Iterator[Cell]:
        """Return all cells, the first repeats of every setting before the next ones."""
        block = min(self.block, repeats)
        for first in range(0, repeats, block):
            for setting in self.settings:
                yield Cell(self.name, setting, first, block, context.seed)


@dataclass(frozen=True, slots=True)
class Cell:
    """The smallest part of a run: a block of repeats of one setting.

    Attributes:
        experiment: Name of the experiment.
        setting: One of the experiment's settings.
        first: Number of the first repeat.
        repeats: Number of repeats.
        seed: Seed of the context.
    """

    experiment: str
    setting: Setting
    first: int
    repeats: int
    seed: int


def grid(**axes: Sequence[str | int | float]) -> tuple[Setting, ...]:
    """Return a setting for every combination, the last axis fastest."""
    return tuple(
        dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
    )
