"""Noise of a table and of an interaction by budget, and the typical file of forecasts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp_core.client.interactions import cell_stddev
from dp_core.client.noise_scale import noise_for, sensitivities
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import count_l1, count_l2_squared, in_shares
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.kernel.questions.vetted import asked_in_shares

# A pair of p x q levels is measured with its margins if (1 - 1/p)(1 - 1/q) is above `_TABLE_FROM`;
# a column of p levels, whose margin is the number of records, if 1 - 1/p is above `_COLUMN_FROM`.
_TABLE_FROM = 0.3
_COLUMN_FROM = 0.95
_SMALL = 1000  # number of equal parts of the budget for which noise is computed


@dataclass(frozen=True)
class Costs:
    """Noise of a table and of an interaction as functions of the measuring budget.

    Attributes:
        currency: Currency of the release.
        relation: Neighbouring relation of the release.
        budget: Measuring budget, in the currency.
        whole: Whether everything is measured as complete tables.
    """

    currency: Currency
    relation: Relation
    budget: Fraction
    whole: bool
    _known: dict[tuple[int, ...], float] = field(default_factory=dict, init=False, repr=False)

    @property
    def exponent(self) -> float:
        """Exponent of the budget in the precision of a measurement."""
        return 2.0 if self.currency.kind == "pure" else 1.0

    @cached_property
    def table(self) -> float:
        """Noise variance of a cell of a table that gets the whole budget, in records squared."""
        bounds = {"l1": count_l1(self.relation), "l2_squared": count_l2_squared(self.relation)}
        return self._variance(**bounds)

    @cached_property
    def floor(self) -> float:
        """Part of every noise variance that does not depend on the share of the budget."""
        l1, l2_squared = count_l1(self.relation), count_l2_squared(self.relation)
        whole = self._stddev(self.budget, l1, l2_squared) ** 2
        return max(whole / self.table - 1, 0.0)

    def _variance(self, *, l1: int, l2_squared: int) -> float:
        """Return the noise variance at the whole budget, extrapolated from that at a small part."""
        stddev = self._stddev(self.budget / _SMALL, l1, l2_squared)
        return float(stddev**2 / float(_SMALL) ** self.exponent)

    def _stddev(self, cost: Fraction, l1: int, l2_squared: int) -> float:
        """Return the standard deviation in records of noise that is drawn in shares of them."""
        shares = self.relation.shares
        _, l1, l2_squared = in_shares(self.relation, (1, l1, l2_squared))
        return float(noise_for(self.currency, cost, l1=l1, l2_squared=l2_squared).stddev) / shares

    def apart(self, sizes: Sequence[int]) -> bool:
        """Return whether columns of these sizes are better measured as an interaction."""
        part = math.prod(1 - 1 / size for size in sizes)
        most = {1: _COLUMN_FROM, 2: _TABLE_FROM}.get(len(sizes), 1.0)
        if self.whole or part > most or not self.measurable(sizes):
            return False
        return self.own(sizes, alone=True) < self.own(sizes, alone=False)

    def measurable(self, sizes: Sequence[int]) -> bool:
        """Return whether an interaction of these sizes is not too large, and its noise neither.

        Noise that cannot be drawn must not stop a release that was planned and partly paid.
        """
        try:
            self.own(sizes, alone=True)
        except (ValueError, BadInput):
            return False
        return True

    def own(self, sizes: Sequence[int], *, alone: bool) -> float:
        """Return the noise variance of a cell's own deviation at the whole budget.

        Raises:
            ValueError: if an interaction of these sizes is too large.
            BadInput: if its noise cannot be drawn, or its entries are too large in shares.
        """
        if not alone:
            return self.table * math.prod(1 - 1 / size for size in sizes if size > 1)
        key = tuple(sorted(sizes))
        if key not in self._known:
            asked = _interaction(key)
            asked_in_shares(asked, self.relation)  # refuses what the curator would refuse
            l1, l2_squared = sensitivities(asked, self.relation)
            stddev = self._variance(l1=l1, l2_squared=l2_squared) ** 0.5
            self._known[key] = float(cell_stddev(asked, stddev) ** 2)
        return self._known[key]


def _interaction(sizes: Sequence[int]) -> Interaction:
    """Return an interaction of columns of these sizes; its noise depends on sizes only."""
    return Interaction(tuple(str(place) for place in range(len(sizes))), tuple(sizes))


DEPENDENCES = (1 / 3, 2.0)
"""Mean dependence of pairs at both ends of a forecast, relative to `dependence.usual`."""


def typical_columns(sizes: Sequence[int], rows: float) -> list[NDArray[np.float64]]:
    """Return one-way tables of a typical file, in records: few frequent codes and many rare ones.

    Args:
        sizes: Number of codes of each column.
        rows: Number of records.

    >>> [column.tolist() for column in typical_columns((2, 1), 300)]
    [[200.0, 100.0], [300.0]]
    """
    shapes = [1 / np.arange(1, size + 1) for size in sizes]
    return [shape * (rows / shape.sum()) for shape in shapes]
