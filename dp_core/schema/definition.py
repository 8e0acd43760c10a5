"""The schema: public knowledge about the file, as immutable objects.

Parsing, and every message about a mistake, is in `dp_core.schema.reading.schema_file`; the
translation between raw values and codes is in `dp_core.confidential.encoding`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

from dp_core.kernel.coding.problems import Problem, refused_problems
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.kernel.document import A_ROW, ProtectedUnit
from dp_core.schema.bin_pieces import BinPieces, Pieces
from dp_core.schema.code_list import CodeList, Grouping
from dp_core.schema.column_types.column_type import ColumnType, ValueType
from dp_core.schema.column_types.registry import Kind, column_type
from dp_core.schema.expectations.offered import Expectation
from dp_core.schema.linked.linked_tables import NO_MEMBER, LinkedTables
from dp_core.schema.panel.panel_waves import Panel
from dp_core.schema.publication import UNSTATED, Publication
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.schema.structure.households_with_members import codes_with_members
from dp_core.schema.structure.member_rules import MemberRule
from dp_core.schema.structure.public_totals import PublicTotals
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.survey.survey_design import NO_SURVEY, Survey
from dp_core.tables.cliques import Nesting, nestings
from dp_core.tables.nested_columns import NestedColumns

Missing = Literal["reject", "level"]
OutOfRange = Literal["reject", "clip", "missing"]
Role = Literal["", "weight", "stratum", "cluster"]
DensityWord = Literal["fitted", "uniform"]
MISSING_LABEL = "(missing)"


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a category or ordinal.

    Attributes:
        text: Exact text in the file.
        label: Label in the synthetic sets.
    """

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
        drawn: Levels only: whether the sets contain the levels that are not kept, drawn within
            their group, rather than the group itself. Every group then has such a level.
        codes: The chosen codes, ascending: cuts between positions, or levels to keep. None before
            the choice.
        pieces: The distribution of values within the chosen bins; with `drawn`, of levels within
            the groups, by their positions in `among`. Otherwise empty.
    """

    among: Column
    groups: tuple[str, ...] = ()
    group_of: tuple[int, ...] = ()
    drawn: bool = False
    codes: tuple[int, ...] | None = None
    pieces: Pieces = ()

    def level_codes(self) -> tuple[int, ...]:
        """Return the code of each level of `among`: its own if it is kept, or that of its group.

        Raises:
            ValueError: if the levels are not chosen yet.
        """
        if self.codes is None:
            raise ValueError("The levels are not chosen yet.")
        place = {code: number for number, code in enumerate(self.codes)}
        first = len(self.codes)
        return tuple(place.get(code, first + group) for code, group in enumerate(self.group_of))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the file.

    Attributes:
        name: Name in the file's header.
        kind: Type word of the schema.
        levels: Category and ordinal: code `k` is `levels[k]`.
        edges: Integer, number and date: bin `k` holds `edges[k] <= value < edges[k + 1]`; the last
            bin of a number also holds the upper end. Dates count days (proleptic ordinal).
        minimum: Smallest legal value (date: day ordinal); None if `edges` state it.
        maximum: Largest legal value (date: day ordinal); None if `edges` state it.
        decimals: Number: digits after the point in the synthetic file, None for full precision.
        missing: Whether a missing value is refused or is a level of its own (the last code).
        missing_values: Texts of the file that mean missing.
        out_of_range: What happens to a value of the column's type outside the schema.
        description: Description for the codebook.
        stands_for: Category and ordinal: for each level, the texts of the file that become it;
            empty if each level is its own text only.
        codes: Public code list of the levels; None if the levels were listed.
        grouping: Rule that groups the codes into levels; None if each code is a level.
        format: Date: format of the file's texts, such as `%d.%m.%Y`; empty for `%Y-%m-%d`.
        role: `weight` for the survey weight, which is a number; `stratum` and `cluster` for the
            sample design, which are categories or ordinals; otherwise empty.
        choice: Private choice of bins or levels; None if all are public. Before the choice,
            `levels` and `edges` are placeholders of the right length.
        density: Integer, number and date: whether values within public bins follow a density that
            is fitted to the noisy counts of neighbouring bins, or are uniform.
        pieces: The fitted density; None if values are uniform within bins, before the noisy counts
            are known, and for bins that are chosen privately.
        grid: The column on a fine public grid that contains its bin edges, if the file is stored
            so because a declared analysis needs its values; otherwise None.
        nobody: Whether the last code stands for no member: in the wide domain of linked tables, a
            household without members has it in every person column.
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
    density: DensityWord = "fitted"
    pieces: BinPieces | None = None
    grid: Column | None = None
    nobody: bool = False

    @property
    def type(self) -> ColumnType:
        """What all columns of this kind have in common."""
        return column_type(self.kind)

    @property
    def scale(self) -> ValueType:
        """The type of a column with bins.

        Raises:
            TypeError: if the column has levels.
        """
        if isinstance(found := self.type, ValueType):
            return found
        raise TypeError(f"Column {self.name!r} of kind {self.kind} has no edges.")

    def texts(self) -> Mapping[str, int]:
        """Return the index of the level for each text that the file may contain."""
        if self.stands_for:
            return {text: at for at, texts in enumerate(self.stands_for) for text in texts}
        return {level.text: at for at, level in enumerate(self.levels)}

    @property
    def stored(self) -> Column:
        """The column with the codes in which the confidential file is stored."""
        return self.grid or self if self.choice is None else self.choice.among

    @property
    def in_sets(self) -> Column:
        """The column as the synthetic sets have it: with all levels if the others are drawn."""
        return self.choice.among if self.choice is not None and self.choice.drawn else self

    def label_codes(self) -> Mapping[str, int]:
        """Return the code of each label that the sets may have.

        If two levels have the same label, it stands for the first one.
        """
        levels, codes = self.levels, tuple(range(len(self.levels)))
        if self.choice is not None and self.choice.drawn:
            levels, codes = self.choice.among.levels, self.choice.level_codes()
        return {level.label: code for level, code in reversed([*zip(levels, codes, strict=True)])}

    @property
    def unknown(self) -> bool:
        """Whether the column's private choice is not made yet."""
        return self.choice is not None and self.choice.codes is None

    @property
    def within(self) -> BinPieces | None:
        """Distribution of values within bins, public or private; None if it is uniform."""
        if self.levels or self.choice is None or not self.choice.pieces:
            return self.pieces
        starts, weights = zip(*self.choice.pieces, strict=True)
        edges = self.choice.among.edges
        return BinPieces(
            tuple(edges[place] for place in (*starts, self.choice.among.bins)), weights
        )

    @property
    def bins(self) -> int:
        """Number of codes without those for missing and for no member."""
        return len(self.levels) if self.levels else len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.bins + (self.missing == "level") + self.nobody

    @property
    def of_member(self) -> Column:
        """The column of a member: without the code for no member."""
        return dataclasses.replace(self, nobody=False) if self.nobody else self

    @property
    def refuses(self) -> frozenset[Problem]:
        """The problems of values that stop a release; the column's policy settles the others."""
        return refused_problems(self.missing, self.out_of_range)

    @property
    def missing_code(self) -> int | None:
        """Code of a missing value; None if missing values are refused."""
        return self.bins if self.missing == "level" else None

    def code_labels(self) -> tuple[str, ...]:
        """Return a label for each code, for tables and reports, length `size`."""
        if self.levels:
            names = [level.label for level in self.levels]
        else:
            label, last = self.scale.bin_label, self.bins - 1
            names = [
                label(low, high, last=code == last)
                for code, (low, high) in enumerate(pairwise(self.edges))
            ]
        missing = (MISSING_LABEL,) if self.missing == "level" else ()
        return (*names, *missing, *((NO_MEMBER,) if self.nobody else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class DependentColumn:
    """A column that a public rule computes from another column; nothing is measured for it.

    Attributes:
        column: A category or ordinal that is not in the domain. If its `out_of_range` is not
            `reject`, the computed value replaces the file's value.
        source: Name of the column from which it is computed; itself in the domain or dependent.
        codes: Code of this column for each code of the source in the schema as written. With
            `cuts`, for each part between the cuts, and last for a missing value.
        cuts: If the source is an integer, number or date: its bin edges at which a new part begins
            (dates: day ordinals). Empty otherwise.
    """

    column: Column
    source: str
    codes: tuple[int, ...]
    cuts: tuple[Fraction, ...] = ()


@dataclass(frozen=True, slots=True)
class Margin:
    """Public totals of the survey weights, by levels of some columns.

    Attributes:
        columns: Categories and ordinals, which may be dependent; empty for one total of all rows.
        totals: Pairs of codes of the columns and the total weight of the rows with these codes.
            Rows with other codes, such as a missing value without a total, are not constrained.
    """

    columns: Clique
    totals: tuple[tuple[tuple[int, ...], Fraction], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Everything public about the file.

    Attributes:
        title: Title for the report.
        columns: Columns that are modelled (the domain), in the schema's order. `released` has all
            columns that are released.
        rows_about: Public estimate of the number of rows; None if unknown, so that noise is stated
            in counts only.
        ignore: Columns of the file that are neither read nor released.
        zeros: Structural zeros, in codes: those that are stated, and those that follow from rules.
        document: The schema as plain values, for the statement and the hash.
        description: Description for the report.
        unit: Who is protected; a row by default.
        publication: Who publishes the releases and under which terms.
        coarse: The schema as written, if `columns` and `zeros` are on a grid; otherwise None.
        dependents: Dependent columns, each after its source.
        order: Names of all released columns, in the schema's order; empty if these are `columns`.
        calibration: Public totals to which the weights of every synthetic set are raked.
        expectations: The team's own expectations about the file.
        survey: What is stated about the sample design, besides the roles of columns.
        stored_zeros: `zeros` in the codes of `stored`; None if they are the same.
        rules: Rules between columns, which are judged by values, not by codes.
        linked: The two tables of which `columns` are the wide domain; None for a single table.
        nested: Columns that lie within one another; None if there are none.
        totals: Public totals that every synthetic set meets exactly; empty for none.
        panel: Which columns belong to which wave, if a record has all waves of a person; otherwise
            None.
        domain: Names of `columns` and numbers of codes.
    """

    title: str
    columns: tuple[Column, ...]
    rows_about: int | None = None
    ignore: tuple[str, ...] = ()
    zeros: StructuralZeros
    document: Mapping[str, object]
    description: str = ""
    unit: ProtectedUnit = A_ROW
    publication: Publication = UNSTATED
    coarse: Schema | None = None
    dependents: tuple[DependentColumn, ...] = ()
    order: tuple[str, ...] = ()
    calibration: tuple[Margin, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    survey: Survey = NO_SURVEY
    stored_zeros: StructuralZeros | None = None
    rules: tuple[ColumnRule, ...] = ()
    linked: LinkedTables | None = None
    nested: NestedColumns | None = None
    totals: tuple[PublicTotals, ...] = ()
    panel: Panel | None = None
    domain: Domain = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = tuple(column.name for column in self.columns)
        sizes = tuple(column.size for column in self.columns)
        linked = None if self.linked is None else self.linked.wide
        nested = None if self.nested is None else self.nested.among(names)
        object.__setattr__(self, "domain", Domain(names, sizes, linked, nested))

    def __repr__(self) -> str:
        return f"Schema({self.title!r}: {', '.join(self.names)})"

    @property
    def weight(self) -> Column | None:
        """The column of survey weights, if there is one."""
        return self._of_role("weight")

    @property
    def stratum(self) -> Column | None:
        """The column of strata, which may be dependent; None if there is none."""
        return self._of_role("stratum")

    @property
    def cluster(self) -> Column | None:
        """The column of clusters, which may be dependent; None if there is none."""
        return self._of_role("cluster")

    @property
    def has_drawn_tables(self) -> bool:
        """Whether the sets of every mode are made from tables drawn given all noisy ones.

        They are where columns lie within one another, or public totals must be met.
        """
        return self.domain.nested is not None or bool(self.totals)

    @property
    def nestings(self) -> tuple[Nesting, ...]:
        """The rules that a column's level lies in the level of another column."""
        return nestings(self.domain.nested)

    @property
    def states_design(self) -> bool:
        """Whether standard errors by the sample design can be computed from a release."""
        return self.survey.states_design or bool(self.stratum or self.cluster)

    @property
    def released(self) -> tuple[Column, ...]:
        """All columns of the synthetic sets, in the schema's order."""
        if not self.dependents:
            return self.columns
        named = {column.name: column for column in self._all()}
        return tuple(named[name] for name in self.order)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the released columns, in the schema's order."""
        return tuple(column.name for column in self.released)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that are read: modelled, dependent, and the unit's identifier."""
        unit = () if self.unit.column is None else (self.unit.column,)
        return (*(column.name for column in self._all()), *unit)

    @property
    def profiled(self) -> tuple[Column, ...]:
        """Columns whose bounds or distinct values are needed: `checked`, and what a team names."""
        named = {name for own in self.expectations if own.sees == "profile" for name in own.columns}
        checked = {column.name for column in self.checked}
        return tuple(column for column in self._all() if column.name in checked | named)

    @property
    def checked(self) -> tuple[Column, ...]:
        """Columns whose values are checked and can stop a release.

        Dependent columns whose values are always replaced are not among them.
        """
        return tuple(
            column
            for column in self._all()
            if column.name in self.domain.columns or column.out_of_range == "reject"
        )

    @property
    def stored(self) -> Schema:
        """The schema with the codes in which the file is stored; itself if they are its own.

        Its structural zeros are those that are stated, in which no column has a private choice.
        """
        if not self.recoded:
            return self
        zeros = self.zeros if self.stored_zeros is None else self.stored_zeros
        return dataclasses.replace(
            self,
            columns=tuple(column.stored for column in self.columns),
            zeros=StructuralZeros(tuple(rule for rule in zeros.rules if not rule.derived)),
            stored_zeros=None,
        )

    @property
    def recoded(self) -> bool:
        """Whether the file is stored in finer codes than those of the schema."""
        return any(column.stored is not column for column in self.columns)

    @property
    def private(self) -> tuple[Column, ...]:
        """Columns with privately chosen bins or levels, as in the schema as written."""
        return tuple(c for c in (self.coarse or self).columns if c.choice is not None)

    @property
    def member_rules(self) -> tuple[MemberRule, ...]:
        """Rules that count the members of a household; none of a single table."""
        return () if self.linked is None else self.linked.rules

    @property
    def household_schema(self) -> Schema:
        """The schema of the table of households by itself, of a schema of linked tables.

        It has the household columns without `members`, and the rules over these columns alone. Its
        columns have the codes of the wide domain. The key is under `ignore`.

        Raises:
            ValueError: if the schema is of a single table.
        """
        of = self._linked_tables
        ignore = (of.key, *of.household_ignore)
        return self._one_table(of.households, of.household_columns, ignore, self.rows_about)

    @property
    def person_schema(self) -> Schema:
        """The schema of the table of persons by itself, of a schema of linked tables.

        It has the person columns, and the rules over these columns alone. Its columns have the
        codes of the wide domain without the one for no member. The link and the person's key are
        under `ignore`.

        Raises:
            ValueError: if the schema is of a single table.
        """
        of = self._linked_tables
        ignore = (of.link, of.person_key, *of.person_ignore)
        return self._one_table(of.persons, of.person_columns, ignore, None)

    @property
    def with_members(self) -> Schema:
        """The schema of the pair rows of households with members; itself if all have members."""
        kept = codes_with_members(self.domain)
        if self.linked is None or not kept:
            return self
        columns = (column.of_member for column in self.columns)
        return dataclasses.replace(
            self,
            columns=tuple(
                dataclasses.replace(column, minimum=column.edges[1], edges=column.edges[1:])
                if column.name == MEMBERS
                else column
                for column in columns
            ),
            zeros=self.zeros.of_codes(kept),
            linked=dataclasses.replace(self.linked, min_members=1),
        )

    @property
    def _linked_tables(self) -> LinkedTables:
        if self.linked is None:
            raise ValueError("The schema is of a single table.")
        return self.linked

    def _one_table(
        self, table: str, names: Clique, ignore: tuple[str, ...], rows_about: int | None
    ) -> Schema:
        rules = tuple(rule for rule in self.rules if set(rule.columns) <= set(names))
        texts = {rule.text for rule in rules}
        written: Any = dict(self.document)
        definitions = written.pop("tables")[table]["columns"]
        stated = [text for text in written.pop("rules", ()) if text in texts]
        about = written.pop("rows_about", None)
        document = written | {
            "unit": "row",
            **({} if rows_about is None else {"rows_about": about}),
            "columns": definitions,
            "ignore": list(ignore),
            "impossible": [
                rule
                for rule in written["impossible"]
                if {name for condition in rule for name in condition} <= set(names)
            ],
            **({"rules": stated} if stated else {}),
        }
        columns = tuple(self.column(name).of_member for name in names)
        zeros = tuple(rule for rule in self.zeros.rules if set(rule.columns) <= set(names))
        codes = {column.name: range(column.size) for column in columns}
        if not {each.column for each in self.totals} <= set(names):
            document.pop("totals", None)
        return dataclasses.replace(
            self,
            columns=columns,
            rows_about=rows_about,
            ignore=ignore,
            zeros=StructuralZeros(zeros).of_codes(codes),
            document=document,
            unit=A_ROW,
            order=names,
            rules=rules,
            linked=None,
            totals=tuple(each for each in self.totals if each.column in names),
            nested=None if self.nested is None else self.nested.among(names),
        )

    def column(self, name: str) -> Column:
        """Return the column of that name.

        Raises:
            KeyError: if there is none.
        """
        for column in self._all():
            if column.name == name:
                return column
        raise KeyError(name)

    def _of_role(self, role: Role) -> Column | None:
        return next((column for column in self._all() if column.role == role), None)

    def _all(self) -> tuple[Column, ...]:
        return (*self.columns, *(dependent.column for dependent in self.dependents))
