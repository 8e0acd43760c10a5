"""Strict YAML: every scalar is the text a person typed, and every mistake has a file and a line.

YAML's own typing turns `yes` into a truth value, `1e-9` into a text and `007` into seven, and the
last of two equal keys wins in silence. Here nothing is typed until its reader says what it should
be: `Node` carries the text with its line and key, and its readers turn it into numbers, lists and
mappings or fail with one sentence.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias, TypeVar

import yaml

from dp_core.errors import BadInput, nearest

Word = TypeVar("Word", bound=str)

MAX_BYTES = 16 * 2**20
MAX_DEPTH = 20
MAX_NUMBER_LENGTH = 100
MAX_EXPONENT = 300

_DATA_SUFFIXES = (".csv", ".tsv", ".parquet", ".gz", ".zip", ".arrow", ".feather", ".xlsx")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAB_INDENT = re.compile(r"^ *\t", re.MULTILINE)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_RATIO = re.compile(r"([+-]?[0-9]+)\s*/\s*([0-9]+)", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")

# What libyaml says, and what a person can do about it.
_HINTS = (
    (
        "mapping values are not allowed",
        "check the indentation, the space after every colon, and quotes around a text with ': '",
    ),
    ("cannot start any token", "a text that starts with one of > % @ ` | needs quotes"),
    ("expected a comment or a line break", "a text that starts with > or | needs quotes"),
    ("did not find expected comment or line break", "a text that starts with > needs quotes"),
    ("expected ',' or ']'", "a list [...] is not closed, or a comma is missing"),
    ("expected ',' or '}'", "a mapping {...} is not closed, or a comma is missing"),
    ("could not find expected ':'", "a key needs a colon and a space after it"),
    ("found unexpected ':'", "a key has no value here, or a text with a colon needs quotes"),
    ("chomping or indentation indicators", "a text that starts with > or | needs quotes"),
    ("expected <block end>", "check the indentation and the quotes here and just above"),
    ("unexpected end of stream", "a quote is opened and never closed"),
    ("did not find expected key", "check the indentation and the quotes here and just above"),
    ("did not find expected '-' indicator", "check the indentation of the list"),
    ("did not find expected tag", "a text that starts with ! needs quotes"),
)

Content: TypeAlias = "str | tuple[Node, ...] | Mapping[str, Node] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a document, with the place to name in a message.

    Attributes:
        content: Text of a scalar, None where nothing stands (`key:`; a quoted `""` is the empty
            text), a tuple for a list, a mapping for a mapping.
        source: File name, for messages.
        line: Line in the file, from 1; 0 where there is no file.
        key: Dotted path, `columns.age.type`; empty at the root.
    """

    content: Content
    source: str
    line: int = 0
    key: str = ""

    @property
    def where(self) -> str:
        """Place as messages name it: `file.yaml, line 12, columns.age.type`."""
        line = f"line {self.line}" if self.line else ""
        return ", ".join(part for part in (self.source, line, self.key) if part)

    def error(self, message: str) -> BadInput:
        """Return the error to raise, with the place in front of the message."""
        return BadInput(printable(f"{self.where}: {message}"))

    def text(self, *, example: str = "") -> str:
        """Return the scalar's text as typed.

        Raises:
            BadInput: if nothing stands here, or a list or a mapping.
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

    def choice(self, words: Sequence[str]) -> str:
        """Return the text if it is one of `words`."""
        if self.content is None:
            raise self.error(f"has no value; write one of {', '.join(words)}.")
        text = self.text(example=words[0])
        if text not in words:
            raise self.error(
                f"{shown(text)} is not one of {', '.join(words)}.{_guess(text, words)}"
            )
        return text

    def boolean(self) -> bool:
        """Return true for true, yes, on; false for false, no, off."""
        text = self.text(example="true").lower()
        if text not in _TRUE + _FALSE:
            raise self.error(f"{shown(text)} is neither true nor false.")
        return text in _TRUE

    def integer(self, *, minimum: int | None = None, maximum: int | None = None) -> int:
        """Return a whole number within the limits, both inclusive."""
        text = self.text(example="5").strip()
        if len(text) > MAX_NUMBER_LENGTH or not _INTEGER.fullmatch(text):
            raise self.error(
                f"{shown(text)} is not a whole number; write digits only, such as 20000."
            )
        value = int(text)
        if minimum is not None and value < minimum:
            raise self.error(f"must be at least {minimum}, not {shown(text)}.")
        if maximum is not None and value > maximum:
            raise self.error(f"must be at most {maximum}, not {shown(text)}.")
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
            raise self.error(f"must be greater than {above}, not {shown(text)}.")
        if minimum is not None and value < minimum:
            raise self.error(f"must be at least {minimum}, not {shown(text)}.")
        if below is not None and value >= below:
            raise self.error(f"must be less than {below}, not {shown(text)}.")
        if maximum is not None and value > maximum:
            raise self.error(f"must be at most {maximum}, not {shown(text)}.")
        return value

    def date(self) -> datetime.date:
        """Return an ISO date."""
        text = self.text(example="2026-12-31")
        try:
            return parse_date(text)
        except ValueError as error:
            raise self.error(str(error)) from None

    def items(self, *, example: str = "[a, b]") -> tuple[Node, ...]:
        """Return the items of a list."""
        if isinstance(self.content, tuple):
            return self.content
        raise self.error(f"must be a list, such as {example}, not {self._shape()}.")

    def texts(self, *, example: str = "[a, b]") -> tuple[str, ...]:
        """Return a list of texts without repetition."""
        seen: dict[str, Node] = {}
        for item in self.items(example=example):
            if item.content is None:
                raise item.error('is empty; write "" for the empty text, or remove it.')
            text = item.text()
            if text in seen:
                raise item.error(f"{shown(text)} is given twice.")
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

        The list says with brackets that order matters, and survives tools that sort keys. With
        `bare`, an item may be a single text, which is then its own value.
        """
        if not isinstance(self.content, tuple):
            return self.entries(example=example)
        entries: dict[str, Node] = {}
        for item in self.content:
            if isinstance(item.content, Mapping) and len(item.content) == 1:
                ((key, value),) = item.content.items()
            elif bare and isinstance(item.content, str):
                key, value = item.content, item
            elif bare and item.content is None:
                raise item.error('is empty; write "" for the empty text, or remove it.')
            else:
                kind = "a single text" if bare else "one key with its value"
                raise item.error(f"must be {kind}, as in {example}, not {item._shape()}.")
            if key in entries:
                raise item.error(
                    f"{shown(key)} is given twice, first on line {entries[key].line}."
                    if item.line
                    else f"{shown(key)} is given twice."
                )
            entries[key] = value
        return entries

    def fields(
        self, known: Iterable[str], *, required: Iterable[str] = (), example: str = ""
    ) -> Mapping[str, Node]:
        """Return a mapping whose keys are all known and that has all the required ones.

        Raises:
            BadInput: naming the key and the nearest known one.
        """
        entries = self.entries(example=example)
        known = tuple(known)
        before: Node | None = None
        for key, value in entries.items():
            if key not in known:
                if before is not None and _continues(value, before) and not _guess(key, known):
                    raise before.error(
                        f"a comma inside {{...}} ends a value; if {shown(key)} belongs to it, write"
                        f" {_joined(str(before.content), key)}."
                    )
                place = Node(None, self.source, value.line, self.key)
                raise place.error(f"there is no key {shown(key)} here.{nearest(key, known)}")
            before = value
        for key in required:
            if key not in entries:
                raise self.error(f"the key {key!r} is missing.")
        return entries

    def _shape(self) -> str:
        if self.content is None:
            return "nothing"
        if isinstance(self.content, str):
            return f"the single value {shown(self.content)}"
        return "a list" if isinstance(self.content, tuple) else "a mapping"


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file as it was typed.

    Attributes:
        path: Of the file.
        root: Its top value, never empty.
    """

    path: Path
    root: Node


def load(path: Path) -> Document:
    """Read a YAML file without typing anything.

    Raises:
        BadInput: if the file cannot be read, is not UTF-8 or not YAML, gives a key twice, or uses
            anchors, aliases, merge keys, tags or several documents.
    """
    return Document(path, parse(_read(path), source=path.name))


def parse(text: str, *, source: str) -> Node:
    """Return the top value of a YAML text; `source` is its name in messages."""
    if match := _UNPRINTABLE.search(text):
        raise _syntax(
            source, _line_of(text, match.start()), "holds a control character; remove it."
        )
    if match := _TAB_INDENT.search(text):
        raise _syntax(
            source, _line_of(text, match.start()), "is indented with a tab; YAML wants spaces."
        )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events: Iterator[yaml.Event] = yaml.parse(text, Loader=loader)
    try:
        return _Builder(source).document(events)
    except yaml.MarkedYAMLError as error:
        raise _translated(error, text, source) from None
    except yaml.YAMLError:
        raise BadInput(f"{source}: is not valid YAML; check quotes and brackets.") from None


def from_plain(value: object, *, source: str) -> Node:
    """Return a document's root for a plain Python value, as a library user would write it."""
    return _from_plain(value, source, "", 0)


def parse_fraction(text: str) -> Fraction:
    """Return the exact value of a decimal or a ratio.

    Raises:
        ValueError: with a sentence that says how to write it.

    >>> parse_fraction("1.0e-9"), parse_fraction("1/3")
    (Fraction(1, 1000000000), Fraction(1, 3))
    """
    stripped = text.strip()
    if len(stripped) > MAX_NUMBER_LENGTH:
        raise ValueError(f"{shown(stripped)} is longer than {MAX_NUMBER_LENGTH} characters.")
    if match := _RATIO.fullmatch(stripped):
        if int(match[2]) == 0:
            raise ValueError(f"{shown(stripped)} divides by zero.")
        return Fraction(int(match[1]), int(match[2]))
    match = _DECIMAL.fullmatch(stripped)
    if not match:
        raise ValueError(f"{shown(stripped)} is not a number{_number_hint(stripped)}.")
    if match[1] and abs(int(match[1])) > MAX_EXPONENT:
        raise ValueError(
            f"{shown(stripped)} is beyond any use: exponents go from -{MAX_EXPONENT}"
            f" to {MAX_EXPONENT}."
        )
    return Fraction(stripped)


def parse_date(text: str) -> datetime.date:
    """Return the day of an ISO date.

    Raises:
        ValueError: with a sentence that says how to write it.

    >>> parse_date("1900-01-01")
    datetime.date(1900, 1, 1)
    """
    stripped = text.strip()
    if not _ISO_DATE.fullmatch(stripped):
        raise ValueError(
            f"{shown(stripped)} is not a date; write year-month-day, such as 2026-12-31."
        )
    try:
        return datetime.date.fromisoformat(stripped)
    except ValueError:
        raise ValueError(f"There is no day {shown(stripped)} in the calendar.") from None


def one_of(node: Node | None, words: tuple[Word, ...]) -> Word:
    """Return the node's text if it is one of the words; the first word where there is no node."""
    if node is None:
        return words[0]
    return words[words.index(node.choice(words))]


def printable(text: str) -> str:
    """Return the text with control characters escaped, so that a message stays one line."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def shown(text: str) -> str:
    """Return the text quoted for a message, cut where it is long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


class _Builder:
    """Nodes from parser events."""

    def __init__(self, source: str) -> None:
        self.source = source

    def document(self, events: Iterator[yaml.Event]) -> Node:
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise _syntax(self.source, _line(event), "starts a second document; keep one.")
                root = self.node(next(events), events, "", None, 0)
        if root is None or root.content is None:
            raise BadInput(f"{self.source}: is empty; see `dp-release schema draft` for a start.")
        return root

    def node(
        self,
        event: yaml.Event,
        events: Iterator[yaml.Event],
        key: str,
        line: int | None,
        depth: int,
    ) -> Node:
        line = _line(event) if line is None else line
        place = Node(None, self.source, line, key)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise place.error(
                "anchors (&name) and aliases (*name) are not accepted; write the value out,"
                " or put quotes around a text that starts with & or *."
            )
        if getattr(event, "tag", None) is not None:
            raise place.error(
                "tags (!name) are not accepted; put quotes around a text starting with !."
            )
        if depth > MAX_DEPTH:
            raise place.error(f"is nested deeper than {MAX_DEPTH} levels.")
        if isinstance(event, yaml.ScalarEvent):
            nothing = event.value == "" and not event.style
            return Node(None if nothing else event.value, self.source, line, key)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(self.items(events, key, depth), self.source, line, key)
        return Node(self.entries(place, events, depth), self.source, line, key)

    def items(self, events: Iterator[yaml.Event], key: str, depth: int) -> tuple[Node, ...]:
        items: list[Node] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(self.node(event, events, f"{key}[{len(items) + 1}]", None, depth + 1))
        return tuple(items)

    def entries(self, parent: Node, events: Iterator[yaml.Event], depth: int) -> Mapping[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            name = self.node(event, events, parent.key, None, depth + 1)
            if name.content is None:
                raise name.error(
                    "a key is empty; name it, or put quotes around a ? that is a value."
                )
            if not isinstance(name.content, str):
                raise name.error("a key must be a single text, not a list or a mapping.")
            word = name.content
            if word == "<<" and not getattr(event, "style", None):
                raise name.error("merge keys (<<) are not accepted; write the keys out.")
            if word in entries:
                raise name.error(
                    f"the key {shown(word)} is given twice, first on line {entries[word].line}."
                )
            key = f"{parent.key}.{word}" if parent.key else word
            entries[word] = self.node(next(events), events, key, name.line, depth + 1)
        return entries


def _read(path: Path) -> str:
    name = printable(path.name or str(path))
    try:
        if path.is_dir():
            raise BadInput(f"{name}: is a folder; name the YAML file inside it.")
        if not path.exists():
            near = [file.name for file in _siblings(path) if file.suffix in {".yaml", ".yml"}]
            raise BadInput(f"{name}: there is no such file in {_folder(path)}.{_guess(name, near)}")
        if not path.is_file():
            raise BadInput(f"{name}: is not a regular file.")
        if name.lower().endswith(_DATA_SUFFIXES):
            raise BadInput(f"{name}: is a data file; name a YAML file here.")
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{name}: cannot be read ({error.strerror}).") from None
    if len(raw) > MAX_BYTES:
        raise BadInput(f"{name}: is larger than {MAX_BYTES // 2**20} MB; is it a data file?")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{name}, line {line}: is not UTF-8 text; save it as UTF-8.") from None


def _folder(path: Path) -> str:
    return "this folder" if str(path.parent) == "." else f"{str(path.parent)!r}"


def _siblings(path: Path) -> list[Path]:
    try:
        return [entry for entry in path.parent.iterdir() if entry.is_file()]
    except OSError:
        return []


def _translated(error: yaml.MarkedYAMLError, text: str, source: str) -> BadInput:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    problem = error.problem or "cannot be parsed"
    lines = text.splitlines()
    here = lines[line - 1] if line <= len(lines) else ""
    hint = next((hint for part, hint in _HINTS if part in problem), "check quotes and brackets")
    if "\t" in here:
        hint = "the line holds a tab character; YAML wants spaces"
    elif re.search(r"[:,\[{]\s*[*&]", here):
        hint = "a text that starts with * or & needs quotes"
    return BadInput(f"{source}, line {line}: is not valid YAML ({problem}); {hint}.")


def _syntax(source: str, line: int, message: str) -> BadInput:
    return BadInput(f"{source}, line {line}: {message}")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _number_hint(text: str) -> str:
    if re.fullmatch(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?", text):
        return "; write it without thousands separators"
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]+([eE].*)?", text):
        return f"; write a decimal point, as in {text.replace(',', '.')}"
    if re.fullmatch(r"[+-]?[0-9.]+\s*%", text):
        return "; write a fraction such as 0.1 instead of a percentage"
    if re.search(r"nan|inf", text, re.IGNORECASE):
        return "; it must be finite"
    if re.match(r"[\u2010-\u2015\u2212]", text):
        return "; its minus sign is not the one of the keyboard"
    return "; write one such as 0.5, 1e-9 or 1/3"


def _continues(value: Node, before: Node) -> bool:
    # `{epsilon: 1,0}` is read as the keys `epsilon` and `0`, the latter without a value.
    return value.content is None and isinstance(before.content, str) and value.line == before.line


def _joined(text: str, key: str) -> str:
    """Return how a value that a comma cut in two should have been written."""
    if _INTEGER.fullmatch(text) and re.fullmatch(r"[0-9]+(?:[eE][+-]?[0-9]+)?", key):
        return f"{text}.{key} with a decimal point"
    return f'"{text}, {key}" in quotes'


def _guess(word: str, known: Iterable[str]) -> str:
    guess = nearest(word, known)
    return guess if "Did you mean" in guess else ""


def _from_plain(value: object, source: str, key: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise Node(None, source, 0, key).error(f"is nested deeper than {MAX_DEPTH} levels.")
    content: Content
    if isinstance(value, Mapping):
        content = {
            str(name): _from_plain(item, source, f"{key}.{name}" if key else str(name), depth + 1)
            for name, item in value.items()
        }
    elif isinstance(value, list | tuple):
        content = tuple(
            _from_plain(item, source, f"{key}[{number}]", depth + 1)
            for number, item in enumerate(value, start=1)
        )
    elif value is None:
        content = None
    elif isinstance(value, bool):
        content = "true" if value else "false"
    else:
        content = str(value)
    return Node(content, source, 0, key)
