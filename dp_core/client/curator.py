"""The curator: what methods ask about the confidential file. Public values only.

It makes a request of each question, and returns the answer as a released value. The kernel answers:
in this process, or in the one that holds the data. `requests` says what each request costs, and why
that is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from dp_core.client.household_values import in_households, scale_in_households
from dp_core.client.noise_scale import NoiseScale, noise_for
from dp_core.client.released import Answers, Charged, Measurement, Totals
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import Bounds
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.drawn_question import DrawnQuestion
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.privacy import Neighbours, Noise, Relation, Stage
from dp_core.kernel.questions.counting_queries import Queries
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.kernel.questions.statistic import Statistic, Sum, TableStatistic
from dp_core.kernel.questions.table_distance import TableChecks
from dp_core.kernel.questions.vetted import Asked
from dp_core.kernel.requests import (
    Choices,
    Drawn,
    FileFacts,
    Interactions,
    Noisy,
    Request,
    Tables,
    plain_cliques,
)


class Answering(Protocol):
    """What answers the requests of a release: the kernel, or a client of its process."""

    @property
    def facts(self) -> FileFacts:
        """What is public about the file that is asked."""

    def answer(self, request: Request) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        """Return what was drawn for each step of a request, and the grant that paid for it."""

    def public_rows(self) -> int | None:
        """Return the number of rows if it is public, otherwise None."""


class Curator:
    """Asks questions about the confidential file, each against a grant.

    Where households are the units, it returns values, and the scale of their noise, in households.
    """

    def __init__(self, kernel: Answering) -> None:
        """Ask a kernel.

        Args:
            kernel: Answers the requests of one release.
        """
        self._kernel = kernel
        self._facts = kernel.facts

    @property
    def domain(self) -> Domain:
        """All columns of the file and their numbers of codes."""
        return self._facts.domain

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of the release, with the largest number of rows of a unit."""
        return self._facts.relation

    @property
    def neighbours(self) -> Neighbours:
        """The relation between single rows: replace-one if the number of rows is public.

        Otherwise it is add-remove, as also under replace-one if a person may have several rows.
        """
        return self.relation.of_rows

    @property
    def currency(self) -> Currency:
        """The currency of the release, with its total."""
        return self._facts.currency

    def count_noise(self, cost: Fraction) -> NoiseScale:
        """Return the noise on each cell of a table of counts, in records or households. Public.

        Args:
            cost: Budget of the table, in the release's currency.
        """
        return self._noise(cost, self._facts.count_bounds())

    def statistic_noise(self, statistic: Statistic, cost: Fraction) -> NoiseScale:
        """Return the noise on each entry of a statistic, in the statistic's unit. Public.

        Args:
            statistic: A vetted statistic.
            cost: Budget of the whole statistic, in the release's currency.

        Raises:
            BadInput: if the statistic cannot be asked of linked tables.
        """
        asked = self._facts.asked(Statistic, statistic)  # type: ignore[type-abstract]
        return self._noise(cost, self._facts.bounds_in_shares(asked))

    def measure(
        self,
        stage: Stage,
        cliques: Sequence[Clique],
        costs: Sequence[Fraction],
        *,
        replicate: int = 0,
        round: int = 0,
    ) -> tuple[Measurement, ...]:
        """Return noisy tables of counts, charged and committed together.

        Args:
            stage: Stage that pays.
            cliques: Tables to measure; the empty clique is the number of rows.
            costs: Budget of each table, in the release's currency.
            replicate: Index of the independent measurement, from 1; 0 (the default) if shared.
            round: Number of the round, from 1; 0 (the default) if the method has no rounds.

        Returns:
            One measurement for each clique, in the same order.

        Raises:
            BudgetRefused: if the stage has too little budget left.
        """
        cliques = plain_cliques(cliques)
        results = self._kernel.answer(
            Tables(stage=stage, replicate=replicate, round=round, cliques=cliques, costs=costs)
        )
        return tuple(
            Measurement(
                domain=self.domain.project(clique),
                values=self._in_units(values),
                **self._paid(grant, replicate, round),
            )
            for clique, (grant, values) in zip(cliques, results, strict=True)
        )

    def interactions(
        self,
        stage: Stage,
        cliques: Sequence[Clique],
        costs: Sequence[Fraction],
        *,
        replicate: int = 0,
    ) -> tuple[Totals, ...]:
        """Return noisy interactions of tables, charged and committed together.

        Args:
            stage: Stage that pays.
            cliques: Tables whose interactions are measured; every column has two codes or more.
            costs: Budget of each interaction, in the release's currency.
            replicate: Index of the independent measurement, from 1; 0 (the default) if shared.

        Returns:
            One noisy vector for each clique, in the same order.

        Raises:
            ValueError: if a column has one code only, an interaction is too large, or all of them
                together have more than `MOST_ENTRIES` entries.
            BadInput: if an interaction's entries in shares would be too large.
        """
        cliques = plain_cliques(cliques)
        asked = [Interaction(clique, self.domain.project(clique).sizes) for clique in cliques]
        results = self._kernel.answer(
            Interactions(stage=stage, replicate=replicate, cliques=cliques, costs=costs)
        )
        return tuple(
            Totals(
                of=of,
                values=self._in_units(values),
                **self._paid(grant, replicate, 0),
            )
            for of, (grant, values) in zip(asked, results, strict=True)
        )

    def answer(
        self,
        stage: Stage,
        step: str,
        queries: Queries,
        cost: Fraction,
        *,
        replicate: int = 0,
        round: int = 0,
    ) -> Answers:
        """Return noisy answers to counting queries: one event, one charge.

        Args:
            stage: Stage that pays.
            step: Name of the step, unique within its stage, replicate and round.
            queries: The counting queries.
            cost: Budget of all queries together, in the release's currency.
            replicate: Index of the independent measurement, from 1; 0 if shared.
            round: Number of the round, from 1; 0 if the method has no rounds.
        """
        asked, grant, values = self._perturb(
            QueryCounts, QueryCounts(queries), stage, step, cost, replicate=replicate, round=round
        )
        return Answers(
            queries=asked.queries,
            values=self._in_units(values),
            **self._paid(grant, replicate, round),
        )

    def total(
        self,
        stage: Stage,
        step: str,
        sum: Sum,
        cost: Fraction,
        *,
        replicate: int = 0,
        round: int = 0,
    ) -> Totals:
        """Return a vetted sum over records with noise on every entry: one event, one charge.

        It visits records only, so the columns may have any number of codes.

        Args:
            stage: Stage that pays.
            step: Name of the step, unique within its stage, replicate and round.
            sum: The vetted sum.
            cost: Budget of all entries together, in the release's currency.
            replicate: Index of the independent measurement, from 1; 0 if shared.
            round: Number of the round, from 1; 0 if the method has no rounds.

        Raises:
            ValueError: if the sum is not on the list of vetted statistics, or its bounds assume
                other columns or codes than the file has.
            BadInput: if the sum cannot be asked of linked tables.
        """
        (found,) = self.totals(stage, (step,), (sum,), (cost,), replicate=replicate, round=round)
        return found

    def totals(
        self,
        stage: Stage,
        steps: Sequence[str],
        sums: Sequence[Sum],
        costs: Sequence[Fraction],
        *,
        replicate: int = 0,
        round: int = 0,
    ) -> tuple[Totals, ...]:
        """Return noisy sums, each as `total` returns it; they are committed together.

        Args:
            stage: Stage that pays.
            steps: Name of the step of each sum.
            sums: The vetted sums, at least one.
            costs: Budget of each, in the release's currency.
            replicate: Index of the independent measurement, from 1; 0 (the default) if shared.
            round: Number of the round, from 1; 0 (the default) if the method has no rounds.

        Raises:
            ValueError: as `total`.
            BadInput: as `total`.
        """
        asked = [self._facts.asked(Sum, each) for each in sums]  # type: ignore[type-abstract]
        request = Noisy(
            stage=stage,
            replicate=replicate,
            round=round,
            questions=tuple(sums),
            steps=tuple(steps),
            costs=tuple(costs),
        )
        return tuple(
            Totals(of=of, values=self._in_units(values), **self._paid(grant, replicate, round))
            for of, (grant, values) in zip(asked, self._kernel.answer(request), strict=True)
        )

    def draw(
        self,
        question: DrawnQuestion,
        stage: Stage,
        name: str,
        cost: Fraction,
        *,
        batch: str,
        replicate: int = 0,
    ) -> tuple[Grant, NDArray[np.int64]]:
        """Return what an extension's mechanism drew, and the grant that paid for it.

        Args:
            question: The question of the extension.
            stage: Stage that pays.
            name: Full name of the step; see `step_names`.
            cost: Budget, in the release's currency.
            batch: Part of the batch's name that distinguishes it in its stage, set and round.
            replicate: Index of the independent measurement, from 1; 0 (the default) if shared.

        Raises:
            ValueError: if no extension has this question.
            BadInput: if households are the units.
        """
        ((grant, stored),) = self._kernel.answer(
            Drawn(
                stage=stage,
                replicate=replicate,
                question=question,
                name=name,
                cost=cost,
                batch=batch,
            )
        )
        return grant, stored

    def perturb(
        self, stage: Stage, step: str, statistic: Statistic, cost: Fraction
    ) -> NDArray[Any]:
        """Return a vetted integer statistic with noise on every entry, shape (length,).

        The values are whole numbers; where households are the units, multiples of 1/`shares`.

        Args:
            stage: Stage that pays.
            step: Name of the step, unique within its stage.
            statistic: The vetted statistic.
            cost: Budget of all entries together, in the release's currency.

        Raises:
            ValueError: if the statistic is not on the list of vetted statistics, or its bounds
                assume other columns or codes than the file has.
            BadInput: if the statistic cannot be asked of linked tables.
        """
        *_, found = self._perturb(
            Statistic,  # type: ignore[type-abstract]
            statistic,
            stage,
            step,
            cost,
            replicate=0,
            round=0,
        )
        return self._in_units(found)

    def check(self, step: str, statistic: TableChecks, cost: Fraction) -> tuple[Charged, ...]:
        """Return noisy distances between tables of the file and of the sets: one event, one charge.

        Args:
            step: Name of the step, unique within the stage `checks`.
            statistic: The tables, with reference counts computed from the sets alone.
            cost: Budget of all tables together, in the release's currency.

        Raises:
            ValueError: if the statistic is of another kind, or the reference counts are not in
                shares where the file's counts are.
        """
        asked, grant, values = self._perturb(
            TableChecks, statistic, "checks", step, cost, replicate=0, round=0
        )
        return tuple(
            Charged(grant, clique, int(value), self.relation.shares)
            for clique, value in zip(asked.cliques, values, strict=True)
        )

    def choose(
        self,
        stage: Stage,
        step: str,
        statistic: TableStatistic,
        cost: Fraction,
        *,
        replicate: int = 0,
    ) -> int:
        """Return the index of a large entry of a statistic, chosen by the exponential mechanism.

        Args:
            stage: Stage that pays.
            step: Name of the step, unique within its stage and replicate.
            statistic: The vetted statistic whose entries are the scores.
            cost: Budget of the choice, in the release's currency.
            replicate: Index of the independent measurement, from 1; 0 (the default) if shared.

        Raises:
            ValueError: if the statistic is not on the list of vetted statistics, or the release
                pays in `gaussian`, which cannot pay for a choice.
            BadInput: if the statistic cannot be asked of linked tables.
        """
        return self.choose_several(stage, step, statistic, [cost], replicate=replicate)[0]

    def choose_several(
        self,
        stage: Stage,
        step: str,
        statistic: TableStatistic,
        costs: Sequence[Fraction],
        *,
        replicate: int = 0,
    ) -> tuple[int, ...]:
        """Return independent choices by the same statistic, charged and committed together.

        The statistic is computed once. The same entry may be chosen several times.

        Args:
            stage: Stage that pays.
            step: Name of the step, unique within its stage and replicate.
            statistic: The vetted statistic whose entries are the scores.
            costs: Budget of each choice, in the release's currency.
            replicate: Index of the independent measurement, from 1; 0 (the default) if shared.

        Returns:
            The index of the chosen entry for each cost.

        Raises:
            ValueError: if the statistic is not on the list of vetted statistics, or the release
                pays in `gaussian`, which cannot pay for a choice.
            BadInput: if the statistic cannot be asked of linked tables.
        """
        drawn = self._kernel.answer(
            Choices(
                stage=stage, replicate=replicate, question=statistic, step=step, costs=tuple(costs)
            )
        )
        return tuple(int(value[0]) for _, value in drawn)

    def _perturb(
        self,
        kind: type[Asked],
        question: Statistic,
        stage: Stage,
        step: str,
        cost: Fraction,
        *,
        replicate: int,
        round: int,
    ) -> tuple[Asked, Grant, NDArray[np.int64]]:
        """Return what was asked, the grant, and the noisy values as stored: in shares."""
        asked = self._facts.asked(kind, question)
        request = Noisy(
            stage=stage,
            replicate=replicate,
            round=round,
            questions=(question,),
            steps=(step,),
            costs=(cost,),
        )
        ((grant, values),) = self._kernel.answer(request)
        return asked, grant, values

    def _noise(self, cost: Fraction, found: Bounds) -> NoiseScale:
        """Return noise for sensitivities in shares, in households."""
        noise = noise_for(self.currency, cost, l1=found[1], l2_squared=found[2])
        shares = self.relation.shares
        if shares == 1:
            return noise
        return NoiseScale(noise.kind, scale_in_households(Fraction(noise.scale), shares))

    def _in_units(self, values: NDArray[np.int64]) -> NDArray[Any]:
        return in_households(values, self.relation.shares)

    def _paid(self, grant: Grant, replicate: int, round: int) -> _PaidFields:
        return _paid(grant, replicate, round, self.relation.shares)

    def public_rows(self) -> int | None:
        """Return the number of rows if it is public, otherwise None.

        Where households are the units, it is the number of households.
        """
        return self._kernel.public_rows()


class _PaidFields(TypedDict):
    """The fields of `Paid`."""

    noise: Noise
    scale: float
    stage: str
    replicate: int
    grant: int
    round: int


def _paid(grant: Grant, replicate: int, round: int, shares: int) -> _PaidFields:
    """Return the fields of `Paid` for the result of a grant, in records or households."""
    event = grant.step.event
    assert isinstance(event, LaplaceEvent | GaussianEvent)
    noise: Noise = "gaussian" if isinstance(event, GaussianEvent) else "laplace"
    return {
        "noise": noise,
        "scale": scale_in_households(event.scale, shares),
        "stage": grant.step.stage,
        "replicate": replicate,
        "grant": grant.number,
        "round": round,
    }
