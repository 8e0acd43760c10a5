"""Relations that the sets of a release contain, and the bias of bins.

All are known from public figures before a set is analysed. Bins alone, without any noise, bias
means, and slopes on or of a numeric column: the values of a set within a bin are drawn from the
bin's density and are independent of everything else there. With x a value, b(x) the mean of its bin
in the sets and u the value in a set:

- *Mean.* E u = E b(x), so the error of the mean is E b(x) - E x. It is 0 if the values of a set
  follow the fitted density; where they are uniform and the density falls within a bin, the mean of
  its records is below its middle. A fitted density may be wrong: how far, is judged by densities
  that change within each bin as to one of its neighbours.
- *Predictor.* The sets keep cov(b(x), y). So a slope on x is multiplied by cov(b(x), x)/Var(u).
  With t the part of the variance within the bins, this is 1 - t with the fitted density, and about
  1 - 2 t for uniform values of a smooth density.
- *Outcome.* The sets keep the covariance of the predictor with b(y), so a slope of y is multiplied
  by cov(b(y), y)/Var(y), if the mean of the predictor is linear in y. With the fitted density this
  is 1 - t. For uniform values of a smooth density it is 1, because middles that are too high in one
  part of the density are too low in another (Sheppard 1898).

E x and Var x are those of the density that is fitted to the noisy counts
(`dp_core.methods.bin_density`), whether or not the sets follow it. All of this is public.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Released, SparseTable, Totals, interactions_of
from dp_core.inference.measured_relations import unmeasured_groups
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.questions.linear_questions import BinnedCounts, CellCounts, Interaction
from dp_core.methods.bin_density.fitting import MOST_BINS, fit_pieces, means_by_steps
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool
from dp_core.methods.replicates.posterior.posterior_tables import undrawn_pairs
from dp_core.methods.trends import is_trend
from dp_core.plan.release_spec import Mode
from dp_core.schema.bin_values import BinValues
from dp_core.schema.definition import Column, Schema
from dp_core.tables.cliques import cliques_of


@dataclass(frozen=True, slots=True)
class Relations:
    """What is known about the pairs and the bins of a release.

    Attributes:
        pairs: Number of pairs of columns.
        carried: Number of pairs that a measured table contains.
        missing: The other pairs, as "a × b".
        undrawn: In mode `posterior`, those of the other pairs that the sets do not draw.
        wide_bins: Columns whose bins change slopes, as "age (-12 %)".
    """

    pairs: int
    carried: int
    missing: tuple[str, ...]
    undrawn: tuple[str, ...]
    wide_bins: tuple[str, ...]


def relations(released: Sequence[Released], schema: Schema, *, mode: Mode = "shared") -> Relations:
    """Return the relations of a release.

    Args:
        released: Everything that was measured.
        schema: Published schema; its numbers may be on a grid.
        mode: How the sets were made.
    """
    tables, _ = measured_cliques(released)
    groups = list(cliques_of(schema.domain, 2))
    missing = unmeasured_groups(groups, tables, schema.domain.nested)
    posterior = missing and mode == "posterior"
    limited = {*undrawn_pairs(schema.domain, released)} if posterior else set()
    return Relations(
        pairs=len(groups),
        carried=len(groups) - len(missing),
        missing=tuple(" × ".join(pair) for pair in missing),
        undrawn=tuple(" × ".join(pair) for pair in missing if pair in limited),
        wide_bins=wide_bins(released, schema),
    )


def measured_cliques(
    released: Sequence[Released],
) -> tuple[dict[int, list[Clique]], dict[int, list[Clique]]]:
    """Return the columns of the measured tables and of the sums, by the number of the set."""
    tables: dict[int, list[Clique]] = {}
    sums: dict[int, list[Clique]] = {}
    beyond: list[tuple[int, Clique]] = []
    for item in released:
        if isinstance(item, Measurement | SparseTable) and item.clique:
            tables.setdefault(item.replicate, []).append(item.clique)
        elif is_trend(item) or getattr(item, "stage", "") in ("domain", "analyses"):
            continue  # no table: it chose bins and levels, or belongs to one declared formula
        elif isinstance(item, Totals) and isinstance(item.of, Interaction):
            beyond.append((item.replicate, item.of.clique))
        elif isinstance(item, Totals) and isinstance(item.of, BinnedCounts):
            tables.setdefault(item.replicate, []).append(item.of.clique)
        elif isinstance(item, Totals):
            sums.setdefault(item.replicate, []).append(item.of.clique)
    # An interaction says nothing about its margins; with all of them it gives a whole table.
    for number, clique in sorted(beyond, key=lambda each: len(each[1])):
        held = [set(table) for table in tables.get(number, ())]
        margins = combinations(clique, len(clique) - 1) if len(clique) > 2 else ()
        if all(any(set(margin) <= table for table in held) for margin in margins):
            tables.setdefault(number, []).append(clique)
    return tables, sums


def as_table(item: Released, schema: Schema) -> Measurement | None:
    """Return a noisy table of counts as a `Measurement`; None for any other release."""
    if isinstance(item, Measurement):
        fits = item.domain == schema.domain.project(item.clique)
        return item if fits else None
    if isinstance(item, Totals) and isinstance(item.of, CellCounts):
        domain, missing = schema.domain.project(item.of.by), len(item.of.numbers)
        if domain.sizes != item.of.sizes:
            return None
        # Sum over which numbers are missing; the noise adds up.
        axes = tuple(range(len(domain), len(domain) + missing))
        return Measurement(
            domain,
            item.values.reshape(item.of.shape).sum(axis=axes),
            noise=item.noise,
            scale=item.scale * math.sqrt(2**missing),
            stage=item.stage,
            replicate=item.replicate,
            grant=item.grant,
        )
    return None


def pool_release(
    schema: Schema, released: Sequence[Released], *, rows: float | None = None
) -> Pooled:
    """Return the pooled measurements of a release.

    Tables of single sets (mode `split`) are independent measurements of the same file, so those of
    all sets are used. Counts of cells that a parametric method measured are used as tables.

    Args:
        schema: The schema as written, not on a grid.
        released: Everything that was measured.
        rows: Number of records if it is public, otherwise None.
    """
    tables = [found for item in released if (found := as_table(item, schema)) is not None]
    return pool(schema.domain, [*tables, *interactions_of(released)], rows=rows)


WIDE = 0.05
"""Relative change of a slope by bins from which the report names a column."""


@dataclass(frozen=True, slots=True, eq=False)
class BinBias:
    """What bins do to estimates from the sets.

    Attributes:
        mean: Expected error of the mean, in the column's unit.
        doubt: How far the mean of each bin may be from that in the sets, in the column's unit,
            shape (bins,).
        apart: Part of each bin's records that the density of its neighbours does not explain, so
            that they may have any value in the bin, shape (bins,). All of an end's: whether its
            density falls to 0 matters little for the mean, and much for a logarithm.
        predictor: Factor of a slope on this column; 1 without bias.
        outcome: Factor of a slope of this column on others; 1 without bias.
    """

    mean: float
    doubt: NDArray[np.float64]
    apart: NDArray[np.float64]
    predictor: float
    outcome: float


def bin_bias(column: Column, counts: NDArray[np.float64], standard_error: float) -> BinBias | None:
    """Return the bias that the bins of a numeric column cause.

    Args:
        column: Column; None is returned for one with levels. Within bins that were chosen
            privately, the values of sets follow the noisy counts, and no other density is fitted.
        counts: Noisy counts of its codes, records; a last one for missing is ignored.
        standard_error: Standard error of a count due to noise, records.
    """
    if column.levels or not 1 <= column.bins <= MOST_BINS:
        return None
    kept = np.maximum(counts[: column.bins], 0.0)
    if kept.sum() <= 0:
        return None
    share = kept / kept.sum()
    public, fitted = column.choice is None, column
    if public:
        fitted = dataclasses.replace(column, pieces=fit_pieces(column, counts, standard_error**2))
    of_set, true = BinValues.of(column), BinValues.of(fitted)
    mean, spread = true.mean() / true.steps, true.variance() / true.steps**2
    middle, even = of_set.mean() / of_set.steps, of_set.variance() / of_set.steps**2
    centre, centre_of_set = float(share @ mean), float(share @ middle)
    covariance = float(share @ ((middle - centre_of_set) * (mean - centre)))
    variance = float(share @ (np.square(mean - centre) + spread))
    variance_of_set = float(share @ (np.square(middle - centre_of_set) + even))
    if not (variance_of_set > 0 and variance > 0):
        return None
    widths = np.diff([float(edge) for edge in column.edges])
    density = kept / np.maximum(widths, 1e-300)
    sides = np.r_[0.0, density, 0.0]
    is_end = (sides[:-2] == 0) | (sides[2:] == 0)
    around = np.maximum(sides[:-2], sides[2:]) / np.maximum(density, 1e-300)
    # Where one side has no records, the density may fall to 0 within the bin, or not at all.
    rare = 1 / np.maximum(2 * around, 1e-300)
    ends = np.where(around < 1, 1 - around / 2, rare)
    inner = np.maximum(1 - around, 0.0)
    by_steps = np.zeros(column.bins)
    if not public:
        ends = np.ones(column.bins)
    else:
        by_steps = np.abs(means_by_steps(column, counts, standard_error**2) - middle).max(axis=0)
    return BinBias(
        centre_of_set - centre,
        np.hypot(by_steps, np.sqrt(even) * np.where(is_end, ends, inner) * (density > 0)),
        np.where(is_end, 1.0, inner) * (density > 0),
        covariance / variance_of_set,
        covariance / variance,
    )


def wide_bins(released: Sequence[Released], schema: Schema) -> tuple[str, ...]:
    """Return the columns whose bins alone change a slope on them or of them, as "age (-12 %)".

    The change is the larger of the two. Columns with a change below `WIDE` are left out.

    Args:
        released: Everything that was measured, of all sets.
        schema: Published schema.
    """
    found = []
    pooled = pool(schema.domain, released)
    for column in schema.columns:
        counts, variance = pooled.counts((column.name,)), pooled.variance((column.name,))
        if counts is None or variance is None or column.choice is not None:
            continue
        bias = bin_bias(column, counts, math.sqrt(variance))
        change = 0.0 if bias is None else min(bias.predictor, bias.outcome) - 1
        if change <= -WIDE:
            found.append(f"{column.name} ({100 * change:+.0f} %)")
    return tuple(found)
