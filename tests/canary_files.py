"""The files of an audit with canaries: units with all their rows, each in the file by a coin.

A file is a unit of privacy (`Rows`, `Persons`, `Households`, `Panel`) and the columns that its
question needs (`tables`, `statistics`, `regressions`). All rows of a canary have the same codes, so
that it changes an answer by as much as its unit can: k rows of a person, all shares of a household.
The auditor computes what a canary adds from these codes and from the weight of its unit; the
program's own coding, row limits and counters are what is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import household_shares
from dp_core.kernel.document import Word
from dp_core.kernel.privacy import Neighbours, Relation

CANARY = "canary"
"""Column whose levels belong to one canary each."""

Codes = NDArray[np.uint16]


@dataclass(frozen=True)
class Column:
    """A column of the file: its name, its keys in the schema, and the text of each code."""

    name: str
    keys: str
    texts: tuple[str, ...]

    @staticmethod
    def levels(name: str, number: int, *, missing: bool = False) -> Column:
        """Return a category; with `missing`, the last code stands for a missing value."""
        texts = tuple(str(level + 1) for level in range(number))
        keys = f"type: category, levels: [{', '.join(texts)}]"
        if missing:
            return Column(name, f"{keys}, missing: level", (*texts, ""))
        return Column(name, keys, texts)

    @staticmethod
    def whole(name: str, most: int) -> Column:
        """Return a whole number from 0."""
        texts = tuple(map(str, range(most + 1)))
        return Column(name, f"type: integer, min: 0, max: {most}, bins: 4", texts)


@dataclass(frozen=True, eq=False)
class CanaryFile:
    """Public records and canaries.

    Attributes:
        unit: Whose privacy is claimed.
        neighbours: The relation that is claimed.
        columns: The columns.
        public: Codes of the public records, shape (columns, records).
        one: Codes of each canary's rows if its coin is 1, shape (columns, canaries).
        other: Codes of its rows if its coin is 0; None if it is then not in the file (add-remove).
    """

    unit: Unit
    neighbours: Neighbours
    columns: tuple[Column, ...]
    public: Codes
    one: Codes
    other: Codes | None

    @property
    def canaries(self) -> int:
        """Number of canaries."""
        return self.one.shape[1]

    @property
    def domain(self) -> Domain:
        """All columns."""
        names = tuple(column.name for column in self.columns)
        return Domain(names, tuple(len(column.texts) for column in self.columns))

    def present(self, coins: NDArray[np.bool_]) -> tuple[NDArray[np.intp], Codes]:
        """Return which canaries are in the file, and the codes of their rows."""
        if self.other is None:
            (here,) = np.nonzero(coins)
            return here, self.one[:, here]
        return np.arange(self.canaries), np.where(coins, self.one, self.other)

    def texts(self, codes: Codes) -> list[list[str]]:
        """Return records as texts, in the order of the columns."""
        return [
            [column.texts[code] for column, code in zip(self.columns, record, strict=True)]
            for record in codes.T.tolist()
        ]


# -- units


class Unit(Protocol):
    """Whose privacy a release claims: how its rows are written, and how far they move a count."""

    @property
    def word(self) -> Word:
        """The unit of the account."""

    @property
    def shares(self) -> int:
        """Shares of a unit, in which counts are."""

    @property
    def weight(self) -> int:
        """How far the rows of a canary move the count of their cell, in shares."""

    def relation(self, neighbours: Neighbours) -> Relation:
        """Return the relation of a release."""

    def data(self) -> str:
        """Return the key `data` of a spec."""

    def schema(self, columns: Sequence[Column]) -> str:
        """Return the schema but for its title and size."""

    def write(self, folder: Path, file: CanaryFile, coins: NDArray[np.bool_]) -> None:
        """Write the data files."""

    def records(self, file: CanaryFile) -> tuple[Codes, NDArray[np.int64]]:
        """Return the codes of the public records, and their weights in shares."""

    def column(self, name: str) -> str | None:
        """Return the column of the file that a column of the release holds; None for neither."""


@dataclass(frozen=True)
class Persons:
    """Persons with several rows; `Persons(1)` are rows.

    Attributes:
        max_rows: Most rows of a person, which a canary has.
        above: Rows of a canary above the limit, which the program must not count.
    """

    max_rows: int
    above: int = 0
    shares = 1

    @property
    def word(self) -> Word:
        return "person" if self.max_rows > 1 else "row"

    @property
    def weight(self) -> int:
        return self.max_rows

    def relation(self, neighbours: Neighbours) -> Relation:
        return Relation(neighbours, self.max_rows)

    def data(self) -> str:
        return "rows.csv"

    def schema(self, columns: Sequence[Column]) -> str:
        one = self.max_rows == 1
        unit = "row" if one else f"{{column: person, max_rows: {self.max_rows}}}"
        return f"unit: {unit}\n{'ignore: [person]' if one else ''}\n{_columns(columns)}"

    def write(self, folder: Path, file: CanaryFile, coins: NDArray[np.bool_]) -> None:
        here, codes = file.present(coins)
        lines = [
            [f"public{number}", *record] for number, record in enumerate(file.texts(file.public))
        ]
        for number, record in zip(here, file.texts(codes), strict=True):
            lines += [[f"canary{number}", *record]] * (self.max_rows + self.above)
        _write(folder / "rows.csv", ["person", *_names(file.columns)], lines)

    def records(self, file: CanaryFile) -> tuple[Codes, NDArray[np.int64]]:
        return file.public, np.ones(file.public.shape[1], np.int64)

    def column(self, name: str) -> str | None:
        return name


@dataclass(frozen=True)
class Households:
    """Households; the first column is theirs, and the second, of two levels, their members'.

    A public household has two members of different levels, a canary as many equal ones as allowed.

    Attributes:
        max_members: Most members of a household.
        above: Members of a canary above the limit.
    """

    max_members: int
    above: int = 0
    word: Word = "household"

    @property
    def shares(self) -> int:
        return household_shares(self.max_members)

    @property
    def weight(self) -> int:
        return self.shares

    def relation(self, neighbours: Neighbours) -> Relation:
        return Relation(neighbours, shares=self.shares)

    def data(self) -> str:
        return "{homes: homes.csv, people: people.csv}"

    def schema(self, columns: Sequence[Column]) -> str:
        home, own = (f"columns: {{{each.name}: {{{each.keys}}}}}" for each in columns)
        limits = f"min_members: 1, max_members: {self.max_members}, larger: clip"
        return (
            f"unit: {{table: homes, {limits}}}\ntables:\n  homes: {{key: home, {home}}}\n"
            f"  people: {{key: nr, parent: homes, link: home_id, {own}}}\n"
        )

    def write(self, folder: Path, file: CanaryFile, coins: NDArray[np.bool_]) -> None:
        here, codes = file.present(coins)
        homes, people = [], []
        for number, (home, _) in enumerate(file.texts(file.public)):
            homes.append([f"public{number}", home])
            people += [[f"public{number}", "1", "1"], [f"public{number}", "2", "2"]]
        for number, (home, own) in zip(here, file.texts(codes), strict=True):
            homes.append([f"canary{number}", home])
            members = range(self.max_members + self.above)
            people += [[f"canary{number}", str(member), own] for member in members]
        names = _names(file.columns)
        _write(folder / "homes.csv", ["home", names[0]], homes)
        _write(folder / "people.csv", ["home_id", "nr", names[1]], people)

    def records(self, file: CanaryFile) -> tuple[Codes, NDArray[np.int64]]:
        codes = np.repeat(file.public, 2, axis=1)
        codes[1] = np.tile([0, 1], file.public.shape[1])
        return codes, np.full(codes.shape[1], self.shares // 2)

    def column(self, name: str) -> str | None:
        return name


@dataclass(frozen=True)
class Panel:
    """Persons of a panel of two waves; all columns but the first vary, and are constant here.

    Attributes:
        above: Rows of a canary in each wave beyond the one that is kept.
    """

    above: int = 0
    word: Word = "person"
    shares = 1
    weight = 1

    def relation(self, neighbours: Neighbours) -> Relation:
        return Relation(neighbours)

    def data(self) -> str:
        return "rows.csv"

    def schema(self, columns: Sequence[Column]) -> str:
        first = Column(columns[0].name, f"{columns[0].keys}, constant: true", columns[0].texts)
        panel = "{person: person, waves: [2023, 2024], wave: year, repeated: keep_one}"
        return f"panel: {panel}\n{_columns([first, *columns[1:]])}"

    def write(self, folder: Path, file: CanaryFile, coins: NDArray[np.bool_]) -> None:
        here, codes = file.present(coins)
        lines = []
        for number, record in enumerate(file.texts(file.public)):
            lines += [[f"public{number}", year, *record] for year in ("2023", "2024")]
        for number, record in zip(here, file.texts(codes), strict=True):
            for year in ("2023", "2024"):
                lines += [[f"canary{number}", year, *record]] * (1 + self.above)
        _write(folder / "rows.csv", ["person", "year", *_names(file.columns)], lines)

    def records(self, file: CanaryFile) -> tuple[Codes, NDArray[np.int64]]:
        return file.public, np.ones(file.public.shape[1], np.int64)

    def column(self, name: str) -> str | None:
        return None if name.startswith("in_") else name.removesuffix("_2023").removesuffix("_2024")


ROWS = Persons(1)


def _columns(columns: Sequence[Column]) -> str:
    lines = [f"  {column.name}: {{{column.keys}}}\n" for column in columns]
    return f"columns:\n{''.join(lines)}"


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _write(path: Path, names: list[str], lines: list[list[str]]) -> None:
    path.write_text("".join(f"{','.join(line)}\n" for line in (names, *lines)))


# -- the columns that a question needs


def table_file(
    canaries: int, *, unit: Unit = ROWS, neighbours: Neighbours = "add-remove", public: int = 1
) -> CanaryFile:
    """Return a file for tables: a level for each canary (two under replace-one), and one column.

    Args:
        canaries: Number of canaries.
        unit: Whose privacy is claimed.
        neighbours: The relation that is claimed.
        public: Number of public records in each cell where a canary may be.
    """
    width = 1 if neighbours == "add-remove" else 2
    # Scattered, so that the columns depend on one another and a method measures their tables.
    small = np.random.default_rng(1).integers(0, 2, canaries * width)
    codes = np.array([np.arange(canaries * width), small]).astype(np.uint16)
    columns = (Column.levels(CANARY, canaries * width), Column.levels("small", 2))
    return _file(unit, neighbours, columns, np.repeat(codes, public, axis=1), codes)


MOST_VALUE = 63
"""Largest value of the column that means, medians and regressions are about."""


def statistics_file(
    canaries: int, *, unit: Unit, neighbours: Neighbours = "add-remove"
) -> CanaryFile:
    """Return a file for means and medians: each canary has a group (two under replace-one).

    A canary's rows have the largest value. Each group has a public record of a small one.
    """
    width = 1 if neighbours == "add-remove" else 2
    groups = np.arange(canaries * width)
    columns = (Column.levels(CANARY, canaries * width), Column.whole("value", MOST_VALUE))
    public = np.array([groups, np.full(len(groups), 5)]).astype(np.uint16)
    codes = np.array([groups, np.full(len(groups), MOST_VALUE)]).astype(np.uint16)
    return _file(unit, neighbours, columns, public, codes)


def regression_file(
    levels: int,
    *,
    columns: int,
    unit: Unit,
    neighbours: Neighbours = "add-remove",
    public: int = 40,
) -> CanaryFile:
    """Return a file for regressions of a number on a column of many levels, one regression each.

    A canary has a value in one of these columns only, so it is in one regression only. There it
    has a level for itself (two under replace-one), and the largest value of the number.

    Args:
        levels: Levels of each column.
        columns: Number of columns, and of regressions.
        unit: Whose privacy is claimed.
        neighbours: The relation that is claimed.
        public: Number of public records of each level.
    """
    width = 1 if neighbours == "add-remove" else 2
    rng = np.random.default_rng(2)
    used = levels // width * width

    def records(times: int, values: NDArray[np.int64], each: int) -> Codes:
        codes = np.full((columns + 1, columns * each * times), levels, dtype=np.uint16)
        places = np.arange(codes.shape[1])
        codes[places // (each * times), places] = places // times % each
        codes[-1] = values
        return codes

    number = columns * levels * public
    middle = rng.integers(MOST_VALUE // 3, 2 * MOST_VALUE // 3, number)
    own = records(1, np.full(columns * used, MOST_VALUE), used)
    names = [Column.levels(f"group{place + 1}", levels, missing=True) for place in range(columns)]
    columns_of = (*names, Column.whole("value", MOST_VALUE))
    return _file(unit, neighbours, columns_of, records(public, middle, levels), own)


def _file(
    unit: Unit, neighbours: Neighbours, columns: tuple[Column, ...], public: Codes, own: Codes
) -> CanaryFile:
    """Return a file whose canaries have one record of `own` each, or two under replace-one."""
    if neighbours == "add-remove":
        return CanaryFile(unit, neighbours, columns, public, own, None)
    return CanaryFile(unit, neighbours, columns, public, own[:, ::2], own[:, 1::2])
