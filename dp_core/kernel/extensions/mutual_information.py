"""Mutual information of a column and its parents, where the number of rows is public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.errors import BadInput
from dp_core.kernel.extensions.parent_candidates import CandidateScores
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.descriptions import whole

_PLACES = 30
"""Logarithms are whole multiples of 10^-30."""
_DIGITS = Context(prec=40)
_SLACK = 40
"""Bound on the error of a mutual information, in units of 10^-30 / ln 2 bits; see `score`."""


@dataclass(frozen=True, slots=True)
class MutualInformation(CandidateScores):
    """Mutual information of child and parents in bits, in units of 1/grid bit.

    Only under replace-one: its sensitivity depends on n, which must be public. Zhang et al. (2017),
    the score I.

    Attributes:
        candidates: Children with their parents; without parents the value is 0.
        rows: Public number of rows of the file, at least 1.
        grid: Number of units in one bit, at least 1. It should be well above rows / log2(rows);
            otherwise rounding is most of the sensitivity.
        binary: Whether in every candidate the child has two codes or its parents have two
            combinations, which reduces the sensitivity; by default not.
    """

    NAME: ClassVar[str] = "mutual-information"
    NOT_IN_SHARES: ClassVar[str] = (
        "it does not grow in proportion to the counts. Use the R score (`r-score`)."
    )
    STATED: ClassVar[tuple[str, ...]] = ("length", "rows", "grid", "binary")

    rows: int
    grid: int
    binary: bool = False

    def __post_init__(self) -> None:
        CandidateScores.__post_init__(self)
        if min(self.rows, self.grid) < 1:
            raise ValueError("Rows and grid are at least 1.")

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:
        """Return grid times the sensitivity of I in bits, and of its rounding, rounded up.

        With f(c) = c log c (f(0) = 0), n I = f(n) + sum f(M_xp) - sum f(M_x) - sum f(M_p), taking
        all combinations of the parents' codes as codes of one column. Let d(c) = f(c + 1) - f(c);
        it is 0 at 0, increasing and concave. Neighbours are one row added to the same n - 1 rows N,
        in (i, j) or in (k, l), and n is the same: n I differs by G(i, j) - G(k, l) with

            -G(i, j) = d(r) + d(s) - d(a),  a = N_ij, r = N_i, s = N_j,  r + s - a <= n - 1.

        *General.* a <= r, so -G >= d(s) >= 0. And -G <= 2 d((n - 1 + a)/2) - d(a), which falls with
        a since d is concave, so -G <= 2 d((n - 1)/2). Both G lie within
        2 d((n - 1)/2) = (n + 1) log(n + 1) - (n - 1) log(n - 1) - 2 log 2 of one another: that is
        n (2/n log((n + 1)/2) + (n - 1)/n log((n + 1)/(n - 1))).

        *Two codes on one side*, say of i. If i = k, then d(r) cancels, and what is left is the
        difference of two d(s) - d(a), each within 0 and d(n - 1). Otherwise N_i + N_k = n - 1, and
        s - a, the rows of column j that are not in row i, are at most N_k; d(s) - d(a) <= d(s - a)
        by concavity, so -G(i, j) <= d(N_i) + d(N_k), while -G(k, l) >= d(N_k), and the same with
        i and k exchanged. So they differ by at most d(n - 1) = n log n - (n - 1) log(n - 1), that
        is n h(1/n). Both bounds are those of the paper's Lemma on I, and both are reached.

        Computed values are off by less than the slack of `score`, which is added twice; rounding
        brings them less than 1 further apart, so they differ by a whole number that is no larger
        than the sum rounded up.

        Raises:
            BadInput: under add-remove.
        """
        if neighbours != "replace-one":
            raise BadInput(
                "Mutual information needs a public number of rows (replace-one, and one row per"
                " person); otherwise use the R score."
            )
        n, grid = whole(stated, "rows", least=1), whole(stated, "grid", least=1)
        if type(stated["binary"]) is not bool:
            raise ValueError("The field 'binary' must be true or false.")
        if stated["binary"]:
            bound = n * _log(n) - (n - 1) * _log(max(n - 1, 1))
        else:
            bound = (n + 1) * _log(n + 1) - (n - 1) * _log(max(n - 1, 1)) - 2 * _log(2)
        # privacy: each logarithm is off by less than 1, so this is above the sensitivity.
        above = Fraction(bound + 2 * n + 2, n * (_log(2) - 1))
        return ceil(grid * (above + Fraction(2 * _SLACK, _log(2))))

    def score(self, table: NDArray[np.int64]) -> int:
        """Return the exact value rounded to the grid, the same on every machine.

        n I ln 2 is a sum of logarithms of counts, with whole weights whose sizes add up to at most
        4 n. Each logarithm is correctly rounded to 40 digits (`decimal`) and then to a multiple of
        10^-30, so it is off by at most .51 of these; the rest is whole numbers. With I <= 63 bits
        the quotient by n ln 2, where ln 2 itself is off by .51, is off by less than
        (4 * .51 + 63 * .51) 10^-30 / ln 2 bits, which is less than `_SLACK` of these units.

        Raises:
            ValueError: if a table is of another number of rows, or not of two codes as stated.
        """
        # privacy: the sensitivity is for this number of rows and, if smaller, for two codes.
        if not table.any():
            return 0  # an empty file, which is public and has no neighbour
        if int(table.sum()) != self.rows:
            raise ValueError("The file has another number of rows than was stated.")
        if self.binary and min(table.shape) > 2:
            raise ValueError("A child and its parents have more than two codes each.")
        weights: dict[int, int] = {self.rows: self.rows}
        for sign, cells in ((1, table), (-1, table.sum(axis=1)), (-1, table.sum(axis=0))):
            for count, times in zip(*np.unique(cells, return_counts=True), strict=True):
                each = int(count)
                weights[each] = weights.get(each, 0) + sign * each * int(times)
        total = sum(weight * _log(count) for count, weight in weights.items() if count)
        whole_bit = self.rows * _log(2)
        return (2 * self.grid * total + whole_bit) // (2 * whole_bit)


@lru_cache(maxsize=1 << 16)
def _log(number: int) -> int:
    """Return the natural logarithm in units of 10^-30, off by at most .51 of them."""
    # privacy: a single plain number is its own key, which no number of another type can be. Every
    # step is in this context; the thread's own rounds to 28 digits, or to any other.
    return int(_DIGITS.to_integral_value(_DIGITS.scaleb(_DIGITS.ln(Decimal(number)), _PLACES)))
