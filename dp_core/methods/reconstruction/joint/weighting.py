"""A joint table that is fitted to noisy answers as they arrive, by multiplicative weights.

The reconstruction `multiplicative_weights` fits it to all released results. MWEM's selection uses
it to find the worst-answered queries. Public side of the wall: all inputs are released values.

*Single steps* (Hardt, Ligett & McSherry 2012, Figure 1). Let a be the noisy answer to a query q,
and q(p) that of the current table p, both as proportions of all records. Each cell of the query is
multiplied by exp(a - q(p)), and the table is then normalised to sum 1.

*Their limit.* For answers a_i with standard deviations s_i, both as proportions of all records, the
fit is the joint table p that minimises

    sum_i (q_i(p) - a_i)^2 / (2 s_i^2) + prior * KL(p || start)

The noise of an answer limits its influence; without a prior, answers that no table satisfies would
drive cells to 0. The minimum has the form start * exp(sum_i theta_i q_i), like the result of
multiplicative updates, and theta minimises the smooth dual

    log sum(start * exp(sum theta_i q_i)) - theta . a + prior/2 sum (s_i theta_i)^2

(Dudik, Phillips & Schapire 2004, the l2^2 case; Gull & Daniell 1978), found by L-BFGS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Released
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.joint.dense_answers import Evidence, Questions, gather

Updating = Literal["limit", "steps"]
"""The limit of multiplicative updates with all answers, or one step per answer."""

_ROUNDS = 300
_STEEPEST = 1e3
_NEARLY = 1e-9  # smallest standard deviation of an answer, as a proportion of all records


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
        """Fit the table to further released results, and yield after each item."""
        for item in released:
            evidence = gather(self._domain, [item], rows=self._rows, possible=self._possible)
            asked, answers = evidence.questions, evidence.answers
            if not asked.length:
                continue
            if isinstance(item, Measurement):
                if len(item.clique) == len(self._domain):
                    self.joint = self._histogram(asked.spread(answers), item)
                self._step(asked, answers)
            else:
                for at, one in enumerate(asked.alone()):
                    self._step(one, answers[at : at + 1])
            yield

    def _step(self, asked: Questions, answers: NDArray[np.float64]) -> None:
        """Update the table by one step towards answers about parts that no record has in common."""
        # A proportion lies between 0 and 1.
        away = np.clip(answers, 0.0, 1.0) - asked.ask(self.joint)
        joint = self.joint * np.exp(asked.spread(away))
        self.joint = joint / joint.sum()

    def _histogram(self, answer: NDArray[np.float64], item: Measurement) -> NDArray[np.float64]:
        """Return a start table from the cells of a noisy joint table that exceed their noise.

        Section 4.2 of the paper. If all cells were empty, about one would be expected to exceed the
        threshold.
        """
        cells = math.log(max(int(self._possible.sum()), 2))
        reach = cells if item.noise == "laplace" else math.sqrt(2 * cells)
        outstanding = self._possible & (answer > reach * item.scale / self._rows)
        start = np.where(outstanding, answer, 0.0)
        rest = self._possible & ~outstanding
        if not outstanding.any() or not rest.any():
            return start / start.sum() if outstanding.any() else self.joint
        # The other cells together get at least the mass of one record.
        left = max(1 - float(start.sum()), 1 / (self._rows + 1))
        start *= (1 - left) / start.sum()
        return np.asarray(start + rest * (left / rest.sum()))


def fit_entropy(
    evidence: Evidence,
    start: NDArray[np.float64],
    *,
    prior: float,
    weights: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the joint table nearest to `start` that fits noisy answers, and its weights (theta).

    The table is in proportions, and the weights of the queries are a start for the next fit.

    Args:
        evidence: Noisy answers.
        start: Start table, nonnegative, sums to 1; cells with 0 stay 0.
        prior: Weight of the start table, in records, positive.
        weights: Start values of the weights; they affect only the last digits of the result.
    """
    from scipy.optimize import minimize

    asked = evidence.questions
    if not asked.length:
        return start, np.zeros(0)
    held = start > 0
    log_start = np.log(start, out=np.full(start.shape, -np.inf), where=held)
    stddev = np.maximum(evidence.stddev, _NEARLY)
    # Scaled so that the penalty is isotropic; nearly noiseless answers get a limited scale.
    scale = np.minimum(1 / (stddev * np.sqrt(prior)), _STEEPEST)

    def joint_of(theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        logs = log_start + asked.spread(theta)
        largest = float(logs.max())
        joint = np.exp(logs - largest)
        mass = float(joint.sum())
        joint /= mass
        return joint, largest + float(np.log(mass))

    def dual(scaled: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        theta = scaled * scale
        joint, log_mass = joint_of(theta)
        residual = asked.ask(joint) - evidence.answers
        shrink = prior * stddev**2 * theta
        value = log_mass - float(theta @ evidence.answers)
        return value + float(theta @ shrink) / 2, scale * (residual + shrink)

    first = np.zeros(asked.length) if weights is None else weights / scale
    found = minimize(
        dual,
        first,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _ROUNDS, "maxfun": 2 * _ROUNDS, "maxcor": 12, "ftol": 1e-12},
    )
    theta = np.asarray(found.x * scale)
    return joint_of(theta)[0], theta
