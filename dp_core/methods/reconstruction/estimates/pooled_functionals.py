"""Linear functionals of tables, estimated from pooled measurements, with their covariance.

A functional is a sum of counts weighted by the product of a weight for each column's code: the
count of a group (weights 0 and 1), or a total (weights are values). A column that is not named has
weight 1 for every code. In the orthogonal parts of `pooled_parts` a functional with weights w_i is

    sum over S of  prod(i not in S) mean(w_i)  *  <tensor(i in S) (w_i - mean(w_i)), part S>,

so no table of all columns is made. Parts have independent errors, with covariance P / precision on
a part, so the covariance of two functionals f and g is

    sum over S of  prod(i not in S) mean(f_i) mean(g_i)
                 * prod(i in S) <f_i - mean(f_i), g_i - mean(g_i)> / precision(S).

Columns of areas within one another are treated separately. A functional names at most one of them.
Each part of the other columns has an estimate in every area, from the tables of all levels, with a
covariance between areas (`area_parts`). The two sums above are over these parts.

Nothing is clipped or shrunk: every estimate is unbiased. All inputs are public.
"""

from __future__ import annotations

import numpy as np

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
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled


def unobserved(pooled: Pooled, asked: Functionals) -> list[Clique]:
    """Return the parts that the functionals need and no measurement observed, smallest first."""
    place, weights, level = by_area(pooled, asked)
    nested = pooled.domain.nested
    found = []
    for part, _, _ in terms(asked, place):
        areas = pooled.areas(part)
        own, depth = (weights, 0) if areas is None else areas.coarsest(weights, level)
        if areas is not None and depth >= areas.levels:
            assert nested is not None
            found.append(pooled.with_column(part, nested.columns[depth - 1]))
        elif areas is None or not areas.determines(own, depth):
            found.append(part)
    return found


def estimate(pooled: Pooled, asked: Functionals) -> Floats:
    """Return the estimates, shape `asked.shape`, in the unit of the weights times records.

    Every part must be observed (`unobserved`).
    """
    found = np.zeros(asked.shape)
    place, weights, level = by_area(pooled, asked)
    for part, inside, outside in terms(asked, place):
        areas = areas_of(pooled, part)
        own, depth = areas.coarsest(weights, level)
        values = np.tensordot(own, areas.values[depth], axes=1)
        for axis, contrast in enumerate(inside, start=1):
            values = np.moveaxis(np.tensordot(contrast, values, axes=(1, axis)), 0, axis)
        found += spread(asked, part, place, values) * product_of_means(outside, asked, part, place)
    return found


def covariance(pooled: Pooled, one: Functionals, other: Functionals) -> Floats:
    """Return the covariance of the noise of two families, row by row; rows are broadcast.

    Args:
        pooled: All measurements.
        one: Functionals of some columns.
        other: Functionals of the same columns; the same ones for the variance.
    """
    found = np.zeros(np.broadcast_shapes(one.shape, other.shape))
    place, weights, level = by_area(pooled, one)
    _, their_weights, _ = by_area(pooled, other)
    theirs = {part: (inside, outside) for part, inside, outside in terms(other, place)}
    for part, inside, outside in terms(one, place):
        if part not in theirs:
            continue
        areas = areas_of(pooled, part)
        both = areas.coarsest(np.concatenate([weights, their_weights]), level)
        mine, others = both[0][: len(weights)], both[0][len(weights) :]
        rows = areas.covariance(mine, others, both[1])
        factor = rows.reshape(along(len(one.columns), place) if place is not None else ())
        their_inside, their_outside = theirs[part]
        contrasts, means = (
            iter(zip(inside, their_inside, strict=True)),
            iter(zip(outside, their_outside, strict=True)),
        )
        for axis, name in enumerate(one.columns):
            if axis == place:
                continue
            if name in part:
                own, its = next(contrasts)
                row = (own * its).sum(axis=1)
            else:
                mean, their_mean = next(means)
                row = mean * their_mean
            factor = factor * row.reshape(along(len(one.columns), axis))
        found += factor
    return found


def is_determined(pooled: Pooled, clique: Clique) -> bool:
    """Return whether the cells of a table can be estimated; False if two columns are nested.

    Args:
        pooled: All measurements.
        clique: Columns of the table, in the order of the domain.
    """
    if pooled.domain.nested is not None and pooled.domain.nested.together(clique):
        return False
    one = first_cell(pooled, clique)
    place, _, level = by_area(pooled, one)
    known = (pooled.areas(part) for part, _, _ in terms(one, place))
    return all(each is not None and each.total and level < each.levels for each in known)
