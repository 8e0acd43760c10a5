"""Writes the draft of a schema from a codebook, or from what a file states about its columns.

What is not stated stays empty, with a comment, and the reader of schemas refuses an
empty value by its key. The first comment says where each statement comes from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from textwrap import fill

from dp_core.schema.bin_pieces import MAX_INTEGER
from dp_core.schema.codebooks.codebook import MANY_LEVELS, Codebook, Variable, by_name
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.column_types.registry import column_type, typed_words
from dp_core.text.documents.typed_text import printable, quote
from dp_core.text.pages.number_texts import plural

_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 _.+/()-]*(?<! )", re.ASCII)
_WIDTH = 96

UNIT_LINES = """\
unit: row                # one row is one person; or {column: person_id, max_rows: 4}
# rows_about: 20000      # rows, only if public; `plan` then states TVD, expected error, memory
"""
"""Lines of every draft about the unit of privacy and the number of rows."""
LINKED_UNIT_LINES = """\
unit: {{table: {table}, max_members: }}  # most members of a household, from public knowledge
# rows_about: 20000      # households, only if public; `plan` then states TVD and expected error
"""
"""The same for linked tables."""
RULE_LINES = """\
# impossible:            # combinations that cannot occur, by a public rule
#   - {age: "<15", marital: [married, widowed]}
# rules:                 # rules between columns, which hold in every synthetic row
#   - start_date <= end_date
"""
"""Last lines of every draft."""


def draft_from_codebook(
    codebook: Codebook, columns: Sequence[str] | None = None, file: str = ""
) -> str:
    """Return the text of a draft.

    Args:
        codebook: What is known of the columns.
        columns: Names of the data file's columns, in its order; the codebook's by default. A column
            that the codebook does not describe is drafted with an empty type, and a variable that
            is not in the file is left out; a comment names both.
        file: Name of the data file; empty without one.

    >>> from dp_core.schema.codebooks.codebook import Variable
    >>> sex = Variable(name="age", kind="integer", minimum="0", maximum="99")
    >>> book = Codebook(name="a.json", form="Frictionless Table Schema", variables=(sex,))
    >>> print(draft_from_codebook(book).partition("columns:")[2].split("ignore")[0].strip())
    age: {type: integer, min: 0, max: 99}
    """
    names = tuple(by_name(codebook.variables)) if columns is None else tuple(columns)
    drafted, left_open = drafted_columns(codebook, names)
    used = {name.strip().casefold() for name in names}
    absent = [name for name in by_name(codebook.variables) if name.strip().casefold() not in used]
    about = _about(codebook, names, left_open, absent, file)
    return f"{''.join(about)}{head_lines(codebook)}columns:\n{drafted}{RULE_LINES}"


def drafted_columns(codebook: Codebook, names: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Return the lines of some columns and of `ignore`, and the columns that are left open.

    Args:
        codebook: What is known of the columns.
        names: Names of the columns, in their order; by default all of the codebook.
    """
    known = by_name(codebook.variables)
    folded = {name.strip().casefold(): name for name in reversed(list(known))}
    drafted: list[str] = []
    ignored: list[tuple[str, str]] = []
    left_open: list[str] = []
    for name in names or known:
        found = known.get(name) or known.get(folded.get(name.strip().casefold(), ""))
        if found is None:
            drafted.append(
                f"  {scalar(name)}:   # not in the codebook\n"
                f"    type:          # {typed_words()}; then its other keys\n"
            )
            left_open.append(name)
        elif found.text:
            why = found.remarks[:1] or ("texts; if it is a category, list its levels above",)
            ignored.append((name, why[0]))
        else:
            text, complete = _column(name, found, codebook)
            drafted.append(text)
            if not complete:
                left_open.append(name)
    listed = "ignore:   " if ignored else "ignore: []"
    drafted.append(f"{listed}               # columns of the file that are not released\n")
    drafted += (f"  - {scalar(name)}   # {why}\n" for name, why in ignored)
    return "".join(drafted), left_open


def _about(
    codebook: Codebook,
    names: Sequence[str],
    open_: Sequence[str],
    absent: Sequence[str],
    file: str,
) -> Iterator[str]:
    of = f" for {printable(file)}" if file else ""
    if not codebook.form:
        yield f"# Draft of a schema{of}. Levels, bounds, decimals and texts for missing were read\n"
        yield f"# from {printable(codebook.name)}, as public data; numbers are rounded.\n"
    else:
        name = printable(codebook.name)
        yield f"# Draft of a schema{of}. Types, levels, bounds and texts for missing are from\n"
        yield f"# {name} ({codebook.form}); no row of the data file was read.\n"
    yield "# Numbers of bins (`bins: 20`) are only proposals. Check every entry against the\n"
    yield "# questionnaire.\n"
    if codebook.unread:
        yield _comment_lines("Not read", codebook.unread)
    first = by_name(codebook.variables)
    others = (one.name for one in codebook.variables if one != first[one.name])
    if twice := list(dict.fromkeys(others)):
        yield _comment_lines("Described twice, in different words; the first is used", twice)
    if open_:
        yield _comment_lines(f"To complete ({len(open_)} of {len(names)} columns)", open_)
    if absent and file:
        variables = f"{plural(len(absent), 'variable')} of the codebook"
        yield _comment_lines(f"Not in the file ({variables})", absent)


def head_lines(codebook: Codebook, unit: str = UNIT_LINES) -> str:
    """Return the keys of a draft above its columns.

    Args:
        codebook: What is known of the file.
        unit: Lines about the unit of privacy; by default those of a single table.
    """
    title, about = (" ".join(text.split()) for text in (codebook.title, codebook.description))
    missing = ("",) if codebook.missing_values is None else codebook.missing_values
    listed = ", ".join(scalar(text, quoted=True) for text in missing)
    named = scalar(title) if title else "                  # what the file is, in one line"
    described = f"description: {scalar(about)}\n" if about else ""
    return (
        f"version: 1\ntitle: {named}\n{described}{unit}"
        f"missing_values: [{listed}]     # texts that mean missing in the file\n"
        "out_of_range: reject     # or clip (to min and max), or missing; also per column\n"
    )


def _comment_lines(what: str, names: Sequence[str]) -> str:
    """Return comment lines that list names."""
    listed = f"# {what}: {', '.join(map(printable, names))}."
    return fill(listed, _WIDTH, subsequent_indent="#   ", break_on_hyphens=False) + "\n"


def _column(name: str, found: Variable, codebook: Codebook) -> tuple[str, bool]:
    """Return the draft of a column, and whether nothing of it is left to state."""
    remarks = [f"  # {printable(one)}\n" for one in found.remarks]
    parts, todo = ([("role", "id")], []) if found.role == "id" else _parts(found, codebook)
    if found.description:
        parts.append(("description", scalar(" ".join(found.description.split()))))
    line = f"  {scalar(name)}: {{{', '.join(f'{word}: {text}' for word, text in parts)}}}\n"
    if not todo and len(line) <= _WIDTH + 4:
        return "".join((*remarks, line)), not remarks
    block = [f"  {scalar(name)}:\n"]
    for word, text in parts:
        if word == "levels" and len(text) > _WIDTH:
            block.append(_levels_block(found))
        else:
            block.append(f"    {word}: {text}\n")
    for word, comment in todo:
        block.append(f"    {word + ':':<14} # {comment}\n")
    return "".join((*remarks, *block)), not todo and not remarks


def _levels_block(found: Variable) -> str:
    """Return many levels on several lines; levels with labels on one line each."""
    if any(level.text != level.label for level in found.levels):
        lines = [f"      {scalar(level.text)}: {scalar(level.label)}\n" for level in found.levels]
        return f"    levels:\n{''.join(lines)}"
    lines = ["    levels: ["]
    for place, level in enumerate(found.levels):
        word = scalar(level.text) + ("," if place < len(found.levels) - 1 else "]")
        if len(lines[-1]) + len(word) > _WIDTH:
            lines.append("      ")
        lines[-1] += word + " "
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _parts(
    found: Variable, codebook: Codebook
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return what is stated of a column, and what is to be stated."""
    parts: list[tuple[str, str]] = []
    todo: list[tuple[str, str]] = []
    if found.kind is None:
        todo.append(("type", f"{typed_words()}; then its other keys"))
        for word, text in (("min", found.minimum), ("max", found.maximum)):
            if text is not None:
                todo.append((word, f"the codebook has {quote(text)}"))
    else:
        parts.append(("type", found.kind))
    if found.role == "weight":
        parts.append(("role", "weight"))
    if found.kind is not None and column_type(found.kind).levels:
        if found.levels and len(found.levels) <= MANY_LEVELS:
            parts.append(("levels", levels_text(found)))
        else:
            todo.append(("levels", "[the file's texts], or {text: label}, in order for an ordinal"))
    elif found.scale is not None:
        _add_range(found, found.scale, parts, todo, "the codebook" if codebook.form else "the file")
    own = found.missing_values
    if own is not None and own != codebook.missing_values:
        parts.append(
            ("missing_values", f"[{', '.join(scalar(text, quoted=True) for text in own)}]")
        )
    if found.missing:
        parts.append(("missing", "level"))
    return parts, todo


def levels_text(found: Variable) -> str:
    """Return levels as a schema lists them: a list, or codes with labels."""
    if all(level.text == level.label for level in found.levels):
        return f"[{', '.join(scalar(level.text) for level in found.levels)}]"
    pairs = [f"{scalar(level.text)}: {scalar(level.label)}" for level in found.levels]
    return f"{{{', '.join(pairs)}}}"


def _add_range(
    found: Variable,
    scale: ValueType,
    parts: list[tuple[str, str]],
    todo: list[tuple[str, str]],
    where: str,
) -> None:
    low, high = _value(scale, found.minimum), _value(scale, found.maximum)
    crossed = low is not None and high is not None and low > high
    if crossed:
        low = high = None
    ends = (("min", low, found.minimum), ("max", high, found.maximum))
    comments = {"min": f"{scale.ends[0]} legal value", "max": f"{scale.ends[1]} legal value"}
    for word, value, text in ends:
        if text is not None and crossed:
            said = f"min {quote(str(found.minimum))} and max {quote(str(found.maximum))}"
            todo.append((word, f"{where} has {said}; min must not be larger"))
        elif text is not None and value is None:
            todo.append((word, f"{where} has {quote(text)}, not {scale.bound}"))
        elif value is None or text is None:
            todo.append((word, comments[word]))
        else:
            parts.append((word, text.strip()))
    known = low is not None and high is not None
    usual = scale.usual_bins(low, high)
    edges = [edge for text in found.edges if (edge := _value(scale, text)) is not None]
    span = range(int(low or 0), int(high or 0) + 2)
    fits = known and 0 < len(edges) == len(found.edges)
    if not fits or (edges[0], edges[-1]) != (low, (high or 0) + scale.step):
        parts += [("bins", usual)] if usual else []
    elif not usual and edges == list(map(Fraction, span)):
        pass  # a code for each number needs no edges
    elif not scale.periods and _equal_widths(edges, scale):
        parts.append(("bins", str(len(edges) - 1)))
    else:
        parts.append(("edges", f"[{', '.join(found.edges)}]"))
    if found.decimals is not None and "decimals" in scale.keys:
        parts.append(("decimals", str(found.decimals)))
    if found.format:
        parts.append(("format", scalar(found.format, quoted=True)))


def _equal_widths(edges: Sequence[Fraction], scale: ValueType) -> bool:
    """Return whether edges are those of bins of equal width, as a schema makes them."""
    count = len(edges) - 1
    low, whole = edges[0], edges[-1] - edges[0]
    if scale.whole:
        return all(
            edge == low + (2 * k * whole + count) // (2 * count) for k, edge in enumerate(edges)
        )
    return all(
        math.isclose(edge, low + k * whole / count, rel_tol=1e-12) for k, edge in enumerate(edges)
    )


def _value(scale: ValueType, text: str | None) -> Fraction | None:
    """Return a bound as a number, None if it is none of the column's type."""
    if text is None:
        return None
    try:
        value = scale.parse(text)
    except ValueError:
        return None
    if scale.continuous or scale.own_texts:
        return value
    whole = re.fullmatch("[+-]?[0-9]+", text.strip()) and abs(value) <= MAX_INTEGER
    return value if whole else None


def scalar(text: str, *, quoted: bool = False) -> str:
    """Return a text as a key or value of YAML, in quotes where it needs them.

    >>> scalar("poor health"), scalar("a: b"), scalar("1", quoted=True)
    ('poor health', '"a: b"', '"1"')
    """
    if not quoted and _PLAIN_TEXT.fullmatch(text) and "  " not in text:
        return text
    escaped = (char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)
    return '"' + "".join(f"\\{char}" if char in '\\"' else char for char in escaped) + '"'
