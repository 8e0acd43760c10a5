"""State of a joint table that is fitted to noisy answers as they arrive.

The reconstruction `multiplicative_weights` fits it to all released results. MWEM's selection uses
it to find the worst-answered queries. Public side of the wall.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Released
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.joint.dense_answers import Questions, gather
from dp_core.methods.reconstruction.joint.joint_entropy import fit_entropy
from dp_core.methods.reconstruction.joint.weight_updates import Fact, Updates, facts

Updating = Literal["limit", "steps"]
"""The limit of multiplicative updates with all answers, or one step per answer."""


class FittedJoint:
    """A joint table and the answers that it has been fitted to.

    Attributes:
        joint: The table, sums to 1, shape `domain.sizes`.
    """

    joint: NDArray[np.float64]

    def __init__(
        self,
        domain: Domain,
        possible: NDArray[np.bool_],
        rows: float,
        *,
        updates: Updating,
        prior: float | None = None,
    ) -> None:
        """Start with the uniform table over the possible cells.

        Args:
            domain: All columns.
            possible: Cells that may hold records, at least one.
            rows: Number of records.
            updates: With `limit` every answer is weighted by its noise, with `steps` each has one
                small step, in order.
            prior: With `limit`, weight of the uniform table, in records; by default the maximum of
                1, three times the logarithm of the number of cells, and an eighth of the number of
                answers.
        """
        self._domain, self._possible, self._rows = domain, possible, rows
        self._updates, self._prior = updates, prior
        self._start = possible / possible.sum()
        self._past: list[Released] = []
        self._fitted: tuple[Questions, NDArray[np.float64]] | None = None
        self.joint = self._start

    def add(self, released: Iterable[Released]) -> None:
        """Fit the table to further released results."""
        if self._updates == "steps":
            for _ in self.each(released):
                pass
            return
        self._past += released
        evidence = gather(self._domain, self._past, rows=self._rows, possible=self._possible)
        asked = evidence.questions
        before = asked.carry(*self._fitted) if self._fitted else None
        prior = self._prior
        if prior is None:
            # From benchmarks: a smaller prior fits the noise of many answers, a larger one ignores
            # them.
            prior = max(3 * math.log(self._possible.sum()), asked.length / 8, 1.0)
        self.joint, found = fit_entropy(evidence, self._start, prior=prior, weights=before)
        self._fitted = asked, found

    def each(self, released: Iterable[Released]) -> Iterator[None]:
        """Fit the table to further results, and yield after each item."""
        for item in released:
            found = list(facts(self._domain, item, self._rows))
            if not found:
                continue
            if isinstance(item, Measurement) and len(found[0].clique) == len(self._domain):
                self.joint = self._histogram(found[0], item)
            state = Updates(self._domain, np.array(self.joint))
            for fact in found:
                state.follow(fact)
            # Normalise, so that rounding errors do not accumulate over thousands of steps.
            self.joint = state.joint / state.joint.sum()
            yield

    def _histogram(self, fact: Fact, item: Measurement) -> NDArray[np.float64]:
        """Return a start table from the cells of a noisy joint table that exceed their noise.

        Section 4.2 of the paper. If all cells were empty, about one would be expected to exceed the
        threshold.
        """
        cells = math.log(max(int(self._possible.sum()), 2))
        reach = cells if item.noise == "laplace" else math.sqrt(2 * cells)
        outstanding = self._possible & (fact.answer > reach * item.scale / self._rows)
        start = np.where(outstanding, fact.answer, 0.0)
        rest = self._possible & ~outstanding
        if not outstanding.any() or not rest.any():
            return start / start.sum() if outstanding.any() else self.joint
        # The other cells together get at least the mass of one record.
        left = max(1 - float(start.sum()), 1 / (self._rows + 1))
        start *= (1 - left) / start.sum()
        return np.asarray(start + rest * (left / rest.sum()))
