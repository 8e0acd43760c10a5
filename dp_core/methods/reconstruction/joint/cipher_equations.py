"""The step of CIPHER: a table of several columns from all its tables with one column fewer.

Eugenio and Liu, "Construction of Differentially Private Empirical Distributions from a low-order
Marginals Set through Solving Linear Equations with l2 Regularization", Section 2.2. The paper is
read as follows: the equations of all columns except the pivot are stacked and share one unknown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

Form = Literal["joint", "conditional"]
Weight = Literal["prob", "even"]
_Matrix: TypeAlias = NDArray[np.float64] | sparse.csr_array

_SMALL = 256  # number of unknowns up to which a dense matrix is faster than a sparse one
_RANK = 1e-12  # singular values below this part of the largest are treated as 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Equations:
    """Options of the linear equations for a table with given smaller tables.

    The unknown is z = P(pivot | rest), for each level of the pivot but the last. For every other
    column k, the table without k requires `sum over k of P(rest) z = P(pivot, c)` in each cell c of
    the rest without k. With two columns of K1 and K2 levels besides the pivot, there are K1 + K2
    equations, one of them redundant, for K1 K2 unknowns. So there are always many solutions, and
    the choice of one determines the method's bias.

    Attributes:
        form: `conditional` divides each equation by P(c), as in the paper; `joint` does not, so
            that nearly empty cells have less weight than others.
        weight: Norm that the solution minimises: the sum of z**2 (`even`, as in the paper), or of
            P(rest) z**2 (`prob`).
        ridge: Ridge penalty lambda; 0 gives the least-squares solution of smallest norm.
    """

    form: Form = "conditional"
    weight: Weight = "prob"
    ridge: float = 1e-6

    def joint(
        self,
        faces: Sequence[NDArray[np.float64]],
        pivot: int,
        possible: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Return a table with the given tables as margins, approximately if they disagree.

        The margin without the pivot is always exact.

        Args:
            faces: At position k the table of all columns but k, in proportions, which may be
                negative; at least two columns, each with at least two levels.
            pivot: Position of the pivot.
            possible: Cells that may have mass, shape of the result; None (the default) for all.
        """
        rest = faces[pivot]
        matrix, known, weights = self._stacked(faces, pivot)
        levels = known.shape[1]
        dropped = levels - 1
        cells = np.ones((levels, rest.size), dtype=bool)
        if possible is not None:
            cells = np.moveaxis(possible, pivot, 0).reshape(levels, -1)
        found = np.zeros((levels, rest.size))
        if cells[:dropped].all():
            found[:dropped] = self._solve(matrix, known[:, :dropped]).T
        else:
            for level in range(dropped):
                inside = np.flatnonzero(cells[level])
                if inside.size:
                    part = self._solve(matrix[:, inside], known[:, [level]])
                    found[level, inside] = part[:, 0]
        found = found * weights * rest.ravel()
        found[dropped] = rest.ravel() - found.sum(axis=0)
        # If the dropped level is impossible, its mass is divided equally among the possible levels.
        stuck = np.where(cells[dropped], 0.0, found[dropped])
        found[dropped] -= stuck
        found += stuck / np.maximum(cells.sum(axis=0), 1) * cells
        return np.moveaxis(found.reshape(levels, *rest.shape), 0, pivot)

    def _stacked(
        self, faces: Sequence[NDArray[np.float64]], pivot: int
    ) -> tuple[_Matrix, NDArray[np.float64], NDArray[np.float64]]:
        """Return the matrix, the right sides (one per level), and the scale of the unknowns.

        The unknowns are z divided by their scale, which is 0 where z must be 0.
        """
        rest = faces[pivot]
        levels = faces[0 if pivot else 1].shape[pivot - 1 if pivot else 0]
        flat = rest.ravel()
        weights = np.ones(rest.size)
        if self.weight == "prob":
            root = np.sqrt(np.maximum(flat, 0.0))
            weights = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        numbers = np.arange(rest.size).reshape(rest.shape)
        blocks, sides = [], []
        for column in range(len(faces)):
            if column == pivot:
                continue
            axis = column - (column > pivot)  # of this column among those of the rest
            among = np.moveaxis(numbers, axis, -1).reshape(-1, rest.shape[axis])
            # The pivot's axis in the table without this column.
            wanted = np.moveaxis(faces[column], pivot - (pivot > column), -1).reshape(-1, levels)
            factor = flat[among] * weights[among]
            if self.form == "conditional":
                factor = _ratio(factor, flat[among].sum(axis=1, keepdims=True))
                wanted = _ratio(wanted, wanted.sum(axis=1, keepdims=True))
            blocks.append(_rows_of(factor, among, rest.size))
            sides.append(wanted)
        if isinstance(blocks[0], np.ndarray):
            return np.concatenate(blocks), np.concatenate(sides), weights
        return sparse.csr_array(sparse.vstack(blocks)), np.concatenate(sides), weights

    def _solve(self, matrix: _Matrix, known: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `(A'A + ridge)^-1 A'b`, solving the smaller of the row and the column system."""
        rows, width = matrix.shape
        if self.ridge > 0:
            try:
                if rows < width:
                    return np.asarray(matrix.T @ _regularised(matrix @ matrix.T, self.ridge, known))
                return _regularised(matrix.T @ matrix, self.ridge, matrix.T @ known)
            except linalg.LinAlgError:
                pass  # the ridge is below the rounding error of the largest entries
        return np.asarray(linalg.lstsq(_dense(matrix), known, cond=_RANK)[0])


def unknowns(sizes: Sequence[int]) -> int:
    """Return the number of unknowns of the largest system for columns of these sizes.

    >>> unknowns((2, 3, 4))
    12
    """
    return math.prod(sizes) // min(sizes, default=1)


def _rows_of(factor: NDArray[np.float64], among: NDArray[np.int64], width: int) -> _Matrix:
    """Return the matrix that has `factor[i]` in the columns `among[i]` of row i."""
    if width <= _SMALL:
        dense = np.zeros((len(among), width))
        np.put_along_axis(dense, among, factor, axis=1)
        return dense
    starts = np.arange(0, among.size + 1, among.shape[1])
    return sparse.csr_array((factor.ravel(), among.ravel(), starts), shape=(len(among), width))


def _regularised(square: _Matrix, ridge: float, known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the solution of a symmetric system with `ridge` added to its diagonal."""
    dense = _dense(square)
    dense.flat[:: len(dense) + 1] += ridge
    return np.asarray(linalg.cho_solve(linalg.cho_factor(dense, overwrite_a=True), known))


def _dense(matrix: _Matrix) -> NDArray[np.float64]:
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a ratio, 0 where the denominator is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)
