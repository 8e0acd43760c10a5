"""The schema: public knowledge about the file, as immutable objects.

Parsing, and every message about a mistake, is in `dp_core.schema.reading.schema_file`; the
translation between raw values and codes is in `dp_core.confidential.encoding`.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dp_core.schema.bin_pieces import Pieces
from dp_core.schema.code_list import CodeList, Grouping
from dp_core.schema.privacy import UnitWord
from dp_core.schema.publication import UNSTATED, Publication
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros

Kind = Literal["category", "ordinal", "integer", "number", "date"]
Missing = Literal["reject", "level"]
OutOfRange = Literal["reject", "clip", "missing"]
Role = Literal["", "weight"]
MISSING_LABEL = "(missing)"


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a category or ordinal: the file's exact text and its label."""

    text: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a release chooses privately about a column: bin edges, or the levels to keep.

    The number of codes is public; the paying stage `domain` chooses which ones they are.

    Attributes:
        among: The column as the file is stored: positions of a fine public grid, or all levels.
        groups: Levels only: the groups; each is a code for its levels that are not kept.
        group_of: Levels only: for each level of `among`, the index of its group in `groups`.
        codes: The choice, ascending: cuts between positions, or levels to keep; None before it.
        pieces: Bins only: the distribution of values within the chosen bins.
    """

    among: Column
    groups: tuple[str, ...] = ()
    group_of: tuple[int, ...] = ()
    codes: tuple[int, ...] | None = None
    pieces: Pieces = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the file.

    Attributes:
        name: As in the file's header.
        kind: Type word of the schema.
        levels: Category and ordinal: code `k` is `levels[k]`.
        edges: Integer, number and date: bin `k` holds `edges[k] <= value < edges[k + 1]`; the last
            bin of a number also holds the upper end. Dates count days (proleptic ordinal).
        minimum, maximum: Smallest and largest legal value (date: day ordinals).
        decimals: Number: digits after the point in the synthetic file, None for full precision.
        missing: Whether a missing value is refused or is a level of its own (the last code).
        missing_values: Texts of the file that mean missing.
        out_of_range: What happens to a value outside the schema.
        description: For the codebook.
        stands_for: Category and ordinal: for each level, the texts of the file that become it;
            empty if each level is its own text only.
        codes: Public code list of the levels; None if the levels were listed.
        grouping: Rule that groups the codes into levels; None if each code is a level.
        format: Date: format of the file's texts, such as `%d.%m.%Y`; empty for `%Y-%m-%d`.
        role: `weight` for the survey weight, which is a number; otherwise empty.
        choice: What is chosen privately, None if everything is public. Before the choice, `levels`
            and `edges` are placeholders of the right length.
    """

    name: str
    kind: Kind
    levels: tuple[Level, ...] = ()
    edges: tuple[Fraction, ...] = ()
    minimum: Fraction | None = None
    maximum: Fraction | None = None
    decimals: int | None = None
    missing: Missing = "reject"
    missing_values: tuple[str, ...] = ("",)
    out_of_range: OutOfRange = "reject"
    description: str = ""
    stands_for: tuple[tuple[str, ...], ...] = ()
    codes: CodeList | None = None
    grouping: Grouping | None = None
    format: str = ""
    role: Role = ""
    choice: Choice | None = None

    def texts(self) -> Mapping[str, int]:
        """Return the level of every text that the file may have."""
        if self.stands_for:
            return {text: at for at, texts in enumerate(self.stands_for) for text in texts}
        return {level.text: at for at, level in enumerate(self.levels)}

    @property
    def stored(self) -> Column:
        """The column by whose codes the confidential file is stored."""
        return self if self.choice is None else self.choice.among

    @property
    def unknown(self) -> bool:
        """Whether a private choice is still to be made."""
        return self.choice is not None and self.choice.codes is None

    @property
    def bins(self) -> int:
        """Number of codes without the one for missing."""
        return len(self.levels) if self.levels else len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.bins + (self.missing == "level")

    @property
    def missing_code(self) -> int | None:
        """Code of a missing value, None if missing is refused."""
        return self.bins if self.missing == "level" else None

    def code_labels(self) -> tuple[str, ...]:
        """Return a label for each code, for tables and reports, length `size`."""
        if self.levels:
            names = [level.label for level in self.levels]
        else:
            names = [self._bin_label(code) for code in range(self.bins)]
        return (*names, MISSING_LABEL) if self.missing == "level" else tuple(names)

    def _bin_label(self, code: int) -> str:
        low, high = self.edges[code], self.edges[code + 1]
        if self.kind == "number":
            last = code == self.bins - 1
            return f"[{_decimal(low)}, {_decimal(high)}{']' if last else ')'}"
        first, final = int(low), int(high) - 1
        texts = [_day(first), _day(final)] if self.kind == "date" else [str(first), str(final)]
        return texts[0] if first == final else f"{texts[0]} to {texts[1]}"


@dataclass(frozen=True, slots=True)
class Group:
    """Levels that belong together by the hierarchy of their code list.

    Attributes:
        text, label: Code and label of the group.
        members: Codes of its levels, ascending.
    """

    text: str
    label: str
    members: tuple[int, ...]


def groups_of(column: Column, depth: int = 1) -> tuple[Group, ...]:
    """Return the groups of a column's levels by the hierarchy of its code list.

    Every level is in one group, in the order of the levels; a level at that depth or above is a
    group by itself. Without a code list, each level is a group.

    Args:
        column: A category or ordinal.
        depth: Depth of the groups in the list; 1 is the top.
    """
    labels = {level.text: level.label for level in column.levels}
    lines: Mapping[str, list[str]] = {}
    if column.codes is not None:
        labels = {code.text: code.label for code in column.codes.codes} | labels
        lines = column.codes.lines()
    members: dict[str, list[int]] = {}
    for code, level in enumerate(column.levels):
        line = lines.get(level.text, [level.text])
        members.setdefault(line[-min(depth, len(line))], []).append(code)
    return tuple(Group(text, labels[text], tuple(codes)) for text, codes in members.items())


def _day(ordinal: int) -> str:
    return datetime.date.fromordinal(ordinal).isoformat()


def _decimal(value: Fraction) -> str:
    return f"{float(value):.10g}"


@dataclass(frozen=True, slots=True)
class Unit:
    """Who is protected.

    Attributes:
        column: Column that identifies persons and is not synthesised; None if a row is the unit.
        max_rows: Most rows of a person; further rows are dropped before anything is counted.
        missing_values: Texts that are not identifiers.
    """

    column: str | None = None
    max_rows: int = 1
    missing_values: tuple[str, ...] = ("",)

    @property
    def word(self) -> UnitWord:
        """The unit as receipts and statements have it."""
        return "row" if self.column is None else "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentColumn:
    """A column whose value follows from another's by public rule; nothing is measured for it.

    Attributes:
        column: A category or ordinal; never one of the domain. Whatever its `out_of_range` says
            but `reject` means that the value which follows replaces the file's.
        source: Name of the column that it follows: one of the domain, or a dependent column itself.
        codes: Its code for each code of the source as the schema was written; where there are
            cuts, for each part between them, and last for missing.
        cuts: Of an integer, number or date: bin edges of the source where the next part begins
            (dates: day ordinals).
    """

    column: Column
    source: str
    codes: tuple[int, ...]
    cuts: tuple[Fraction, ...] = ()


@dataclass(frozen=True, slots=True)
class Margin:
    """Public totals of the survey weights, by levels of some columns.

    Attributes:
        columns: Categories and ordinals, dependent columns among them; none: one total of all rows.
        totals: Codes of the columns, and the total of the weights of rows that have these. Rows
            that have others (missing where no total is stated for it) are not bound.
    """

    columns: Clique
    totals: tuple[tuple[tuple[int, ...], Fraction], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Everything public about the file.

    Attributes:
        title: For the report.
        rows_about: Public guess of the number of rows; None: noise is stated in counts only.
        columns: Those that are modelled: the domain, in the schema's order. What is released is
            `released`.
        ignore: Columns of the file that are neither read nor released.
        zeros: Combinations that cannot occur, in codes.
        document: The schema as it was read, for the statement and its hash.
        description: For the report.
        unit: Who is protected.
        publication: Who publishes the releases and under which terms.
        coarse: The schema as it was written, where `columns` and `zeros` have numbers on a grid.
        dependent columns: Columns that follow from others, each after what it follows.
        calibration: Public totals to which the weights of every synthetic set are raked.
        order: Names of all released columns, in the schema's order; empty: those of `columns`.
    """

    title: str
    columns: tuple[Column, ...]
    rows_about: int | None = None
    ignore: tuple[str, ...] = ()
    zeros: StructuralZeros
    document: Mapping[str, object]
    description: str = ""
    unit: Unit = Unit()
    publication: Publication = UNSTATED
    coarse: Schema | None = None
    dependents: tuple[DependentColumn, ...] = ()
    order: tuple[str, ...] = ()
    calibration: tuple[Margin, ...] = ()

    @property
    def weight(self) -> Column | None:
        """The column of survey weights, if there is one."""
        return next((column for column in self.columns if column.role == "weight"), None)

    @property
    def released(self) -> tuple[Column, ...]:
        """Every column of the synthetic sets, in the schema's order."""
        if not self.dependents:
            return self.columns
        named = {column.name: column for column in self._all()}
        return tuple(named[name] for name in self.order)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the released columns, in the schema's order."""
        return tuple(column.name for column in self.released)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that are read: modelled, dependent, and the unit's identifier."""
        unit = () if self.unit.column is None else (self.unit.column,)
        return (*(column.name for column in self._all()), *unit)

    @property
    def checked(self) -> tuple[Column, ...]:
        """Columns whose own values can stop a release.

        Not those dependent columns whose values are replaced whatever they are.
        """
        return tuple(
            column
            for column in self._all()
            if column.name in self.domain.columns or column.out_of_range == "reject"
        )

    @property
    def domain(self) -> Domain:
        """Columns and numbers of codes."""
        return Domain(
            tuple(column.name for column in self.columns),
            tuple(column.size for column in self.columns),
        )

    @property
    def stored(self) -> Schema:
        """The schema by whose codes the confidential file is stored; itself if nothing is private.

        What is chosen privately among these codes is in no structural zero.
        """
        if not self.private:
            return self
        return dataclasses.replace(self, columns=tuple(column.stored for column in self.columns))

    @property
    def private(self) -> tuple[Column, ...]:
        """Columns of which bins or levels are chosen privately, as a person thinks of them."""
        return tuple(c for c in (self.coarse or self).columns if c.choice is not None)

    def column(self, name: str) -> Column:
        """Return the column of that name.

        Raises:
            KeyError: if there is none.
        """
        for column in self._all():
            if column.name == name:
                return column
        raise KeyError(name)

    def _all(self) -> tuple[Column, ...]:
        return (*self.columns, *(dependent.column for dependent in self.dependents))
