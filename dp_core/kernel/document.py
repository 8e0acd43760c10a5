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
from dp_core.kernel.errors import BadInput
from dp_core.kernel.extensions import EXTENSIONS

NAME, VERSION = "dp-release kernel document", 2
MOST_BYTES = 1 << 28
"""Most bytes of a document."""
MOST_ROWS = 1000
"""Most rows of a person; the accounting covers no more."""
MOST_MEMBERS = 20
"""Most members of a household; shares of more do not fit the counts."""

Word: TypeAlias = Literal["row", "person", "household"]
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
        BadInput: if they are no unit; the message names the key.
    """
    if values == {"word": "row"}:
        return A_ROW
    needed = {"word", "identified_by", "most", "missing_values"}
    if not isinstance(values, dict) or values.get("word") not in ("person", "household"):
        raise wrong_document("unit")
    household = values["word"] == "household"
    also = {"link"} if household else {"waves"} & {*values}
    if {*values} != needed | also:
        raise wrong_document("unit")
    most = MOST_MEMBERS if household else MOST_ROWS
    if type(values["most"]) is not int or not 1 <= values["most"] <= most:
        raise wrong_document("unit.most")
    if not isinstance(values["identified_by"], str) or not values["identified_by"]:
        raise wrong_document("unit.identified_by")
    waves = values.get("waves", [])
    # A record of a panel has all waves of a person.
    if not _are_texts(waves) or len(waves) not in (0, 2) or (waves and values["most"] != 1):
        raise wrong_document("unit.waves")
    if not _are_texts(values["missing_values"]):
        raise wrong_document("unit.missing_values")
    if household and (not isinstance(values["link"], str) or not values["link"]):
        raise wrong_document("unit.link")
    return ProtectedUnit(
        values["word"],
        values["identified_by"],
        values["most"],
        tuple(values["missing_values"]),
        tuple(waves),
        values.get("link", ""),
    )


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
    if document.get("format") != {"name": NAME, "version": VERSION}:
        raise wrong_document("format")
    for key in sorted({*_KEYS} ^ {*document}):
        raise wrong_document(key)
    try:
        if len(canonical_json(document)) > MOST_BYTES:
            raise wrong_document("columns")
    except (TypeError, ValueError):  # no JSON, or no Unicode
        raise wrong_document("format") from None
    if not isinstance(document["release"], str) or not document["release"]:
        raise wrong_document("release")
    if document["neighbours"] not in ("add-remove", "replace-one"):
        raise wrong_document("neighbours")
    unit = protected_unit(document["unit"])
    _check_records(document["records"], unit)
    sizes = _check_columns(document["columns"], unit)
    try:
        _check_parts(document["records"], unit, sizes)
        _check_dependents(document["dependents"], unit, sizes)
    except (TypeError, ValueError, LookupError, AttributeError):  # a value of another type
        raise wrong_document("dependents") from None
    _check_budget(document["currency"], document["stages"])
    named = document["extensions"]
    if not _are_texts(named) or named != sorted({*named} & {*EXTENSIONS}):
        raise wrong_document("extensions")
    return unit


def _check_records(records: Any, unit: ProtectedUnit) -> None:
    """Raise unless records are made of what the unit protects."""
    of = "households" if unit.word == "household" else "panel" if unit.waves else "rows"
    if not isinstance(records, dict) or records.get("of") != of:
        raise wrong_document("records.of")
    if {*records} != {"of", *_RECORDS[of]}:
        raise wrong_document("records")
    stated = {"households": ("key", "link", "max_members"), "panel": ("person",)}.get(of, ())
    protects = {
        "key": unit.identified_by,
        "person": unit.identified_by,
        "link": unit.link,
        "max_members": unit.most,
    }
    for name in stated:
        if records[name] != protects[name]:
            raise wrong_document(f"records.{name}")
    waves = records.get("waves", [])
    if not _are_texts(waves) or (waves[:1] + waves[-1:]) != [*unit.waves]:
        raise wrong_document("records.waves")


def _check_columns(columns: Any, unit: ProtectedUnit) -> dict[str, int]:
    """Return the number of codes of each column."""
    if not isinstance(columns, list) or not columns:
        raise wrong_document("columns")
    names = [each.get("name") if isinstance(each, dict) else None for each in columns]
    # privacy: who identifies a unit is no column of the tables.
    if not _are_texts(names) or len({*names}) < len(names) or unit.identified_by in names:
        raise wrong_document("columns")
    from dp_core.kernel.coding.coding_rule import coding_rule  # needs pyarrow, which no plan loads

    sizes = {}
    for each in columns:
        rule = coding_rule(each)
        if rule.nobody and unit.word != "household":
            raise wrong_document("columns")
        sizes[rule.name] = rule.codes
    return sizes


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
    if not isinstance(currency, dict) or {*currency} != {"kind", "limit", "own_delta"}:
        raise wrong_document("currency")
    limit, own_delta = _amount(currency["limit"]), _amount(currency["own_delta"])
    if currency["kind"] not in _CURRENCIES or limit is None or own_delta is None:
        raise wrong_document("currency")
    if not isinstance(stages, dict):
        raise wrong_document("stages")
    costs = [_amount(cost) for cost in stages.values()]
    if None in costs or sum(cost or 0 for cost in costs) != limit:
        raise wrong_document("stages")


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
