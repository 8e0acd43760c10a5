"""Strict YAML: every scalar is the text as typed, and every error names a file and a line.

YAML itself turns `yes` into a boolean, `1e-9` into a text and `007` into seven, and silently keeps
the last of two equal keys. Here a file becomes nodes (`dp_core.text.documents.node`), and the
reader of each key decides its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml

from dp_core.errors import BadInput
from dp_core.text.documents.node import BRACES, MAX_DEPTH, Node
from dp_core.text.documents.similar_paths import similar_path
from dp_core.text.documents.typed_text import printable, quote, utf8_text

MAX_BYTES = 16 * 2**20

_DATA_SUFFIXES = (".csv", ".tsv", ".parquet", ".gz", ".zip", ".arrow", ".feather", ".xlsx")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TYPOGRAPHIC = tuple("“”„‟‘’‚«»")
_TAB_INDENT = re.compile(r"^ *\t", re.MULTILINE)


_TEXT = (
    "put quotes around a text with a colon, and around one that starts with > | % @ ` * & ! #; no"
    " item may be empty"
)
_INDENT = "check the indentation, the quotes, and the space after every colon, here and just above"
_HINTS = (
    ("mapping values are not allowed", _INDENT),
    ("could not find expected ':'", _INDENT),
    ("did not find expected key", _INDENT),
    ("expected <block end>", _INDENT),
    ("expected ',' or ']'", "a list [...] is not closed, or a comma is missing"),
    ("expected ',' or '}'", "a mapping {...} is not closed, or a comma is missing"),
    ("unexpected end of stream", "a quote is opened and never closed"),
    ("expected '-' indicator", "check the indentation, and begin each item with `- `"),
    ("unknown escape character", "write a text with a backslash in single quotes"),
)
"""Parts of the messages of libyaml, and what to do about each; `_TEXT` is for all others."""


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file as it was typed.

    Attributes:
        path: Path of the file.
        root: Its top value, never empty.
    """

    path: Path
    root: Node


def load(path: Path, *, advice: str = "") -> Document:
    """Read a YAML file, with every scalar as text.

    Args:
        path: The file.
        advice: Sentence that ends the error if there is no such file and none of a similar name.

    Raises:
        BadInput: if the file cannot be read, is not UTF-8 or not YAML, gives a key twice, or uses
            anchors, aliases, merge keys, tags or several documents.
    """
    return Document(path, parse(_read(path, advice), source=path.name))


def parse(text: str, *, source: str) -> Node:
    """Return the top value of a YAML text; `source` is its name in messages."""
    if match := _UNPRINTABLE.search(text):
        raise _syntax(source, _line_of(text, match.start()), "has a control character; remove it.")
    if match := _TAB_INDENT.search(text):
        raise _syntax(source, _line_of(text, match.start()), "is indented with a tab; use spaces.")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events: Iterator[yaml.Event] = yaml.parse(text, Loader=loader)
    try:
        return _Builder(source).document(events)
    except yaml.MarkedYAMLError as error:
        raise yaml_error(error, text, source) from None
    except yaml.YAMLError:
        raise BadInput(f"{source}: is not valid YAML; check quotes and brackets.") from None


def plain(node: Node, scalar: Callable[[Node], Any] = attrgetter("content")) -> Any:
    """Return a value as lists and dictionaries.

    Args:
        node: The value.
        scalar: Returns a scalar; by default its text, and None for no value.
    """
    if isinstance(node.content, tuple):
        return [plain(item, scalar) for item in node.content]
    if isinstance(node.content, Mapping):
        return {key: plain(value, scalar) for key, value in node.content.items()}
    return scalar(node)


def texts_in(node: Node) -> Iterator[str]:
    """Yield all keys and texts of a value."""
    if isinstance(node.content, Mapping):
        for key, value in node.content.items():
            yield from (key, *texts_in(value))
    elif isinstance(node.content, tuple):
        yield from (text for item in node.content for text in texts_in(item))
    elif node.content is not None:
        yield node.content


class _Builder:
    """Nodes from parser events."""

    def __init__(self, source: str) -> None:
        self.source = source

    def document(self, events: Iterator[yaml.Event]) -> Node:
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise _syntax(self.source, _line(event), "begins a second document; keep one.")
                root = self.node(next(events), events, "", None, 0)
        if root is None or root.content is None:
            raise BadInput(
                f"{self.source}: is empty; `dp-release schema draft FILE` prints a draft."
            )
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
        # Most values are words or numbers, to which nothing below applies.
        if (
            type(event) is yaml.ScalarEvent
            and event.value.isalnum()
            and event.anchor is None
            and event.tag is None
            and depth <= MAX_DEPTH
        ):
            return Node(event.value, self.source, line, key, quoted=bool(event.style))
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
            if not event.style and event.value[:1] in _TYPOGRAPHIC:
                raise place.error(
                    f"{quote(event.value)} has typographic quotes; write straight ones."
                )
            nothing = event.value == "" and not event.style
            content = None if nothing else event.value
            return Node(content, self.source, line, key, quoted=bool(event.style))
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
        twice: BadInput | None = None
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            name = self.node(event, events, parent.key, None, depth + 1)
            if name.content is None:
                raise name.error(
                    "a key is empty; name it, or put quotes around a value that begins with ?."
                )
            if not isinstance(name.content, str):
                raise name.error("a key must be a single text, not a list or a mapping.")
            word = name.content
            if word == "<<" and not getattr(event, "style", None):
                raise name.error("merge keys (<<) are not accepted; write the keys out.")
            if word in entries and twice is None:
                hint = BRACES if entries[word].content is None else ""
                twice = name.error(
                    f"the key {quote(word)} is given twice, first on line {entries[word].line};"
                    f" remove one.{hint}"
                )
            key = f"{parent.key}.{word}" if parent.key else word
            value = self.node(next(events), events, key, name.line, depth + 1)
            entries.setdefault(word, value)
        if twice is not None:
            raise twice
        return entries


def _read(path: Path, advice: str) -> str:
    name = printable(path.name or str(path))
    raw = file_start(path, MAX_BYTES + 1, "a YAML file", (".yaml", ".yml"), advice)
    if name.lower().endswith(_DATA_SUFFIXES):
        raise BadInput(f"{name}: is a data file; name a YAML file.")
    if len(raw) > MAX_BYTES:
        raise BadInput(
            f"{name}: is larger than {MAX_BYTES // 2**20} MB; check that it is not a data file."
        )
    return utf8_text(raw, name)


def file_start(
    path: Path, most: int, what: str, suffixes: Collection[str] = (), advice: str = ""
) -> bytes:
    """Return the first bytes of a file that a person names.

    Args:
        path: The file.
        most: Most bytes.
        what: What is to be named instead if it is no file, such as `a YAML file`.
        suffixes: Suffixes of the files that may be meant if it does not exist; by default any.
        advice: Sentence that ends the error if it does not exist and no name is similar.

    Raises:
        BadInput: if there is no such file, or it is a folder or cannot be read.
    """
    name = printable(path.name or str(path))
    try:
        if path.is_dir():
            raise BadInput(f"{name}: is a folder; name {what} in it.")
        if not path.exists():
            folder = str(path.parent)
            where = "this folder" if folder == "." else repr(folder)
            similar = similar_path(
                path, lambda one: (not suffixes or one.suffix in suffixes) and one.is_file()
            )
            hint = similar or (advice and f" {advice}")
            raise BadInput(f"{name}: there is no such file in {where}.{hint}")
        if not path.is_file():
            raise BadInput(f"{name}: is not a regular file; name {what}.")
        with path.open("rb") as stream:
            return stream.read(most)
    except OSError as error:
        raise BadInput(f"{name}: cannot be read ({error.strerror}).") from None


def _syntax(source: str, line: int, message: str) -> BadInput:
    return Node(None, source, line).error(message)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def yaml_error(error: yaml.MarkedYAMLError, text: str, source: str) -> BadInput:
    """Return the error for a text that libyaml cannot parse.

    Args:
        error: What libyaml says.
        text: The text.
        source: Name of the file.
    """
    problem = error.problem or "cannot be parsed"
    mark = error.problem_mark or error.context_mark
    if "could not find expected ':'" in problem and error.context_mark:
        mark = error.context_mark  # the key; the problem is noticed on a later line
    line = mark.line + 1 if mark else 1
    hint = next((hint for part, hint in _HINTS if part in problem), _TEXT)
    if "flow" in (error.context or "") and error.context_mark:
        hint = f"{hint} (the bracket opens on line {error.context_mark.line + 1})"
    if "\t" in "".join(text.splitlines()[line - 1 : line]):
        hint = "the line has a tab character; use spaces"
    return _syntax(source, line, f"is not valid YAML ({problem}); {hint}.")
