"""What every command returns: a frozen dataclass that becomes JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

INLINE = {"inline": True}
"""Metadata of a field whose own fields take its place in the JSON object."""

OMITTED = {"omitted": True}
"""Metadata of a field whose key is left out of the JSON object if it is None."""


class Answer:
    """Base of all answers; a subclass is a frozen dataclass whose fields are the JSON keys.

    The order of the fields is the order of the keys. A trailing underscore is dropped from a key,
    for names that Python reserves.
    """

    @property
    def exit_code(self) -> int:
        """Exit code of the command that returns this answer."""
        return 0

    def to_json(self) -> Any:
        """Return the answer as plain values: the fields by name, nested answers included."""
        found: dict[str, object] = {}
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if each.metadata.get("omitted") and value is None:
                continue
            if each.metadata.get("inline"):
                found |= _plain(value) or {}
            else:
                found[each.name.removesuffix("_")] = _plain(value)
        return found


def _plain(value: object) -> Any:
    if isinstance(value, Answer):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value
