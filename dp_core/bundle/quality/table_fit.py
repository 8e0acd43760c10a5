"""How near the synthetic sets come to what was measured: for the bundle, made of public values.

A noisy table is compared cell by cell with the counts of a set. Of an interaction no whole table
was measured, only what it says beyond its margins; so it is compared as the table that it makes
with the set's own margins. The difference of the two tables is that of their interactions, and half
of its sum over the cells, as a part of the records, is a TVD as that of a whole table is:

    TVD = sum over cells x of |A(x) - (n/r) (P c)(x)| / (2n),

where A is the noisy interaction as a table (`Interaction.spread`), c the counts of a set of r rows,
n the records of the file, and P takes the mean off along every axis. One mean over all that was
measured is then the mean of the same thing, and what noise and drawing explain is taken off alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from dp_core.metrics.marginal_error import Tally
from dp_core.metrics.noise_size import Noise, expected_absolute, half_width
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.wall.accounting.currency import NoiseScale
from dp_core.wall.released import Measurement, Released, Totals
from dp_core.wall.statistics.interactions import Interaction

_NORMAL = 1.959963984540054

Compared: TypeAlias = Measurement | Totals
"""What sets are compared with: a noisy table, or totals that are of an `Interaction`."""

MOST_FACTS = 30
"""Tables and interactions that the check names to people; the report has all."""


@dataclass(frozen=True, slots=True)
class TableFit:
    """How near the synthetic sets come to one noisy table, beside what noise alone does.

    Attributes:
        clique: Columns of the table.
        stage: Stage that paid for it.
        replicate: Set it was measured for, 0 when all sets share it.
        cells: Number of cells.
        half_width: A cell's noise is within this many records 95 times in 100.
        noise_tvd: Half of the noise's expected L1, as a part of the records.
        set_tvd: For each set it serves: half of the L1 between noisy table and set, likewise.
        expected_tvd: For each of them: what noise and the drawing of rows would give together.
        outside: For each of them: cells further apart than these two explain 95 times in 100.
        beyond: Whether only what the table says beyond its margins was measured, and compared.
    """

    clique: Clique
    stage: str
    replicate: int
    cells: int
    half_width: int
    noise_tvd: float
    set_tvd: tuple[float, ...]
    expected_tvd: tuple[float, ...]
    outside: tuple[int, ...]
    beyond: bool = False

    @property
    def ratio(self) -> float:
        """Distance of the sets over what noise and drawing would give; about 1 is a good fit."""
        expected = math.fsum(self.expected_tvd)
        return math.fsum(self.set_tvd) / expected if expected > 0 else math.nan

    @property
    def outside_share(self) -> float:
        """Part of the cells beyond the 95 % range, mean over the sets; 5 % is to be expected."""
        return sum(self.outside) / max(len(self.outside) * self.cells, 1)


def comparable(released: Iterable[Released], domain: Domain) -> tuple[Compared, ...]:
    """Return the noisy tables and interactions that are of columns of a domain, in its codes.

    Tables of no column (the number of rows) are left out.

    Args:
        released: Everything that was measured.
        domain: Of what the sets are counted in.
    """
    found: list[Compared] = []
    for item in released:
        if isinstance(item, Measurement):
            sizes = item.domain.sizes
        elif isinstance(item, Totals) and isinstance(item.of, Interaction):
            sizes = item.of.sizes
        else:
            continue
        clique = columns_of(item)
        if clique and {*clique} <= {*domain.columns} and sizes == domain.project(clique).sizes:
            found.append(item)
    return tuple(found)


def columns_of(item: Compared) -> Clique:
    """Return the columns of a noisy table or of an interaction."""
    return item.clique if isinstance(item, Measurement) else item.of.clique


def check_fit(
    measured: Sequence[Compared],
    tallies: Sequence[Tally],
    *,
    records: float,
    redrawn: bool = False,
) -> tuple[TableFit, ...]:
    """Compare synthetic sets with the noisy tables and interactions they were made from. Public.

    A set is brought to `records` records before it is compared, so a release of fewer or more rows
    than the file has is judged by its shape. A perfect model would still differ from the noisy
    table by the noise and by the drawing of a finite number of rows (multinomial); both are allowed
    for, as independent errors: a cell with noise of mean size a and drawing of variance d is
    expected sqrt(a^2 + 2 d / pi) off. Of a table d is n p (1 - p); of an interaction P c, as above,
    it is n (sum over y of P(x, y)^2 p(y) - (P p)(x)^2).

    Args:
        measured: As `comparable` returns them.
        tallies: One per synthetic set, counting at least the tables that serve it.
        records: Public or estimated number of records of the file.
        redrawn: Whether the sets are noise-aware: fitted to the tables with their noise once more,
            and so expected to be as far from them as two noisy tables are from each other.
    """
    times = math.sqrt(2) if redrawn else 1.0
    whole = 2 * max(records, 1.0)
    fits = []
    for item in measured:
        clique, own = columns_of(item), slice(item.replicate - 1, item.replicate)
        served = list(tallies) if item.replicate == 0 else list(tallies[own])
        noisy, width, mean_noise = _noisy(item)
        distances, expected, outside = [], [], []
        for tally in served:
            counts, rows = tally.count(clique), max(tally.rows, 1)
            table, variance = _drawn(item, counts, rows)
            gap = np.abs(noisy - table * (records / rows))
            drawing = (records / rows) ** 2 * variance
            distances.append(float(gap.sum()) / whole)
            explained = np.sqrt((times * mean_noise) ** 2 + 2 / math.pi * drawing)
            expected.append(float(explained.sum()) / whole)
            # Half a record is rounding, not misfit: noisy counts are whole, scaled ones are not.
            limit = np.sqrt((times * width) ** 2 + _NORMAL**2 * drawing) + 0.5
            outside.append(int(np.count_nonzero(gap > limit)))
        fits.append(
            TableFit(
                clique=clique,
                stage=item.stage,
                replicate=item.replicate,
                cells=noisy.size,
                half_width=width,
                noise_tvd=noisy.size * mean_noise / whole,
                set_tvd=tuple(distances),
                expected_tvd=tuple(expected),
                outside=tuple(outside),
                beyond=isinstance(item, Totals),
            )
        )
    return tuple(fits)


def cell_width(of: Interaction, noise: Noise, scale: float) -> int:
    """Return within how many records a cell of an interaction's table is, 95 times in 100.

    Args:
        of: The interaction.
        noise: Kind of the noise of its entries.
        scale: Its parameter, in steps.
    """
    return math.ceil(NoiseScale(noise, of.cell_stddev(scale)).half_width)


def cell_error(of: Interaction, noise: Noise, scale: float) -> float:
    """Return E|Z| of the noise Z in a cell of an interaction's table, mean over cells, records.

    Z is a sum of entries' noises, each times a coefficient a. Of normal ones E|Z| is s sqrt(2/pi),
    s the standard deviation. Of Laplace ones it is nearly 1 - k/24 of that, k = 3 sum a^4 / (sum
    a^2)^2 the excess kurtosis (the first term of Gram and Charlier's series; of a single entry, the
    worst case, it is 1.3 % too small). Contrast j of a column has the coefficients 1 of codes below
    j, and -j of code j, over sqrt(j (j + 1)).

    Args:
        of: The interaction.
        noise: Kind of the noise of its entries.
        scale: Its parameter, in steps.
    """
    if noise == "gaussian":
        return math.sqrt(2 / math.pi) * of.cell_stddev(scale)
    kurtosis = 3.0
    for size in of.sizes:
        j = np.arange(1, size, dtype=np.float64)
        fourth = float(((j + j**4) / (j * (j + 1)) ** 2).sum()) / size
        kurtosis *= fourth / (1 - 1 / size) ** 2
    return math.sqrt(2 / math.pi) * of.cell_stddev(math.sqrt(2) * scale) * (1 - kurtosis / 24)


def tally_sets(
    domain: Domain, released: Iterable[Released], sets: Iterable[Iterable[Dataset]]
) -> tuple[Tally, ...]:
    """Return a tally of each synthetic set, over what the bundle's checks and pictures need.

    That is every table that was measured, whole or beyond its margins, and every single column.

    Args:
        domain: All columns.
        released: Everything that was measured.
        sets: For each set its pieces (a list of one dataset, or a stream of them).
    """
    cliques = needed_counts(domain, released)
    tallies = []
    for pieces in sets:
        tally = Tally(domain, cliques)
        for piece in pieces:
            tally.add(piece)
        tallies.append(tally)
    return tuple(tallies)


def needed_counts(domain: Domain, released: Iterable[Released]) -> tuple[Clique, ...]:
    """Return the marginals of a synthetic set that `check_fit` and the report look at."""
    measured = (columns_of(item) for item in comparable(released, domain))
    return tuple(dict.fromkeys([*((column,) for column in domain.columns), *measured]))


def _noisy(item: Compared) -> tuple[NDArray[np.float64] | NDArray[np.int64], int, float]:
    """Return a noisy table, within what 95 of 100 cells are, and E|Z| of a cell, records."""
    if isinstance(item, Measurement):
        noise, scale = item.noise, item.scale
        return item.values, half_width(noise, scale), expected_absolute(noise, scale)
    of = cast(Interaction, item.of)
    known = (cell_width(of, item.noise, item.scale), cell_error(of, item.noise, item.scale))
    return of.spread(item.values), *known


def _drawn(
    item: Compared, counts: NDArray[np.int64], rows: int
) -> tuple[NDArray[np.float64] | NDArray[np.int64], NDArray[np.float64]]:
    """Return what a set has of what was measured, and its variance when the rows are drawn again.

    Args:
        item: What was measured.
        counts: The set's table of the same columns.
        rows: Of the set.
    """
    if isinstance(item, Measurement):
        return counts, counts * (1 - counts / rows)
    of = cast(Interaction, item.of)
    table, squares = of.spread(of.of_table(counts)), counts.astype(np.float64)
    # Entries of P are 1 - 1/p and -1/p, along one axis of p codes; squared they are these.
    for axis, size in enumerate(of.sizes):
        squares = (1 - 2 / size) * squares + squares.sum(axis=axis, keepdims=True) / size**2
    return table, np.maximum(squares - table**2 / rows, 0.0)


def fit_facts(fits: Sequence[TableFit]) -> list[dict[str, object]]:
    """Return the fit of the worst tables and interactions, the worst first.

    Args:
        fits: Of all; made of noisy tables, interactions and synthetic sets alone.
    """
    judged = [fit for fit in fits if not math.isnan(fit.ratio)]
    worst = sorted(judged, key=lambda fit: (-fit.ratio, fit.clique))[:MOST_FACTS]
    return [
        {
            "columns": list(fit.clique),
            "cells": fit.cells,
            "within": fit.half_width,
            "tvd": math.fsum(fit.set_tvd) / len(fit.set_tvd),
            "expected_tvd": math.fsum(fit.expected_tvd) / len(fit.expected_tvd),
            "ratio": fit.ratio,
            "beyond": fit.beyond,
        }
        for fit in worst
    ]
