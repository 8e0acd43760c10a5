"""Reads the schema of linked tables as a flat one: households, `members`, persons.

The columns of both tables become the columns of one document, which is read like any other. Then
the schema is widened by the columns of another member (`dp_core.schema.linked`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dp_core.errors import BadInput, nearest
from dp_core.kernel.counting.linked_columns import MEMBERS, MOST_MEMBERS, OTHER
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import NO_MEMBER, NO_OTHER, Larger, LinkedTables
from dp_core.schema.linked.member_counts import decided_by_codes, widen_schema
from dp_core.schema.reading.domain_reader import is_private
from dp_core.schema.reading.stated_rules.column_rule_reader import rule_text
from dp_core.schema.reading.stated_rules.rule_reader import (
    counts_members,
    place_of,
    read_member_rule,
)
from dp_core.schema.reading.totals_reader import check_possible
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.schema.structure.member_rules import MemberRule
from dp_core.text.documents.faults import Faults
from dp_core.text.documents.node import Node, one_of
from dp_core.text.documents.typed_text import quote
from dp_core.text.names import MAX_NAME, is_name

TABLES_EXAMPLE = (
    "households: {key: hh_id, columns: {...}} and"
    " persons: {key: person_no, parent: households, link: hh_id, columns: {...}}"
)
UNIT_EXAMPLE = "{table: households, max_members: 10}"
_TABLE_KEYS = ("key", "parent", "link", "columns", "ignore")
_UNIT_KEYS = ("table", "min_members", "max_members", "larger")
_LARGER: tuple[Larger, ...] = ("reject", "clip")
_HOUSEHOLDS_ONLY = "only columns of households can lie within one another; remove `within`."
_NOT_LINKED = {
    "calibrate": "weights are not calibrated in linked tables yet; remove it",
    "survey": "a sample design cannot be stated for linked tables yet; remove it",
    "expectations": "linked tables have no expectations of their own yet; remove it",
}
"""Keys of a schema that linked tables do not have, and why."""
_DESIGN_ROLES = ("weight", "stratum", "cluster", "replicate_weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """One table: the keys of its definition, and its released and its ignored columns."""

    name: str
    keys: Mapping[str, Node]
    columns: Mapping[str, Node]
    ignore: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedTables:
    """Linked tables as they are stated.

    Attributes:
        flat: The document of one table with all columns, to be read like any other.
    """

    flat: Node
    _households: _Table
    _persons: _Table
    _unit: Mapping[str, Any]
    _rules: tuple[Node, ...]

    def widen(self, flat: Schema, faults: Faults) -> Schema:
        """Return the schema of the wide domain.

        Args:
            flat: The schema that was read from `flat`.
            faults: Notes the fault of each rule that counts members.

        Raises:
            BadInput: if a label is reserved, codes do not decide a rule over columns of both tables
                or over `members`, or a rule that counts members is at fault, or all of them
                together leave no household possible.
        """
        homes, persons = self._households, self._persons
        for name, node in persons.columns.items():
            levels = flat.column(name).levels
            for reserved in (NO_MEMBER, NO_OTHER):
                if any(reserved in (level.text, level.label) for level in levels):
                    raise node.error(
                        f"the level {quote(reserved)} is reserved; choose another label."
                    )
        linked = LinkedTables(
            households=homes.name,
            persons=persons.name,
            key=homes.keys["key"].text(),
            link=persons.keys["link"].text(),
            person_key=persons.keys["key"].text(),
            household_columns=tuple(homes.columns),
            person_columns=tuple(persons.columns),
            household_ignore=homes.ignore,
            person_ignore=persons.ignore,
            rules=self._member_rules(flat, faults),
            **self._unit,
        )
        for rule in flat.rules:
            faults.of(None, self._check_rule, rule, flat)
        faults.stop()
        totals = self.flat.entries()["totals"].items() if flat.totals else ()
        places = {each.column: item for each, item in zip(flat.totals, totals, strict=True)}
        for name, item in places.items():
            if name in persons.columns:
                raise item.error(
                    f"{quote(name)} is a column of persons, but totals of linked tables count"
                    " households; name a column of households, or remove this list."
                )
        document: Any = _document(flat.document, linked)
        if self._rules:
            document["rules"] = [rule_text(item) for item in self._rules]
        missing_values = tuple(document["missing_values"])
        counting = [item for item in self._rules if counts_members(item)]
        try:
            wide = widen_schema(flat, linked, missing_values)
        except BadInput:
            # The first rule that leaves no household possible, with those before it, is at fault.
            for number, item in enumerate(counting, start=1):
                try:
                    widen_schema(flat, replace(linked, rules=linked.rules[:number]), missing_values)
                except BadInput as error:
                    raise item.error(error.message) from None
            raise
        if counting and wide.totals:
            check_possible(wide.totals, places, wide)
        return replace(wide, document=document)

    def _member_rules(self, flat: Schema, faults: Faults) -> tuple[MemberRule, ...]:
        """Return the rules that count members."""
        found = [
            faults.of(
                None,
                read_member_rule,
                item,
                flat,
                persons=tuple(self._persons.columns),
                table=self._persons.name,
                max_members=self._unit["max_members"],
            )
            for item in self._rules
            if counts_members(item)
        ]
        faults.stop()
        return tuple(rule for rule in found if rule is not None)

    def _check_rule(self, rule: ColumnRule, flat: Schema) -> None:
        names = {*rule.columns}
        alone = names <= {*self._households.columns} or names <= {*self._persons.columns}
        if not alone and not decided_by_codes(rule, flat):
            raise place_of(rule, self.flat.entries()[rule.key]).error(
                f"`{rule.text}` names columns of both tables, or `members`, so codes alone must"
                " decide it: every value that it compares must be the edge of a bin, and two"
                " columns that it compares must have one bin for each value; state such bins,"
                " or keep the rule to the columns of one table."
            )


def read_tables(root: Node, faults: Faults) -> StatedTables:
    """Return the linked tables of a schema.

    Args:
        root: The document.
        faults: Notes the faults.

    Raises:
        BadInput: if it is not clear which tables there are, so that nothing else can be judged.
    """
    entries = root.entries()
    for key in ("columns", "ignore"):
        if key in entries:
            faults.note(
                entries[key].error("with linked tables, it stands under each table; move it there.")
            )
    for key, why in _NOT_LINKED.items():
        if key in entries:
            faults.note(entries[key].error(f"{why}."))
    tables = faults.of(None, entries["tables"].ordered_entries, example=TABLES_EXAMPLE)
    order = None if tables is None else faults.of(None, _order, entries["tables"], tables)
    if tables is None or order is None:
        faults.stop()
        raise AssertionError("the fault was noted")
    homes = faults.of(None, _read_table, order[0], tables[order[0]], True, faults)
    persons = faults.of(None, _read_table, order[1], tables[order[1]], False, faults)
    unit = faults.of({}, _read_unit, root, entries.get("unit"), *order)
    if homes is None or persons is None:
        faults.stop()
        raise AssertionError("the fault was noted")
    for name, node in homes.columns.items():
        if name in persons.columns:
            faults.bad.add(name)
            faults.note(
                persons.columns[name].error(
                    f"{quote(name)} is also a column of the table {homes.name}; release it from one"
                    " table and put it under `ignore` in the other."
                )
            )
        if node.has("within") and node.entries()["within"].content in persons.columns:
            faults.bad.add(name)
            faults.note(node.entries()["within"].error(_HOUSEHOLDS_ONLY))
    faults.of(None, _check_names, homes, persons)
    # After a fault in the unit, a rule may name any size, so that it is not a second fault.
    least, most = unit.get("min_members", 0), unit.get("max_members", MOST_MEMBERS)
    place = entries.get("unit", entries["tables"])
    size = {"type": "integer", "min": str(least), "max": str(most), "out_of_range": "reject"}
    members = replace(place.stating(size), key=f"columns.{MEMBERS}")
    every = {**homes.columns, MEMBERS: members, **persons.columns}
    columns = {
        name: one for name, one in every.items() if name == MEMBERS or name not in faults.bad
    }
    ignore = [n for n in dict.fromkeys((*homes.ignore, *persons.ignore)) if n not in every]
    flat = {
        key: value for key, value in entries.items() if key not in ("tables", "unit", *_NOT_LINKED)
    }
    flat["columns"] = replace(entries["tables"], content=columns)
    flat["ignore"] = entries["tables"].stating(ignore)
    rules: tuple[Node, ...] = ()
    if "rules" in entries and isinstance(entries["rules"].content, tuple):
        rules = entries["rules"].content
        # The others are read like those of a single table.
        between = tuple(item for item in rules if not counts_members(item))
        flat["rules"] = replace(entries["rules"], content=between)
        if rules and not between:
            del flat["rules"]
    return StatedTables(
        flat=replace(root, content=flat),
        _households=homes,
        _persons=persons,
        _unit=unit,
        _rules=rules,
    )


def _order(node: Node, tables: Mapping[str, Node]) -> tuple[str, str]:
    """Return the names of the table of households and of the table of persons."""
    parents: dict[str, Node | None] = {}
    for name, table in tables.items():
        if not is_name(name):
            raise table.error(
                f"{quote(name)} is not a valid name of a table; use at most {MAX_NAME} letters,"
                " digits, dots, _ and -, and begin with a letter or digit."
            )
        parents[name] = table.entries(example=TABLES_EXAMPLE).get("parent")
    for name, parent in parents.items():
        if parent is None:
            continue
        above = parent.name()
        if above not in tables:
            raise parent.error(f"there is no table {quote(above)}.{nearest(above, tables)}")
        if above == name:
            raise parent.error("a table cannot be its own parent; name the table of households.")
        if parents[above] is not None:
            raise parent.error(
                f"the table {quote(above)} has a parent itself; linked tables have two levels only,"
                " households and persons, so leave the third table out."
            )
    if len(tables) != 2:
        raise node.error(
            "has one table; a single table states its columns under `columns`, without `tables`."
            if len(tables) == 1
            else f"has {len(tables)} tables; linked tables are two, one of households and one of"
            " persons, so leave the others out."
        )
    homes = [name for name, parent in parents.items() if parent is None]
    if len(homes) != 1:
        raise node.error(
            "does not say which table has the persons; give that table `parent` with the name of"
            " the table of households, and `link` with the column that holds the household's key."
        )
    (persons,) = (name for name in tables if name != homes[0])
    return homes[0], persons


def _read_table(name: str, node: Node, is_parent: bool, faults: Faults) -> _Table:
    example = "{key: hh_id, columns: {...}}"
    needs = ("key", "columns") if is_parent else ("key", "link", "columns")
    keys = node.fields(_TABLE_KEYS, required=needs, example=example)
    if is_parent and "link" in keys:
        raise keys["link"].error(
            "only the table of persons has a link; remove it here, or give this table `parent`."
        )
    identify = {key: keys[key].key_column() for key in ("key", "link") if key in keys}
    if not is_parent and identify["key"] == identify["link"]:
        raise keys["key"].error(
            "is also the `link`; name the column that tells the persons of a household apart."
        )
    definitions = keys["columns"].ordered_entries(example="age: {type: integer, min: 0, max: 99}")
    if not definitions:
        raise keys["columns"].error("has no column; add one, such as age: {type: integer, ...}.")
    ids = [column for column, definition in definitions.items() if _role(definition) == "id"]
    columns = {column: each for column, each in definitions.items() if column not in ids}
    ignore = (
        *(keys["ignore"].texts(example="[interview_id]") if "ignore" in keys else ()),
        *(column for column in ids if column not in identify.values()),
    )
    faults.bad |= {
        column
        for column, definition in columns.items()
        if not faults.of(False, _is_sound, column, definition, is_parent)
    }
    for key, column in identify.items():
        if column in columns:
            raise keys[key].error(
                f"{quote(column)} is a key and is not released; remove it from `columns`."
            )
        if column in ignore:
            raise keys[key].error(
                f"{quote(column)} is a key, so it is read; remove it from `ignore`."
            )
    for column in ignore:
        if column in columns:
            raise keys["ignore"].error(
                f"{quote(column)} is also under `columns`; keep it in one of the two places."
            )
    return _Table(name=name, keys=keys, columns=columns, ignore=ignore)


def _role(node: Node) -> str:
    role = node.content.get("role") if isinstance(node.content, Mapping) else None
    return role.content if role is not None and isinstance(role.content, str) else ""


def _is_sound(name: str, node: Node, is_parent: bool) -> bool:
    """Return true; refuse a reserved name, and what linked tables do not support yet."""
    if name == MEMBERS:
        raise node.error(
            f"the name {MEMBERS} is reserved for the number of persons of a household, which the"
            " program counts; rename the column, or put it under `ignore`."
        )
    if name.startswith(OTHER):
        raise node.error(
            f"a name that begins with {OTHER} is reserved for another member of the household;"
            " rename the column."
        )
    if not isinstance(node.content, Mapping):
        return True
    if node.has("within") and not is_parent:
        raise node.content["within"].error(_HOUSEHOLDS_ONLY)
    if node.has("follows"):
        raise node.content["follows"].error(
            "linked tables have no columns that follow others yet; remove the key and state the"
            " levels, or put the column under `ignore`."
        )
    if _role(node) in _DESIGN_ROLES:
        raise node.content["role"].error(
            "linked tables have no weights and no sample design yet; remove the role, or put the"
            " column under `ignore`."
        )
    bins = node.content.get("bins")
    private = "levels" if is_private(node.content) else ""
    if bins is not None and isinstance(bins.content, Mapping):
        private = "bins"
    if private:
        raise node.content[private].error(
            f"the {private} of linked tables cannot be chosen privately yet; state them from public"
            " knowledge."
        )
    return True


def _check_names(homes: _Table, persons: _Table) -> None:
    """Refuse a released column with the name of a key of the other table."""
    keys = {homes.keys["key"].text(), persons.keys["link"].text(), persons.keys["key"].text()}
    for name, node in {**homes.columns, **persons.columns}.items():
        if name in keys:
            raise node.error(
                f"{quote(name)} is a key of the other table; rename one of the two columns."
            )


def _read_unit(root: Node, node: Node | None, homes: str, persons: str) -> dict[str, Any]:
    """Return `min_members`, `max_members` and `larger`."""
    if node is None:
        raise root.error(
            f"the key 'unit' is missing; linked tables protect households: unit: {UNIT_EXAMPLE}."
        )
    if isinstance(node.content, str):
        raise node.error(
            f"{quote(node.content)} is not a unit of linked tables, which protect households;"
            f" write {UNIT_EXAMPLE}."
        )
    keys = node.fields(_UNIT_KEYS, required=("table",), example=UNIT_EXAMPLE)
    table = keys["table"].name()
    if table == persons:
        raise keys["table"].error(
            f"{quote(table)} is the table of persons, but linked tables protect households with"
            f" all their members; write {homes}."
        )
    if table != homes:
        known = (homes,)
        raise keys["table"].error(f"there is no table {quote(table)}.{nearest(table, known)}")
    if "max_members" not in keys:
        raise node.error(
            "the key 'max_members' is missing; state from public knowledge how many members a"
            f" household has at most, up to {MOST_MEMBERS}."
        )
    most = keys["max_members"].integer(minimum=1, maximum=MOST_MEMBERS)
    least = keys["min_members"].integer(minimum=0, maximum=1) if "min_members" in keys else 1
    larger = one_of(keys.get("larger"), _LARGER)
    return {"min_members": least, "max_members": most, "larger": larger}


def _document(flat: Mapping[str, Any], linked: LinkedTables) -> dict[str, object]:
    """Return the document of linked tables from the one of their flat schema."""
    document = dict(flat)
    columns = {name: one for one in document.pop("columns") for name in one}
    del document["ignore"]
    return document | {
        "unit": {
            "table": linked.households,
            "min_members": str(linked.min_members),
            "max_members": str(linked.max_members),
            "larger": linked.larger,
        },
        "tables": {
            linked.households: {
                "key": linked.key,
                "columns": [columns[name] for name in linked.household_columns],
                "ignore": list(linked.household_ignore),
            },
            linked.persons: {
                "key": linked.person_key,
                "parent": linked.households,
                "link": linked.link,
                "columns": [columns[name] for name in linked.person_columns],
                "ignore": list(linked.person_ignore),
            },
        },
    }
