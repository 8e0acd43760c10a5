"""What a command or a function of the library returns: a frozen dataclass that becomes JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

INLINE = {"inline": True}
"""Metadata of a field whose own fields take its place in the JSON object."""

OMITTED = {"omitted": True}
"""Metadata of a field whose key is left out of the JSON object if it is None."""


class Answer:
    """Base of all answers; a subclass is a frozen dataclass whose fields are the JSON keys.

    The order of the fields is the order of the keys. A trailing underscore is dropped from a key,
    for names that Python reserves. Fractions, dates and paths become texts.
    """

    @property
    def exit_code(self) -> int:
        """Exit code of the command that returns this answer."""
        return 0

    def to_json(self) -> Any:
        """Return the answer as plain values: the fields by name, nested dataclasses included."""
        return fields_of(self)


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as plain values, by JSON key."""
    found: dict[str, Any] = {}
    for each in fields(value):
        part = getattr(value, each.name)
        if each.metadata.get("omitted") and part is None:
            continue
        if each.metadata.get("inline"):
            found |= plain(part) or {}
        else:
            found[each.name.removesuffix("_")] = plain(part)
    return found


def plain(value: Any) -> Any:
    """Return a value of an answer as JSON has it, except for what `str` makes a text."""
    if isinstance(value, Answer):
        return value.to_json()
    if is_dataclass(value):
        return fields_of(value)
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return value
