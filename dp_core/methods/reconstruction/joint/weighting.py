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
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Answers, Measurement, Released
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.methods.reconstruction.estimates.raking import others
from dp_core.methods.reconstruction.joint.dense_answers import Evidence, Questions, gather, in_order
from dp_core.methods.reconstruction.joint.walsh import even_mass, parity_mask, scale_even

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


Part = slice | int


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """One answer, or one table, whose disjoint cells are updated together.

    Attributes:
        answer: Proportions of all records: an array of the table's cells, or one number.
        mask: Mask of a parity, 0 for other queries.
        inside: Index of a cell's records in the joint table; empty for other queries.
        clique: Columns of a table, in the domain's order; empty for other queries.
    """

    answer: NDArray[np.float64]
    mask: int = 0
    inside: tuple[Part, ...] = ()
    clique: tuple[str, ...] = ()


def facts(domain: Domain, released: Released, rows: float) -> Iterator[Fact]:
    """Yield the answers of one released item; a number of all records yields nothing."""
    if isinstance(released, Measurement):
        clique = in_order(domain, released.clique)
        if clique:
            values = released.values.transpose(released.domain.axes(clique)) / rows
            yield Fact(values, clique=clique)
        return
    assert isinstance(released, Answers)
    asked = released.queries
    if isinstance(asked, Cells):
        for of, codes, value in zip(asked.of, asked.codes, released.values, strict=True):
            if of:
                inside = tuple(
                    codes[of.index(name)] if name in of else slice(None) for name in domain.columns
                )
                yield Fact(np.asarray(value / rows), inside=inside)
        return
    assert isinstance(asked, Parities)
    for clique, value in zip(asked.cliques, released.values, strict=True):
        mask = parity_mask(domain, clique)
        if mask:
            yield Fact(np.asarray(value / rows), mask=mask)


@dataclass(slots=True, eq=False)
class Updates:
    """A joint table that is fitted by multiplicative updates.

    Attributes:
        domain: All columns.
        joint: The table, sums to 1, shape `domain.sizes`; contiguous, changed in place.
    """

    domain: Domain
    joint: NDArray[np.float64]

    def follow(self, fact: Fact) -> None:
        """Update the table by one step towards an answer."""
        if fact.clique:
            present = self.joint.sum(axis=others(self.domain.columns, fact.clique))
            growth = np.exp(_away(fact, present))
            shape = [
                size if name in fact.clique else 1
                for name, size in zip(self.domain.columns, self.domain.sizes, strict=True)
            ]
            self.joint *= (growth / float((present * growth).sum())).reshape(shape)
        elif fact.mask:
            flat = self.joint.reshape(-1)
            held = even_mass(flat, fact.mask)
            factor = math.exp(float(_away(fact, np.asarray(held))))
            rest = 1 / (1 + held * (factor - 1))
            scale_even(flat, fact.mask, factor * rest, rest)
        else:
            cell = self.joint[fact.inside]
            held = float(np.sum(cell))
            factor = math.exp(float(_away(fact, np.asarray(held))))
            self.joint[fact.inside] = cell * factor
            self.joint /= 1 + held * (factor - 1)


def _away(fact: Fact, present: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far an answer is from the table; a proportion lies between 0 and 1."""
    return np.asarray(np.clip(fact.answer, 0.0, 1.0) - present)
