"""How accurate the tables of a release are, and how well its sets follow them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dp_core.bundle.published import Published
from dp_core.bundle.quality.relations import pool_release
from dp_core.bundle.quality.table_fit import TableFit
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled

FINE, CARE = 0.10, 0.50
"""Largest 95 % range of the noise, as a part of a typical cell, for the first two verdicts.

The count of a typical cell is the number of records divided by the number of cells."""
VERDICTS = ("fit for use", "use with care", "coarse groups only")


def pools_by_set(published: Published) -> dict[int, Pooled]:
    """Return the pooled measurements that serve each set, by its number; at 0 those of all sets."""
    rows = published.records if published.records_public else None
    numbers = {0} | {item.replicate for item in published.released}
    return {
        number: pool_release(
            published.written,
            [item for item in published.released if item.replicate in (0, number) or not number],
            rows=rows,
        )
        for number in numbers
    }


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table in the report: one that was measured, or one computed from an interaction.

    Attributes:
        of: The measurement and its fit.
        half_width: Half-width of the 95 % range of the noise in a cell, records.
        example: That half-width beside a count, as a clause.
        relative: That half-width in percent of the count of a typical cell.
        verdict: One of `VERDICTS`.
        mark: Name of its style in the page.
    """

    of: TableFit
    half_width: int
    example: str
    relative: float
    verdict: str
    mark: str


def table_rows(
    fits: Sequence[TableFit], *, records: float, pools: Mapping[int, Pooled]
) -> tuple[TableRow, ...]:
    """Return a row for each table, most accurate first.

    The tables are those that were measured whole and those computed from an interaction.

    Args:
        fits: One for every measurement.
        records: Public or estimated number of records.
        pools: Result of `pools_by_set`.
    """
    whole = {(frozenset(fit.clique), fit.replicate) for fit in fits if not fit.beyond}
    told = [
        (width, fit)
        for fit in fits
        if not (fit.beyond and (frozenset(fit.clique), fit.replicate) in whole)
        and (width := _half_width(fit, pools)) is not None
    ]
    lines = []
    for width, fit in sorted(told, key=lambda each: (each[0] * each[1].cells, *_order(each[1]))):
        typical = max(records, 1.0) / fit.cells
        relative = width / typical
        level = (relative > FINE) + (relative > CARE)
        lines.append(
            TableRow(
                of=fit,
                half_width=width,
                example=(
                    f"a count of {_round_number(typical):,} usually has an error of at most"
                    f" {width:,}"
                ),
                relative=100 * relative,
                verdict=VERDICTS[level],
                mark=("good", "care", "poor")[level],
            )
        )
    return tuple(lines)


def _half_width(fit: TableFit, pools: Mapping[int, Pooled]) -> int | None:
    """Return the half-width of the 95 % range of a cell of the whole table, in records.

    None for an interaction if the other parts of its table were not measured.
    """
    pooled = pools.get(fit.replicate)
    found = None if pooled is None else pooled.half_width(fit.clique)
    if found is None:
        return None if fit.beyond else fit.half_width
    # The range of a single table is exact; the pooled one assumes normal noise.
    return math.ceil(found) if fit.beyond else min(math.ceil(found), fit.half_width)


def interactions(fits: Sequence[TableFit]) -> list[TableFit]:
    """Return the measured interactions, most accurate first."""
    return sorted(
        (fit for fit in fits if fit.beyond),
        key=lambda fit: (fit.half_width * fit.cells, *_order(fit)),
    )


def _order(fit: TableFit) -> tuple[object, ...]:
    return fit.clique, fit.replicate, fit.stage


def ratio_text(ratio: float) -> str:
    """Return a distance ratio for people; a dash if there is none."""
    return "–" if math.isnan(ratio) else f"{ratio:.2f}"


def summary_sentence(fits: Sequence[TableFit]) -> str:
    """Return one or two sentences on how well the synthetic sets follow the measurements."""
    judged = [fit for fit in fits if not math.isnan(fit.ratio)]
    if not judged:
        return "There is no noisy table with which to compare the synthetic sets."
    mean = math.fsum(fit.ratio for fit in judged) / len(judged)
    far = sum(fit.ratio > 1.5 for fit in judged)
    beyond = sum(fit.beyond for fit in judged)
    found = [
        f"{count} noisy {kind}{'s' if count > 1 else ''}"
        for count, kind in ((len(judged) - beyond, "table"), (beyond, "interaction"))
        if count
    ]
    text = (
        f"The mean distance ratio over {' and '.join(found)} is {mean:.2f}: the distance of the"
        " synthetic sets from what was measured, divided by the distance that noise and sampling"
        " explain."
    )
    if far:
        text += (
            f" For {far} of them the ratio exceeds 1.5: the model adds an error of its own or, in"
            " a table of few cells, the noise happened to be large."
        )
    return text


def _round_number(value: float) -> int:
    """Return the largest 1, 2 or 5 times a power of ten that is at most `value`, at least 1.

    >>> _round_number(137.0), _round_number(0.3)
    (100, 1)
    """
    if value < 1:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return int(max(step * power for step in (1, 2, 5) if step * power <= value))


MOST_NAMED = 8
"""Most tables that are named as the worst in a respect."""


def noisiest(lines: Sequence[TableRow]) -> list[TableRow]:
    """Return the tables that are not fit for use, those with the most noise first."""
    poor = (line for line in lines if line.mark != "good")
    return sorted(poor, key=lambda line: (-line.relative, line.of.name))


def farthest(fits: Sequence[TableFit]) -> list[TableFit]:
    """Return the tables whose distance exceeds the expected one, the largest excess first."""
    far = (fit for fit in fits if fit.excess >= 0.0005)
    return sorted(far, key=lambda fit: (-fit.excess, fit.name))
