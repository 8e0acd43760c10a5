"""Generated files by units of privacy, and their neighbours: what the audit compares."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from dp_core.kernel.codes import Codes
from dp_core.kernel.privacy import Relation

UnitT = TypeVar("UnitT")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring files, as codes.

    Attributes:
        name: What the files are, for people.
        one, other: For each unit of privacy its rows, shape (rows, columns).
    """

    name: str
    one: tuple[Codes, ...]
    other: tuple[Codes, ...]


class BrokenCoding(Exception):
    """Two files that differ in one unit became codes that are no neighbours."""


def stored_columns(columns: Mapping[str, Sequence[str]]) -> dict[str, pa.Array]:
    """Return texts as programs store them that choose a column's type from all its rows.

    Whole numbers are integers, but floats if a value of the file is missing; other numbers are
    floats, in 32 bits if all of them stay nearly the same. A column with any other text is stored
    as texts.

    Args:
        columns: Texts of each column, empty for missing.
    """
    missing = any("" in texts for texts in columns.values())
    found: dict[str, pa.Array] = {}
    for name, texts in columns.items():
        array = pa.array(texts, pa.string())
        stated = [text for text in texts if text]
        if stated and all(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) for text in stated):
            whole = not missing and not any("." in text for text in stated)
            numbers = [(int if whole else float)(text) if text else None for text in texts]
            array = pa.array(numbers, pa.int64() if whole else pa.float64())
            exact = np.array(stated, np.float64)
            fractions = any("." in text for text in stated)
            if fractions and np.allclose(exact.astype(np.float32), exact, rtol=0, atol=5e-4):
                array = pa.array(numbers, pa.float32())
        found[name] = array
    return found


class NeighbourFiles(ABC, Generic[UnitT]):
    """Base class of generated files, coded as the stages of a release code them.

    Attributes:
        named: Units of each file, by its name.
    """

    named: Mapping[str, tuple[UnitT, ...]]
    _relation: Relation

    @abstractmethod
    def code(self, units: tuple[UnitT, ...], *, first: int = 0) -> tuple[Codes, ...]:
        """Return the codes of a file by unit.

        Args:
            units: The units, as raw values.
            first: Number of the first unit, which identifies it.
        """

    @abstractmethod
    def _units(self) -> Iterator[tuple[str, UnitT]]:
        """Yield units that neighbours have more, or instead of their first, and what they are."""

    @abstractmethod
    def _check_units(self, pair: Pair) -> None:
        """Raise `BrokenCoding` unless each unit has the rows that it should have."""

    def pairs(self, name: str) -> list[Pair]:
        """Return the neighbours of a file.

        Raises:
            BrokenCoding: if the coded files are no neighbours.
        """
        units = self.named[name]
        coded, found = self.code(units), []
        for what, first, other in self._neighbours(units):
            pair = Pair(f"{name}; {what}", coded, self.code(other, first=first))
            self._check_units(pair)
            self._check_neighbours(pair)
            found.append(pair)
        return found

    def _neighbours(self, units: tuple[UnitT, ...]) -> Iterator[tuple[str, int, tuple[UnitT, ...]]]:
        """Yield what differs, the number of the first unit, and the units of each neighbour."""
        adds = self._relation.neighbours == "add-remove"
        for what, unit in self._units():
            if adds:
                yield f"one more: {what}", 0, (*units, unit)
            elif units and unit != units[0]:
                yield f"the first becomes: {what}", 0, (unit, *units[1:])
        if adds and units:
            yield "the first is gone", 1, units[1:]

    def _check_neighbours(self, pair: Pair) -> None:
        """Raise `BrokenCoding` unless the codes differ in one unit only."""
        one, other = list(pair.one), list(pair.other)
        if self._relation.neighbours == "replace-one":
            same = len(one) == len(other)
            shared = list(zip(one[1:], other[1:], strict=False))
        else:
            same = abs(len(one) - len(other)) == 1
            if len(one) > len(other):
                one, other = other, one
                other = other[1:]
            shared = list(zip(one, other, strict=False))
        if not same or not all(np.array_equal(*both) for both in shared):
            raise BrokenCoding(f"{pair.name}: rows of other units became other codes.")
