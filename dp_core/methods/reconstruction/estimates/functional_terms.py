"""Divides sums of counts into terms, one for each part of their columns. Public side."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.area_parts import AreaPart, Floats
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled


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


def first_cell(pooled: Pooled, clique: Clique) -> Functionals:
    """Return the first cell of a table as a family of one functional."""
    sizes = pooled.domain.project(clique).sizes
    return Functionals(clique, tuple(np.eye(1, size) for size in sizes))


def areas_of(pooled: Pooled, part: Clique) -> AreaPart:
    """Return a part's estimates in all areas.

    Raises:
        ValueError: if nothing was observed of the part.
    """
    found = pooled.areas(part)
    if found is None:
        raise ValueError(f"Nothing was observed of {part}.")
    return found


def by_area(pooled: Pooled, asked: Functionals) -> tuple[int | None, Floats, int]:
    """Return the axis of areas, the weights of areas, and their level; 0 is the sum over all."""
    nested = pooled.domain.nested
    for axis, name in enumerate(asked.columns if nested is not None else ()):
        assert nested is not None
        if name in nested.columns:
            return axis, asked.weights[axis], nested.columns.index(name) + 1
    return None, np.ones((1, 1)), 0


def terms(
    asked: Functionals, place: int | None
) -> Iterator[tuple[Clique, list[Floats], list[Floats]]]:
    """Yield each part whose weight is not 0.

    With each part come the contrasts of its columns, shape (rows, codes) each, and the means of the
    other columns, shape (rows,) each. The axis of areas, `place`, is left out.
    """
    flat = [axis for axis in range(len(asked.columns)) if axis != place]
    columns, weights = [asked.columns[a] for a in flat], [asked.weights[a] for a in flat]
    means = [each.mean(axis=1) for each in weights]
    contrasts = [each - mean[:, None] for each, mean in zip(weights, means, strict=True)]
    sizes = [float(np.abs(each).max(initial=0.0)) for each in weights]
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
                    tuple(columns[axis] for axis in axes),
                    [contrasts[axis] for axis in axes],
                    [means[axis] for axis in rest],
                )


def along(axes: int, axis: int) -> list[int]:
    """Return the shape of values along one of several axes."""
    return [-1 if place == axis else 1 for place in range(axes)]


def spread(asked: Functionals, part: Clique, place: int | None, values: Floats) -> Floats:
    """Return values by rows of areas, then of a part's columns, with an axis for every column."""
    if place is not None:
        before = sum(name in part for name in asked.columns[:place])
        values = np.moveaxis(values, 0, before)
    else:
        values = values[0]
    rows = iter(values.shape)
    return values.reshape(
        [
            next(rows) if axis == place or name in part else 1
            for axis, name in enumerate(asked.columns)
        ]
    )


def product_of_means(
    means: Sequence[Floats], asked: Functionals, part: Clique, place: int | None
) -> Floats:
    """Return the product of the means of the other columns, with an axis for every column."""
    found, rest = np.array(1.0), iter(means)
    for axis, name in enumerate(asked.columns):
        if name not in part and axis != place:
            found = found * next(rest).reshape(along(len(asked.columns), axis))
    return found
