"""What may be asked of the kernel: five kinds of request, each with its steps and its draw.

A request holds public values only. `Kernel` answers it; `Curator` makes it for a method.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.cost.currency import Currency, choice_event
from dp_core.kernel.cost.sensitivity import Bounds, count_bounds, in_shares
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.drawn_question import DrawnQuestion, rebuilt_extension
from dp_core.kernel.errors import BadInput
from dp_core.kernel.mechanisms import additive_noise, private_choice
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.grant import TABLE, Grant, Step
from dp_core.kernel.privacy import Relation, Stage
from dp_core.kernel.questions.descriptions import of_type
from dp_core.kernel.questions.linear_questions import MOST_ENTRIES, Interaction
from dp_core.kernel.questions.statistic import Statistic, TableStatistic, check_codes
from dp_core.kernel.questions.vetted import Asked, asked_in_shares, bounds, rebuilt
from dp_core.kernel.questions.whole_numbers import MOST_CELLS
from dp_core.kernel.step_names import interaction_step, step_name, table_step


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is public about the confidential file.

    Attributes:
        domain: All columns of the file and their numbers of codes.
        relation: Neighbouring relation of the release, with the largest number of rows of a unit.
        currency: What the release pays in, with its total.
    """

    domain: Domain
    relation: Relation
    currency: Currency

    def asked(self, kind: type[Asked], question: Statistic) -> Asked:
        """Return a question as it is put to the counter: in shares, if a unit has several."""
        # privacy: from here on nothing of the object that a method brought is used.
        return asked_in_shares(rebuilt(kind, question), self.relation)

    def bounds(self, asked: Statistic) -> Bounds:
        """Return the proven sensitivities of a statistic of the counter's counts."""
        # privacy: the sensitivities are proven for the codes that the statistic claims.
        found = self.bounds_in_shares(asked)
        check_codes(asked, self.domain)
        return found

    def bounds_in_shares(self, asked: Statistic) -> Bounds:
        """As `bounds`, without comparing its codes with the file's."""
        return in_shares(self.relation, bounds(asked, self.relation))

    def count_bounds(self) -> Bounds:
        """Return the sensitivities of a table of the counter's counts."""
        return in_shares(self.relation, count_bounds(self.relation))

    def noise_event(self, cost: Fraction, found: Bounds) -> Event:
        """Return the event of noise for these sensitivities that costs exactly `cost`."""
        return self.currency.noise_event(cost, l1=found[1], l2_squared=found[2])


Draw: TypeAlias = Callable[[Counter, Sequence[Grant]], Sequence[NDArray[np.int64]]]
"""Reads the counter, and returns the noisy result of each grant."""


class PlannedDraw(NamedTuple):
    """A request that was checked, before anything is charged.

    Attributes:
        batch: Name of the steps that are charged, drawn and stored together.
        steps: The steps.
        draw: How they are drawn.
    """

    batch: str
    steps: Sequence[Step]
    draw: Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(ABC):
    """One request: what is drawn together, under one name.

    Attributes:
        KIND: Name of the kind in a message.
        stage: Stage that pays.
        replicate: Index of the independent measurement, from 1; 0 (the default) if shared.
        round: Number of the round, from 1; 0 (the default) if the method has no rounds.
    """

    KIND: ClassVar[str]

    stage: Stage
    replicate: int = 0
    round: int = 0

    @abstractmethod
    def prepare(self, facts: FileFacts) -> PlannedDraw:
        """Return the steps that are charged, and how they are drawn.

        Raises:
            ValueError: if the kernel has no proof for the question, or it is about other columns
                or codes than the file has.
            BadInput: if the question cannot be asked of linked tables.
        """

    @property
    def _batch(self) -> str:
        """The name of a file: `measure-0`, in a round `measure-2-3`."""
        name = f"{self.stage}-{self.replicate}"
        return f"{name}-{self.round}" if self.round else name

    def _step(
        self,
        name: str,
        cost: Fraction,
        event: Event,
        shape: tuple[int, ...],
        asks: Mapping[str, object],
    ) -> Step:
        """Return a step whose name is unique within the stage, replicate and round."""
        full = step_name(name, self.replicate, self.round)
        return Step(self.stage, full, cost, event, shape, asks)


def _with_noise(exact: Callable[[Counter], Sequence[NDArray[np.int64]]]) -> Draw:
    """Return the draw that adds noise to every entry of what is computed from the counter."""
    return lambda counter, grants: additive_noise.add_to_tables(exact(counter), grants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables(Request):
    """Tables of counts.

    Attributes:
        cliques: Tables to measure; the empty clique is the number of rows.
        costs: Budget of each table, in the release's currency.

    Privacy:
        Each table is one event of exactly its cost (rounded towards more noise). A row is in one
        cell of a table, so its sensitivity is that of a histogram. So is each share of a household;
        see `in_shares`.
    """

    KIND: ClassVar[str] = "tables"

    cliques: Sequence[Clique]
    costs: Sequence[Fraction]

    def prepare(self, facts: FileFacts) -> PlannedDraw:
        found = facts.count_bounds()
        cliques = plain_cliques(self.cliques)
        steps = [
            self._step(
                table_step(clique, 0),
                cost,
                facts.noise_event(cost, found),
                _countable(facts.domain.project(clique).sizes),
                TABLE,
            )
            for clique, cost in zip(cliques, self.costs, strict=True)
        ]

        def exact(counter: Counter) -> list[NDArray[np.int64]]:
            counts = counter.count(cliques)
            return [counts[clique].counts for clique in cliques]

        return PlannedDraw(self._batch, steps, _with_noise(exact))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interactions(Request):
    """Interactions of tables; see `Interaction`.

    Attributes:
        cliques: Tables whose interactions are measured; every column has two codes or more.
        costs: Budget of each interaction, in the release's currency.

    Privacy:
        Each is one event of exactly its cost, at the interaction's own L1 and L2 sensitivities.
    """

    KIND: ClassVar[str] = "interactions"

    cliques: Sequence[Clique]
    costs: Sequence[Fraction]

    def prepare(self, facts: FileFacts) -> PlannedDraw:
        cliques = plain_cliques(self.cliques)
        asked = [Interaction(clique, facts.domain.project(clique).sizes) for clique in cliques]
        # privacy: a record changes all entries, and the accounting allows this many in each set.
        if sum(of.length for of in asked) > MOST_ENTRIES:
            raise ValueError(
                f"Interactions that are measured together have at most {MOST_ENTRIES:,} entries."
            )
        names = [interaction_step(clique, 0) for clique in cliques]
        noisy = Noisy(
            stage=self.stage,
            questions=asked,
            steps=names,
            costs=self.costs,
            replicate=self.replicate,
            round=self.round,
        )

        def exact(counter: Counter) -> list[NDArray[np.int64]]:
            counts = counter.count(cliques)
            return [of.of_table(counts[of.clique].counts) for of in asked]

        # `Tables` may have a batch in the same stage, set and round.
        steps = noisy.prepare(facts).steps
        return PlannedDraw(f"{self._batch}-interactions", steps, _with_noise(exact))


@dataclass(frozen=True, slots=True, kw_only=True)
class Noisy(Request):
    """Vetted statistics with noise on every entry.

    Attributes:
        questions: The statistics, at least one.
        steps: Name of the step of each, unique within its stage, replicate and round.
        costs: Budget of all entries of each together, in the release's currency.

    Privacy:
        Each is one event of exactly its cost, at its proven L1 and L2 sensitivities.
    """

    KIND: ClassVar[str] = "noisy"

    questions: Sequence[Statistic]
    steps: Sequence[str]
    costs: Sequence[Fraction]

    def prepare(self, facts: FileFacts) -> PlannedDraw:
        asked = [facts.asked(Statistic, each) for each in self.questions]  # type: ignore[type-abstract]
        steps = [
            self._step(
                name, cost, facts.noise_event(cost, facts.bounds(of)), (of.length,), of.asks()
            )
            for name, of, cost in zip(self.steps, asked, self.costs, strict=True)
        ]
        draw = _with_noise(lambda counter: [each.exact(counter) for each in asked])
        return PlannedDraw(f"{self._batch}-{self.steps[0]}", steps, draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices(Request):
    """Independent choices of a large entry of a statistic, by the exponential mechanism.

    The statistic is computed once. The same entry may be chosen several times.

    Attributes:
        question: The vetted statistic whose entries are the scores.
        step: Name of the step, unique within its stage and replicate.
        costs: Budget of each choice, in the release's currency.

    Privacy:
        One event of at most its cost for each choice: Gumbel noise under zCDP (epsilon^2/8) and on
        the Gaussian curve, exponential noise under pure epsilon.
    """

    KIND: ClassVar[str] = "choices"

    question: TableStatistic
    step: str
    costs: Sequence[Fraction]

    def prepare(self, facts: FileFacts) -> PlannedDraw:
        asked = facts.asked(TableStatistic, self.question)  # type: ignore[type-abstract]
        sensitivity = facts.bounds(asked)[0]
        several = len(self.costs) > 1
        events = {cost: choice_event(facts.currency, cost, sensitivity) for cost in set(self.costs)}
        # The receipt identifies the question, so that the index is never applied to another list
        # after a change of the program.
        asks = asked.asks()
        steps = [
            self._step(
                f"{self.step}, choice {number}" if several else self.step,
                cost,
                events[cost],
                (1,),
                asks,
            )
            for number, cost in enumerate(self.costs, start=1)
        ]

        def draw(counter: Counter, grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            exact = asked.exact(counter)
            return [
                np.array([private_choice.choose(exact, grant)], dtype=np.int64) for grant in grants
            ]

        return PlannedDraw(f"{self._batch}-{self.step}", steps, draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn(Request):
    """A question of an extension, whose mechanism does more than add noise.

    Attributes:
        question: The question of the extension.
        name: Full name of the step; see `step_names`.
        cost: Budget, in the release's currency.
        batch: Part of the batch's name that distinguishes it in its stage, set and round.

    Privacy:
        One event of at most `cost`, with the extension's proof.
    """

    KIND: ClassVar[str] = "drawn"

    question: DrawnQuestion
    name: str
    cost: Fraction
    batch: str

    def prepare(self, facts: FileFacts) -> PlannedDraw:
        asked, domain = rebuilt_extension(self.question), facts.domain
        # privacy: the proofs of these mechanisms are for counts of records.
        if facts.relation.shares > 1:
            raise BadInput(
                f"{asked.WHAT} is not possible where households are the units of privacy:"
                f" {asked.INSTEAD}."
            )
        event = asked.event(facts.relation)
        # privacy: who asks proposes the scale, and pays for what it costs.
        if facts.currency.cost(event) > self.cost:
            raise ValueError(f"The event of step {self.name!r} costs more than its budget.")
        shape, asks = asked.shape(domain), asked.asks(domain)
        planned = Step(self.stage, self.name, self.cost, event, shape, asks)

        def draw(counter: Counter, grants: Sequence[Grant]) -> list[NDArray[np.int64]]:
            return [asked.draw(counter, domain, grants[0])]

        return PlannedDraw(f"{self._batch}-{self.batch}", [planned], draw)


KINDS: Mapping[str, type[Request]] = {
    kind.KIND: kind for kind in (Tables, Interactions, Noisy, Choices, Drawn)
}
"""All kinds of request by their names."""


def rebuilt_request(request: Request) -> Request:
    """Return the request on the list that has the kind and the fields of an object.

    Raises:
        ValueError: if no request has these, or a number of a set or a round is below 0.
    """
    # privacy: an object of a method could prepare right steps, and draw something else.
    name = request.KIND
    if type(name) is not str or name not in KINDS:
        raise ValueError(f"No request is of the kind {name!r:.40}.")
    found = KINDS[name](
        **{field.name: getattr(request, field.name) for field in fields(KINDS[name])}
    )
    if any(type(each) is not int or each < 0 for each in (found.replicate, found.round)):
        raise ValueError("The number of a set or of a round is a whole number from 0.")
    return found


def plain_cliques(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """Return cliques whose names are plain texts.

    Raises:
        ValueError: if a name is of another type.
    """
    # privacy: a name of another type could claim to be one column, and be written as another.
    found: tuple[Clique, ...] = of_type(tuple[Clique, ...], [*map(list, cliques)])
    return found


def _countable(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a table; raise ValueError if it has more than `MOST_CELLS` cells."""
    if math.prod(shape) > MOST_CELLS:
        raise ValueError(f"A table has at most {MOST_CELLS:,} cells.")
    return shape
