"""Rules that count members of a household, which only linked tables have."""

from __future__ import annotations

import re

from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.text.documents.node import Node


class CountedMembers:
    """The form of a single table: it refuses.

    `dp_core.schema.reading.stated_rules.rule_reader` reads those of linked tables. The
    pattern has the words, the number and the conditions.
    """

    pattern = re.compile(
        r"(exactly|at least|at most) (\w+)\b(?! ?[<>=!+\-≤≥≠]) ?(.*)", re.IGNORECASE | re.DOTALL
    )

    def read(self, node: Node, match: re.Match[str], schema: Schema) -> ColumnRule:
        """Refuse the rule."""
        raise node.error(
            "counts the members of a household, but this schema has a single table; state the"
            " households and the persons under `tables`, or remove the rule."
        )


FORM = CountedMembers()
