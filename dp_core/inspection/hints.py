"""What a release would accept and a person may not have meant. Confidential."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dp_core.inspection.column_tally import MOST_DISTINCT, Tally
from dp_core.inspection.findings import Example, Finding
from dp_core.schema.decoding import legal_range
from dp_core.schema.problems import Problem

FEW_VALUES = 20
"""Most distinct values at which a number is asked whether it is a category."""
MANY_POINTS = 200
"""Fewest legal whole numbers, or bins of a number, at which it is asked."""
NEARLY_ALL = 0.9
"""Share of the rows from which a single bin says little."""
FEWEST_ROWS = 20
"""Fewest rows of a file whose counts suggest anything."""


def hints(tally: Tally) -> Iterator[Finding]:
    """Yield hints about the counts of one column; none about a file of few rows."""
    if tally.rows < FEWEST_ROWS:
        return
    if tally.column.levels:
        yield from _of_levels(tally)
    else:
        yield from _of_numbers(tally)


def _hint(tally: Tally, kind: str, message: str, fix: str, *examples: Example) -> Finding:
    return Finding("hint", kind, tally.column.name, message, fix, None, examples[:8])


def _of_levels(tally: Tally) -> Iterator[Finding]:
    column = tally.column
    rows = tally.codes[: column.bins]
    used = int(np.count_nonzero(rows))
    names = [level.text for level in column.levels]
    if used == 1 and column.bins > 1:
        only = names[int(np.argmax(rows))]
        yield _hint(
            tally,
            "constant",
            f"Only one of {column.bins} levels occurs.",
            "A column with one value contains no information; list it under `ignore`, or keep it.",
            Example(repr(only), int(rows.max())),
        )
    elif 1 < used < column.bins and not tally.problems[Problem.LEVEL]:
        unseen = [name for name, count in zip(names, rows, strict=True) if not count]
        yield _hint(
            tally,
            "unused-levels",
            f"{len(unseen)} of {column.bins} levels never occur{'s' * (len(unseen) == 1)}.",
            "Keep every level that the questionnaire lists. Removing a level because the file lacks"
            " it discloses that nobody has it.",
            *(Example(repr(name), 0) for name in unseen),
        )
    if tally.unique and used > max(column.bins, tally.rows) / 2:
        yield _hint(
            tally,
            "identifier",
            f"{used:,} levels in {tally.rows:,} rows, nearly one for each row: is it an"
            " identifier?",
            "Give it `role: id`, or name it under `ignore`.",
        )


def _of_numbers(tally: Tally) -> Iterator[Finding]:
    column = tally.column
    low, high = legal_range(column)
    points = int(high - low) + 1 if column.kind != "number" else column.bins
    distinct = len(tally.distinct)
    if distinct == 1:
        (value,) = tally.distinct
        yield _hint(
            tally,
            "constant",
            f"Every value in range is {tally.text(value)}.",
            "A column with one value contains no information; list it under `ignore`, or keep it.",
        )
        return
    many = points >= MANY_POINTS or column.kind == "number"
    if column.kind != "date" and 1 < distinct <= FEW_VALUES and many and distinct < points:
        where = f"{points:,} bins" if column.kind == "number" else f"{points:,} legal values"
        yield _hint(
            tally,
            "category",
            f"{distinct} distinct values in a column of {where}: is it a category?",
            "If the questionnaire lists the codes, write `type: category` or `ordinal` with"
            " `levels`. Otherwise synthetic values can fall between the codes.",
            *(Example(tally.text(value)) for value in sorted(tally.distinct)),
        )
    if column.kind == "integer" and tally.unique and tally.rows > MOST_DISTINCT:
        yield _hint(
            tally,
            "identifier",
            f"No value occurs twice in the first {tally.rows:,} rows: is it an identifier?",
            "Give it `role: id`, or name it under `ignore`.",
        )
    if column.choice is None and column.grid is None and column.bins > 1:
        rows = tally.codes[: column.bins]
        code = int(np.argmax(rows))
        # A bin with one value, such as the 0 of incomes, is what the author should state.
        varied = tally.lowest[code] < tally.highest[code]
        if varied and rows[code] > NEARLY_ALL * rows.sum():
            share = f"{100 * min(rows[code] / rows.sum(), 0.999):.1f} %"
            yield _hint(
                tally,
                "one-bin",
                f"The bin {column.code_labels()[code]} contains {share} of the values, so the"
                " release says little about how values vary within it.",
                "State `edges` that divide it, or `bins: {private: 12}`, which places the edges"
                " where the records are.",
            )
    yield from _codes_for_missing(tally)


def _codes_for_missing(tally: Tally) -> Iterator[Finding]:
    """Yield legal values such as 999 that are far from all others."""
    low, high = tally.usual_low, tally.usual_high
    if low is None or high is None:
        return
    far = {text: rows for text, rows in tally.suspects.items() if rows > 1 and tally.is_far(text)}
    if far:
        texts = ", ".join(far)
        yield _hint(
            tally,
            "missing-codes",
            f"{texts} {'is' if len(far) == 1 else 'are'} far from all other values"
            f" ({tally.text(low)} to {tally.text(high)})."
            f" {'Does it' if len(far) == 1 else 'Do they'} mean missing?",
            f"If {'it means' if len(far) == 1 else 'they mean'} missing, list"
            f" {'it' if len(far) == 1 else 'them'} under the column's `missing_values` with"
            " `missing: level`.",
            *(Example(text, rows) for text, rows in far.items()),
        )
