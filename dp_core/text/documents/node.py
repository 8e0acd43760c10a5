"""One value of a document, with its place in the file.

A `Node` holds the text as typed. Its methods convert it to a number, a list or a mapping, or raise
an error that names file, line and key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ParamSpec, TypeAlias, TypeVar

from dp_core.errors import BadInput, Fault, nearest, similar
from dp_core.text.documents.typed_text import (
    MAX_NUMBER_LENGTH,
    exact_epsilon,
    parse_fraction,
    printable,
    quote,
)

Word = TypeVar("Word", bound=str)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
MAX_DEPTH = 20
BRACES = " Write each key with a colon, a space and its value; in {...} a comma ends the value."
"""What a key without a value probably lacks."""
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
TRUE, FALSE = ("true", "yes", "on"), ("false", "no", "off")
"""Lower-case texts that mean true, and those that mean false."""

Content: TypeAlias = "str | tuple[Node, ...] | Mapping[str, Node] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a document, with the place to name in a message.

    Attributes:
        content: Text of a scalar, None for no value (`key:`; a quoted `""` is the empty text), a
            tuple for a list, a mapping for a mapping.
        source: File name, for messages.
        line: Line in the file, from 1; 0 without a file.
        key: Dotted path, `columns.age.type`; empty at the root.
        quoted: Whether a scalar was written in quotes; False for other values.
    """

    content: Content
    source: str
    line: int = 0
    key: str = ""
    quoted: bool = field(default=False, compare=False)

    @property
    def where(self) -> str:
        """Place as messages name it: `file.yaml, line 12, columns.age.type`."""
        line = f"line {self.line}" if self.line else ""
        return ", ".join(part for part in (self.source, line, self.key) if part)

    def error(self, message: str) -> BadInput:
        """Return the error to raise, with the place in front of the message."""
        error = BadInput(printable(f"{self.where}: {message}"))
        error.faults = (Fault(self.source, self.line, self.key, printable(message)),)
        return error

    def text(self, *, example: str = "") -> str:
        """Return the scalar's text as typed.

        Raises:
            BadInput: if there is no value, or a list or a mapping.
        """
        if isinstance(self.content, str):
            return self.content
        hint = f", such as {example}" if example else ""
        if self.content is None:
            raise self.error(f"has no value; write one{hint}.")
        raise self.error(f"must be a single value{hint}, not {self._shape()}.")

    def name(self) -> str:
        """Return a text that is not blank."""
        text = self.text()
        if not text.strip():
            raise self.error("must not be blank.")
        return text

    def key_column(self) -> str:
        """Return the name of the column that identifies units."""
        if isinstance(self.content, tuple):
            raise self.error(
                "must be one column, not a list; join the columns into one text column of the"
                " file, such as 2019-0042 for year 2019 and household 0042, and name it here."
            )
        return self.name()

    def choice(self, words: Sequence[str]) -> str:
        """Return the text if it is one of `words`."""
        if self.content is None:
            raise self.error(f"has no value; write one of {', '.join(words)}.")
        text = self.text(example=words[0])
        if text not in words:
            raise self.error(
                f"{quote(text)} is not one of {', '.join(words)}.{similar(text, words)}"
            )
        return text

    def boolean(self) -> bool:
        """Return true for true, yes, on; false for false, no, off."""
        text = self.text(example="true").lower()
        if text not in TRUE + FALSE:
            raise self.error(f"{quote(text)} is neither true nor false; write one of them.")
        return text in TRUE

    def integer(self, *, minimum: int | None = None, maximum: int | None = None) -> int:
        """Return a whole number within the limits, both inclusive."""
        text = self.text(example="5").strip()
        if len(text) > MAX_NUMBER_LENGTH or not _INTEGER.fullmatch(text):
            raise self.error(
                f"{quote(text)} is not a whole number; write digits only, such as 20000."
            )
        value = int(text)
        if minimum is not None and value < minimum:
            raise self.error(f"must be at least {minimum}, not {quote(text)}.")
        if maximum is not None and value > maximum:
            raise self.error(f"must be at most {maximum}, not {quote(text)}.")
        return value

    def fraction(
        self,
        *,
        above: int | None = None,
        minimum: int | None = None,
        maximum: int | None = None,
        below: int | None = None,
    ) -> Fraction:
        """Return the exact number; `above` and `below` are strict, the others inclusive."""
        text = self.text(example="0.5")
        try:
            value = parse_fraction(text)
        except ValueError as error:
            raise self.error(str(error)) from None
        if above is not None and value <= above:
            raise self.error(f"must be greater than {above}, not {quote(text)}.")
        if minimum is not None and value < minimum:
            raise self.error(f"must be at least {minimum}, not {quote(text)}.")
        if below is not None and value >= below:
            raise self.error(f"must be less than {below}, not {quote(text)}.")
        if maximum is not None and value > maximum:
            raise self.error(f"must be at most {maximum}, not {quote(text)}.")
        return value

    def epsilon(self, maximum: int) -> Fraction:
        """Return the exact value of an epsilon of at most `maximum`."""
        return in_place(self, exact_epsilon, self.text(example="0.5"), maximum=maximum)

    def items(self, *, example: str = "[a, b]") -> tuple[Node, ...]:
        """Return the items of a list."""
        if isinstance(self.content, tuple):
            return self.content
        if self.content is None:
            raise self.error(f"has no value; write a list, such as {example}.")
        raise self.error(f"must be a list, such as {example}, not {self._shape()}.")

    def texts(self, *, example: str = "[a, b]") -> tuple[str, ...]:
        """Return a list of texts without repetition."""
        seen: dict[str, Node] = {}
        for item in self.items(example=example):
            if item.content is None:
                raise item.error('is empty; write "" for the empty text, or remove the item.')
            text = item.text()
            if text in seen:
                raise item.error(f"{quote(text)} is given twice; remove one.")
            seen[text] = item
        return tuple(seen)

    def entries(self, *, example: str = "") -> Mapping[str, Node]:
        """Return keys and values of a mapping, in the file's order."""
        if isinstance(self.content, Mapping):
            return self.content
        hint = f", such as {example}" if example else ""
        raise self.error(f"must be a mapping of keys to values{hint}, not {self._shape()}.")

    def ordered_entries(self, *, example: str, bare: bool = False) -> Mapping[str, Node]:
        """Return keys and values of a mapping, or of a list of mappings of one key each.

        A list keeps its order in tools that sort keys.

        Args:
            example: A correct value, for messages.
            bare: Whether an item may be a single text, which is then its own value.
        """
        if not isinstance(self.content, tuple):
            return self.entries(example=example)
        entries: dict[str, Node] = {}
        for item in self.content:
            # Texts first: a list of levels may have 65,000 of them.
            if bare and isinstance(item.content, str):
                key, value = item.content, item
            elif isinstance(item.content, Mapping) and len(item.content) == 1:
                ((key, value),) = item.content.items()
            elif bare and item.content is None:
                raise item.error('is empty; write "" for the empty text, or remove the item.')
            else:
                kind = "a single text" if bare else "one key with its value"
                raise item.error(f"must be {kind}, as in {example}, not {item._shape()}.")
            if key in entries:
                first = f", first on line {entries[key].line}" if item.line else ""
                raise item.error(f"{quote(key)} is given twice{first}; remove one.")
            entries[key] = value
        return entries

    def fields(
        self,
        known: Iterable[str],
        *,
        required: Iterable[str] = (),
        example: str = "",
    ) -> Mapping[str, Node]:
        """Return a mapping whose keys are all known and that has all the required ones.

        Args:
            known: The known keys.
            required: Those that must be there; none by default.
            example: A correct value, for messages; none by default.

        Raises:
            BadInput: naming the key and the nearest known one.
        """
        entries = self.entries(example=example)
        known = tuple(known)
        for key, value in entries.items():
            if key not in known:
                place = Node(None, self.source, value.line, self.key)
                meant = similar(key, known) or (BRACES if value.content is None else "")
                raise place.error(
                    f"there is no key {quote(key)} here.{meant or nearest(key, known)}"
                )
        for key in required:
            if key not in entries:
                raise self.error(f"the key {key!r} is missing; add it.")
        return entries

    def has(self, key: str) -> bool:
        """Return whether it is a mapping with that key."""
        return isinstance(self.content, Mapping) and key in self.content

    def without(self, *keys: str) -> Node:
        """Return a mapping without some of its keys."""
        kept = {key: value for key, value in self.entries().items() if key not in keys}
        return replace(self, content=kept)

    def stating(self, value: object) -> Node:
        """Return a value that the program makes, at this place of the file; texts are quoted."""
        if isinstance(value, Mapping):
            return replace(self, content={key: self.stating(one) for key, one in value.items()})
        if isinstance(value, list | tuple):
            return replace(self, content=tuple(map(self.stating, value)))
        return replace(self, content=str(value), quoted=True)

    def _shape(self) -> str:
        if self.content is None:
            return "nothing"
        if isinstance(self.content, str):
            return f"the single value {quote(self.content)}"
        return "a list" if isinstance(self.content, tuple) else "a mapping"


def one_of(node: Node | None, words: tuple[Word, ...]) -> Word:
    """Return the node's text if it is one of the words; the first word if there is no node."""
    if node is None:
        return words[0]
    return words[words.index(node.choice(words))]


def in_place(
    node: Node,
    check: Callable[_Arguments, _Result],
    *arguments: _Arguments.args,
    **options: _Arguments.kwargs,
) -> _Result:
    """Return the result of a check; a refusal gets the place of a node in the file.

    Raises:
        BadInput: the refusal, with its row of the runbook.
    """
    try:
        return check(*arguments, **options)
    except BadInput as error:
        refusal = node.error(error.message)
        refusal.row = error.row
        raise refusal from None


def from_plain(value: object, source: str, key: str = "", depth: int = 0) -> Node:
    """Return the node of a plain Python value, as a library user would write it.

    Args:
        value: Mapping, list, tuple, or a single value, which becomes its text.
        source: Name of the document, for messages.
        key: Dotted path of the value, empty at the root.
        depth: Number of values around it, 0 at the root.
    """
    if depth > MAX_DEPTH:
        raise Node(None, source, 0, key).error(f"is nested deeper than {MAX_DEPTH} levels.")
    content: Content
    if isinstance(value, str):
        content = str(value)
    elif isinstance(value, Mapping):
        content = {
            str(name): from_plain(item, source, f"{key}.{name}" if key else str(name), depth + 1)
            for name, item in value.items()
        }
    elif isinstance(value, list | tuple):
        content = tuple(
            from_plain(item, source, f"{key}[{number}]", depth + 1)
            for number, item in enumerate(value, start=1)
        )
    elif value is None:
        content = None
    elif isinstance(value, bool):
        content = "true" if value else "false"
    else:
        content = str(value)
    return Node(content, source, 0, key, quoted=isinstance(value, str))
