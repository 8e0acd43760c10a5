"""Forms of rules under `rules` besides conditions (`if ... then ...`), a module each.

A module that defines `FORM` is a form. It reads the texts that its pattern matches into a rule
between columns, which the encoding, the sets, the codebook and the check of a bundle then obey.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.text.documents.node import Node


@dataclass(frozen=True, slots=True)
class RuleForm:
    """A form of rules.

    Attributes:
        pattern: All texts of the form, with single spaces.
        read: Returns the rule that a text states, given where it is written, its match, and the
            schema with all columns. It raises `BadInput` if the text cannot be read, or the rule
            has no effect.
    """

    pattern: re.Pattern[str]
    read: Callable[[Node, re.Match[str], Schema], ColumnRule]


@cache
def forms() -> tuple[RuleForm, ...]:
    """Return all forms, by the names of their modules."""
    names = sorted(each.name for each in pkgutil.iter_modules(__path__))
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    return tuple(module.FORM for module in modules if hasattr(module, "FORM"))
