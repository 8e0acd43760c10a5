"""The general location model: cells of categorical columns, and normal numbers within each cell."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import CellCounts, CellSums, MiddleProducts
from dp_core.kernel.questions.products import Products
from dp_core.methods.parametric.synthesizer import ParametricModel
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variable, Variables

EMPTY = 1.0
"""Smallest noisy count, in records, of a cell with a mean of its own."""
_CHUNK = 2**18  # records drawn at a time
_LEAST_VARIANCE = 1 / 3
"""Variance of rounding to a grid, in half steps squared; a smaller variance can only be noise."""
_LEAST_PART = 1e-6
"""Smallest eigenvalue of a correlation matrix."""


def covariance_of(noisy: NDArray[np.float64], reach: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a positive definite covariance near a noisy one that the ranges allow.

    Variances are limited from below by that of rounding and from above by that of half the mass at
    each end of the range (Bowen & Liu 2020, section 4.2: boundary-inflated). Correlations are
    limited to [-1, 1], eigenvalues of their matrix are raised to a small positive number, and its
    diagonal is scaled back to 1, so that the variances do not change.

    Args:
        noisy: Noisy covariance matrix, symmetric, shape (numbers, numbers), in half steps squared.
        reach: Half the width of each range, shape (numbers,), in half steps.
    """
    if not noisy.size:
        return noisy
    variance = np.clip(np.diag(noisy), _LEAST_VARIANCE, np.maximum(reach**2, _LEAST_VARIANCE))
    deviation = np.sqrt(variance)
    correlation = np.clip(noisy / np.outer(deviation, deviation), -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(positive_definite(correlation) * np.outer(deviation, deviation))


def positive_definite(correlation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a positive definite correlation matrix near a symmetric one with diagonal 1.

    Eigenvalues are raised to a small positive number, and the diagonal is scaled back to 1
    (Rousseeuw & Molenberghs 1993).
    """
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= _LEAST_PART:
        return correlation
    raised = (vectors * np.maximum(values, _LEAST_PART)) @ vectors.T
    diagonal = np.sqrt(np.diag(raised))
    return np.asarray(raised / np.outer(diagonal, diagonal))


def freedom_of(records: float, groups: int, numbers: int) -> float:
    """Return the degrees of freedom of the covariance's posterior, at least `numbers`.

    With the prior 1/|Sigma| (section 4.3.1) they are n - K + 1 - p for n records, K cells and p
    numeric columns; for one column in one cell n - 1.
    """
    return max(records - groups + 1 - numbers, float(numbers))


def draw_proportions(
    concentration: NDArray[np.float64], *, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return one draw of a Dirichlet distribution; entries of 0 stay 0."""
    drawn = rng.standard_gamma(concentration)
    return np.asarray(drawn / drawn.sum())


def draw_covariance(
    scale: NDArray[np.float64], freedom: float, *, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return a matrix B such that B'B is one draw of an inverse Wishart distribution.

    Args:
        scale: Scale matrix of the distribution, positive definite: n times a covariance.
        freedom: Degrees of freedom, more than the number of rows of `scale` minus 1.
        rng: Generator of the draw.

    By Bartlett's decomposition, if A A' has a Wishart distribution with identity scale, then L (A
    A')^-1 L' has an inverse Wishart distribution with scale L L'.
    """
    size = len(scale)
    lower = np.tril(rng.standard_normal((size, size)), -1)
    lower[np.diag_indices(size)] = np.sqrt(rng.chisquare(freedom - np.arange(size)))
    return np.asarray(np.linalg.solve(lower, np.linalg.cholesky(scale).T))


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns define the cells, and which are numeric. Public.

    Attributes:
        by: Categorical columns.
        sizes: Number of levels of each categorical column.
        numbers: Numeric columns.
        gaps: Numeric columns that may have missing values.
    """

    by: tuple[str, ...]
    sizes: tuple[int, ...]
    numbers: tuple[Variable, ...]
    gaps: tuple[Variable, ...]

    @classmethod
    def of(cls, variables: Variables) -> Layout:
        """Return the layout of some columns."""
        return cls(
            tuple(variable.name for variable in variables.categorical),
            tuple(variable.size for variable in variables.categorical),
            variables.numeric,
            tuple(variable for variable in variables.numeric if variable.missing),
        )

    @property
    def cells(self) -> int:
        """Number of cells of the categorical columns."""
        return prod(self.sizes)

    @property
    def entries(self) -> int:
        """Number of counts: cells times patterns of missing numbers."""
        return self.cells << len(self.gaps)

    @property
    def present(self) -> NDArray[np.float64]:
        """Whether each pattern has each number: 1 or 0, shape (patterns, numbers)."""
        found = np.ones((1 << len(self.gaps), len(self.numbers)))
        missing = np.indices((2,) * len(self.gaps)).reshape(len(self.gaps), len(found))
        for variable, pattern in zip(self.gaps, missing, strict=True):
            found[:, self.numbers.index(variable)] -= pattern
        return found

    def impossible(self, zeros: StructuralZeros) -> NDArray[np.bool_]:
        """Return which counts are 0 by rule, shape (cells, patterns)."""
        mask = zeros.mask(Domain(self.by, self.sizes)).reshape(-1, 1)
        if mask.all():
            # Everything is impossible; repairing the records will raise the error.
            mask = ~mask
        return np.repeat(mask, 1 << len(self.gaps), axis=1)

    @property
    def counts(self) -> CellCounts | tuple[str, ...]:
        """Return the question for the counts; if no number can be missing, it is a table."""
        if not self.gaps:
            return self.by
        return CellCounts(
            by=self.by,
            sizes=self.sizes,
            numbers=tuple(variable.name for variable in self.gaps),
            positions=tuple(variable.positions for variable in self.gaps),
        )

    def sums(self, variable: Variable) -> CellSums:
        """Return the question for a number's sums by cell."""
        return CellSums(
            column=variable.name, positions=variable.positions, by=self.by, sizes=self.sizes
        )

    def products(self, first: Variable, second: Variable) -> MiddleProducts | Products:
        """Return the question for the products of two numbers, or for the squares of one."""
        columns = (first.name, second.name)
        positions = (first.positions, second.positions)
        # If one of two numbers may be missing, cell means are not over the records that have both.
        whole = first == second or not (first.missing or second.missing)
        if self.cells == 1 and whole:
            return MiddleProducts(columns=columns, positions=positions)
        return Products(columns=columns, positions=positions, by=self.by, sizes=self.sizes)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GeneralLocation(ParametricModel):
    """The general location model estimated from noisy statistics.

    Numbers are measured from the middle of their ranges, in half steps of their grids. A drawn
    number outside its range is moved to the bound, as in the paper.

    Attributes:
        alpha: Prior records of each cell, 0 in impossible ones, shape (cells, patterns).
        counts: Estimated records, nonnegative, shape (cells, patterns of missing numbers).
        present: Estimated records that have each number, shape (cells, numbers).
        means: Mean of each number in each cell, shape (cells, numbers).
        covariance: Covariance within the cells, positive definite, shape (numbers, numbers).
        records: Number of records that the covariance is estimated from.
        freedom: Degrees of freedom of the covariance's posterior.
    """

    alpha: NDArray[np.float64]
    counts: NDArray[np.float64]
    present: NDArray[np.float64]
    means: NDArray[np.float64]
    covariance: NDArray[np.float64]
    records: float
    freedom: float

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        layout = Layout.of(self.variables)
        shares = draw_proportions(self.counts + self.alpha, rng=rng)
        drawn = rng.multinomial(rows, shares.ravel())
        entry = rng.permutation(np.repeat(np.arange(drawn.size, dtype=np.int32), drawn))
        cell, pattern = np.divmod(entry, self.counts.shape[1])
        axes = self.domain.axes
        codes = np.empty((len(self.variables), rows), dtype=self.domain.code_type)
        if layout.by:
            levels = np.unravel_index(cell, layout.sizes)
            for axis, level in zip(axes(layout.by), levels, strict=True):
                codes[axis] = level
        if layout.numbers:
            numbers = self._numbers(cell, rng=rng)
            missing = layout.present[pattern] == 0
            for number, variable in enumerate(layout.numbers):
                position = np.rint((numbers[:, number] + variable.positions - 1) / 2)
                position[missing[:, number]] = variable.positions
                codes[axes((variable.name,))[0]] = position
        return self.zeros.repair(Dataset(self.domain, codes), rng=rng)

    def _numbers(
        self, cell: NDArray[np.signedinteger[Any]], *, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return numbers for records of given cells, within the ranges, shape (rows, numbers)."""
        width = self.means.shape[1]
        root = draw_covariance(self.covariance * self.records, self.freedom, rng=rng)
        error = rng.standard_normal(self.means.shape) @ root
        means = self.means + error / np.sqrt(np.maximum(self.present, EMPTY))
        reach = np.array([float(variable.positions - 1) for variable in self.variables.numeric])
        numbers = np.empty((cell.size, width))
        for first in range(0, cell.size, _CHUNK):
            part = cell[first : first + _CHUNK]
            found = means[part] + rng.standard_normal((part.size, width)) @ root
            numbers[first : first + _CHUNK] = np.clip(found, -reach, reach)
        return numbers
