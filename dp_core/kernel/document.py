"""The document of a release: what the kernel is told about file, unit and budget, in plain JSON.

It is compiled from schema and plan before the data are opened, and its hash stands in the ledger's
reservation. What is enforced is what it says, so the statement of a release is printed from it, and
whoever verifies the release compiles it again from the published schema and plan.

    {"format": {"name": "dp-release kernel document", "version": 2},
     "release": "survey-2026q4",
     "neighbours": "add-remove",
     "unit": {"word": "person", "identified_by": "person_id", "most": 4, "missing_values": [""]},
     "records": {"of": "rows"},                          or how households or panels make records
     "columns": [...],                                   see `coding.coding_rule`
     "dependents": [...],                                columns that follow from others
     "rules": {...},                                     see `dp_core.schema.rules.stated_rules`
     "currency": {"kind": "zcdp", "limit": "1/50", "own_delta": "0"},
     "stages": {"one_way": "1/500", "measure": "9/500"},
     "extensions": ["indif"]}                            questions outside the core
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dp_core.kernel.canonical import canonical_json, digest
from dp_core.kernel.counting.linked_columns import MOST_MEMBERS
from dp_core.kernel.errors import GARBAGE, BadInput
from dp_core.kernel.extensions import EXTENSIONS

NAME, VERSION = "dp-release kernel document", 2
MOST_BYTES = 1 << 28
"""Most bytes of a document."""
MOST_ROWS = 1000
"""Most rows of a person; the slack of `dp_core.kernel.cost.curves` covers no more."""

Word: TypeAlias = Literal["row", "person", "household"]
_PERSON = ("word", "identified_by", "most", "missing_values")
_UNITS: Mapping[Word, tuple[tuple[str, ...], tuple[str, ...], int]] = {
    "row": (("word",), (), 1),
    "person": (_PERSON, ("waves",), MOST_ROWS),
    "household": ((*_PERSON, "link"), (), MOST_MEMBERS),
}
"""The keys of a unit in a document, those that it may also have, and most rows or members."""
_UNSTATED = {"identified_by": "", "most": 1, "missing_values": [], "waves": [], "link": ""}
UNIT_KEYS = ("unit", "max_rows", "max_members", "identified_by")
"""Keys that state a unit in receipts and statements."""
_CURRENCIES = ("pure", "zcdp", "gaussian", "mixed")
Sizes: TypeAlias = Mapping[str, int]
FILE_KEYS = ("unit", "records", "columns", "dependents", "rules")
"""Keys that state how a file is coded; `file_hash` covers them."""
_KEYS = ("format", "release", "neighbours", *FILE_KEYS, "currency", "stages", "extensions")
_TABLES = ("households", "persons", "key", "link", "person_key")
_MEMBERS = ("household_columns", "person_columns", "larger", "min_members", "max_members")
_WAVES = ("person", "waves", "wave", "columns", "takes_part", "ignore_waves")
_RECORDS: Mapping[str, tuple[str, ...]] = {
    "rows": (),
    "households": (*_TABLES, *_MEMBERS),
    "panel": (*_WAVES, "repeated", "disagreeing"),
}
_AMOUNT = re.compile(r"[0-9]{1,2000}(/[1-9][0-9]{0,2000})?")


@dataclass(frozen=True, slots=True)
class ProtectedUnit:
    """Who is protected.

    Attributes:
        word: A row, a person with all their rows, or a household with all its members.
        identified_by: Column whose equal values are one unit; empty if a row is the unit.
        most: Most rows of a person or members of a household that count; 1 for a row.
        missing_values: Texts of the column that identify nobody.
        waves: The first and the last wave of a panel; empty without one.
        link: Column of the persons' table that names their household; empty for other units.
    """

    word: Word
    identified_by: str = ""
    most: int = 1
    missing_values: tuple[str, ...] = ()
    waves: tuple[str, ...] = ()
    link: str = ""

    @property
    def column(self) -> str | None:
        """Column that identifies persons; None if rows or households are protected."""
        return self.identified_by if self.word == "person" else None

    @property
    def max_rows(self) -> int:
        """Most rows of a person; 1 if rows or households are protected."""
        return self.most if self.word == "person" else 1

    @property
    def columns(self) -> dict[str, str]:
        """Columns that say whose a record is, by their keys in receipts; empty for a row."""
        named = {"identified_by": self.identified_by, "link": self.link}
        return {key: column for key, column in named.items() if column}

    @property
    def stated(self) -> dict[str, str | int]:
        """The unit as receipts and statements have it: the keys of `UNIT_KEYS` that apply."""
        if self.word == "row":
            return {"unit": "row"}
        limit = "max_members" if self.word == "household" else "max_rows"
        return {"unit": self.word, limit: self.most, "identified_by": self.identified_by}


A_ROW = ProtectedUnit("row")


def protected_unit(values: Any) -> ProtectedUnit:
    """Return the unit that plain values state.

    Raises:
        BadInput: if they are no unit.
    """
    from dp_core.kernel.questions.descriptions import fields_from_json  # needs numpy

    try:
        unit: ProtectedUnit = fields_from_json(ProtectedUnit, {**_UNSTATED, **values})
    except GARBAGE:
        raise wrong_document("unit") from None
    needed, optional, most = _UNITS[unit.word]
    _need({*needed} <= {*values} <= {*needed, *optional}, "unit")
    _need(all(values[key] for key in ("identified_by", "link") if key in values), "unit")
    _need(1 <= unit.most <= most, "unit.most")
    # A record of a panel has all waves of a person.
    _need(not unit.waves or (len(unit.waves) == 2 and unit.most == 1), "unit.waves")
    return unit


def document_hash(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document, in hex, by which the reservation binds it."""
    return digest(document)


def file_hash(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what a document states about coding, in hex: it binds a code store."""
    return document_hash({key: document[key] for key in FILE_KEYS})


def check_document(document: Mapping[str, Any]) -> ProtectedUnit:
    """Return the unit of a document that is complete and agrees with itself.

    Raises:
        BadInput: if it is of another version, too large, or contradictory; the message names the
            key.
    """
    _need(document.get("format") == {"name": NAME, "version": VERSION}, "format")
    for key in sorted({*_KEYS} ^ {*document}):
        raise wrong_document(key)
    try:
        size = len(canonical_json(document))
    except (TypeError, ValueError):  # no JSON, or no Unicode
        raise wrong_document("format") from None
    _need(size <= MOST_BYTES, "columns")
    _need(isinstance(document["release"], str) and document["release"] != "", "release")
    _need(document["neighbours"] in ("add-remove", "replace-one"), "neighbours")
    unit = protected_unit(document["unit"])
    _check_records(document["records"], unit)
    sizes = _check_columns(document["columns"], unit)
    try:
        _check_parts(document["records"], unit, sizes)
        _check_dependents(document["dependents"], unit, sizes)
    except GARBAGE:  # a value of another type
        raise wrong_document("dependents") from None
    _check_budget(document["currency"], document["stages"])
    named = document["extensions"]
    _need(_are_texts(named) and named == sorted({*named} & {*EXTENSIONS}), "extensions")
    return unit


def _check_records(records: Any, unit: ProtectedUnit) -> None:
    """Raise unless records are made of what the unit protects."""
    of = "households" if unit.word == "household" else "panel" if unit.waves else "rows"
    _need(isinstance(records, dict) and records.get("of") == of, "records.of")
    _need({*records} == {"of", *_RECORDS[of]}, "records")
    protects: dict[str, object] = {"person": unit.identified_by} if unit.waves else {}
    if unit.word == "household":
        protects = {"key": unit.identified_by, "link": unit.link, "max_members": unit.most}
    for name, protected in protects.items():
        _need(records[name] == protected, f"records.{name}")
    waves = records.get("waves", [])
    _need(_are_texts(waves) and (waves[:1] + waves[-1:]) == [*unit.waves], "records.waves")


def _check_columns(columns: Any, unit: ProtectedUnit) -> dict[str, int]:
    """Return the number of codes of each column."""
    _need(isinstance(columns, list) and len(columns) > 0, "columns")
    names = [each.get("name") if isinstance(each, dict) else None for each in columns]
    # privacy: who identifies a unit is no column of the tables.
    unlike = _are_texts(names) and len({*names, unit.identified_by}) == len(names) + 1
    _need(unlike, "columns")
    from dp_core.kernel.coding.coding_rule import coding_rule  # needs pyarrow, which no plan loads

    rules = [coding_rule(each) for each in columns]
    _need(unit.word == "household" or not any(rule.nobody for rule in rules), "columns")
    return {rule.name: rule.codes for rule in rules}


def _check_parts(records: Mapping[str, Any], unit: ProtectedUnit, sizes: Sizes) -> None:
    """Raise unless every column of a record has its place in a table or a wave."""
    if unit.word == "household":
        homes, persons = records["household_columns"], records["person_columns"]
        named = [*homes, "members", *persons, *(f"other.{name}" for name in persons)]
        _need(named == [*sizes], "records.person_columns")
    if unit.waves:
        parts = [*records["columns"].values(), records["takes_part"]]
        _need(all({*part} <= {*records["waves"]} for part in parts), "records.columns")


def _check_dependents(dependents: Any, unit: ProtectedUnit, sizes: Sizes) -> None:
    """Raise unless each dependent column follows from a column before it."""
    from dp_core.kernel.coding.coding_rule import coding_rule

    known = {*sizes}
    for each in dependents:
        _need({*each} == {"column", "source", "codes", "cuts"}, "dependents")
        rule, where = coding_rule(each["column"]), "dependents"
        _need(each["source"] in known and rule.name not in {*known, unit.identified_by}, where)
        _need(are_codes(each["codes"], rule.codes) and _are_texts(each["cuts"]), where)
        cuts = [Fraction(cut) for cut in each["cuts"]]
        _need(cuts == sorted(cuts), where)
        known.add(rule.name)


def are_codes(values: Any, size: int) -> bool:
    """Return whether values are a list of codes of a column that has so many."""
    return isinstance(values, list) and all(type(at) is int and 0 <= at < size for at in values)


def _need(right: bool, key: str) -> None:
    if not right:
        raise wrong_document(key)


def _check_budget(currency: Any, stages: Any) -> None:
    """Raise unless the budgets of the stages are the total."""
    keys = {"kind", "limit", "own_delta"}
    _need(isinstance(currency, dict) and {*currency} == keys, "currency")
    limit, own_delta = _amount(currency["limit"]), _amount(currency["own_delta"])
    stated = currency["kind"] in _CURRENCIES and None not in (limit, own_delta)
    _need(stated, "currency")
    _need(isinstance(stages, dict), "stages")
    costs = [_amount(cost) for cost in stages.values()]
    _need(None not in costs and sum(cost or 0 for cost in costs) == limit, "stages")


def _amount(text: Any) -> Fraction | None:
    """Return the number of a text; None if it is none, or negative."""
    return Fraction(text) if isinstance(text, str) and _AMOUNT.fullmatch(text) else None


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)


def wrong_document(key: str) -> BadInput:
    """Return the error about a key of a document."""
    return BadInput(
        f"The kernel's document states {key!r} in no valid form; compile it anew with the version"
        " of dp-release that reads it."
    )
