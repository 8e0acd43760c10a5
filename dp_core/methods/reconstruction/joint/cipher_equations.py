"""The step of CIPHER: a table of several columns from all its tables with one column less.

Eugenio and Liu, "Construction of Differentially Private Empirical Distributions from a low-order
Marginals Set through Solving Linear Equations with l2 Regularization", Section 2.2, as it must be
read: the equations of all the columns beside the pivot are stacked, and share one unknown.
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
Level = Literal["last", "first"]
_Matrix: TypeAlias = NDArray[np.float64] | sparse.csr_array

_SMALL = 256  # unknowns up to which a full matrix is quicker than a sparse one
_RANK = 1e-12  # singular values below this part of the largest are none


@dataclass(frozen=True, slots=True, kw_only=True)
class Equations:
    """How the table of some columns is looked for among all that have the smaller tables.

    The unknown is z = P(pivot | rest), for each level of the pivot but one. For every other column
    k the table without k demands, in each cell c of the rest without k,
    `sum over k of P(rest) z = P(pivot, c)`. Of two columns with K1 and K2 levels beside the pivot
    these are K1 + K2 equations, one of them superfluous, for K1 K2 unknowns: there are always
    many solutions, and which one is taken is the method's bias.

    Attributes:
        form: `conditional` divides each equation by P(c), as the paper does; `joint` does not, so
            that cells with next to nothing in them do not weigh as much as the others.
        weight: What is least among all solutions: the sum of z**2 (`even`, the paper's), or that
            of P(rest) z**2 (`prob`).
        drop: Level of the pivot that gets what the others leave.
        ridge: Lambda; at 0 the solution is the shortest one of least squares.
    """

    form: Form = "conditional"
    weight: Weight = "prob"
    drop: Level = "last"
    ridge: float = 1e-6

    def joint(
        self,
        faces: Sequence[NDArray[np.float64]],
        pivot: int,
        possible: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Return a table that has the given ones as its margins, as nearly as they agree.

        The table without the pivot is its margin exactly, whatever the others say.

        Args:
            faces: At position k the table of all columns but k, proportions (they may be
                negative); at least two, each column with at least two levels.
            pivot: Position of the pivot.
            possible: Cells that may hold something, shape of the result; None: all.
        """
        rest = faces[pivot]
        matrix, known, weights = self._stacked(faces, pivot)
        levels = known.shape[1]
        dropped = levels - 1 if self.drop == "last" else 0
        kept = [level for level in range(levels) if level != dropped]
        cells = np.ones((levels, rest.size), dtype=bool)
        if possible is not None:
            cells = np.moveaxis(possible, pivot, 0).reshape(levels, -1)
        found = np.zeros((levels, rest.size))
        if cells[kept].all():
            found[kept] = self._solve(matrix, known[:, kept]).T
        else:
            for level in kept:
                inside = np.flatnonzero(cells[level])
                if inside.size:
                    part = self._solve(matrix[:, inside], known[:, [level]])
                    found[level, inside] = part[:, 0]
        found = found * weights * rest.ravel()
        found[dropped] = rest.ravel() - found.sum(axis=0)
        # What the last level may not hold goes evenly to the levels that may.
        stuck = np.where(cells[dropped], 0.0, found[dropped])
        found[dropped] -= stuck
        found += stuck / np.maximum(cells.sum(axis=0), 1) * cells
        return np.moveaxis(found.reshape(levels, *rest.shape), 0, pivot)

    def _stacked(
        self, faces: Sequence[NDArray[np.float64]], pivot: int
    ) -> tuple[_Matrix, NDArray[np.float64], NDArray[np.float64]]:
        """Return matrix and right sides (one for each level), and what the unknowns stand for.

        The unknowns are z divided by the third result, which is 0 where there is to be no z.
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
        """Return `(A'A + ridge)^-1 A'b`, in rows or columns, whichever is smaller."""
        rows, width = matrix.shape
        if self.ridge > 0:
            try:
                if rows < width:
                    return np.asarray(matrix.T @ _regularised(matrix @ matrix.T, self.ridge, known))
                return _regularised(matrix.T @ matrix, self.ridge, matrix.T @ known)
            except linalg.LinAlgError:
                pass  # the ridge is below what rounding makes of the largest entries
        return np.asarray(linalg.lstsq(_dense(matrix), known, cond=_RANK)[0])


def unknowns(sizes: Sequence[int]) -> int:
    """Return how many unknowns the largest system for these columns has.

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
    """Return a ratio, 0 where it is divided by 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)
