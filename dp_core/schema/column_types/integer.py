"""The type `integer`: whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dp_core.schema.bin_pieces import MAX_INTEGER, USUAL_BINS, VALUES_WITHOUT_BINS, bin_count
from dp_core.schema.column_types.column_type import ValueType
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import parse_fraction


class Integer(ValueType):
    """Whole numbers."""

    word, named = "integer", "an integer"
    a_value, values = "a whole number", "whole numbers"
    whole = True
    example = "{type: integer, min: 0, max: 80, bins: 20}", "no bins needed up to 100 values"
    drafted_for = ("is_integer",)
    sample = "5"
    field_type, arrow = "integer", "int64"

    @property
    def bound(self) -> str:
        return "a whole number of at most 18 digits"

    def read(self, node: Node) -> Fraction:
        return Fraction(node.integer(minimum=-MAX_INTEGER, maximum=MAX_INTEGER))

    def parse(self, text: str) -> Fraction:
        return parse_fraction(text)

    def edges(
        self, column: Node, keys: Mapping[str, Node], minimum: Fraction, maximum: Fraction
    ) -> tuple[Fraction, ...]:
        first, values = int(minimum), int(maximum - minimum) + 1
        if "bins" not in keys:
            if values > VALUES_WITHOUT_BINS:
                raise column.error(
                    f"has {values} values, more than {VALUES_WITHOUT_BINS} without bins;"
                    " give bins (a number) or edges (a list)."
                )
            count = values
        else:
            count = bin_count(keys["bins"])
            if count > values:
                raise keys["bins"].error(
                    f"{count} bins are more than the {values} values from min to max; use fewer"
                    " bins."
                )
        # Half up in exact arithmetic: widths are at least 1, so no two edges coincide.
        return tuple(
            Fraction(first + (2 * k * values + count) // (2 * count)) for k in range(count + 1)
        )

    def usual_bins(self, low: Fraction | None, high: Fraction | None) -> str:
        many = low is not None and high is not None and high - low >= VALUES_WITHOUT_BINS
        return str(USUAL_BINS) if many else ""


TYPE = Integer()
