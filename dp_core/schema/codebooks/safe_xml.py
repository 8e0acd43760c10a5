"""XML from others as a tree: no document type, so no entities, and nothing is loaded.

An entity can expand to gigabytes or name a file; both need a document type declaration, which is
refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from dp_core.errors import BadInput

MAX_DEPTH = 200
MAX_ELEMENTS = 1_000_000


@dataclass(slots=True)
class Element:
    """An element without its namespace.

    Attributes:
        tag: Local name.
        attributes: Attributes by local name.
        children: Elements in it, in order.
        parts: Its own text before, between and after them, in pieces.
    """

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The element's own text, without that of elements in it."""
        return "".join(self.parts)

    def all(self, *path: str) -> list[Element]:
        """Return the elements at the end of a path of local names."""
        found = [self]
        for tag in path:
            found = [child for each in found for child in each.children if child.tag == tag]
        return found

    def first(self, *path: str) -> Element | None:
        """Return the first element at the end of a path, None if there is none."""
        found = self.all(*path)
        return found[0] if found else None

    def below(self, *tags: str) -> list[Element]:
        """Return all elements of these local names below this one, in order."""
        found = []
        for child in self.children:
            if child.tag in tags:
                found.append(child)
            found += child.below(*tags)
        return found

    def words(self, *path: str) -> str:
        """Return the text of the first element at the end of a path, all of it, on one line."""
        found = self.first(*path)
        return "" if found is None else " ".join(found.all_text().split())

    def all_text(self) -> str:
        """Return the element's text with that of all elements in it."""
        return " ".join((self.text, *(child.all_text() for child in self.children)))


def parse_xml(raw: bytes, name: str) -> Element:
    """Return the root of an XML document.

    Args:
        raw: The document.
        name: Name of its file, for the message.

    Raises:
        BadInput: if it is not XML, has a document type or an encoding that is not read, is nested
            deeper than `MAX_DEPTH`, or has more than `MAX_ELEMENTS` elements.
    """
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    root = Element("", {})
    open_: list[Element] = [root]
    number = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal number
        number += 1
        if number > MAX_ELEMENTS:
            raise BadInput(
                f"{name} has more than {MAX_ELEMENTS:,} elements. Give a smaller codebook."
            )
        if len(open_) > MAX_DEPTH:
            raise BadInput(f"{name} is nested deeper than {MAX_DEPTH} elements.")
        plain = {_local(key): value for key, value in attributes.items()}
        element = Element(_local(tag), plain)
        open_[-1].children.append(element)
        open_.append(element)

    def end(_tag: str) -> None:
        open_.pop()

    def characters(text: str) -> None:
        open_[-1].parts.append(text)

    def document_type(*_what: object) -> None:
        raise BadInput(
            f"{name} has a document type (<!DOCTYPE ...>), which is not read because it can load"
            " other files. Remove that line."
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = document_type
    try:
        parser.Parse(raw, True)
    except (LookupError, ValueError):  # Python would have to read the declared encoding
        raise BadInput(f"{name} has an encoding that is not read. Save it as UTF-8.") from None
    except expat.ExpatError as error:
        raise BadInput(
            f"Line {error.lineno} of {name} is not valid XML ({expat.ErrorString(error.code)})."
            " Export it again."
        ) from None
    return root.children[0]


def _local(name: str) -> str:
    return name.rpartition("}")[2]
