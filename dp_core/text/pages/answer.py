"""What a command or a function of the library returns: one value, as JSON or as a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from dp_core.text.pages.page import Page
from dp_core.text.pages.printed import Printed

INLINE = {"inline": True}
"""Metadata of a field whose own fields take its place in the JSON object."""

OMITTED = {"omitted": True}
"""Metadata of a field whose key is left out of the JSON object if it is None."""


class Answer(Printed):
    """Base of all answers; `page` is what a person is shown, `to_json` what a program gets.

    A subclass of the library is a frozen dataclass whose fields are the JSON keys.

    The order of the fields is the order of the keys. A trailing underscore is dropped from a key,
    for names that Python reserves. Fractions, dates and paths become texts.
    """

    @property
    def exit_code(self) -> int:
        """Exit code of the command that returns this answer."""
        return 0

    @property
    def fault(self) -> str | None:
        """Why there is no answer: a terminal shows it instead of the page; None if there is one."""
        return None

    def to_json(self) -> Any:
        """Return the answer as plain values: the fields by name, nested dataclasses included."""
        return fields_of(self)


@dataclass(frozen=True, slots=True, repr=False)
class CommandAnswer(Answer):
    """The answer of a command: its values by JSON key, and the page that shows them.

    `answer[KEY]` is a value as it was given: an exact fraction, a path or a date.

    Attributes:
        values: What a program gets; a mapping in most answers.
        blocks: What a person is shown.
        code: Exit code of the command; 0 by default.
    """

    values: Any
    blocks: Page
    code: int = 0

    @property
    def exit_code(self) -> int:
        """Exit code of the command that returns this answer."""
        return self.code

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def to_json(self) -> Any:
        """Return the values as JSON has them."""
        return plain(self.values)

    def page(self) -> Page:
        """Return what a person is shown."""
        return self.blocks


def exact_json(**amounts: Fraction | None) -> dict[str, Any]:
    """Return exact numbers as decimals and exactly, by name; None is left out.

    >>> exact_json(epsilon=Fraction(1, 2), rho=None)
    {'epsilon': 0.5, 'epsilon_exact': '1/2'}
    """
    stated = known_values(**amounts)
    return {name: float(value) for name, value in stated.items()} | {
        f"{name}_exact": str(value) for name, value in stated.items()
    }


def known_values(**values: Any) -> dict[str, Any]:
    """Return the values that are not None: keys that an answer may leave out."""
    return {name: value for name, value in values.items() if value is not None}


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
    """Return a value as JSON has it.

    Fractions, dates and paths become texts, and a number that is not finite becomes None.
    """
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    if is_dataclass(value):
        return fields_of(value)
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
