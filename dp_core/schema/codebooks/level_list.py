"""Lists of levels in one cell of a codebook, such as `1=male; 2=female`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_QUOTED = re.compile(r"""(?:(?<=[|\n;,=:/])|^)(\s*)(["'])(.+?)\2(?=\s*(?:[|\n;,=:/–—]|-\s|$))""")
_SIGN = re.compile(
    r"\s+(?:=>|->|→)\s+"  # 1 => male
    r"|(?<![<>!=])=(?!=)"  # 1=male, but neither <=5 nor >=8
    r"|(?<![0-9]):|:(?![0-9]{2})"  # 1: male, but not 08:00
    r"|\s[-–—]\s(?!\s*[0-9])"  # 1 - male, but not 0 - 9
    r"|(?<![\s0-9])[–—]|[–—](?![\s0-9])"
)
_COMMA = re.compile(",")
_MARKS = ("|", "\n", ";")
_SLASH = r"\s/\s"

Part = tuple[str, str]
"""A piece of a cell, and the same with the quoted texts hidden."""


def split_levels(cell: str) -> list[tuple[str, str]]:
    """Return the levels that one cell lists, each with its label; without one, the empty text.

    Levels are separated by `|`, line ends, semicolons or commas, or by ` / ` if each has a label.
    `=` separates a code from its label, but not at the start nor right after `<`, `>` or `!`. A
    text in quotes is taken as it is.

    >>> split_levels("1=male; 2=female"), split_levels("1, Yes | 0, No")
    ([('1', 'male'), ('2', 'female')], [('1', 'Yes'), ('0', 'No')])
    >>> split_levels("north, south"), split_levels("1: low, 2: high")
    ([('north', ''), ('south', '')], [('1', 'low'), ('2', 'high')])
    >>> split_levels("<=50K=up to 50K; >50K"), split_levels('"a=b"=both; c')
    ([('<=50K', 'up to 50K'), ('>50K', '')], [('a=b', 'both'), ('c', '')])
    """
    whole: Part = (cell, _QUOTED.sub(lambda found: found[1] + "q" * (len(found[3]) + 2), cell))
    listed = [(mark, _split(whole, re.escape(mark))) for mark in _MARKS if mark in whole[1]]
    listed.sort(key=lambda item: not _all_pairs(item[1], item[0]))  # stable: pairs go first
    if listed:
        mark, parts = listed[0]
        return [_level(part, mark) for part in parts]
    slashed = _split(whole, _SLASH)
    if len(slashed) > 1 and _all_pairs(slashed, "/"):
        return [_level(part, "/") for part in slashed]
    return [_level(part, ",") for part in _split_at_commas(whole)]


def doubt_of(cell: str, levels: Sequence[tuple[str, str]]) -> str:
    """Return what a person should know of the levels read from a cell; empty without a doubt.

    >>> doubt_of("m/f", [("m/f", "")])
    "the codebook's values were read as one level; separate levels by semicolons: 'm/f'"
    """
    text = " ".join(cell.split())
    text = repr(text if len(text) <= 60 else f"{text[:57]}...")
    if len(levels) == 1 and not levels[0][1] and re.search(r"\W", cell.strip()):
        return (
            f"the codebook's values were read as one level; separate levels by semicolons: {text}"
        )
    if any(re.search(r"\s\S{1,6}=[^=]", label) for _, label in levels):
        return f"a label has another `=`; separate levels by semicolons: {text}"
    if any(not label and re.match(r"\S+\s[-–—]\s", code) for code, label in levels):
        return f"texts with a dash were read as levels without labels; write code=label: {text}"
    return ""


def _split(whole: Part, mark: str) -> list[Part]:
    """Return the pieces between marks outside quotes that are not blank."""
    text, hidden = whole
    parts, start = [], 0
    for found in [*re.finditer(mark, hidden), None]:
        end = len(text) if found is None else found.start()
        if text[start:end].strip():
            parts.append((text[start:end], hidden[start:end]))
        start = len(text) if found is None else found.end()
    return parts


def _split_at_commas(whole: Part) -> list[Part]:
    """Return the pieces between commas; a piece without a code continues the label before it."""
    parts: list[Part] = []
    for part in _split(whole, ","):
        if parts and _sign(part, ",") is None and _sign(parts[-1], ",") is not None:
            before = parts.pop()
            part = (f"{before[0]},{part[0]}", f"{before[1]},{part[1]}")
        parts.append(part)
    return parts


def _sign(part: Part, mark: str) -> re.Match[str] | None:
    """Return what separates the code of a piece from its label, None if it has no label."""
    hidden = part[1]
    lead = len(hidden) - len(hidden.lstrip())
    signs = (_SIGN, _COMMA) if mark == "|" else (_SIGN,)
    found = [one for sign in signs for one in sign.finditer(hidden) if one.start() > lead]
    return min(found, key=lambda one: one.start(), default=None)


def _all_pairs(parts: Sequence[Part], mark: str) -> bool:
    """Return whether each piece is a code without other marks, and a label."""
    signs = [_sign(part, mark) for part in parts]
    return len(parts) > 1 and all(
        sign is not None and not re.search(r"[;|\n]", part[1][: sign.start()])
        for sign, part in zip(signs, parts, strict=True)
    )


def _level(part: Part, mark: str) -> tuple[str, str]:
    text = part[0]
    sign = _sign(part, mark)
    if sign is None:
        return _bare(text), ""
    return _bare(text[: sign.start()]), _bare(text[sign.end() :])


def _bare(text: str) -> str:
    """Return a text without the spaces and the quotes around it."""
    stripped = text.strip()
    quoted = len(stripped) > 2 and stripped[0] == stripped[-1] and stripped[0] in "\"'"
    return stripped[1:-1] if quoted else stripped
