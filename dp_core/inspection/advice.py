"""Advice: changes of a column's definition, and the words that name them. Confidential.

A change is advised only if the schema does not have it yet and if it helps with the values of the
finding. The encoder of a release decides whether it helps.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from dp_core.confidential.encoding import Encoder
from dp_core.errors import BadInput
from dp_core.inspection.column_tally import NULL, Tally
from dp_core.schema.codebooks.codebook_draft import scalar
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import parse_schema

Keys: TypeAlias = Mapping[str, Any]
"""Keys of a column's definition with new values, as a schema's document has them."""

_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_OTHER_OF: Mapping[str, str] = {"bins": "edges", "edges": "bins"}
_POLICIES = ("missing", "missing_values", "out_of_range", "format")
"""Keys that are attributes of a column under the same name."""


class Advice:
    """Offers changes of one column's definition, and keeps those that help.

    Args:
        tally: The column's counts.
        texts: The values of the finding as texts; none (the default) if it is about missing values.

    Attributes:
        changes: The changes that were offered and help. They are alternatives.
    """

    def __init__(self, tally: Tally, texts: Iterable[str] = ()) -> None:
        self.tally, self.column = tally, tally.column
        self.changes: tuple[Keys, ...] = ()
        self._values = _as_stored(tally, [text for text in texts if text != NULL])

    def offer(self, sentence: str, **keys: Any) -> str:
        """Return a sentence in which the keys to write replace `{}`; empty if they would not help.

        Args:
            sentence: The advice; the result has a space in front of it.
            keys: The keys with their new values; those with the column's own values are left out.
        """
        own = {key: getattr(self.column, "kind" if key == "type" else key, None) for key in keys}
        new = {key: value for key, value in keys.items() if own[key] != value}
        if not new or not self._helps(new):
            return ""
        self.changes += (new,)
        return f" {sentence.format(change_text(new, self.tally.definition))}"

    def _helps(self, keys: Keys) -> bool:
        if self.column.role and keys.get("missing") == "level":
            return False  # a weight, a stratum or a cluster cannot be missing
        new = {key: value for key, value in keys.items() if key in _POLICIES}
        changed = replace(self.column, **new, kind=keys.get("type", self.column.kind))
        if changed.out_of_range == "missing" and changed.missing != "level":
            return False
        before, after = (Encoder(one).encode(self._values) for one in (self.column, changed))
        refused = [0 if one.bad is None else int(one.bad.sum()) for one in (before, after)]
        return refused[1] < refused[0] or (
            refused[1] == refused[0] and before.problems != after.problems
        )


def definition_of(document: Mapping[str, Any], column: str) -> Keys:
    """Return a column as the document of a table has it; empty if it does not have it."""
    found = (each[column] for each in document.get("columns", ()) if column in each)
    return next(found, {})


def change_text(keys: Keys, definition: Keys) -> str:
    """Return a change as a sentence names it: what to write, and which key to remove.

    Args:
        keys: The keys with their new values.
        definition: The column as the schema's document has it.

    >>> change_text({"edges": ("0", "5", "10")}, {"type": "integer", "bins": "2"})
    '`edges: [0, 5, 10]` instead of `bins`'
    """
    return f"`{yaml_text(keys)}`{instead_of(keys, definition)}"


def instead_of(keys: Iterable[str], definition: Keys) -> str:
    """Return which key of a column's definition other keys replace; empty for none."""
    replaced = [_OTHER_OF[key] for key in keys if _OTHER_OF.get(key) in definition]
    return f" instead of `{replaced[0]}`" if replaced else ""


def with_change(document: Mapping[str, Any], column: str, keys: Keys) -> dict[str, Any]:
    """Return a schema's document with new values of some keys of a column.

    Args:
        document: A document such as `Schema.document`.
        column: Name of the column.
        keys: The keys with their new values. `edges` replaces `bins`, and `bins` replaces `edges`.
    """

    def alter(definition: Mapping[str, Any]) -> dict[str, Any]:
        removed = {_OTHER_OF.get(key) for key in keys}
        kept = {key: value for key, value in definition.items() if key not in removed}
        return kept | {k: list(v) if isinstance(v, tuple) else v for k, v in keys.items()}

    if "tables" in document:
        tables = document["tables"].items()
        return {
            **document,
            "tables": {name: with_change(table, column, keys) for name, table in tables},
        }
    columns = [
        {name: alter(own) if name == column else own for name, own in each.items()}
        for each in document["columns"]
    ]
    return {**document, "columns": columns}


def is_accepted(schema: Schema, column: str, keys: Keys) -> bool:
    """Return whether the schema can be read with a change; False for panels."""
    if schema.panel is not None:
        return False
    try:
        parse_schema(with_change(schema.document, column, keys))
    except BadInput:
        return False
    return True


def yaml_text(keys: Keys) -> str:
    """Return keys and values as a schema writes them.

    >>> yaml_text({"missing": "level", "missing_values": ("", "NA")})
    'missing: level, missing_values: ["", "NA"]'
    >>> yaml_text({"format": "%d.%m.%Y"}), yaml_text({"bins": {"private": "12"}})
    ('format: "%d.%m.%Y"', 'bins: {private: 12}')
    """
    return ", ".join(f"{key}: {_written_value(key, value)}" for key, value in keys.items())


def how_to_encode(own: str, text: str) -> str:
    r"""Return how to give a text of a file the code points of the text that the schema has.

    Args:
        own: The text in the schema.
        text: The text in the file, which looks the same.

    >>> how_to_encode("a b", "a\u00a0b")
    "Replace 'a\\xa0b' by 'a b' in the file; they look alike."
    """
    for form in _FORMS:
        if unicodedata.normalize(form, text) == own:
            return (
                f"The schema writes {own!a}, which is Unicode {form}. Normalise the file:"
                f" `uconv -x any-{form.lower()} FILE > NEW.csv`, in Python"
                f' `unicodedata.normalize("{form}", text)`, in R'
                f" `stringi::stri_trans_{form.lower()}(text)`."
            )
    return f"Replace {text!a} by {own!a} in the file; they look alike."


def _written_value(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{yaml_text(value)}}}"
    if isinstance(value, tuple):
        texts = value if key == "edges" else (scalar(text, quoted=True) for text in value)
        return f"[{', '.join(texts)}]"
    return scalar(value, quoted=True) if key == "format" else str(value)


def _as_stored(tally: Tally, texts: list[str]) -> pa.Array:
    """Return texts in the type in which the file stores the column; one null for none."""
    if not texts:
        return pa.nulls(1, tally.stored)
    values = pa.array(texts, pa.string())
    try:
        return values.cast(tally.stored)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return values
