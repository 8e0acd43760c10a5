"""Rules that count members of a household, which only linked tables have.

`dp_core.schema.reading.stated_rules.rule_reader` reads those of linked tables; of a single table
the form refuses them.
"""

from __future__ import annotations

import re

from dp_core.schema.definition import Schema
from dp_core.schema.reading.stated_rules.forms import RuleForm
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.text.documents.node import Node

# The words, the number and the conditions.
_PATTERN = r"(exactly|at least|at most) (\w+)\b(?! ?[<>=!+\-≤≥≠]) ?(.*)"


def _refuse(node: Node, match: re.Match[str], schema: Schema) -> ColumnRule:
    raise node.error(
        "counts the members of a household, but this schema has a single table; state the"
        " households and the persons under `tables`, or remove the rule."
    )


FORM = RuleForm(re.compile(_PATTERN, re.IGNORECASE | re.DOTALL), _refuse)
