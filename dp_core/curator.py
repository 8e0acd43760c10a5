"""The wall: the one place where confidential counts turn into public values.

A curator holds the counter of the confidential file and the release's session with the ledger.
Whatever it returns was charged, drawn once, stored and committed before it is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.accounting.currency import Currency, NoiseScale
from dp_core.accounting.events import GaussianEvent, LaplaceEvent, NoisyMaxEvent
from dp_core.accounting.sensitivity import count_l1, count_l2_squared
from dp_core.domain import Clique, Domain
from dp_core.ledger.session import Grant, Session, Step
from dp_core.marginals import Counter, Measurement
from dp_core.names import table_step
from dp_core.noise import gaussian, laplace, noisy_max
from dp_core.privacy import Neighbours, Noise, Stage
from dp_core.scores import Statistic, sensitivities


class Curator:
    """Answers questions about the confidential file, each against a grant."""

    def __init__(self, domain: Domain, counter: Counter, session: Session) -> None:
        """Hold the data's counter and the session that pays.

        Args:
            domain: All columns.
            counter: Exact counts of the confidential file.
            session: The release's reservation.
        """
        self._domain = domain
        self._counter = counter
        self._session = session

    @property
    def domain(self) -> Domain:
        """All columns."""
        return self._domain

    @property
    def neighbours(self) -> Neighbours:
        """The neighbouring relation of the release."""
        return self._session.neighbours

    @property
    def currency(self) -> Currency:
        """What the release pays in."""
        return self._session.currency

    def count_noise(self, cost: Fraction) -> NoiseScale:
        """Return the noise of a table of counts at that cost. Public."""
        return self.currency.noise(
            cost, l1=count_l1(self.neighbours), l2_squared=count_l2_squared(self.neighbours)
        )

    def statistic_noise(self, statistic: Statistic, cost: Fraction) -> NoiseScale:
        """Return the noise of each entry of a statistic at that cost. Public."""
        l1, l2_squared = sensitivities(statistic, self.neighbours)
        return self.currency.noise(cost, l1=l1, l2_squared=l2_squared)

    def measure(
        self,
        stage: Stage,
        cliques: Sequence[Clique],
        costs: Sequence[Fraction],
        *,
        replicate: int = 0,
    ) -> tuple[Measurement, ...]:
        """Return noisy tables of counts, charged and committed together.

        Args:
            stage: Stage that pays.
            cliques: Tables to measure; the empty clique is the number of rows.
            costs: Budget of each, in the release's currency.
            replicate: Which of the m independent measurements this is; 0 when shared.

        Privacy:
            Each table is one event of exactly its cost (rounded towards more noise). A row is in
            one cell of a table, so its sensitivity is that of a histogram.
        """
        l1, l2_squared = count_l1(self.neighbours), count_l2_squared(self.neighbours)
        steps = [
            Step(
                stage=stage,
                name=table_step(clique, replicate),
                cost=cost,
                event=self.currency.noise_event(cost, l1=l1, l2_squared=l2_squared),
                shape=self._domain.project(clique).sizes,
            )
            for clique, cost in zip(cliques, costs, strict=True)
        ]

        def draw(grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            counts = self._counter.count(cliques)
            return [
                _add_noise(counts[clique].counts, grant)
                for clique, grant in zip(cliques, grants, strict=True)
            ]

        results = self._session.perform(_batch_name(stage, replicate), steps, draw)
        return tuple(
            Measurement(
                domain=self._domain.project(clique),
                values=values,
                noise=_kind(grant),
                scale=float(_noise_event(grant).scale),
                stage=stage,
                replicate=replicate,
                grant=grant.number,
            )
            for clique, (grant, values) in zip(cliques, results, strict=True)
        )

    def perturb(
        self, stage: Stage, step: str, statistic: Statistic, cost: Fraction
    ) -> NDArray[np.int64]:
        """Return a vetted integer statistic with noise on every entry, shape (length,).

        Raises:
            TypeError: if the statistic is not one whose sensitivity is proven.

        Privacy:
            One event of exactly `cost`. Every entry moves by at most `largest_change`, so L1 and
            squared L2 sensitivity are that times, and that squared times, the length.
        """
        l1, l2_squared = sensitivities(statistic, self.neighbours)
        event = self.currency.noise_event(cost, l1=l1, l2_squared=l2_squared)
        planned = Step(stage, step, cost, event, (statistic.length,))

        def draw(grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            exact = statistic.compute(self._counter.count(statistic.cliques))
            return [_add_noise(exact, grants[0])]

        ((_, values),) = self._session.perform(f"{stage}-{step}", [planned], draw)
        return values

    def choose(self, stage: Stage, step: str, statistic: Statistic, cost: Fraction) -> int:
        """Return the index of the statistic's largest entry, chosen by the exponential mechanism.

        Privacy:
            One event of at most `cost`: Gumbel noise under zCDP (epsilon^2/8), exponential noise
            under pure epsilon.

        Raises:
            TypeError: if the statistic is not one whose sensitivity is proven.
            ValueError: if the release pays on the Gaussian curve, where this has no cost.
        """
        sensitivities(statistic, self.neighbours)
        sensitivity = statistic.largest_change(self.neighbours)
        event = choice_event(self.currency, cost, sensitivity)
        planned = Step(stage, step, cost, event, (1,))

        def draw(grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            exact = statistic.compute(self._counter.count(statistic.cliques))
            return [np.array([noisy_max.choose(exact, grants[0])], dtype=np.int64)]

        ((_, values),) = self._session.perform(f"{stage}-{step}", [planned], draw)
        return int(values[0])

    def public_rows(self) -> int | None:
        """Return the number of rows where it is public: under replace-one, which fixes it."""
        if self.neighbours != "replace-one":
            return None
        return int(self._counter.count([()])[()].counts)


def choice_event(currency: Currency, cost: Fraction, sensitivity: int) -> NoisyMaxEvent:
    """Return the private choice that `cost` buys.

    Raises:
        ValueError: if the currency has no cost for it.
    """
    if currency.kind == "gaussian":
        raise ValueError("A private choice does not add up on the Gaussian curve; use zcdp.")
    gumbel = currency.kind == "zcdp"
    # zCDP: epsilon^2/8 = cost, so epsilon = sqrt(8 cost); scale = 2 sensitivity / epsilon.
    squared = Fraction(2 * sensitivity) ** 2 / (8 * cost if gumbel else cost**2)
    scale = Fraction(float(squared) ** 0.5)
    while scale**2 < squared:
        scale = Fraction(float(np.nextafter(float(scale), np.inf)))
    return NoisyMaxEvent(scale, sensitivity, gumbel)


def _add_noise(exact: NDArray[np.int64], grant: Grant) -> NDArray[np.int64]:
    perturb = laplace.perturb if isinstance(grant.step.event, LaplaceEvent) else gaussian.perturb
    return perturb(exact, grant)


def _noise_event(grant: Grant) -> LaplaceEvent | GaussianEvent:
    event = grant.step.event
    assert isinstance(event, LaplaceEvent | GaussianEvent)
    return event


def _kind(grant: Grant) -> Noise:
    return "laplace" if isinstance(_noise_event(grant), LaplaceEvent) else "gaussian"


def _batch_name(stage: Stage, replicate: int) -> str:
    return f"{stage}-{replicate}"
