"""JSON of codebooks: every number is the text as typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dp_core.errors import BadInput


def load_json(text: str, name: str) -> Any:
    """Return a JSON document whose numbers are texts.

    Args:
        text: The document.
        name: Name of its file, for the message.

    Raises:
        BadInput: if it is not JSON; the message names the line.
    """
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"Line {error.lineno} of {name} is not valid JSON ({error.msg}). Check commas, quotes"
            " and brackets."
        ) from None
    except RecursionError:
        raise BadInput(f"{name} is nested too deeply. Give a codebook.") from None


def word(value: Any) -> str:
    """Return a scalar as text; true and false as JSON writes them, nothing as the empty text.

    A mapping of languages gives its English text, or its first.

    >>> word(True), word("1.0"), word(None), word({"de": "Alter", "en": "Age"})
    ('true', '1.0', '', 'Age')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return word(value[0]) if value else ""
    if isinstance(value, Mapping):
        for key in ("en", "@value", *value):
            if key in value:
                return word(value[key])
    return ""


def words(value: Any) -> tuple[str, ...]:
    """Return a list of scalars as texts; a single one as a list of it."""
    if value is None:
        return ()
    return tuple(word(one) for one in value) if isinstance(value, list) else (word(value),)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the mappings of a list; none for anything else."""
    return (
        tuple(one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else ()
    )
