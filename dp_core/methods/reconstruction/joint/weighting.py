"""A joint table fitted to noisy answers as they arrive: its options and its state.

`multiplicative_weights` follows what was released; MWEM's selection asks what its table still gets
wrong. Public side of the wall.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.reconstruction.joint.dense_answers import Questions, gather
from dp_core.methods.reconstruction.joint.joint_entropy import fit_entropy
from dp_core.methods.reconstruction.joint.weight_updates import Fact, Updates, facts
from dp_core.tables.domain import Domain
from dp_core.wall.released import Measurement, Released


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """Options of the fit to answers.

    Attributes:
        updates: `limit`: all answers at once, to where multiplicative updates end, each as far as
            its noise allows; `steps`: one small step for each answer, in order, as in the paper.
        prior: Of `limit`: records that the even table counts for; `auto`: three times the logarithm
            of the number of cells, or one for every eight answers where that is more.
        eta: Step size of `steps`; 1 in the paper's figure, 1/2 in its proof.
        replays: For `steps`, number of passes over all answers after each new one.
        slack: Of `steps`: deviations of up to so many standard deviations of the noise are left
            alone. It keeps replays from following the noise; 0 in the paper.
    """

    updates: Literal["limit", "steps"] = "limit"
    prior: float | Literal["auto"] = "auto"
    eta: float = 1.0
    replays: int = 10
    slack: float = 1.0

    def __post_init__(self) -> None:
        if self.prior != "auto" and self.prior <= 0:
            raise ValueError(f"prior is a positive number of records, not {self.prior}.")
        if self.eta <= 0:
            raise ValueError(f"eta is positive, not {self.eta}.")
        if self.replays < 0 or self.slack < 0:
            raise ValueError("replays and slack are not negative.")


class DependentColumn:
    """A joint table and the answers it was fitted to so far.

    Attributes:
        joint: The table, sums to 1, shape `domain.sizes`.
    """

    joint: NDArray[np.float64]

    def __init__(
        self, options: Weighting, domain: Domain, possible: NDArray[np.bool_], rows: float
    ) -> None:
        """Start with an even table.

        Args:
            options: Options of the fit.
            domain: All columns.
            possible: Cells that may hold records, at least one.
            rows: Number of records.
        """
        self._options, self._domain, self._possible, self._rows = options, domain, possible, rows
        self._start = possible / possible.sum()
        self._past: list[Released] = []
        self._facts: list[Fact] = []
        self._fitted: tuple[Questions, NDArray[np.float64]] | None = None
        self.joint = self._start

    def add(self, released: Iterable[Released]) -> None:
        """Follow what else was released."""
        if self._options.updates == "steps":
            for _ in self.each(released):
                pass
            return
        self._past += released
        evidence = gather(self._domain, self._past, rows=self._rows, possible=self._possible)
        asked = evidence.questions
        before = asked.carry(*self._fitted) if self._fitted else None
        prior = self._options.prior
        if prior == "auto":
            # By measurement: less follows the noise of many answers, more leaves what they say.
            prior = max(3 * math.log(self._possible.sum()), asked.length / 8, 1.0)
        fitted = fit_entropy(evidence, self._start, prior=float(prior), weights=before)
        self._fitted = asked, fitted.weights
        self.joint = fitted.joint

    def each(self, released: Iterable[Released]) -> Iterator[None]:
        """Follow step by step; yields after each item, when the table has followed it."""
        options = self._options
        for item in released:
            found = list(facts(self._domain, item, self._rows))
            if not found:
                continue
            if isinstance(item, Measurement) and len(found[0].clique) == len(self._domain):
                self.joint = self._histogram(found[0], item)
            state = Updates(self._domain, np.array(self.joint), options.eta, options.slack)
            self._facts += found
            for fact in found:
                state.follow(fact)
            for _ in range(options.replays):
                for fact in self._facts:
                    state.follow(fact)
            # Rounding must not add up over thousands of steps.
            self.joint = state.joint / state.joint.sum()
            yield

    def _histogram(self, fact: Fact, item: Measurement) -> NDArray[np.float64]:
        """Return a start that has the cells which stand out of the noise of a noisy joint table.

        Section 4.2 of the paper. Of as many cells with noise alone, one is expected to pass.
        """
        cells = math.log(max(int(self._possible.sum()), 2))
        reach = cells if item.noise == "laplace" else math.sqrt(2 * cells)
        outstanding = self._possible & (fact.answer > reach * item.scale / self._rows)
        start = np.where(outstanding, fact.answer, 0.0)
        rest = self._possible & ~outstanding
        if not outstanding.any() or not rest.any():
            return start / start.sum() if outstanding.any() else self.joint
        # What is not seen is not nothing: at least one record is somewhere else.
        left = max(1 - float(start.sum()), 1 / (self._rows + 1))
        start *= (1 - left) / start.sum()
        return np.asarray(start + rest * (left / rest.sum()))
