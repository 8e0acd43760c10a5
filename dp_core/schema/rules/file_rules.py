"""The rules by which rows of a file become codes, read from the kernel's document.

What reads a file on the confidential side takes every rule from here: how a cell is coded, which
rows make a unit, how many of them count, and what is settled between columns. The `Schema` of the
process has no say in it, so a fault in it changes nothing that is counted. The code store holds
`FileRules.hash`, and a release reads no store with another one.

The rules about rows stand in the document as

    {"impossible": [{"text", "columns", "codes"}], "between": [{"text", "key", "columns", "clauses",
     "units"}], "nested": null, or {"columns", "parents"},
     "members": [{"text", "columns", "codes", "least", "most"}]}

They settle or refuse a row by that row alone. The kernel binds them by the document's hash, and
`check_rules` checks that they are about the columns and codes of the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, fields
from fractions import Fraction
from typing import Any, TypeAlias, cast

from dp_core.kernel.coding.coding_rule import CodingRule, coding_rule
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.document import (
    ProtectedUnit,
    are_codes,
    file_hash,
    protected_unit,
    wrong_document,
)
from dp_core.schema.compiled import file_document
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.schema.panel.panel_waves import Panel
from dp_core.schema.rules.column_rules import CONDITIONS, ColumnRule, Condition, Units
from dp_core.schema.rules.row_rules import Between, Impossible, RowRule, Within
from dp_core.schema.structure.member_rules import MemberRule
from dp_core.schema.structure.structural_zeros import Rule
from dp_core.tables.cliques import nestings
from dp_core.tables.nested_columns import NestedColumns


@dataclass(frozen=True, slots=True)
class DependentRule:
    """A column that follows from another; see `dp_core.schema.definition.DependentColumn`.

    Attributes:
        column: Rule by which the file's values are coded, to compare them.
        source: Name of the column from which it follows.
        codes: Its code for each code of the source, or for each part between the cuts.
        cuts: Values of the source at which a new part begins; empty if its codes decide.
    """

    column: CodingRule
    source: str
    codes: tuple[int, ...]
    cuts: tuple[Fraction, ...]


@dataclass(frozen=True, eq=False, repr=False)
class FileRules:
    """The rules by which rows of a file become codes. Public.

    All of them are read from one document, and none can be exchanged alone.

    Args:
        document: The kernel's document, or its part that `file_document` returns.

    Attributes:
        hash: SHA-256 of the part of the document by which files are coded, in hexadecimal.
        unit: Who is protected.
        columns: The rule of each column of the domain.
        dependents: Columns that follow from others, each after its source.
        domain: Names of the columns, and numbers of codes.
        linked: The two tables of households and persons; None for a single table.
        panel: The waves, if a record has all waves of a person; otherwise None.
        between: Rules that compare columns.
        row_rules: All rules about rows, in the order in which they are settled.
    """

    document: InitVar[Mapping[str, Any]]
    hash: str = field(init=False)
    unit: ProtectedUnit = field(init=False)
    columns: tuple[CodingRule, ...] = field(init=False)
    dependents: tuple[DependentRule, ...] = field(init=False)
    domain: Domain = field(init=False)
    linked: LinkedTables | None = field(init=False)
    panel: Panel | None = field(init=False)
    between: tuple[ColumnRule, ...] = field(init=False)
    row_rules: tuple[RowRule[Any], ...] = field(init=False)

    def __post_init__(self, document: Mapping[str, Any]) -> None:
        columns = tuple(map(coding_rule, document["columns"]))
        names, sizes = tuple(one.name for one in columns), tuple(one.codes for one in columns)
        stated, records = document["rules"], document["records"]
        check_rules(stated, dict(zip(names, sizes, strict=True)))
        linked = None
        if records["of"] == "households":
            members = tuple(MemberRule(**_fields(each)) for each in stated["members"])
            linked = LinkedTables(**_fields(records), rules=members)
        nested = None if stated["nested"] is None else NestedColumns(**_fields(stated["nested"]))
        between = tuple(map(_between, stated["between"]))
        found = {
            "hash": file_hash(document),
            "unit": protected_unit(document["unit"]),
            "columns": columns,
            "dependents": tuple(map(_dependent, document["dependents"])),
            "domain": Domain(names, sizes, None if linked is None else linked.wide, nested),
            "linked": linked,
            "panel": Panel(**_fields(records)) if records["of"] == "panel" else None,
            "between": between,
            "row_rules": (
                *(Impossible(Rule(**_fields(each))) for each in stated["impossible"]),
                *map(Between, between),
                *map(Within, nestings(nested)),
            ),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns that are read: coded, dependent, and the unit's identifier."""
        dependent = (each.column.name for each in self.dependents)
        unit = () if self.unit.column is None else (self.unit.column,)
        return (*self.domain.columns, *dependent, *unit)

    def column(self, name: str) -> CodingRule:
        """Return the rule of a column, which may be dependent.

        Raises:
            KeyError: if there is none.
        """
        for each in (*self.columns, *(one.column for one in self.dependents)):
            if each.name == name:
                return each
        raise KeyError(name)


Rules: TypeAlias = Schema | FileRules
"""Rules of a checked document, or a schema that no release reserved, which is then compiled."""


def file_rules(schema: Rules) -> FileRules:
    """Return the rules of a schema in its own codes; rules are returned as they are."""
    return schema if isinstance(schema, FileRules) else FileRules(file_document(schema))


def _dependent(values: Mapping[str, Any]) -> DependentRule:
    cuts = tuple(map(Fraction, values["cuts"]))
    codes = tuple(values["codes"])
    return DependentRule(coding_rule(values["column"]), values["source"], codes, cuts)


def _between(values: Mapping[str, Any]) -> ColumnRule:
    return ColumnRule(
        text=values["text"],
        key=values["key"],
        columns=tuple(values["columns"]),
        clauses=tuple(tuple(map(_condition, clause)) for clause in values["clauses"]),
        units=tuple(
            Units(each["column"], each["decimals"], tuple(map(Fraction, each["edges"])))
            for each in values["units"]
        ),
    )


def _condition(values: Mapping[str, Any]) -> Condition:
    return CONDITIONS[values["kind"]](**_fields(values))


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values as the fields of an object, without the word for its kind."""
    return {name: _copied(value) for name, value in values.items() if name not in ("of", "kind")}


def _copied(value: Any) -> Any:
    """Return lists as tuples, and a copy of objects."""
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return tuple(map(_copied, value)) if isinstance(value, list) else value


_RULES: Mapping[str, tuple[str, ...]] = {
    "impossible": ("codes",),
    "between": ("key", "clauses", "units"),
    "members": ("codes", "least", "most"),
}


def check_rules(rules: Any, sizes: Mapping[str, int]) -> None:
    """Raise BadInput unless rules are about columns, and about codes that these have.

    Args:
        rules: `rules` of a document.
        sizes: Number of codes of each column.
    """
    try:
        _check_rules(rules, sizes)
    except (TypeError, ValueError, LookupError, AttributeError):  # a value of another type
        raise wrong_document("rules") from None


def _check_rules(rules: Any, sizes: Mapping[str, int]) -> None:
    _need({*rules} == {*_RULES, "nested"}, "rules")
    for kind, keys in _RULES.items():
        for rule in rules[kind]:
            where = f"rules.{kind}"
            _need({*rule} == {"text", "columns", *keys}, where)
            _need({*rule["columns"]} <= {*sizes}, where)
            if kind == "between":
                _check_clauses(rule, sizes)
            else:
                _check_codes(where, rule["columns"], rule["codes"], sizes)
    if (nested := rules["nested"]) is not None:
        _need({*nested} == {"columns", "parents"}, "rules.nested")
        names, parents = nested["columns"], nested["parents"]
        _check_codes("rules.nested", names[:-1], parents, sizes)
        _need([*map(len, parents)] == [sizes[name] for name in names[1:]], "rules.nested")


def _check_clauses(rule: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Raise unless a rule between columns has conditions of known kinds."""
    where = "rules.between"
    for condition in (each for clause in rule["clauses"] for each in clause):
        own = (each.name for each in fields(cast(Any, CONDITIONS[condition["kind"]])))
        _need({*condition} == {"kind", *own}, where)
        terms = condition.get("terms") or [[condition["column"], 1]]
        _need(all(name in sizes and type(factor) is int for name, factor in terms), where)
        if condition["kind"] == "among":
            _check_codes(where, [condition["column"]], [condition["codes"]], sizes)
    for units in rule["units"]:
        _need({*units} == {"column", "decimals", "edges"} and units["column"] in sizes, where)
        _need(type(units["decimals"]) is int, where)
        edges = [Fraction(edge) for edge in units["edges"]]
        _need(edges == sorted(edges), where)


def _check_codes(
    where: str, names: Sequence[str], codes: Sequence[Any], sizes: Mapping[str, int]
) -> None:
    """Raise unless there are codes of each of some columns."""
    pairs = zip(names, codes, strict=True)
    _need(all(are_codes(own, sizes[name]) for name, own in pairs), where)


def _need(right: bool, key: str) -> None:
    if not right:
        raise wrong_document(key)
