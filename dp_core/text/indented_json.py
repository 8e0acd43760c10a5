"""JSON with an indent of two spaces, as `json.dumps` writes it, for documents with long lists.

With an indent, Python's encoder works value by value. Here, a list of single values, or of mappings
of single values, is encoded in one call: the levels of a column of 65,000 take a tenth of the time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from typing import cast

_SINGLE = frozenset({str, int, float, bool, type(None)})


def indented_json(value: object) -> str:
    """Return the text of `json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)`.

    Args:
        value: Mappings whose keys are texts, lists, tuples and single values.

    Raises:
        TypeError: if a key is not a text, or a value has no form in JSON.
        ValueError: if a number is not finite.

    >>> print(indented_json({"levels": [{"code": 0, "label": "a"}], "none": []}))
    {
      "levels": [
        {
          "code": 0,
          "label": "a"
        }
      ],
      "none": []
    }
    """
    return _text(value, "\n")


def _text(value: object, line: str) -> str:
    """Return the text of a value; `line` begins a new line at the value's own indent."""
    inner = f"{line}  "
    if isinstance(value, Mapping) and value:
        entries = [f"{_key(key)}: {_text(item, inner)}" for key, item in value.items()]
        return f"{{{inner}{f',{inner}'.join(entries)}{line}}}"
    if isinstance(value, list | tuple) and value:
        return f"[{inner}{_items(value, inner)}{line}]"
    return _encoder("").encode(value)


def _items(items: list[object] | tuple[object, ...], line: str) -> str:
    kinds = {*map(type, items)}
    if kinds <= _SINGLE:
        return _encoder(line).encode(items)[1:-1]
    if kinds == {dict} and all(items) and _are_flat(cast("Sequence[dict[object, object]]", items)):
        # A text in JSON contains no line break, so only the ends of mappings match.
        inner = f"{line}  "
        text = _encoder(inner).encode(items)[2:-2]
        between = f"{line}}},{line}{{{inner}"
        return f"{{{inner}{text.replace(f'}},{inner}{{', between)}{line}}}"
    return f",{line}".join(_text(item, line) for item in items)


def _are_flat(items: Sequence[dict[object, object]]) -> bool:
    """Whether all values of some mappings are single values, and their keys texts."""
    keys, values = chain.from_iterable(items), chain.from_iterable(map(dict.values, items))
    return {*map(type, keys)} == {str} and {*map(type, values)} <= _SINGLE


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"A key must be a text, not {key!r}.")
    return _encoder("").encode(key)


@cache
def _encoder(line: str) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(f",{line}", ": "))
