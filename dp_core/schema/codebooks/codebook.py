"""What a codebook says about a file and its columns. Public."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.column_types.registry import Kind, column_type
from dp_core.schema.definition import Level
from dp_core.text.documents.typed_text import is_number, parse_date

Role = Literal["", "id", "weight"]

MANY_LEVELS = 5000
"""Most levels of a column that a draft lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One column as a codebook describes it; what it does not say is empty or None.

    Attributes:
        name: Name of the column.
        kind: Type of the schema.
        levels: Category and ordinal: texts of the file with their labels, in the codebook's order.
        minimum, maximum: Legal bounds, as texts in the schema's spelling.
        edges: Bin edges, as texts.
        decimals: Digits after the decimal point.
        format: Format of dates with %d, %m and %Y.
        missing_values: Texts that mean missing in this column; None if the file's list holds.
        missing: Whether values may be missing.
        role: Role of the column.
        description: Label, question and unit of measurement.
        text: Whether the column holds free text, which is not released.
        remarks: What a person should know about the draft of this column.
    """

    name: str
    kind: Kind | None = None
    levels: tuple[Level, ...] = ()
    minimum: str | None = None
    maximum: str | None = None
    edges: tuple[str, ...] = ()
    decimals: int | None = None
    format: str = ""
    missing_values: tuple[str, ...] | None = None
    missing: bool | None = None
    role: Role = ""
    description: str = ""
    text: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def scale(self) -> ValueType | None:
        """The type, if it has values in bins."""
        found = None if self.kind is None else column_type(self.kind)
        return found if isinstance(found, ValueType) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Codebook:
    """A codebook.

    Attributes:
        name: Name of its file.
        form: Its form, such as `Frictionless Table Schema`; empty if it was made from data.
        variables: The columns, in its order.
        title: Title of the data file.
        description: What the data file is about.
        missing_values: Texts that mean missing in every column; None if it does not say.
        unread: Headings or keys of its columns that are not read.
    """

    name: str
    form: str
    variables: tuple[Variable, ...]
    title: str = ""
    description: str = ""
    missing_values: tuple[str, ...] | None = None
    unread: tuple[str, ...] = ()


def numbers_of(*texts: str | None) -> bool:
    """Return whether all texts are numbers.

    >>> numbers_of("1", "2.5"), numbers_of("1", None)
    (True, False)
    """
    return all(text is not None and is_number(text) for text in texts)


def days_of(*texts: str | None) -> bool:
    """Return whether all texts are days, as YYYY-MM-DD."""
    try:
        return all(text is not None and parse_date(text) for text in texts)
    except ValueError:
        return False


def levels_of(pairs: Iterable[tuple[str, str]], missing: Iterable[str] = ()) -> tuple[Level, ...]:
    """Return levels with distinct texts and labels.

    Args:
        pairs: Text and label of each level; an empty label is the text itself.
        missing: Texts that mean missing, which are no levels; none by default.

    >>> levels_of([("1", "yes"), ("2", "yes"), ("9", "refused")], missing=["9"])
    (Level(text='1', label='yes'), Level(text='2', label='yes (2)'))
    """
    absent = set(missing)
    found: dict[str, str] = {}
    taken: set[str] = set()
    for text, label in pairs:
        if text in found or text in absent:
            continue
        label = " ".join(label.split()) or text
        while label in taken or label in absent or label == "(missing)":
            label = f"{label} ({text})"
        found[text] = label
        taken.add(label)
    return tuple(Level(text, label) for text, label in found.items() if text.strip())


def range_of(text: str) -> tuple[str, str] | None:
    """Return the ends of a range that is written in a cell, None if it is none.

    >>> range_of("0-99"), range_of("-5 to 5"), range_of("0..1"), range_of("low")
    (('0', '99'), ('-5', '5'), ('0', '1'), None)
    """
    number = r"([+-]?[0-9]+(?:\.[0-9]+)?)"
    found = re.fullmatch(rf"[\[(]?\s*{number}\s*(?:-|–|to|\.\.\.?|:|,)\s*{number}\s*[\])]?", text)
    return (found[1], found[2]) if found else None


def description_of(*parts: str) -> str:
    """Return one line of the parts that are not empty and not said before."""
    said: list[str] = []
    for part in parts:
        line = " ".join(part.split())
        if line and not any(line.casefold() in before.casefold() for before in said):
            said.append(line)
    return ". ".join(
        one.rstrip(".") if place < len(said) - 1 else one for place, one in enumerate(said)
    )


_PARTS = (("yyyy", "%Y"), ("YYYY", "%Y"), ("MM", "%m"), ("dd", "%d"), ("DD", "%d"))


def date_format(pattern: str) -> str:
    """Return a pattern such as `dd.MM.yyyy` in the schema's form; empty if it is none.

    >>> date_format("dd.MM.yyyy"), date_format("%d/%m/%Y"), date_format("yy-M")
    ('%d.%m.%Y', '%d/%m/%Y', '')
    """
    written = pattern
    for word, part in _PARTS:
        written = written.replace(word, part, 1)
    return written if sorted(re.findall("%.?", written)) == ["%Y", "%d", "%m"] else ""


def by_name(variables: Sequence[Variable]) -> Mapping[str, Variable]:
    """Return the variables by name; the first of equal names."""
    found: dict[str, Variable] = {}
    for variable in variables:
        found.setdefault(variable.name, variable)
    return found


def nonempty(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts that are not blank, without the spaces around them."""
    yield from (stripped for text in texts if (stripped := text.strip()))


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


def texts_of(value: Any) -> tuple[str, ...]:
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
