"""The curator: the only module that turns confidential counts into public values.

A curator holds the counter of the confidential file and the release's session with the ledger.
Every result is charged, drawn once, stored and committed before it is returned.

Where households are the units, the counter counts in shares (`HouseholdCounter`): events are
calibrated, charged and drawn in shares, and the ledger stores whole numbers of shares. The curator
returns them, and the scale of their noise, divided by the number of shares: in households.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.cost.currency import Currency, NoiseScale, choice_event
from dp_core.kernel.cost.sensitivity import Bounds, count_l1, count_l2_squared, in_shares
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.household_values import in_households, scale_in_households
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.counting.stored_rows import CheckedCounter, StoredRows
from dp_core.kernel.drawn_question import DrawnQuestion, rebuilt_extension
from dp_core.kernel.errors import BadInput
from dp_core.kernel.ledger.session import Draw, Session
from dp_core.kernel.mechanisms import additive_noise, private_choice
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.kernel.noise.threaded_noise import add_in_pieces
from dp_core.kernel.privacy import Neighbours, Noise, Relation, Stage
from dp_core.kernel.questions.calibration import require_calibrated
from dp_core.kernel.questions.counting_queries import Queries
from dp_core.kernel.questions.descriptions import of_type
from dp_core.kernel.questions.linear_questions import MOST_ENTRIES, Interaction
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.kernel.questions.statistic import Statistic, Sum, TableStatistic, check_codes
from dp_core.kernel.questions.table_checks import TableChecks
from dp_core.kernel.questions.vetted import Asked, asked_in_shares, bounds, rebuilt
from dp_core.kernel.released import Answers, Charged, Measurement, Totals
from dp_core.kernel.step_names import batch_name, interaction_step, step_name, table_step


class Curator:
    """Answers questions about the confidential file, each against a grant."""

    def __init__(
        self, domain: Domain, counter: Counter, session: Session, stored: StoredRows | None = None
    ) -> None:
        """Create the curator of one release.

        Args:
            domain: All columns of the file and their numbers of codes.
            counter: Exact counts of the confidential file.
            session: The release's open reservation, which pays for every answer.
            stored: The code store that is counted, after its units were weighed; None (the default)
                for rows in memory, which are public.

        Raises:
            ValueError: if the counter counts in other units than the session charges for.
        """
        # privacy: a unit changes counts in shares by S; with the sensitivity of records the noise
        # would be S times too small.
        if getattr(counter, "shares", 1) != session.relation.shares:
            raise ValueError(
                f"The counter counts in 1/{getattr(counter, 'shares', 1)} of a record, and the"
                f" session charges for counts in 1/{session.relation.shares}."
            )
        self._domain = domain
        self._counter = CheckedCounter(counter, domain, stored.total if stored else None)
        self._session = session

    @property
    def domain(self) -> Domain:
        """All columns of the file and their numbers of codes."""
        return self._domain

    @property
    def relation(self) -> Relation:
        """The neighbouring relation of the release, with the largest number of rows of a unit."""
        return self._session.relation

    @property
    def neighbours(self) -> Neighbours:
        """The relation between single rows: replace-one if the number of rows is public.

        Otherwise it is add-remove, as also under replace-one if a person may have several rows.
        """
        return self.relation.of_rows

    @property
    def currency(self) -> Currency:
        """The currency of the release, with its total."""
        return self._session.currency

    def count_noise(self, cost: Fraction) -> NoiseScale:
        """Return the noise on each cell of a table of counts, in records or households. Public.

        Args:
            cost: Budget of the table, in the release's currency.
        """
        return self._noise(cost, self._count_bounds())

    def statistic_noise(self, statistic: Statistic, cost: Fraction) -> NoiseScale:
        """Return the noise on each entry of a statistic, in the statistic's unit. Public.

        Args:
            statistic: A vetted statistic.
            cost: Budget of the whole statistic, in the release's currency.

        Raises:
            BadInput: if the statistic cannot be asked of linked tables.
        """
        asked = self._asked(Statistic, statistic)  # type: ignore[type-abstract]
        return self._noise(cost, self._bounds_in_shares(asked))

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

        Privacy:
            Each table is one event of exactly its cost (rounded towards more noise). A row is in
            one cell of a table, so its sensitivity is that of a histogram. So is each share of a
            household; see `in_shares`.
        """
        _, l1, l2_squared = self._count_bounds()
        cliques = _plain_cliques(cliques)
        steps = [
            Step(
                stage=stage,
                name=table_step(clique, replicate, round),
                cost=cost,
                event=self.currency.noise_event(cost, l1=l1, l2_squared=l2_squared),
                shape=self._domain.project(clique).sizes,
            )
            for clique, cost in zip(cliques, costs, strict=True)
        ]

        def draw(grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            counts = self._counter.count(cliques)
            return add_in_pieces(
                additive_noise.add, [counts[clique].counts for clique in cliques], grants
            )

        results = self._perform(batch_name(stage, replicate, round), steps, draw)
        return tuple(
            Measurement(
                domain=self._domain.project(clique),
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
        round: int = 0,
    ) -> tuple[Totals, ...]:
        """Return noisy interactions of tables, charged and committed together.

        Args:
            stage: Stage that pays.
            cliques: Tables whose interactions are measured; every column has two codes or more.
            costs: Budget of each interaction, in the release's currency.
            replicate: Index of the independent measurement, from 1; 0 (the default) if shared.
            round: Number of the round, from 1; 0 (the default) if the method has no rounds.

        Returns:
            One noisy vector for each clique, in the same order.

        Raises:
            ValueError: if a column has one code only, an interaction is too large, or all of them
                together have more than `MOST_ENTRIES` entries.
            BadInput: if an interaction's entries in shares would be too large.

        Privacy:
            Each is one event of exactly its cost, at the interaction's own L1 and L2 sensitivities;
            see `Interaction`.
        """
        cliques = _plain_cliques(cliques)
        asked = [Interaction(clique, self._domain.project(clique).sizes) for clique in cliques]
        # privacy: a record changes all entries, and the accounting allows this many in each set.
        if sum(of.length for of in asked) > MOST_ENTRIES:
            raise ValueError(
                f"Interactions that are measured together have at most {MOST_ENTRIES:,} entries."
            )
        steps = []
        for of, cost in zip(asked, costs, strict=True):
            _, l1, l2_squared = self._bounds(asked_in_shares(of, self.relation))
            steps.append(
                Step(
                    stage=stage,
                    name=interaction_step(of.clique, replicate, round),
                    cost=cost,
                    event=self.currency.noise_event(cost, l1=l1, l2_squared=l2_squared),
                    shape=(of.length,),
                    asks=of.to_json(),
                )
            )

        def draw(grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            counts = self._counter.count(cliques)
            # privacy: the sensitivities are proven for whole numbers, not for floats.
            exact = [of.of_table(counts[of.clique].counts) for of in asked]
            return add_in_pieces(additive_noise.add, exact, grants)

        # `measure` may have a batch in the same stage, set and round.
        batch = f"{batch_name(stage, replicate, round)}-interactions"
        results = self._perform(batch, steps, draw)
        return tuple(
            Totals(
                of=of,
                values=self._in_units(values),
                **self._paid(grant, replicate, round),
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

        Privacy:
            One event of exactly `cost`, at the queries' own L1 and L2 sensitivities.
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

        Privacy:
            One event of exactly `cost`, at the sum's own L1 and L2 sensitivities.
        """
        asked, grant, values = self._perturb(
            Sum,  # type: ignore[type-abstract]
            sum,
            stage,
            step,
            cost,
            replicate=replicate,
            round=round,
        )
        return Totals(
            of=asked,
            values=self._in_units(values),
            **self._paid(grant, replicate, round),
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
        round: int = 0,
    ) -> tuple[Grant, NDArray[np.int64]]:
        """Return what an extension's mechanism drew, and the grant that paid for it.

        Args:
            question: The question of the extension.
            stage: Stage that pays.
            name: Full name of the step; see `step_names`.
            cost: Budget, in the release's currency.
            batch: Part of the batch's name that distinguishes it in its stage, set and round.
            replicate: Index of the independent measurement, from 1; 0 (the default) if shared.
            round: Number of the round, from 1; 0 (the default) if the method has no rounds.

        Raises:
            ValueError: if no extension has this question.
            BadInput: if households are the units.

        Privacy:
            One event of at most `cost`, with the extension's proof.
        """
        asked = rebuilt_extension(question)
        # privacy: the proofs of these mechanisms are for counts of records.
        if self.relation.shares > 1:
            raise BadInput(
                f"{asked.WHAT} is not possible where households are the units of privacy:"
                f" {asked.INSTEAD}."
            )
        planned = Step(
            stage=stage,
            name=name,
            cost=cost,
            event=asked.event(self.currency, cost, self.relation),
            shape=asked.shape(self._domain),
            asks=asked.asks(self._domain),
        )

        def draw(grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            return [asked.draw(self._counter, self._domain, grants[0])]

        whole = f"{batch_name(stage, replicate, round)}-{batch}"
        ((grant, stored),) = self._perform(whole, [planned], draw)
        return grant, stored

    def perturb(
        self, stage: Stage, step: str, statistic: Statistic, cost: Fraction, *, replicate: int = 0
    ) -> NDArray[Any]:
        """Return a vetted integer statistic with noise on every entry, shape (length,).

        The values are whole numbers; where households are the units, multiples of 1/`shares`.

        Args:
            stage: Stage that pays.
            step: Name of the step, unique within its stage and replicate.
            statistic: The vetted statistic.
            cost: Budget of all entries together, in the release's currency.
            replicate: Index of the independent measurement, from 1; 0 (the default) if shared.

        Raises:
            ValueError: if the statistic is not on the list of vetted statistics, or its bounds
                assume other columns or codes than the file has.
            BadInput: if the statistic cannot be asked of linked tables.

        Privacy:
            One event of exactly `cost`, at the statistic's proven L1 and L2 sensitivities.
        """
        *_, found = self._perturb(
            Statistic,  # type: ignore[type-abstract]
            statistic,
            stage,
            step,
            cost,
            replicate=replicate,
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

        Privacy:
            One event of exactly `cost`, at the statistic's proven L1 and L2 sensitivities.
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

        Privacy:
            One event of at most `cost`: Gumbel noise under zCDP (epsilon^2/8) and on the Gaussian
            curve, exponential noise under pure epsilon.

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

        Privacy:
            One event of at most its cost for each choice; see `choose`.

        Raises:
            ValueError: if the statistic is not on the list of vetted statistics, or the release
                pays in `gaussian`, which cannot pay for a choice.
            BadInput: if the statistic cannot be asked of linked tables.
        """
        asked = self._asked(TableStatistic, statistic)  # type: ignore[type-abstract]
        sensitivity = self._bounds(asked)[0]
        name, several = step_name(step, replicate, 0), len(costs) > 1
        events = {cost: choice_event(self.currency, cost, sensitivity) for cost in set(costs)}
        # The receipt identifies the question, so that the index is never applied to another list
        # after a change of the program.
        asks = asked.asks()
        steps = [
            Step(
                stage=stage,
                name=f"{name}, choice {number}" if several else name,
                cost=cost,
                event=events[cost],
                shape=(1,),
                asks=asks,
            )
            for number, cost in enumerate(costs, start=1)
        ]

        def draw(grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            exact = asked.exact(self._counter)
            return [
                np.array([private_choice.choose(exact, grant)], dtype=np.int64) for grant in grants
            ]

        batch = f"{batch_name(stage, replicate, 0)}-{step}"
        return tuple(int(value[0]) for _, value in self._perform(batch, steps, draw))

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
        asked = self._asked(kind, question)
        _, l1, l2_squared = self._bounds(asked)
        planned = Step(
            stage=stage,
            name=step_name(step, replicate, round),
            cost=cost,
            event=self.currency.noise_event(cost, l1=l1, l2_squared=l2_squared),
            shape=(asked.length,),
            asks=asked.asks(),
        )

        def draw(grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            exact = asked.exact(self._counter)
            # privacy: the sensitivities are proven for whole numbers, not for floats.
            assert exact.dtype == np.int64
            return add_in_pieces(additive_noise.add, [exact], grants)

        batch = f"{batch_name(stage, replicate, round)}-{step}"
        ((grant, values),) = self._perform(batch, [planned], draw)
        return asked, grant, values

    def _perform(
        self, batch: str, steps: Sequence[Step], draw: Draw
    ) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        """Charge, draw, store and commit; see `Session.perform`."""
        for step in steps:
            require_calibrated(step, self.relation, self._domain)
        return self._session.perform(batch, steps, draw)

    def _asked(self, kind: type[Asked], question: Statistic) -> Asked:
        """Return a question as it is put to the counter: in shares, if a unit has several."""
        # privacy: from here on nothing of the object that a method brought is used.
        return asked_in_shares(rebuilt(kind, question), self.relation)

    def _bounds(self, asked: Statistic) -> Bounds:
        """Return the proven sensitivities of a statistic of the counter's counts. Public."""
        # privacy: the sensitivities are proven for the codes that the statistic claims.
        found = self._bounds_in_shares(asked)
        check_codes(asked, self._domain)
        return found

    def _bounds_in_shares(self, asked: Statistic) -> Bounds:
        return in_shares(self.relation, bounds(asked, self.relation))

    def _count_bounds(self) -> Bounds:
        """Return the sensitivities of a table of the counter's counts."""
        l1, l2_squared = count_l1(self.relation), count_l2_squared(self.relation)
        return in_shares(self.relation, (1, l1, l2_squared))

    def _noise(self, cost: Fraction, found: Bounds) -> NoiseScale:
        """Return noise for sensitivities in shares, in households."""
        noise = self.currency.noise(cost, l1=found[1], l2_squared=found[2])
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
        # privacy: under replace-one a person can be replaced by one with fewer rows, so the number
        # of rows is public only if a unit is one row. A household is one record of S shares,
        # whatever its members are.
        if not self.relation.rows_public:
            return None
        total = int(self._counter.count([()])[()].counts)
        # With another remainder than 0 a household would have lost pair rows.
        assert total % self.relation.shares == 0
        return total // self.relation.shares


def _plain_cliques(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    # privacy: a name of another type could claim to be one column, and be written as another.
    found: tuple[Clique, ...] = of_type(tuple[Clique, ...], [*map(list, cliques)])
    return found


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
