"""Linear functionals of tables, estimated from pooled measurements, with their covariance.

A functional is a sum of counts weighted by the product of a weight for each column's code: the
count of a group (weights 0 and 1), or a total (weights are values). A column that is not named has
weight 1 for every code. In the orthogonal parts of `pooled_parts` a functional with weights w_i is

    sum over S of  prod(i not in S) mean(w_i)  *  <tensor(i in S) (w_i - mean(w_i)), part S>,

so no table of all columns is made. Parts have independent errors, with covariance P / precision on
a part, so the covariance of two functionals f and g is

    sum over S of  prod(i not in S) mean(f_i) mean(g_i)
                 * prod(i in S) <f_i - mean(f_i), g_i - mean(g_i)> / precision(S).

Nothing is clipped or shrunk: every estimate is unbiased. All inputs are public.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.noise_quantiles import central_quantile, effective_draws
from dp_core.metrics.noise_size import half_width_in_units
from dp_core.tables.domain import Clique
from dp_core.tables.structural_zeros import StructuralZeros

Floats: TypeAlias = NDArray[np.float64]
MOST_PATTERNS = 64
"""Most different patterns of weights for which the fourth cumulant is computed exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class Functionals:
    """A family of functionals, one for each combination of a row of every column's weights.

    Attributes:
        columns: Columns, in the order of the domain.
        weights: For each column, weights of shape (rows, codes).
    """

    columns: Clique
    weights: tuple[Floats, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows of each column: the shape of the estimates."""
        return tuple(len(each) for each in self.weights)

    def times(self, other: Functionals) -> Functionals:
        """Return the functionals whose weights are the products of two; rows are broadcast."""
        pairs = zip(self.weights, other.weights, strict=True)
        return Functionals(self.columns, tuple(one * two for one, two in pairs))


def unobserved(pooled: Pooled, asked: Functionals) -> list[Clique]:
    """Return the parts that the functionals need and no measurement observed, smallest first."""
    return [
        part
        for part, _, _ in _terms(asked)
        if not (pooled.precision(part) or (not part and pooled.rows is not None))
    ]


def estimate(pooled: Pooled, asked: Functionals) -> Floats:
    """Return the estimates, shape `asked.shape`, in the unit of the weights times records.

    Every part must be observed (`unobserved`).
    """
    found = np.zeros(asked.shape)
    for part, inside, outside in _terms(asked):
        values = pooled.part(part)
        for axis, contrast in enumerate(inside):
            values = np.moveaxis(np.tensordot(contrast, values, axes=(1, axis)), 0, axis)
        found += _spread(asked, part, values) * _product(outside, asked, part)
    return found


def covariance(pooled: Pooled, one: Functionals, other: Functionals) -> Floats:
    """Return the covariance of the noise of two families, row by row; rows are broadcast.

    Args:
        pooled: All measurements.
        one: Functionals of some columns.
        other: Functionals of the same columns; the same ones for the variance.
    """
    found = np.zeros(np.broadcast_shapes(one.shape, other.shape))
    theirs = {part: (inside, outside) for part, inside, outside in _terms(other)}
    for part, inside, outside in _terms(one):
        if part not in theirs or (not part and pooled.rows is not None):
            continue
        their_inside, their_outside = theirs[part]
        factor = np.array(1 / pooled.precision(part))
        contrasts, means = (
            iter(zip(inside, their_inside, strict=True)),
            iter(zip(outside, their_outside, strict=True)),
        )
        for axis, name in enumerate(one.columns):
            if name in part:
                mine, others = next(contrasts)
                row = (mine * others).sum(axis=1)
            else:
                mean, their_mean = next(means)
                row = mean * their_mean
            factor = factor * row.reshape(_axis(len(one.columns), axis))
        found += factor
    return found


def fourth_cumulant(pooled: Pooled, asked: Functionals) -> Floats:
    """Return the fourth cumulant of the noise of each functional, shape `asked.shape`.

    A cell x of a table T enters with the coefficient h(x) = sum over the parts S in T of (share of
    T in the precision of S) * prod(i not in S) mean(w_i) * prod(i in S) (w_i(x_i) - mean(w_i)), and
    the fourth cumulants of h Z add up. h depends on the codes only through their weights, so codes
    of equal weight are counted together, and rows whose weights are permutations of one another
    have the same result. For more than `MOST_PATTERNS` patterns of weights, the noise of tables
    counts as one draw, which has the widest interval.
    """
    found = np.zeros(asked.shape)
    if not (any(pooled.fourth.values()) or any(pooled.fourth_beyond.values())):
        return found
    kinds = [_patterns(each) for each in asked.weights]
    if math.prod(len(patterns) for patterns, _ in kinds) > MOST_PATTERNS:
        return 3 * covariance(pooled, asked, asked) ** 2
    small = Functionals(asked.columns, tuple(patterns for patterns, _ in kinds))
    tables = np.zeros(small.shape)
    for rows in np.ndindex(*small.shape):
        weights = [each[row] for each, row in zip(small.weights, rows, strict=True)]
        tables[rows] = _of_tables(pooled, asked.columns, weights)
    found += tables[np.ix_(*[index for _, index in kinds])]
    for part, inside, outside in _terms(asked):
        if part in pooled.fourth_beyond:
            share = 1 / (pooled.interactions[part][1] * pooled.precision(part))
            sums = np.array(share**4 * pooled.fourth_beyond[part])
            for axis, contrast in enumerate(inside):
                entries = contrast @ _orthonormal(contrast.shape[1]).T
                sums = sums * (entries**4).sum(axis=1).reshape(_axis(len(inside), axis))
            found += _spread(asked, part, sums) * _product(outside, asked, part) ** 4
    return found


def half_widths(pooled: Pooled, asked: Functionals, level: float = 0.95) -> Floats:
    """Return half of the width of each functional's interval for the noise, shape `asked.shape`.

    Exact for single cells with one discrete Laplace draw; otherwise of the mixture of the noise
    (`dp_core.metrics.noise_quantiles`). If one table was measured, errors of counts are whole, so
    their half-width is the least whole number with a probability of at least `level`, as if the
    mixture were rounded. Other half-widths of less than a record's noise are rounded up. Of linked
    tables, shares of a household take the place of records.

    Args:
        pooled: All measurements.
        asked: The functionals.
        level: Confidence level, 0.95 by default.
    """
    shares = pooled.domain.shares
    scale = single_laplace_scale(pooled, asked)
    if scale is not None:
        return np.full(asked.shape, float(half_width_in_units("laplace", scale, shares, level)))
    variance = covariance(pooled, asked, asked)
    draws = effective_draws(variance, fourth_cumulant(pooled, asked))
    found = np.asarray(central_quantile(level, draws) * np.sqrt(variance))
    if not all(((each == 0) | (each == 1)).all() for each in asked.weights):
        return found
    if len(pooled.tables) == 1 and not pooled.interactions and pooled.rows is None:
        return np.maximum(np.ceil(found * shares - 0.5), 0.0) / shares
    return np.where(variance * shares**2 < 1, np.ceil(found * shares - 1e-9) / shares, found)


def single_laplace_scale(pooled: Pooled, asked: Functionals) -> float | None:
    """Return the scale of the noise if each functional is one cell with one Laplace draw.

    That is so if one table was measured, once, and the functionals are its cells. None otherwise.
    """
    if len(pooled.tables) != 1 or pooled.interactions or pooled.rows is not None:
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


def impossible(zeros: StructuralZeros, asked: Functionals) -> NDArray[np.bool_]:
    """Return which functionals count impossible cells only, so that they are exactly 0.

    Args:
        zeros: Structural zeros in the codes of the functionals' columns.
        asked: The functionals.
    """
    found = np.zeros(asked.shape, dtype=bool)
    for rule in zeros.rules:
        if not set(rule.columns) <= set(asked.columns):
            continue
        inside = np.array(True)
        for axis, (name, each) in enumerate(zip(asked.columns, asked.weights, strict=True)):
            if name in rule.columns:
                outside = np.ones(each.shape[1], dtype=bool)
                outside[list(rule.codes[rule.columns.index(name)])] = False
                row = ~(each[:, outside] != 0).any(axis=1)
                inside = inside & row.reshape(_axis(len(asked.columns), axis))
        found |= inside
    for axis, each in enumerate(asked.weights):
        found |= ~(each != 0).any(axis=1).reshape(_axis(len(asked.columns), axis))
    return found


def _terms(asked: Functionals) -> Iterator[tuple[Clique, list[Floats], list[Floats]]]:
    """Yield each part with weight: contrasts of its columns, and means of the other columns.

    Contrasts have shape (rows, codes), means shape (rows,).
    """
    means = [each.mean(axis=1) for each in asked.weights]
    contrasts = [each - mean[:, None] for each, mean in zip(asked.weights, means, strict=True)]
    sizes = [float(np.abs(each).max(initial=0.0)) for each in asked.weights]
    varies = [
        float(np.abs(each).max(initial=0.0)) > 1e-12 * size
        for each, size in zip(contrasts, sizes, strict=True)
    ]
    some = [
        bool((np.abs(mean) > 1e-12 * size).any()) for mean, size in zip(means, sizes, strict=True)
    ]
    able = [axis for axis in range(len(varies)) if varies[axis]]
    for count in range(len(able) + 1):
        for axes in itertools.combinations(able, count):
            rest = [axis for axis in range(len(varies)) if axis not in axes]
            if all(some[axis] for axis in rest):
                yield (
                    tuple(asked.columns[axis] for axis in axes),
                    [contrasts[axis] for axis in axes],
                    [means[axis] for axis in rest],
                )


def _of_tables(pooled: Pooled, columns: Clique, weights: Sequence[Floats]) -> float:
    """Return the fourth cumulant from the noise of tables for one row of weights per column."""
    classes = {
        name: np.unique(each, return_counts=True)
        for name, each in zip(columns, weights, strict=True)
    }
    means = {name: float(each.mean()) for name, each in zip(columns, weights, strict=True)}
    varying = [name for name in columns if len(classes[name][0]) > 1]
    touching = {table.clique: table for name in varying for table in pooled.holders((name,))}
    constant = math.prod(means.values())
    found = 0.0
    if pooled.rows is None:
        # Tables without any of the columns contribute through the total only.
        through = pooled.fourth_of_total()
        found = math.fsum(through.values()) - math.fsum(
            through.get(clique, 0.0) for clique in touching
        )
        found = max(found, 0.0) * constant**4
    # Tables of equal size and noise that share the same columns contribute the same.
    alike = Counter(
        (
            tuple(name for name in varying if name in clique),
            table.values.size,
            table.variance,
            fourth,
        )
        for clique, table in touching.items()
        if (fourth := pooled.fourth.get(clique, 0.0))
    )
    for (own, cells, variance, fourth), number in alike.items():
        coefficients = np.zeros([len(classes[name][0]) for name in own])
        for count in range(len(own) + 1):
            for part in itertools.combinations(own, count):
                if not part and pooled.rows is not None:
                    continue
                share = pooled.domain.size(part) / cells / variance / pooled.precision(part)
                term = np.array(
                    share * math.prod(means[name] for name in columns if name not in part)
                )
                for axis, name in enumerate(own):
                    if name in part:
                        contrast = classes[name][0] - means[name]
                        term = term * contrast.reshape(_axis(len(own), axis))
                coefficients = coefficients + term
        times = np.array(cells / pooled.domain.size(own))
        for axis, name in enumerate(own):
            times = times * classes[name][1].reshape(_axis(len(own), axis))
        found += number * fourth * float((times * coefficients**4).sum())
    return found


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


def _axis(axes: int, axis: int) -> list[int]:
    """Return the shape of values along one of several axes."""
    return [-1 if place == axis else 1 for place in range(axes)]


def _spread(asked: Functionals, part: Clique, values: Floats) -> Floats:
    """Return values by the rows of a part's columns with an axis for every column."""
    rows = iter(values.shape)
    return values.reshape([next(rows) if name in part else 1 for name in asked.columns])


def _product(means: Sequence[Floats], asked: Functionals, part: Clique) -> Floats:
    """Return the product of the means of the other columns, with an axis for every column."""
    found, rest = np.array(1.0), iter(means)
    for axis, name in enumerate(asked.columns):
        if name not in part:
            found = found * next(rest).reshape(_axis(len(asked.columns), axis))
    return found
