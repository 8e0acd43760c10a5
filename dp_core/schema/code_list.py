"""A public code list with its hierarchy, and the rule that merges its codes into groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Code:
    """One line of a code list.

    Attributes:
        text: The code, exactly as the file has it.
        label: Its meaning.
        parent: Code of the group it belongs to; empty at the top.
    """

    text: str
    label: str
    parent: str = ""


@dataclass(frozen=True, slots=True)
class CodeList:
    """A public list of codes, each named once, whose parents are codes of the list too.

    Attributes:
        codes: The codes, in the list's order.
        sha256: SHA-256 of the file, in hexadecimal.
    """

    codes: tuple[Code, ...]
    sha256: str = ""
    _lines: dict[str, list[str]] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    @property
    def has_parents(self) -> bool:
        """Whether the list is a hierarchy."""
        return any(code.parent for code in self.codes)

    def lines(self) -> Mapping[str, list[str]]:
        """Return for each code itself, its parent, its parent's parent, up to the top.

        Raises:
            ValueError: if a code is its own ancestor; the message is that code.
        """
        if not self._lines:
            parents = {code.text: code.parent for code in self.codes}
            found: dict[str, list[str]] = {}
            for code in self.codes:
                climbed: list[str] = []
                text = code.text
                while text and text not in found:
                    if len(climbed) > len(parents):
                        raise ValueError(code.text)
                    climbed.append(text)
                    text = parents[text]
                above = found[text] if text else []
                for one in reversed(climbed):
                    above = found[one] = [one, *above]
            # A cache: the lines depend on the frozen fields only.
            self._lines.update(found)
        return self._lines

    def depth(self, text: str) -> int:
        """Return the depth of a code; 1 is the top."""
        return len(self.lines()[text])

    @property
    def deepest(self) -> int:
        """Largest depth of a code."""
        return max(len(line) for line in self.lines().values())


@dataclass(frozen=True, slots=True)
class Grouping:
    """A public rule that merges codes into groups.

    Attributes:
        depth: Depth of the groups; 1 is the top.
        keep: Codes that become levels of their own at any depth, with all codes below them.
    """

    depth: int
    keep: tuple[str, ...] = ()


def group_texts(codes: CodeList, grouping: Grouping | None) -> dict[str, str | None]:
    """Return for each code of the list the code of its level.

    The level is the first of the code, its parent and so on that is kept or is at the depth of the
    groups. It is None for a code above that depth that is not kept; the file must not have it.
    """
    if grouping is None:
        return {code.text: code.text for code in codes.codes}
    keep, lines = set(grouping.keep), codes.lines()
    stops = keep | {text for text, line in lines.items() if len(line) == grouping.depth}
    return {
        code.text: next((text for text in lines[code.text] if text in stops), None)
        for code in codes.codes
    }


def unplaced_code(codes: CodeList, grouping: Grouping) -> str | None:
    """Return a code without children that is above the groups and not kept; None without any."""
    parents = {code.parent for code in codes.codes}
    groups = group_texts(codes, grouping)
    return next(
        (text for text, group in groups.items() if group is None and text not in parents), None
    )


def unique_labels(codes: Sequence[Code]) -> tuple[str, ...]:
    """Return a label for each code; a label of several codes gets the code in front.

    >>> unique_labels([Code("1", "Crops"), Code("11", "Crops"), Code("12", "Wheat")])
    ('1 Crops', '11 Crops', 'Wheat')
    """
    often = Counter(code.label for code in codes)
    return tuple(
        f"{code.text} {code.label}" if often[code.label] > 1 else code.label for code in codes
    )
