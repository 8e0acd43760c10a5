"""The distribution of the noise of sums of counts: fourth cumulants, and quantiles from them.

A fourth cumulant is 0 for normal noise. For Laplace noise it is a sum over all measured entries.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.functional_terms import (
    Functionals,
    along,
    areas_of,
    by_area,
    first_cell,
    product_of_means,
    spread,
    terms,
)
from dp_core.methods.reconstruction.estimates.pooled_functionals import covariance, is_determined
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.noise_quantiles import central_quantile, effective_draws
from dp_core.metrics.noise_size import half_width_in_units
from dp_core.tables.cliques import shares_of

MOST_PATTERNS = 64
"""Most different patterns of weights for which the fourth cumulant is computed exactly."""
MOST_EFFECTS = 1_000_000
"""Most pairs of functionals and areas for which the fourth cumulant is computed exactly."""
_MOST_CONTRASTS = 1000
"""Most areas for which an array with an entry for each pair of areas is made."""


def fourth_cumulant(pooled: Pooled, asked: Functionals) -> Floats:
    """Return the fourth cumulant of the noise of each functional, shape `asked.shape`.

    A cell x of a table T in area a enters with the coefficient h(x, a) = sum over the parts S in T
    of (precision of S in T) * (covariance of the functional with S in area a) * prod(i not in S)
    mean(w_i) * prod(i in S) (w_i(x_i) - mean(w_i)), and the fourth cumulants of h Z add up. h
    depends on the codes only through their weights, so codes of equal weight are counted together.
    Rows whose weights are permutations of one another have the same result, except on the axis of
    areas. For more than `MOST_PATTERNS` patterns of weights, or `MOST_EFFECTS` pairs of functionals
    and areas, the noise of tables counts as one draw, which has the widest interval.
    """
    found = np.zeros(asked.shape)
    if not (any(pooled.fourth.values()) or any(pooled.fourth_beyond.values())):
        return found
    place, weights, level = by_area(pooled, asked)
    kinds = [
        (each, np.arange(len(each))) if axis == place else _patterns(each)
        for axis, each in enumerate(asked.weights)
    ]
    patterns = math.prod(len(each) for axis, (each, _) in enumerate(kinds) if axis != place)
    names = () if pooled.domain.nested is None else pooled.domain.nested.columns
    many = len(weights) * max((pooled.domain.size((name,)) for name in names), default=1)
    if patterns > MOST_PATTERNS or many > MOST_EFFECTS:
        return 3 * covariance(pooled, asked, asked) ** 2
    effects = {
        part: areas.with_areas(*areas.coarsest(weights, level))
        for part, _, _ in terms(asked, place)
        for areas in (areas_of(pooled, part),)
    }
    flat = [axis for axis in range(len(asked.columns)) if axis != place]
    columns = tuple(asked.columns[axis] for axis in flat)
    tables = np.zeros([len(each) for each, _ in kinds])
    for rows in np.ndindex(*(len(kinds[axis][0]) for axis in flat)):
        own = [kinds[axis][0][row] for axis, row in zip(flat, rows, strict=True)]
        at: list[slice | int] = [*rows]
        if place is not None:
            at.insert(place, slice(None))
        sums = _of_tables(pooled, columns, own, effects)
        tables[tuple(at)] = sums if place is not None else sums[0]
    found += tables[np.ix_(*[index for _, index in kinds])]
    for part, inside, outside in terms(asked, place):
        for depth, name in enumerate((None, *names)):
            clique = pooled.with_column(part, name)
            if clique not in pooled.fourth_beyond or depth >= len(effects[part]):
                continue
            entries = effects[part][depth] / pooled.interactions[clique][1]
            if name is None:
                sums = entries[:, 0] ** 4
            elif entries.shape[1] <= _MOST_CONTRASTS:
                sums = ((entries @ _orthonormal(entries.shape[1]).T) ** 4).sum(axis=1)
            else:
                sums = (entries**2).sum(axis=1) ** 2  # at least the sum of fourth powers
            sums = sums * pooled.fourth_beyond[clique]
            for contrast in inside:
                own_entries = contrast @ _orthonormal(contrast.shape[1]).T
                sums = np.multiply.outer(sums, (own_entries**4).sum(axis=1))
            found += (
                spread(asked, part, place, sums)
                * product_of_means(outside, asked, part, place) ** 4
            )
    return found


def half_widths(pooled: Pooled, asked: Functionals, level: float = 0.95) -> Floats:
    """Return half of the width of each functional's interval for the noise, shape `asked.shape`.

    The half-width is exact for single cells with one discrete Laplace draw. Otherwise it is that of
    the mixture of the noise (`dp_core.metrics.noise_quantiles`). If one table was measured, errors
    of counts are whole, so their half-width is the least whole number with a probability of at
    least `level`, as if the mixture were rounded. Other half-widths of counts are rounded up if the
    variance of the noise is less than 1. In linked tables, shares of a household take the place of
    records.

    Args:
        pooled: All measurements.
        asked: The functionals.
        level: Confidence level, 0.95 by default.
    """
    shares = shares_of(pooled.domain)
    scale = single_laplace_scale(pooled, asked)
    if scale is not None:
        return np.full(asked.shape, float(half_width_in_units("laplace", scale, shares, level)))
    variance = covariance(pooled, asked, asked)
    draws = effective_draws(variance, fourth_cumulant(pooled, asked))
    found = np.asarray(central_quantile(level, draws) * np.sqrt(variance))
    if not all(((each == 0) | (each == 1)).all() for each in asked.weights):
        return found
    if errors_are_whole(pooled):
        return np.maximum(np.ceil(found * shares - 0.5), 0.0) / shares
    whole = np.maximum(np.ceil(found * shares - 1e-9), 0.0) / shares
    return np.where(variance * shares**2 < 1, whole, found)


def single_laplace_scale(pooled: Pooled, asked: Functionals) -> float | None:
    """Return the scale of the noise if each functional is one cell with one Laplace draw.

    That is so if one table was measured, once, and the functionals are its cells. None otherwise.
    """
    if not errors_are_whole(pooled):
        return None
    (table,) = pooled.tables
    if not math.isclose(pooled.fourth.get(table.clique, 0.0), 3 * table.variance**2):
        return None
    told = {
        name
        for name, each in zip(asked.columns, asked.weights, strict=True)
        if bool(((each == 0) | (each == 1)).all() and (each.sum(axis=1) == 1).all())
    }
    whole = set(asked.columns) == told and told == set(table.clique)
    return math.sqrt(table.variance / 2) if whole else None


def cells(pooled: Pooled, clique: Clique) -> tuple[Floats, Floats] | None:
    """Return the counts of a table and half of the width of their 95 % intervals.

    Args:
        pooled: All measurements.
        clique: Columns of the table, in the order of the domain.

    Returns:
        Counts in records, with axes as in `clique`, and the half-widths, with as many axes. Each
        area has its own half-width; along other axes they are equal. For more than 1,000 areas,
        Laplace noise is taken as one draw, which has the widest interval. None if a part was not
        observed.
    """
    if not is_determined(pooled, clique):
        return None
    sizes, one = pooled.domain.project(clique).sizes, first_cell(pooled, clique)
    place, _, level = by_area(pooled, one)
    counts = np.zeros(sizes)
    variance = np.zeros([size if axis == place else 1 for axis, size in enumerate(sizes)])
    for part, inside, outside in terms(one, place):
        areas = areas_of(pooled, part)
        values = spread(one, part, place, areas.values[level])
        counts += values * product_of_means(outside, one, part, place)
        squares = math.prod(float((each**2).sum()) for each in inside)
        mean = math.prod(float(each[0]) for each in outside)
        each = areas.variance(level) * squares * mean**2
        variance += each.reshape(along(len(sizes), place)) if place is not None else each
    if place is None:
        return counts, half_widths(pooled, one)
    if sizes[place] <= _MOST_CONTRASTS:
        each = np.eye(sizes[place])
        rows = tuple(each if axis == place else own for axis, own in enumerate(one.weights))
        return counts, half_widths(pooled, Functionals(clique, rows))
    quantile = central_quantile(0.95, 1.0 if pooled.noise == "laplace" else math.inf)
    return counts, np.asarray(quantile * np.sqrt(variance))


def _of_tables(
    pooled: Pooled,
    columns: Clique,
    weights: Sequence[Floats],
    effects: Mapping[Clique, Sequence[Floats]],
) -> Floats:
    """Return the fourth cumulants from the noise of tables, shape (rows of the areas' weights,).

    Args:
        pooled: All measurements.
        columns: Columns of the functionals without that of areas.
        weights: One row of weights for each column.
        effects: For each part, the covariance of the functionals with the areas of each level.
    """
    classes = {
        name: np.unique(each, return_counts=True)
        for name, each in zip(columns, weights, strict=True)
    }
    means = {name: float(each.mean()) for name, each in zip(columns, weights, strict=True)}
    varying = [name for name in columns if len(classes[name][0]) > 1]
    names = () if pooled.domain.nested is None else pooled.domain.nested.columns
    touching = {
        table.clique: table for name in (*varying, *names) for table in pooled.holders((name,))
    }
    constant = math.prod(means.values())
    found = np.zeros(len(next(iter(effects.values()))[0]) if effects else 1)
    if () in effects:
        # Tables without any of the columns contribute through the total only.
        through = pooled.fourth_of_total()
        rest = math.fsum(through.values()) - math.fsum(
            through.get(clique, 0.0) for clique in touching
        )
        total = effects[()][0][:, 0] * pooled.precision(())
        found = found + max(rest, 0.0) * (constant * total) ** 4
    # Tables of equal size and noise that share the same columns contribute the same.
    alike = Counter(
        (
            tuple(name for name in varying if name in clique),
            max((name for name in clique if name in names), key=names.index, default=None),
            table.values.size,
            table.variance,
            fourth,
        )
        for clique, table in touching.items()
        if (fourth := pooled.fourth.get(clique, 0.0))
    )
    for (own, area, cells, variance, fourth), number in alike.items():
        depth = 0 if area is None else names.index(area) + 1
        areas = 1 if area is None else pooled.domain.size((area,))
        coefficients = np.zeros([len(found), areas, *(len(classes[name][0]) for name in own)])
        for count in range(len(own) + 1):
            for part in itertools.combinations(own, count):
                if part not in effects:
                    continue
                precision = pooled.domain.size(part) * areas / cells / variance
                term = effects[part][depth].reshape(len(found), areas, *(1 for _ in own))
                term = (
                    term
                    * precision
                    * math.prod(means[name] for name in columns if name not in part)
                )
                for axis, name in enumerate(own, start=2):
                    if name in part:
                        contrast = classes[name][0] - means[name]
                        term = term * contrast.reshape(along(len(own) + 2, axis))
                coefficients = coefficients + term
        times = np.array(cells / pooled.domain.size(own) / areas)
        for axis, name in enumerate(own, start=2):
            times = times * classes[name][1].reshape(along(len(own) + 2, axis))
        sums = (times * coefficients**4).reshape(len(found), -1).sum(axis=1)
        found = found + number * fourth * sums
    return found


def errors_are_whole(pooled: Pooled) -> bool:
    """Return whether errors of counts are whole numbers.

    That is so if one table is the only measurement, and no exact number is known.
    """
    exact = pooled.rows is not None or bool(pooled.known)
    return len(pooled.tables) == 1 and not pooled.interactions and not exact


def _patterns(weights: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the rows that differ by more than a permutation, and the pattern of each row."""
    if len(weights) == 1:
        return weights, np.zeros(1, dtype=np.intp)
    found, index = np.unique(np.sort(weights, axis=1), axis=0, return_inverse=True)
    return found, index.ravel()


@lru_cache(maxsize=256)
def _orthonormal(size: int) -> Floats:
    """Return the orthonormal contrasts of `Interaction`, shape (size - 1, size)."""
    found = np.zeros((size - 1, size))
    for j in range(1, size):
        found[j - 1, :j], found[j - 1, j] = 1.0, -j
        found[j - 1] /= math.sqrt(j * (j + 1))
    return found
