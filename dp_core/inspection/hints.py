"""What a release would accept and a person may not have meant. Confidential."""

from __future__ import annotations

from collections.abc import Iterator, Set
from fractions import Fraction
from math import floor, log10
from typing import Any

import numpy as np

from dp_core.inspection.advice import Advice, change_text, instead_of, is_accepted
from dp_core.inspection.column_tally import MOST_DISTINCT, Tally
from dp_core.inspection.findings import EXAMPLES, Example, Finding
from dp_core.inspection.value_findings import FEWEST_ROWS, far_codes, offer_codes
from dp_core.kernel.coding.problems import Problem
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.text.documents.typed_text import quote
from dp_core.text.pages.number_texts import percentage

FEW_VALUES = 20
"""Most distinct values at which a number is asked whether it is a category."""
MANY_POINTS = 200
"""Fewest legal whole numbers, or bins of a number, at which it is asked."""
NEARLY_ALL = 0.9
"""Share of the rows from which a single bin says little."""
HEAPED = 0.1
"""Smallest share of all rows at which a value should have a bin of its own."""
TIMES_USUAL = 5
"""Fewest rows of such a value, as a multiple of the mean over the values of its bin."""
MOST_OF_BIN = 0.75
"""Share of the rows of its bin that is enough if the bin has few values."""
PRIVATE_BINS = 12
STEPS = 10_000
"""Fewest steps in the range of a number without `decimals`. A bin of one value is one step wide."""
MOST_EDGES = 40
"""Most bin edges that a hint writes out; `--json` has more."""


def hints(tally: Tally, schema: Schema, whole: Schema) -> Iterator[Finding]:
    """Yield hints about the counts of one column.

    There are none about a file of few rows, and none about a column with refused values: how often
    these are repeated, or which of them are the same value, is known once they are corrected.

    Args:
        tally: The counts, in the codes in which the file is stored.
        schema: The schema as written, of the column's table.
        whole: The schema of all linked tables; `schema` itself if there is one table.
    """
    if tally.rows < FEWEST_ROWS or tally.has_refused_values():
        return
    if constant := _constant(tally):
        yield constant
    elif tally.column.levels:
        yield from _of_levels(tally)
    else:
        yield from _of_numbers(tally, schema, whole)


def _hint(
    tally: Tally, kind: str, message: str, fix: str, *examples: Example, changes: Any = ()
) -> Finding:
    return Finding("hint", kind, tally.column.name, message, fix, None, examples, changes)


def _constant(tally: Tally) -> Finding | None:
    """Return the hint about a column in which all rows have the same value; or None."""
    column = tally.column
    if tally.problems.total():
        return None  # some rows have another value, or none
    if column.levels:
        used = np.flatnonzero(tally.codes[: column.bins])
        values = [quote(column.levels[code].text) for code in used] if column.bins > 1 else []
    else:
        values = [tally.text(value) for value in tally.distinct]
    if len(values) != 1:
        return None
    return _hint(
        tally,
        "constant",
        f"Every row has the value {values[0]}.",
        "A column with one value contains no information; list it under `ignore`, or keep it.",
        Example(values[0]),
    )


def _of_levels(tally: Tally) -> Iterator[Finding]:
    column = tally.column
    rows = tally.codes[: column.bins]
    used = int(np.count_nonzero(rows))
    names = [level.text for level in column.levels]
    if 1 < used < column.bins and not tally.problems[Problem.LEVEL]:
        unseen = [name for name, count in zip(names, rows, strict=True) if not count]
        yield _hint(
            tally,
            "unused-levels",
            f"{len(unseen)} of {column.bins} levels never occur{'s' * (len(unseen) == 1)}.",
            "Keep every level that the questionnaire lists. Removing a level because the file lacks"
            " it discloses that nobody has it.",
            *(Example(repr(name), 0) for name in unseen),
        )
    if rows.max() == 1 and used > max(column.bins, tally.rows) / 2:
        yield _hint(
            tally,
            "identifier",
            f"{used:,} levels in {tally.rows:,} rows, nearly one for each row: is it an"
            " identifier?",
            "Give it `role: id`, or name it under `ignore`.",
        )


def _of_numbers(tally: Tally, schema: Schema, whole: Schema) -> Iterator[Finding]:
    column = tally.column
    low, high = legal_range(column)
    points = int(high - low) + 1 if not column.type.continuous else column.bins
    distinct = len(tally.distinct)
    # So few values need levels, not bins of their own.
    codes = HEAPED * distinct <= 1 and 2 * distinct < points
    many = points >= MANY_POINTS or column.type.continuous or codes
    few = column.type.sums and 1 < distinct <= FEW_VALUES and many and distinct < points
    if few and not column.role:
        where = f"{points:,} bins" if column.type.continuous else f"{points:,} legal values"
        yield _hint(
            tally,
            "category",
            f"{distinct} distinct values in range, in a column of {where}: is it a category?",
            "If the questionnaire lists the codes, write `type: category` or `ordinal` with"
            " `levels`. Otherwise synthetic values can fall between the codes.",
            *(Example(tally.text(value)) for value in sorted(tally.distinct)[:EXAMPLES]),
        )
    values = tally.rows - tally.missing.total()
    if column.type.whole and column.type.sums and tally.unique and values > MOST_DISTINCT:
        yield _hint(
            tally,
            "identifier",
            f"None of {values:,} values was found twice: is it an identifier?",
            "Give it `role: id`, or name it under `ignore`.",
        )
    missing = _codes_for_missing(tally)
    codes_shown = {example.text for example in missing.examples} if missing else set[str]()
    written = schema.column(column.name)
    # A finer grid of the method is stored in other bins than those of the schema.
    if (written == column or written.unknown) and column.bins > 1:
        if (heaped := None if few else _heap_hint(tally, written, whole, codes_shown)) is not None:
            yield heaped
        elif written == column and (one_bin := _one_bin(tally, whole)) is not None:
            yield one_bin
    if missing is not None:
        yield missing


def _one_bin(tally: Tally, schema: Schema) -> Finding | None:
    """Return the hint about a bin that contains nearly all values; None if there is none."""
    column, rows = tally.column, tally.codes[: tally.column.bins]
    code = int(np.argmax(rows))
    # A bin with one value, such as the 0 of incomes, is what the author should state.
    if not tally.lowest[code] < tally.highest[code] or rows[code] <= NEARLY_ALL * rows.sum():
        return None
    share = percentage(int(rows[code]), int(rows.sum()))
    keys = {"bins": {"private": str(PRIVATE_BINS)}}
    helps = is_accepted(schema, column.name, keys)
    written = change_text(keys, tally.definition)
    private = f", or {written}, which places the edges where the records are"
    return _hint(
        tally,
        "one-bin",
        f"The bin {column.code_labels()[code]} contains {share} of the values, so the release says"
        " little about how values vary within it.",
        f"State `edges` that divide it{instead_of(['edges'], tally.definition)}"
        f"{private if helps else ''}.",
        changes=(keys,) if helps else (),
    )


def _heap_hint(tally: Tally, written: Column, schema: Schema, codes: Set[str]) -> Finding | None:
    """Return the hint about values that many rows share in bins with other values; or None.

    Args:
        tally: The column's counts.
        written: The column as the schema has it.
        schema: The schema of all tables.
        codes: Texts of values that may mean missing; they need no bin.
    """
    column, rows = tally.column, tally.codes[: tally.column.bins]
    scale = column.scale
    step, own = _step(column), dict[Fraction, None]()
    said = []
    for value, count in sorted(tally.heaps.items(), key=lambda item: (-item[1], item[0])):
        if tally.text(value) in codes:
            continue
        code = min(int(np.searchsorted(tally.edges, value, side="right")) - 1, column.bins - 1)
        low, high = column.edges[code : code + 2]
        usual = float(step / (high - low)) * rows[code]
        begin = Fraction(tally.text(value) if scale.continuous else value)
        # The last bin of a number holds its upper end.
        first = begin - step if begin == column.edges[-1] else begin
        ends = [edge for edge in (first, first + step) if low <= edge <= high]
        if count < max(HEAPED * rows.sum(), min(MOST_OF_BIN * rows[code], TIMES_USUAL * usual)):
            continue
        if not set(ends) <= set(column.edges):
            own |= dict.fromkeys(ends)
            share = percentage(count, int(rows.sum()))
            said.append(f"{share} of the values are {tally.text(value)}")
    edges = column.edges
    if written.unknown:  # bins of equal width instead of those that a release would choose
        low, high = edges[0], edges[-1]
        steps = [round(part * (high - low) / written.bins / step) for part in range(written.bins)]
        edges = (*(low + number * step for number in steps), high)
    keys = {"edges": tuple(scale.text(edge) for edge in sorted({*edges, *own}))}
    if not own or not is_accepted(schema, column.name, keys):
        return None
    fix = f"write {change_text(keys, tally.definition)}"
    if len(keys["edges"]) > MOST_EDGES:
        removed = instead_of(keys, tally.definition)
        fix = f"write the {len(keys['edges'])} `edges` that `--json` lists under `changes`{removed}"
    return _hint(
        tally,
        "heaped",
        f"{', '.join(said)}; the sets spread each such value over its bin.",
        f"If public knowledge explains this, {fix}, so that each has a bin of its own.",
        changes=(keys,),
    )


def _step(column: Column) -> Fraction:
    """Return the width of a bin of one value."""
    if not column.type.continuous:
        return Fraction(1)
    if column.decimals is not None:
        return Fraction(1, 10**column.decimals)
    return Fraction(10) ** floor(log10((column.edges[-1] - column.edges[0]) / STEPS))


def _codes_for_missing(tally: Tally) -> Finding | None:
    """Return the hint about legal values such as 999 that are far from all others; or None."""
    far = far_codes(tally)
    advice = Advice(tally, far)
    if not tally.usual or not far or not (said := offer_codes("write {}", advice, far)):
        return None
    low, high = map(tally.text, tally.usual)
    return _hint(
        tally,
        "missing-codes",
        f"Far from all other values ({low} to {high}): {', '.join(far)}. Does this mean missing?",
        f"If it means missing,{said}.",
        *(Example(text, rows) for text, rows in far.items()),
        changes=advice.changes,
    )
