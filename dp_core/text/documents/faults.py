"""Collects the faults of a document, so that one error lists all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import ParamSpec, TypeVar

from dp_core.errors import BadInput, Fault, similar
from dp_core.text.documents.node import Node
from dp_core.text.documents.strict_yaml import texts_in

MOST_FAULTS = 20
"""Most faults that a message lists."""
_FIX = re.compile(r"; |\. (?=[A-Z])| (?=Did you mean |Known: )")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Otherwise = TypeVar("_Otherwise")


class Faults:
    """The faults found so far in one document.

    `bad` has the names of columns with faults of their own; nothing that names them is judged.

    Args:
        source: Name of the document, for the message.
        each: Whether to go on after a fault; True by default.
    """

    def __init__(self, source: str, *, each: bool = True) -> None:
        self.source = source
        self.each = each
        self.found: list[BadInput] = []
        self.bad: set[str] = set()

    def of(
        self,
        otherwise: _Otherwise,
        read: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Result | _Otherwise:
        """Return what a reader returns; if it raises an error, note it and return `otherwise`.

        Raises:
            BadInput: the fault, if only the first is wanted.
        """
        try:
            return read(*arguments, **options)
        except BadInput as error:
            self.note(error)
            return otherwise

    def note(self, error: BadInput) -> None:
        """Note a fault.

        Raises:
            BadInput: the fault, if only the first is wanted.
        """
        if not self.each:
            raise error
        if error.message not in {one.message for one in self.found}:  # a key may be read twice
            self.found.append(error)

    def items(self, node: Node, *, example: str) -> Iterator[Node]:
        """Yield the items of a list that name no column of `bad`, not even misspelt."""
        return (item for item in node.items(example=example) if not _names_any(item, self.bad))

    def stop(self) -> None:
        """Raise the faults found so far, if there are any.

        Raises:
            BadInput: the fault itself if there is one, otherwise one error that lists all by line;
                equal faults share an entry.
        """
        if not self.found:
            return
        if len(self.found) == 1:
            raise self.found[0]
        source = self.source
        listed = [each.faults or (Fault(source, 0, "", each.message),) for each in self.found]
        faults = sorted(
            (fault for each in listed for fault in each),
            key=lambda fault: (fault.file != source, fault.file, fault.line),
        )
        entries: dict[tuple[str, str], list[Fault]] = {}
        for one in faults:
            entries.setdefault((one.file, one.text), []).append(one)
        lines = [_entry(alike, source) for alike in entries.values()]
        if len(lines) > MOST_FAULTS:
            lines[MOST_FAULTS:] = [f"and {len(lines) - MOST_FAULTS} more."]
        told = "".join(f"\n- {line}" for line in lines)
        error = BadInput(f"{source} has {len(faults)} faults:{told}")
        error.faults = tuple(faults)
        raise error


def top_keys(
    root: Node,
    faults: Faults,
    known: Collection[str],
    *,
    required: Collection[str],
) -> Mapping[str, Node]:
    """Return the known keys of a document; notes each key that is unknown or missing.

    A missing key is noted only if no key is unknown: an unknown key may be the missing one,
    misspelt.

    Args:
        root: The top value, a mapping.
        faults: Notes the faults.
        known: The known keys.
        required: Keys that must be present.
    """
    entries = root.entries()
    found = {key: value for key, value in entries.items() if key in known}
    unknown = [key for key in entries if key not in known]
    lines = [value.line for value in entries.values() if value.line]
    if len(set(lines)) < len(lines):
        # On one line, the unknown keys may be pieces of one value.
        unknown = unknown[:1]
    for left in unknown:
        part = {key: value for key, value in entries.items() if key in known or key == left}
        faults.of(None, replace(root, content=part).fields, known)
    if not unknown:
        for key in required:
            faults.of(None, root.fields, known, required=(key,))
    return found


def fault_json(fault: Fault) -> dict[str, object]:
    """Return a fault as a finding: severity, message and fix, with its place.

    >>> found = fault_json(Fault("s.yaml", 4, "columns.a", "'a; b' is not a type; write integer."))
    >>> found["message"], found["fix"]
    ("'a; b' is not a type.", 'Write integer.')
    """
    hidden = _QUOTED.sub(lambda found: "_" * len(found[0]), fault.text)
    cut = _FIX.search(hidden)
    said = fault.text[: cut.start()] if cut else fault.text
    fix = fault.text[cut.end() :] if cut else ""
    return {
        "severity": "refusal",
        "file": fault.file,
        "line": fault.line or None,
        "key": fault.key,
        "message": f"{said.removesuffix('.')}.",
        "fix": f"{fix[:1].upper()}{fix[1:]}",
    }


def _entry(alike: list[Fault], source: str) -> str:
    """Return the text of a fault, with the places of the faults that are equal to it."""
    first, *others = alike
    line = f"line {first.line}" if first.line else ""
    file = first.file if first.file != source else ""
    where = ", ".join(part for part in (file, line, first.key) if part)
    text = f"{where}: {first.text}" if where else first.text
    also = ", ".join(f"{one.key} (line {one.line})" if one.line else one.key for one in others)
    return f"{text} The same in {also}." if also else text


def _names_any(node: Node, names: Collection[str]) -> bool:
    """Return whether keys or texts of a part of a document name some columns, perhaps misspelt."""
    if not names:
        return False
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")

    def in_text(text: str) -> bool:
        words = re.findall(r"\w+", text)
        return bool(pattern.search(text)) or any(similar(word, names) for word in words)

    return any(map(in_text, texts_in(node)))
