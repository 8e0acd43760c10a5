"""How exact the tables of a release are and how well its sets follow them, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dp_core.bundle.published import Published
from dp_core.bundle.quality.table_fit import TableFit
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool_interactions

FINE, CARE = 0.10, 0.50
"""Noise in a typical cell, 95 times in 100 at most this part of it: fit for use, and with care.

A typical cell holds the records divided by the number of cells."""
VERDICTS = ("fit for use", "use with care", "coarse groups only")

FINE, CARE = 0.10, 0.50
"""Noise in a typical cell, 95 times in 100 at most this part of it: fit for use, and with care.

A typical cell holds the records divided by the number of cells."""
VERDICTS = ("fit for use", "use with care", "coarse groups only")


@dataclass(frozen=True, slots=True)
class Precision:
    """How exactly cells are known. Public: it follows from scales.

    Attributes:
        pooled: All that was measured, whichever set it is for; None where no interaction was, and
            every table is told by itself.
        of_set: What serves each set, by its number, and what serves all of them at 0.
    """

    pooled: Pooled | None = None
    of_set: Mapping[int, Pooled] = field(default_factory=dict)

    def half_width(self, fit: TableFit) -> int | None:
        """Return within how many records a cell of the whole table is, 95 times in 100.

        None of an interaction whose table's other parts nothing tells of.
        """
        pooled = self.of_set.get(fit.replicate)
        found = None if pooled is None else pooled.half_width(fit.clique)
        if found is None:
            return None if fit.beyond else fit.half_width
        # The range of a table alone is exact, and this one is of a normal noise.
        return math.ceil(found) if fit.beyond else min(math.ceil(found), fit.half_width)


ALONE = Precision()
"""Every table by itself."""


def precision_of(published: Published) -> Precision:
    """Return how exactly the cells of a release's tables are known."""
    domain = (published.schema.coarse or published.schema).domain
    rows = published.records if published.records_public else None
    pooled = pool_interactions(domain, published.released, rows=rows)
    if pooled is None:
        return ALONE
    of_set = {}
    for number in {item.replicate for item in published.released}:
        own = [item for item in published.released if item.replicate in (0, number)]
        found = pool_interactions(domain, own, rows=rows)
        if found is not None:
            of_set[number] = found
    return Precision(pooled, of_set)


@dataclass(frozen=True, slots=True)
class TableRow:
    """One table in words: one that was measured, or one made of an interaction and its margins."""

    name: str
    made: bool
    cells: int
    half_width: int
    example: str
    relative: float
    verdict: str
    mark: str
    fit: str
    outside: str


@dataclass(frozen=True, slots=True)
class InteractionRow:
    """What was measured of one table beyond its margins in words.

    `half_width` is of the noise in a cell of the table that it stands for, records.
    """

    name: str
    cells: int
    half_width: int
    fit: str
    outside: str


def table_rows(
    fits: Sequence[TableFit], *, records: float, known: Precision = ALONE
) -> tuple[TableRow, ...]:
    """Return each table in words, most exact first.

    Those measured whole, and those that an interaction makes with its margins.

    Args:
        fits: Of all that was measured.
        records: Public or estimated number of records.
        known: What is known of cells by all that was measured.
    """
    whole = {(frozenset(fit.clique), fit.replicate) for fit in fits if not fit.beyond}
    told = [
        (width, fit)
        for fit in fits
        if not (fit.beyond and (frozenset(fit.clique), fit.replicate) in whole)
        and (width := known.half_width(fit)) is not None
    ]
    lines = []
    for width, fit in sorted(told, key=lambda each: (each[0] * each[1].cells, *_order(each[1]))):
        typical = max(records, 1.0) / fit.cells
        relative = width / typical
        level = (relative > FINE) + (relative > CARE)
        lines.append(
            TableRow(
                name=_name(fit),
                made=fit.beyond,
                cells=fit.cells,
                half_width=width,
                example=within_words(_round_number(typical), width),
                relative=100 * relative,
                verdict=VERDICTS[level],
                mark=("good", "care", "poor")[level],
                fit=_ratio(fit),
                outside=f"{100 * fit.outside_share:.1f} %",
            )
        )
    return tuple(lines)


def interaction_rows(fits: Sequence[TableFit]) -> tuple[InteractionRow, ...]:
    """Return what was measured of tables beyond their margins in words, most exact first."""
    return tuple(
        InteractionRow(
            name=_name(fit),
            cells=fit.cells,
            half_width=fit.half_width,
            fit=_ratio(fit),
            outside=f"{100 * fit.outside_share:.1f} %",
        )
        for fit in sorted(fits, key=lambda fit: (fit.half_width * fit.cells, *_order(fit)))
        if fit.beyond
    )


def _order(fit: TableFit) -> tuple[object, ...]:
    return fit.clique, fit.replicate, fit.stage


def _name(fit: TableFit) -> str:
    return " × ".join(fit.clique) + (f" (for set {fit.replicate})" if fit.replicate else "")


def _ratio(fit: TableFit) -> str:
    return "–" if math.isnan(fit.ratio) else f"{fit.ratio:.2f}"


def within_words(count: int, half_width: int) -> str:
    """Return the noise of one cell in plain words.

    >>> within_words(200, 12)
    'a count of 200 is usually within 12'
    """
    return f"a count of {grouped(count)} is usually within {grouped(half_width)}"


def summary_sentence(fits: Sequence[TableFit]) -> str:
    """Return how well the synthetic sets follow what was measured, in one or two sentences."""
    judged = [fit for fit in fits if not math.isnan(fit.ratio)]
    if not judged:
        return "There is no noisy table to compare the synthetic sets with."
    mean = math.fsum(fit.ratio for fit in judged) / len(judged)
    far = sum(fit.ratio > 1.5 for fit in judged)
    beyond = sum(fit.beyond for fit in judged)
    found = [
        f"{count} noisy {kind}{'s' if count > 1 else ''}"
        for count, kind in ((len(judged) - beyond, "table"), (beyond, "interaction"))
        if count
    ]
    text = (
        f"Over {' and '.join(found)} the synthetic sets are on average {mean:.2f} times as far"
        " from what was measured as the noise and the drawing of rows together explain."
    )
    if far:
        text += (
            f" For {far} of them it is more than 1.5 times: there the model adds an error of its"
            " own or, where cells are few, the noise happened to be large."
        )
    return text


def _round_number(value: float) -> int:
    """Return a number near `value` that people would say: 1, 2 or 5 times a power of ten.

    >>> _round_number(137.0), _round_number(0.3)
    (100, 1)
    """
    if value < 1:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return int(max(step * power for step in (1, 2, 5) if step * power <= value))


def grouped(value: object) -> str:
    """Return a number without decimals, its thousands apart."""
    number = float(value)  # type: ignore[arg-type]
    return f"{number:,.0f}"
