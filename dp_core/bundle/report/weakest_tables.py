"""The tables of a release that deserve most caution, by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dp_core.bundle.quality.table_fit import TableFit
from dp_core.bundle.report.table_precision import TableRow

MOST_NAMED = 8
"""Most tables in each list."""


@dataclass(frozen=True, slots=True)
class WeakestTables:
    """The worst tables in two respects, the worst first.

    Attributes:
        noisy: Tables with the most noise in a typical cell; none that is fit for use.
        far: Tables whose distance from the sets exceeds what noise and sampling explain,
            with the excess in percent of the records.
        more_far: Number of tables missing from `far`.
    """

    noisy: tuple[TableRow, ...]
    far: tuple[tuple[TableFit, float], ...]
    more_far: int


def weakest_tables(lines: Sequence[TableRow], fits: Sequence[TableFit]) -> WeakestTables:
    """Return the weakest tables.

    Args:
        lines: The tables, as `table_precision.table_rows` returns them.
        fits: Distance of the sets from each measurement.
    """
    poor = sorted(
        (line for line in lines if line.mark != "good"),
        key=lambda line: (-line.relative, line.of.name),
    )
    far = sorted(
        ((fit, excess) for fit in fits if (excess := _excess(fit)) >= 0.0005),
        key=lambda each: (-each[1], each[0].name),
    )
    return WeakestTables(
        tuple(poor[:MOST_NAMED]),
        tuple((fit, 100 * excess) for fit, excess in far[:MOST_NAMED]),
        max(len(far) - MOST_NAMED, 0),
    )


def _excess(fit: TableFit) -> float:
    """Return by how much the mean TVD of the sets exceeds the expected one."""
    if not fit.set_tvd:
        return 0.0
    gap = math.fsum(fit.set_tvd) - math.fsum(fit.expected_tvd)
    return gap / len(fit.set_tvd)
