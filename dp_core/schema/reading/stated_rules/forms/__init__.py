"""Forms of rules under `rules` besides conditions (`if ... then ...`), a module each.

A module that defines `FORM` is a form. It reads the texts that its pattern matches into a rule
between columns, which the encoding, the sets, the codebook and the check of a bundle then obey.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from typing import Protocol

from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.text.documents.node import Node


class RuleForm(Protocol):
    """A form of rules.

    Attributes:
        pattern: All texts of the form.
    """

    pattern: re.Pattern[str]

    def read(self, node: Node, match: re.Match[str], schema: Schema) -> ColumnRule:
        """Return the rule that a text states.

        Args:
            node: Where it is written, for messages.
            match: The text, with single spaces, as `pattern` matches it.
            schema: The schema, with all columns.

        Raises:
            BadInput: if the text cannot be read, or the rule has no effect.
        """


@cache
def forms() -> tuple[RuleForm, ...]:
    """Return all forms, by the names of their modules."""
    names = sorted(each.name for each in pkgutil.iter_modules(__path__))
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    return tuple(module.FORM for module in modules if hasattr(module, "FORM"))
