"""Shows the examples of docstrings as code: without it `[[0, 2]]` is taken for a link."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*\n?(?:^[ ]*\S.*\n?)*)+", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Puts every doctest into a block of code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of whatever was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    lines = match[0].rstrip("\n").split("\n")
    return "\n".join(["```python", *(line.strip() for line in lines), "```", ""])
