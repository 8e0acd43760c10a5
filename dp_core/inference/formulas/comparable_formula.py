"""Formulas whose coefficients mean the same in a file and in its synthetic sets."""

from __future__ import annotations

from collections.abc import Sequence

from dp_core.errors import BadInput
from dp_core.inference.formulas.formula import read_formula
from dp_core.schema.definition import Schema


def check_formula(formula: str, schema: Schema) -> None:
    """Check that a formula can be compared between a file and its synthetic sets.

    Raises:
        BadInput: if it is not a formula, names an unknown column or one whose levels are chosen
            privately (the file has other levels), or uses a function that learns from the rows (a
            coefficient would have another meaning in the file).
    """
    read = read_formula(formula, schema.names)
    for column in schema.private:
        if column.levels and column.name in read.columns:
            raise BadInput(
                f"The formula {formula!r:.120} uses {column.name!r}, whose levels are chosen"
                " privately and differ between file and sets; remove it, or state its levels in the"
                " schema."
            )
    if read.learns:
        raise BadInput(
            f"The formula {formula!r:.120} uses {read.learns[0]}, which learns from the rows, so"
            " that file and sets would have other coefficients; write the numbers, as in"
            " I((age - 40) / 10)."
        )


def named_columns(schema: Schema, formulas: Sequence[str]) -> list[str]:
    """Return the columns that formulas name, in the schema's order."""
    columns = schema.names
    named = {name for formula in formulas for name in read_formula(formula, columns).columns}
    return [name for name in columns if name in named]
