"""Sorted histograms: noisy counts, made to rise or fall as it is publicly known that they do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_core.errors import BadInput, nearest
from dp_core.kernel.privacy import Neighbours
from dp_core.methods.parametric.column_histograms import ColumnHistograms, Floats
from dp_core.schema.variables import Variable, Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedHistogram(ColumnHistograms):
    """Count the bins or levels of each column with noise, and restore their order (Hay et al.).

    Hay, Rastogi, Miklau & Suciu (2010, section 3): if it is public that counts rise (or fall) from
    each bin to the next, the nearest counts in squares that do so are nearer to the truth than the
    noisy ones, because bins with equal counts share their noise. They are found by isotonic
    regression. The paper sorts the counts of a file whose bins have no names; here bins are
    values, so their order by size must be public knowledge, such as towns by their population.

    Attributes:
        falling: Columns whose counts do not rise from the first bin or level to the last; none by
            default.
        rising: Columns whose counts do not fall.

    Privacy:
        One histogram of each column, a record is in one of its bins. The order is public, and
        restoring it is post-processing.
    """

    falling: tuple[str, ...] = ()
    rising: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        both = sorted({*self.falling} & {*self.rising})
        if both:
            raise ValueError(f"falling and rising both name the column {both[0]!r}.")

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        names = variables.domain.columns
        for key in ("falling", "rising"):
            for name in getattr(self, key):
                if name not in names:
                    raise BadInput(
                        f"synthesize.{key} names the column {name!r}, which does not exist."
                        f"{nearest(name, names)}"
                    )

    def smooth(self, variable: Variable, counts: Floats, variance: float) -> Floats:  # noqa: ARG002
        return self.in_order(variable, counts)

    def in_order(self, variable: Variable, counts: Floats) -> Floats:
        """Return the nearest counts in the column's order; all counts if it has none.

        >>> SortedHistogram(falling=("x",)).in_order(
        ...     Variable(name="x", size=4), np.array([9.0, 4.0, 6.0, 1.0])
        ... )
        array([9., 5., 5., 1.])
        """
        from scipy.optimize import isotonic_regression

        if variable.name not in (*self.falling, *self.rising):
            return counts
        found = isotonic_regression(counts, increasing=variable.name in self.rising)
        return np.asarray(found.x)


METHOD = SortedHistogram
