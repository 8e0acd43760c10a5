"""The minimiser of a regularised logistic loss, on a grid: output perturbation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.extensions.exact_minimum import minimise
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.regressions.features import ONE
from dp_core.kernel.questions.regressions.gradients import OfClasses
from dp_core.kernel.questions.statistic import records_moved
from dp_core.kernel.questions.whole_numbers import cut

_FINENESS = 12  # bits by which the grid is finer than the move of the minimiser


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMinimiser(OfClasses):
    """Coefficients of a multinomial logistic regression with a penalty, on a public grid.

    Chaudhuri & Monteleoni (2009), Algorithm 1, and Chaudhuri, Monteleoni & Sarwate (2011),
    Algorithm 1, as sums: b minimises J(b) = sum of losses + (ridge/2) |b|^2, with `ridge` public;
    their mean of losses divides by a number of records that add-remove does not fix. Of two classes
    it is logistic regression. Unit: `unit`. The entries have the axes class (from the second) and
    feature; the first class has coefficients 0.

    Attributes:
        ridge: Weight of the penalty, at least 1.
    """

    NAME: ClassVar[str] = "class-minimiser"
    NOT_IN_SHARES: ClassVar[str] = (
        "it does not grow in proportion to the counts. Use gradients at public coefficients"
        " (`class-gradient`)."
    )

    ridge: int

    def __post_init__(self) -> None:
        OfClasses.__post_init__(self)
        if not 1 <= self.ridge <= 2**48:
            raise ValueError("The penalty's weight must be from 1 to 2^48.")

    @property
    def _bits(self) -> int:
        """Number of binary digits after the point."""
        return _FINENESS + self.ridge.bit_length()

    @property
    def unit(self) -> Fraction:
        """The grid's step."""
        return Fraction(1, 1 << self._bits)

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        found = minimise(
            self.features.matrix(cells[:, :-1]) / ONE,
            self.codes(cells[:, -1]).astype(np.int64),
            counts,
            classes=self.classes,
            ridge=self.ridge,
            # privacy: so what is rounded is within half a unit of the exact minimiser.
            gradient=float(self.ridge * self.unit / 2),
            bits=self._bits,
        )
        return cut(found)

    def _move(self, neighbours: Neighbours) -> int:
        """Return how far, in units and by the L2 norm, the computed minimiser moves at most."""
        # The square of the Lipschitz constant L of one record's loss.
        steepest = (1 if self.classes == 2 else 2) * self.features.norm
        squared = records_moved(neighbours) ** 2 * steepest / (self.ridge * self.unit) ** 2
        return isqrt(math.ceil(squared)) + 2

    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return sqrt(D) M + D and (M + sqrt(D))^2 for D entries.

        M is s L/(ridge unit) + 1, with s = 1 under add-remove and 2 under replace-one.

        The exact minimiser. Let b minimise J and b' the J' of the neighbouring file. The gradients
        of J at both differ by at least ridge |b' - b|: the losses are convex and the penalty is
        ridge-strongly so. That of J at b is 0, and at b' it is minus the difference of the files'
        losses' gradients there, since that of J' is 0: under add-remove one record's, at most L;
        under replace-one two records', at most 2 L. So |b' - b| <= s L/ridge.

        L. A record's gradient is r x with |r|_2 <= 1 for two classes, sqrt(2) for more (see
        `ClassGradient.norms`), and |x|_2^2 <= 1 + p for p predictors: L^2 = 1 + p or 2 + 2 p.

        The computed minimiser. A point where J's gradient is g is |g|/ridge from the minimiser at
        most, by the same inequality. `minimise` returns one where that is half a unit, whatever the
        file is: on two files they move by one unit more.

        Rounded, each entry moves by at most 1 more: sqrt(D) more by the L2 norm, and D by the L1
        norm, which before is at most sqrt(D) M.
        """
        entries, move = self.length, self._move(neighbours)
        l1 = isqrt(entries * move**2) + 1 + entries
        return l1, (move + isqrt(entries - 1) + 1) ** 2
