"""Relations that the sets of a release contain, counts near zero, and the bias of bins.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dp_core.client.interactions import cell_variance, implied_table
from dp_core.client.released import (
    Measurement,
    Released,
    SparseTable,
    Totals,
    interactions_of,
    tables_of,
)
from dp_core.inference.measured_relations import unmeasured_groups
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.linear_questions import BinnedCounts, CellCounts, Interaction
from dp_core.methods.bin_density.fitting import MOST_BINS, fit_pieces, means_by_steps
from dp_core.methods.reconstruction.estimates.consistency import estimates
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool, pool_interactions
from dp_core.methods.replicates.posterior.posterior_tables import undrawn_pairs
from dp_core.methods.trends import is_trend
from dp_core.plan.release_spec import Mode
from dp_core.schema.bin_values import BinValues
from dp_core.schema.definition import Column, Schema
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import cliques_of

STANDARD_ERRORS = 3.0
"""A count below so many standard errors is biased upwards, because a set has no negative counts.

Intervals of such shares covered in 90 to 93 of 100 measurements instead of 95
(`benchmarks/notes/noise-aware.md`)."""
THIN = 0.2
"""Share of cells near zero from which a table counts as thin."""
_MOST_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class Relations:
    """What is known about the pairs and the levels of a release.

    Attributes:
        pairs: Number of pairs of columns.
        carried: Number of pairs that a measured table contains.
        missing: The other pairs, as "a × b".
        undrawn: In mode `posterior`, those of the other pairs that the sets do not draw.
        near_zero: Levels near zero for their noise, as "column: level".
        thin: Pairs with many cells near zero for their noise, as "a × b (share)", the thinnest
            first.
        wide_bins: Columns whose bins change slopes, as "age (-12 %)".
    """

    pairs: int
    carried: int
    missing: tuple[str, ...]
    undrawn: tuple[str, ...]
    near_zero: tuple[str, ...]
    thin: tuple[str, ...]
    wide_bins: tuple[str, ...]


def relations(released: Sequence[Released], schema: Schema, *, mode: Mode = "shared") -> Relations:
    """Return the relations and thin counts of a release.

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
    weakest = sorted(thin_groups(released, schema, groups), key=lambda pair: -pair[1])
    return Relations(
        pairs=len(groups),
        carried=len(groups) - len(missing),
        missing=tuple(" × ".join(pair) for pair in missing),
        undrawn=tuple(" × ".join(pair) for pair in missing if pair in limited),
        near_zero=levels_near_zero(released, schema, schema.domain.columns),
        thin=tuple(f"{' × '.join(group)} ({share:.0%})" for group, share in weakest),
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


def cells_near_zero(
    domain: Domain,
    released: Sequence[Released],
    cliques: Iterable[Clique],
    *,
    zeros: StructuralZeros,
) -> dict[Clique, NDArray[np.bool_]]:
    """Return which cells have counts below `STANDARD_ERRORS` standard errors.

    Args:
        domain: All columns.
        released: Everything measured for one set; only noisy tables are used.
        cliques: Columns of the cells; a clique that no table contains is left out.
        zeros: Impossible cells, which are known to be empty and are never near zero.

    Returns:
        An array for each clique, with its columns in the order of the domain.
    """
    tables = estimates(domain, tables_of(released), zeros=zeros)
    found = {}
    for clique in cliques:
        ordered = tuple(name for name in domain.columns if name in clique)
        holders = [table for table in tables if set(ordered) <= set(table.clique)]
        if not holders or not ordered:
            continue
        precision = np.zeros(domain.project(ordered).sizes)
        weighted, possible = precision.copy(), ~zeros.mask(domain.project(ordered))
        for table in holders:
            values, cells = table.project(ordered)
            weight = 1 / (table.variance * np.maximum(cells, 1))
            precision += weight
            weighted += weight * values
            possible &= cells > 0
        low = weighted / precision < STANDARD_ERRORS / np.sqrt(precision)
        found[clique] = np.asarray(possible & low)
    return found


def levels_near_zero(
    released: Sequence[Released], schema: Schema, columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the levels of some columns whose counts are near zero for their noise.

    Bins of numbers are left out: they are rarely read one by one, and tails are always thin.

    Args:
        released: Everything that was measured; only what serves the first set is used.
        schema: Published schema.
        columns: Names; columns without levels are left out.
    """
    own = [item for item in released if item.replicate in (0, 1)]
    wanted: list[Clique] = [(name,) for name in columns if schema.column(name).levels]
    if not any(isinstance(item, Measurement) for item in own) or not wanted:
        return ()
    pooled = pool_interactions(schema.domain, own)
    if pooled is None:
        found = cells_near_zero(schema.domain, own, wanted, zeros=schema.zeros)
    else:
        found = {}
        for clique in wanted:
            counts, variance = pooled.counts(clique), pooled.variance(clique)
            if counts is not None and variance is not None:
                possible = ~schema.zeros.mask(schema.domain.project(clique))
                found[clique] = possible & (counts < STANDARD_ERRORS * math.sqrt(variance))
    return tuple(
        f"{name}: {schema.column(name).code_labels()[code]}"
        for (name,), low in found.items()
        for code in np.flatnonzero(low)
    )


def thin_groups(
    released: Sequence[Released],
    schema: Schema,
    groups: Sequence[tuple[str, ...]],
) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Return groups of columns many of whose joint counts are near zero for their noise.

    A synthetic file has no negative counts, so counts near zero are biased upwards, mostly in the
    tails, on which slopes depend. If a share of at least `THIN` of the possible cells is below
    three standard errors, relations are biased towards none.

    Args:
        released: Everything that was measured; only what serves the first set is used.
        schema: Published schema.
        groups: Groups of columns; those that no table of counts contains are left out.

    Returns:
        Each of these groups with the share of its possible cells that are near zero.
    """
    own = [item for item in (as_table(each, schema) for each in released) if item is not None]
    first = [item for item in own if item.replicate in (0, 1)]
    known = (*first, *_with_columns(released, first, schema))
    measured = [frozenset(table.clique) for table in known]
    # With hundreds of columns most pairs are in no table, so pairs are looked up in a set.
    pairs = {frozenset(pair) for clique in measured for pair in combinations(sorted(clique), 2)}
    held = [
        group
        for group in groups
        if len(group) > 1
        and all(frozenset(pair) in pairs for pair in combinations(group, 2))
        and (len(group) == 2 or any(set(group) <= clique for clique in measured))
    ]
    domain = schema.domain
    cells = {group: _possible(group, domain, schema) for group in held}
    wanted = [group for group in held if cells[group]]
    if not wanted:
        return ()
    found = cells_near_zero(schema.domain, known, wanted, zeros=schema.zeros)
    shares = [(group, int(low.sum()) / cells[group]) for group, low in found.items()]
    return tuple((group, share) for group, share in shares if share >= THIN)


def _possible(group: tuple[str, ...], domain: Domain, schema: Schema) -> int:
    """Return the number of possible cells; 0 for a table that is too large."""
    domain = domain.project(tuple(name for name in domain.columns if name in group))
    if domain.size() > _MOST_CELLS:
        return 0
    return int((~schema.zeros.mask(domain)).sum())


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


def _with_columns(
    released: Sequence[Released], tables: Sequence[Measurement], schema: Schema
) -> list[Measurement]:
    """Return the tables that interactions of two columns form with the counts of single columns.

    Args:
        released: Everything that was measured; only what serves the first set is used.
        tables: Measured tables of counts.
        schema: Published schema.
    """
    own = [item for item in released if isinstance(item, Totals) and item.replicate in (0, 1)]
    pooled = pool_interactions(schema.domain, (*tables, *own))
    if pooled is None:
        return []
    ones = {name: pooled.counts((name,)) for name in schema.domain.columns}
    found = []
    for item in own:
        if not isinstance(item.of, Interaction):
            continue
        clique, domain = item.of.clique, schema.domain.project(item.of.clique)
        columns = [column for name in clique if (column := ones[name]) is not None]
        if len(columns) != len(clique) or len(clique) != 2 or domain.sizes != item.of.sizes:
            continue
        values = implied_table(item.of, item.values)
        for axis, column in enumerate(columns):
            counts = column / domain.sizes[1 - axis]
            mean = counts.mean() / 2  # each column contributes half of the uniform table
            values = values + np.expand_dims(counts - mean, 1 - axis)
        scale = math.sqrt(cell_variance(item.of, item.variance))
        found.append(
            Measurement(
                domain,
                np.rint(values).astype(np.int64),
                noise="gaussian",
                scale=scale,
                stage=item.stage,
                replicate=item.replicate,
                grant=item.grant,
            )
        )
    return found


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
        deviation: Standard deviation of the column, in its unit.
        predictor: Factor of a slope on this column; 1 without bias.
        outcome: Factor of a slope of this column on others; 1 without bias.
    """

    mean: float
    doubt: NDArray[np.float64]
    deviation: float
    predictor: float
    outcome: float


def bin_bias(column: Column, counts: NDArray[np.float64], standard_error: float) -> BinBias | None:
    """Return the bias that the bins of a numeric column cause.

    Args:
        column: Column with public bins. None is returned for a column with levels, and for bins
            that were chosen privately, within which the values of sets follow the noisy counts.
        counts: Noisy counts of its codes, records; a last one for missing is ignored.
        standard_error: Standard error of a count due to noise, records.
    """
    if column.levels or column.choice is not None or not 1 <= column.bins <= MOST_BINS:
        return None
    kept = np.maximum(counts[: column.bins], 0.0)
    if kept.sum() <= 0:
        return None
    share = kept / kept.sum()
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
    return BinBias(
        centre_of_set - centre,
        np.abs(means_by_steps(column, counts, standard_error**2) - middle).max(axis=0),
        variance**0.5,
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
        if counts is None or variance is None:
            continue
        bias = bin_bias(column, counts, math.sqrt(variance))
        change = 0.0 if bias is None else min(bias.predictor, bias.outcome) - 1
        if change <= -WIDE:
            found.append(f"{column.name} ({100 * change:+.0f} %)")
    return tuple(found)
