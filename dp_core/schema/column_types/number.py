"""The type `number`: real numbers, with all digits or with a stated number of decimals."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dp_core.schema.bin_pieces import USUAL_BINS, bin_count, check_distinct, exact_text
from dp_core.schema.column_types.column_type import ValueType
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import parse_fraction


class Number(ValueType):
    """Real numbers."""

    word, named = "number", "a number"
    a_value, values = "a number", "numbers"
    continuous = True
    keys = (*ValueType.keys, "decimals")
    example = (
        "{type: number, min: 0, max: 500000, bins: 24}",
        "or edges: [0, 1000, 5000, 500000]",
    )
    drafted_for = ("is_floating", "is_decimal")
    sample = "0.5"
    field_type, arrow = "number", "float64"
    after_max = "max, {}"

    def parse(self, text: str) -> Fraction:
        return parse_fraction(text)

    def edges(
        self, column: Node, keys: Mapping[str, Node], minimum: Fraction, maximum: Fraction
    ) -> tuple[Fraction, ...]:
        if "bins" not in keys:
            raise column.error("needs bins (a number of equal widths) or edges (a list).")
        count = bin_count(keys["bins"])
        width = (maximum - minimum) / count
        edges = tuple(minimum + k * width for k in range(count + 1))
        check_distinct(edges, keys["bins"])
        return edges

    def usual_bins(self, low: Fraction | None, high: Fraction | None) -> str:
        return str(USUAL_BINS)

    def bin_label(self, low: Fraction, high: Fraction, *, last: bool) -> str:
        return f"[{_short(low)}, {_short(high)}{']' if last else ')'}"


def _short(value: Fraction) -> str:
    """Return ten digits of a number, or more if it is larger: neighbouring edges are told apart."""
    if abs(value) < 10**10:
        return f"{float(value):.10g}"
    text = exact_text(value)
    return text if len(text) <= 21 and "/" not in text else f"{float(value):.17g}"


TYPE = Number()
