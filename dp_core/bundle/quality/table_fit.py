"""Distances of the sets, and of public totals, from the noisy tables. Public values only.

A noisy table is compared cell by cell with the counts of a set. For an interaction no whole table
was measured, so it is compared as the table that it forms with the set's own margins. The two
tables then differ by their interactions only, and half the sum of the absolute differences, as a
share of the records, is a TVD like that of a whole table:

    TVD = sum over cells x of |A(x) - (n/r) (P c)(x)| / (2n),

where A is the noisy interaction as a table (`Interaction.spread`), c the counts of a set of r rows,
n the records of the file, and P subtracts the mean along every axis. Tables and interactions are
therefore on one scale and can be averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from dp_core.client.household_values import in_households, stored_shares
from dp_core.client.interactions import cell_stddev, implied_table
from dp_core.client.noise_scale import NoiseScale
from dp_core.client.released import Measurement, Paid, Released, Totals
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.marginal_error import Tally
from dp_core.metrics.noise_size import Noise, expected_absolute, half_width_in_units
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import other
from dp_core.schema.structure.public_totals import PublicTotals
from dp_core.tables.cliques import shares_of

_NORMAL = 1.959963984540054

Compared: TypeAlias = Measurement | Totals
"""A noisy table, or the totals of an `Interaction`."""

MOST_FACTS = 30
"""Most tables and interactions in the summary for people; the report has all."""


@dataclass(frozen=True, slots=True)
class TableFit:
    """Distance of the synthetic sets from one noisy table or interaction.

    Attributes:
        clique: Columns of the table.
        stage: Stage that paid for it.
        replicate: Set for which it was measured; 0 if all sets share it.
        cells: Number of cells.
        half_width: Half-width of the 95 % range of a cell's noise, records.
        set_tvd: For each set it serves, half the L1 distance from the set, as a share of the
            records.
        expected_tvd: For each of these sets, the TVD expected from noise and sampling.
        outside: For each of these sets, the number of cells outside the 95 % range of noise and
            drawing.
        beyond: Whether an interaction was measured instead of the whole table.
    """

    clique: Clique
    stage: str
    replicate: int
    cells: int
    half_width: int
    set_tvd: tuple[float, ...]
    expected_tvd: tuple[float, ...]
    outside: tuple[int, ...]
    beyond: bool = False

    @property
    def name(self) -> str:
        """Name of the table in the report, with the set if it serves one only."""
        only = f" (for set {self.replicate})" if self.replicate else ""
        return " × ".join(self.clique) + only

    @property
    def ratio(self) -> float:
        """Distance of the sets divided by the expected distance; about 1 is a good fit."""
        expected = math.fsum(self.expected_tvd)
        return math.fsum(self.set_tvd) / expected if expected > 0 else math.nan

    @property
    def excess(self) -> float:
        """By how much the mean TVD of the sets exceeds the expected one; 0 without sets."""
        gap = math.fsum(self.set_tvd) - math.fsum(self.expected_tvd)
        return gap / max(len(self.set_tvd), 1)

    @property
    def outside_share(self) -> float:
        """Share of the cells outside the 95 % range, mean over the sets; 5 % is expected."""
        return sum(self.outside) / max(len(self.outside) * self.cells, 1)


def comparable(released: Iterable[Released], domain: Domain) -> tuple[Compared, ...]:
    """Return the noisy tables and interactions of a domain's columns in the domain's codes.

    Tables without columns (the number of rows) are left out.

    Args:
        released: Everything that was measured.
        domain: Domain in which the sets are counted.
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


def mean_tvd(fits: Iterable[TableFit]) -> float | None:
    """Return the mean TVD between sets and noisy tables, six digits; None without tables."""
    values = [value for fit in fits for value in fit.set_tvd]
    return round(sum(values) / len(values), 6) if values else None


def check_fit(
    measured: Sequence[Compared],
    tallies: Sequence[Tally],
    *,
    records: float,
) -> tuple[TableFit, ...]:
    """Return the distance of the synthetic sets from each noisy table and interaction.

    The counts of a set are scaled to `records` records, so only its shape matters. Even a perfect
    model differs from the noisy table by the noise and by the (multinomial) sampling of rows. As
    independent errors, noise of mean size a and drawing of variance d give an expected distance of
    sqrt(a^2 + 2 d / pi) in a cell. No distance is above 1, although noisy counts may differ by more
    than the records. For a table d is n p (1 - p); for an interaction P c, as above,
    it is n (sum over y of P(x, y)^2 p(y) - (P p)(x)^2).

    Args:
        measured: The result of `comparable`.
        tallies: One per synthetic set, with at least the marginals of the tables that serve it.
        records: Public or estimated number of records of the file.
    """
    whole = 2 * max(records, 1.0)
    fits = []
    for item in measured:
        clique, own = columns_of(item), slice(item.replicate - 1, item.replicate)
        served = list(tallies) if item.replicate == 0 else list(tallies[own])
        shares = shares_of(tallies[0].domain) if tallies else 1
        noisy, width, mean_noise = _noisy(item, shares)
        distances, expected, outside = [], [], []
        for tally in served:
            counts, rows = tally.count(clique), max(tally.rows, 1)
            table, variance = _counterpart(item, counts, rows, shares)
            gap = np.abs(noisy - table * (records / rows))
            drawing = (records / rows) ** 2 * variance
            distances.append(min(float(gap.sum()) / whole, 1.0))
            explained = np.sqrt(mean_noise**2 + 2 / math.pi * drawing)
            expected.append(min(float(explained.sum()) / whole, 1.0))
            # Half a record allows for rounding: noisy counts are whole, scaled ones are not.
            limit = np.sqrt(width**2 + _NORMAL**2 * drawing) + 0.5
            outside.append(int(np.count_nonzero(gap > limit)))
        fits.append(
            TableFit(
                clique=clique,
                stage=item.stage,
                replicate=item.replicate,
                cells=noisy.size,
                half_width=math.ceil(width),
                set_tvd=tuple(distances),
                expected_tvd=tuple(expected),
                outside=tuple(outside),
                beyond=isinstance(item, Totals),
            )
        )
    return tuple(fits)


def margin_of(item: Paid, shares: int) -> float:
    """Return half of the width of the 95 % interval of a noise, rounded up to 0.01 if shared.

    Args:
        item: A measurement.
        shares: Shares of a unit, on which the noise was drawn; 1 for records.
    """
    width = half_width_in_units(item.noise, item.scale, shares)
    return width if shares == 1 else math.ceil(100 * width - 1e-9) / 100


def cell_width(of: Interaction, noise: Noise, scale: float) -> int:
    """Return the half-width of the 95 % range of a cell of an interaction's table, records.

    Args:
        of: The interaction.
        noise: Kind of the noise of its entries.
        scale: Its parameter, in steps.
    """
    return math.ceil(NoiseScale(noise, cell_stddev(of, scale)).half_width)


def cell_error(of: Interaction, noise: Noise, scale: float) -> float:
    """Return E|Z| of the noise Z in a cell of an interaction's table, mean over cells, records.

    Z is a sum of the entries' noises, each times a coefficient a. For normal noise E|Z| is s
    sqrt(2/pi), with s the standard deviation. For Laplace noise it is about 1 - k/24 of that, with
    k = 3 sum a^4 / (sum a^2)^2 the excess kurtosis (first term of the Gram-Charlier series; 1.3 %
    too small in the worst case, a single entry). Contrast j of a column has the coefficient 1 for
    codes below j and -j for code j, over sqrt(j (j + 1)).

    Args:
        of: The interaction.
        noise: Kind of the noise of its entries.
        scale: Its parameter, in steps.
    """
    if noise == "gaussian":
        return math.sqrt(2 / math.pi) * cell_stddev(of, scale)
    kurtosis = 3.0
    for size in of.sizes:
        j = np.arange(1, size, dtype=np.float64)
        fourth = float(((j + j**4) / (j * (j + 1)) ** 2).sum()) / size
        kurtosis *= fourth / (1 - 1 / size) ** 2
    return math.sqrt(2 / math.pi) * cell_stddev(of, math.sqrt(2) * scale) * (1 - kurtosis / 24)


def needed_counts(domain: Domain, released: Iterable[Released]) -> tuple[Clique, ...]:
    """Return the marginals that `check_fit` and the report need: measured tables and columns."""
    measured = (columns_of(item) for item in comparable(released, domain))
    return tuple(dict.fromkeys([*((column,) for column in domain.columns), *measured]))


def _noisy(item: Compared, shares: int) -> tuple[NDArray[Any], float, float]:
    """Return a noisy table, the half-width of its 95 % range, and E|Z| of a cell, in records."""
    if isinstance(item, Measurement):
        noise, scale = item.noise, item.scale
        width = half_width_in_units(noise, scale, shares)
        return item.values, width, expected_absolute(noise, scale, shares)
    of = cast(Interaction, item.of)
    known = (cell_width(of, item.noise, item.scale), cell_error(of, item.noise, item.scale))
    return implied_table(of, item.values), *known


def _counterpart(
    item: Compared, counts: NDArray[Any], rows: int, shares: int
) -> tuple[NDArray[np.float64] | NDArray[np.int64], NDArray[np.float64]]:
    """Return a set's counterpart of a measurement, and its variance due to the sampling of rows.

    Args:
        item: The measurement.
        counts: The set's table of the same columns.
        rows: Number of rows of the set.
        shares: Shares of a unit, of which the counts are whole numbers; 1 for records. A household
            that is in a cell in parts adds less to the variance than stated, which is that of one
            that is in it or not.
    """
    if isinstance(item, Measurement):
        return counts, counts * (1 - counts / rows)
    of = cast(Interaction, item.of)
    entries = in_households(of.of_table(stored_shares(counts, shares)), shares)
    table, squares = implied_table(of, entries), counts.astype(np.float64)
    # Entries of P are 1 - 1/p and -1/p, along one axis of p codes; squared they are these.
    for axis, size in enumerate(of.sizes):
        squares = (1 - 2 / size) * squares + squares.sum(axis=axis, keepdims=True) / size**2
    return table, np.maximum(squares - table**2 / rows, 0.0)


def fit_facts(fits: Sequence[TableFit]) -> list[dict[str, object]]:
    """Return the `MOST_FACTS` tables and interactions with the worst fit, the worst first.

    Args:
        fits: The result of `check_fit`.
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


def ruled_tables(schema: Schema, fits: Sequence[TableFit]) -> dict[str, object] | None:
    """Return the fit of the tables that have a column of a rule; None without such rules.

    If a noisy table contradicts a rule, the sets differ from it by more than noise explains. Rules
    that count the members of a household are among these rules.

    Args:
        schema: The schema.
        fits: Distances of the sets from the noisy tables.

    Returns:
        `tables`, their number; `mean_tvd_to_noisy`, the mean TVD between a set and a noisy table;
        and `mean_expected_tvd`, the TVD expected from noise and sampling alone. The
        means are rounded to 6 digits, and null without such tables.
    """
    if not schema.rules and not schema.member_rules:
        return None
    named = {name for rule in schema.rules for name in rule.columns}
    counted = {name for rule in schema.member_rules for name in rule.columns}
    named |= counted | {other(name) for name in counted}
    ruled = [fit for fit in fits if not named.isdisjoint(fit.clique)]
    return {
        "tables": len(ruled),
        "mean_tvd_to_noisy": _mean([value for fit in ruled for value in fit.set_tvd]),
        "mean_expected_tvd": _mean([value for fit in ruled for value in fit.expected_tvd]),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), 6) if values else None


_FAR = 0.05
"""A smaller TVD is never far."""
_TIMES = 3.0
"""A TVD is far only above this multiple of the TVD that noise alone would give."""
_LIMIT = 6.0
"""Noise explains a sum of squared errors up to so many standard deviations above its mean."""


@dataclass(frozen=True, slots=True)
class TotalsDistance:
    """The distance of a column's public totals from its noisy counts.

    Attributes:
        column: The column.
        tvd: TVD of their proportions, 0 to 1.
        expected: Approximate TVD that noise alone would give.
    """

    column: str
    tvd: float
    expected: float

    @property
    def is_far(self) -> bool:
        """Whether the distance is more than noise explains, so that relations are distorted."""
        return self.tvd > max(_FAR, _TIMES * self.expected)


def totals_distances(totals: Sequence[PublicTotals], pooled: Pooled | None) -> list[TotalsDistance]:
    """Return the distance of each list of totals whose column was measured.

    Args:
        totals: The public totals.
        pooled: All measurements; None if they cannot be pooled.
    """
    found = []
    for each in totals if pooled is not None else ():
        assert pooled is not None
        counts, variance = pooled.counts((each.column,)), pooled.variance((each.column,))
        if counts is None or variance is None:
            continue
        known = np.maximum(counts, 0.0)
        records = max(float(known.sum()), 1.0)
        shares = np.array(each.counts) / each.records
        tvd = float(np.abs(known / records - shares).sum()) / 2
        # The mean of the absolute value of a normal error.
        error = math.sqrt(2 * max(variance, 0.0) / math.pi) / records
        found.append(TotalsDistance(each.column, tvd, min(1.0, counts.size * error / 2)))
    return found


def explained_by_noise(totals: PublicTotals, pooled: Pooled) -> bool:
    """Return whether noise explains the distance of totals from the noisy counts.

    The sum of the squared differences, each divided by its variance, has the mean n for n levels.
    If errors are independent, the variance of this sum is 5 n at most for Laplace noise, and 2 n
    for normal noise. The limit is six standard deviations above n. Without noisy counts the result
    is true.

    Args:
        totals: Public totals of a column.
        pooled: All measurements, without any totals.
    """
    if pooled.rows is not None and pooled.rows != totals.records:
        return False
    known, nested = np.array(totals.counts, dtype=np.float64), pooled.domain.nested
    if nested is not None and totals.column in nested.columns:
        areas, level = pooled.areas(()), nested.columns.index(totals.column) + 1
        if areas is None or level >= areas.levels or not areas.total:
            return True
        counts, variances = areas.values[level], areas.variance(level)
    else:
        found, variance = pooled.counts((totals.column,)), pooled.variance((totals.column,))
        if found is None or variance is None:
            return True
        counts, variances = found, np.full(known.shape, variance)
    noisy = variances > 0
    squares = (counts - known)[noisy] ** 2 / variances[noisy]
    return float(squares.sum()) <= known.size + _LIMIT * math.sqrt(5 * known.size)
