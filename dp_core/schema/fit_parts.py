"""The parts of a schema that can decide whether data fit it.

If data fit a schema, they also fit every schema whose parts are among its parts. So a rule that can
only stop a release is a part by itself. A rule that can set a column to missing changes what other
rules see. It belongs, with its rank among such rules, to the part of each column that it can
change, directly or through other rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dp_core.kernel.canonical import digest
from dp_core.schema.definition import Schema
from dp_core.schema.rules.row_rules import RowRule, row_rules

_WORDS = ("version", "title", "description", "publication", "rows_about", "ignore")
"""Keys that change no verdict. (`ignore`: a file with other columns cannot be read at all.)"""
_RULES = ("impossible", "rules")
_LISTS = ("totals", "expectations")
_DIGITS = 32


def fit_parts(schema: Schema) -> frozenset[str]:
    """Return the hash of each part of a schema that can decide whether data fit it.

    Each column, rule, total and expectation is a part. A panel that keeps one of several rows is a
    single part, because all columns together decide which row is kept before rules are judged.
    Linked tables are a single part, too. Otherwise titles, descriptions, labels of levels and bins
    belong to no part, except those of levels and bins that a rule names.
    """
    return frozenset(digest(part)[:_DIGITS] for part in _parts(schema.coarse or schema))


def _parts(schema: Schema) -> Iterator[object]:
    document: Mapping[str, Any] = schema.document
    kept = {key: value for key, value in document.items() if key not in _WORDS}
    keeps_one = schema.panel is not None and schema.panel.repeated == "keep_one"
    if schema.linked is not None or keeps_one:
        yield kept
        return
    rules = row_rules(schema)
    settling = [rule for rule in rules if _settles(rule, schema)]
    for column in kept.pop("columns"):
        for name, definition in column.items():
            yield from _column_parts(name, definition, _affecting(name, settling), schema)
    for rule in rules:
        if not _settles(rule, schema):
            yield rule.says(schema)
    for key in _RULES:
        kept.pop(key, None)
    for key in _LISTS:
        for item in kept.pop(key, ()):
            yield [key, item]
    for key, value in kept.items():
        yield [key, value]


def _column_parts(
    name: str, definition: Mapping[str, Any], settling: Sequence[RowRule[Any]], schema: Schema
) -> Iterator[object]:
    unused = {"description", "density", "role"}
    # The edges of a dependent column decide which values follow from its source.
    unused |= set() if "follows" in definition else {"bins", "edges"}
    # That a level lies in a level of another column is a rule.
    unused |= {"within", "map"} if "within" in definition else set()
    kept = {key: value for key, value in definition.items() if key not in unused}
    if isinstance(kept.get("levels"), list):
        kept["levels"] = [
            next(iter(level)) if isinstance(level, Mapping) else level for level in kept["levels"]
        ]
    yield ["columns", name, kept, [rule.says(schema) for rule in settling]]
    if "role" in definition:
        yield ["columns", name, "role", definition["role"]]


def _settles(rule: RowRule[Any], schema: Schema) -> bool:
    """Return whether a broken rule can set a column to missing."""
    columns = [schema.column(name) for name in rule.columns]
    return any(each.out_of_range == "missing" and each.missing == "level" for each in columns)


def _affecting(name: str, settling: Sequence[RowRule[Any]]) -> list[RowRule[Any]]:
    """Return the rules that can change a column, directly or through other rules, in order."""
    reached: set[str] = {name}
    while (
        more := {other for rule in settling if reached & {*rule.columns} for other in rule.columns}
        - reached
    ):
        reached |= more
    return [rule for rule in settling if reached & {*rule.columns}]
