"""Base classes of selection methods, and what a selection returns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, NamedTuple, final

import numpy as np

from dp_core.client.released import Released, ReleasedKind, tables_of
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Neighbours, Relation, Stage
from dp_core.methods.selection.candidates.known_rows import require_rows

if TYPE_CHECKING:
    from dp_core.kernel.cost.currency import Currency
    from dp_core.kernel.questions.statistic import Statistic
    from dp_core.methods.method_inputs import MethodInputs
    from dp_core.methods.selection.budget.workload import WantedTable
    from dp_core.methods.trends import Trend

TABLES: frozenset[ReleasedKind] = frozenset({"tables"})


class Asked(NamedTuple):
    """One planned measurement event of a method, from which the plan chooses the currency.

    Attributes:
        share: Part of the measuring budget.
        l1: L1 sensitivity, in records.
        l2_squared: Squared L2 sensitivity, in records squared.
        weight: Importance of the event's noise, as a number of cells.
    """

    share: Fraction
    l1: int
    l2_squared: int
    weight: float


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected average total variation distance (TVD) between released and true tables.

    Attributes:
        two: Average over all tables of two columns.
        three: Average over all tables of three columns; 0 if there are fewer columns.
    """

    two: float
    three: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is public when a plan is made, beyond the domain: budget and earlier noise.

    Attributes:
        currency: Currency of the release.
        relation: Its neighbouring relation.
        measure: Budget of the selected tables of one measurement.
        known: Noise variance of a cell, in records squared, of every table that is measured before
            the selection; the empty clique is the number of rows.
    """

    currency: Currency
    relation: Relation
    measure: Fraction
    known: Mapping[Clique, float]


class Certain(NamedTuple):
    """What will be measured whatever the data are.

    Attributes:
        selection: Tables and interactions; the weights are parts of `share` and sum to 1.
        share: Their part of the measuring budget, above 0 and at most 1.
    """

    selection: Selection
    share: Fraction


@dataclass(frozen=True, slots=True)
class Dependences:
    """Noisy dependence of pairs of columns, which a method asked for its choice. Public.

    Attributes:
        pairs: The pairs.
        values: Noisy L1 distance of each pair's table from independence, in 1/`unit` record; whole
            numbers, may be negative.
        stddev: Standard deviation of the noise of each, in 1/`unit` record.
        unit: Number of units in one record, 1 by default.
        added: What the noise of one-way tables is expected to add to the distance of each pair if
            it is independent, in records; empty if the exact columns decide what is independent.
    """

    pairs: tuple[Clique, ...]
    values: tuple[int, ...]
    stddev: float
    unit: int = 1
    added: tuple[float, ...] = ()

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of each distance, in records."""
        return self.stddev / self.unit

    def by_pair(self) -> tuple[dict[Clique, float], float]:
        """Return the noisy dependence of each pair, and the standard deviation of all, in records.

        What the noise of one-way tables adds is taken off in squares. Within three standard
        deviations the result is linear in the distance, so that its noise does not explode.

        >>> pairs = (("a", "b"), ("a", "c"))
        >>> Dependences(pairs, (200, 80), 1.0, unit=2, added=(60.0, 40.0)).by_pair()[0]
        {('a', 'b'): 80.0, ('a', 'c'): 0.0}
        """
        values = np.array(self.values, dtype=np.float64) / self.unit
        if not self.added:
            return dict(zip(self.pairs, values.tolist(), strict=True)), self.noise
        added = np.array(self.added)
        beyond = values - added
        found = beyond * np.sqrt(1 + 2 * added / np.maximum(beyond, 3 * self.noise))
        stddev = self.noise * math.sqrt(float(np.mean(1 + 2 * added / (3 * self.noise))))
        return dict(zip(self.pairs, found.tolist(), strict=True)), stddev


@dataclass(frozen=True, slots=True)
class Selection:
    """The tables to measure, and what the method has already measured or made. Public.

    Attributes:
        cliques: Tables to measure with the measuring budget, each once; most methods list the
            columns of each in the domain's order.
        weights: Part of the measuring budget for each clique; they sum to exactly 1.
        measured: What the method measured while it selected; `cliques` is then empty.
        records: Synthetic records made while selecting, or None.
        interactions: The cliques measured as interactions (the part of a table that its margins do
            not determine, see `Curator.interactions`) rather than as tables. The method must then
            list `interactions` in `gives`.
        dependences: Noisy dependences that the choice is based on; None if the method asked none.
        trends: Trends of pairs to measure besides the cliques; their weights count in the sum.
    """

    cliques: tuple[Clique, ...] = ()
    weights: tuple[Fraction, ...] = ()
    measured: tuple[Released, ...] = ()
    records: Dataset | None = None
    interactions: frozenset[Clique] = frozenset()
    dependences: Dependences | None = None
    trends: tuple[Trend, ...] = ()

    def __post_init__(self) -> None:
        if len(self.cliques) != len(self.weights):
            raise ValueError(f"{len(self.cliques)} cliques but {len(self.weights)} weights.")
        if len({frozenset(clique) for clique in self.cliques}) != len(self.cliques):
            raise ValueError("A clique is selected twice.")
        if any(weight <= 0 for weight in self.weights):
            raise ValueError("Every weight must be positive; leave out a clique of weight 0.")
        whole = sum(self.weights) + sum(trend.weight for trend in self.trends)
        if self.cliques and whole != 1:
            raise ValueError(f"Weights sum to {whole}, not 1.")
        if () in self.interactions or not self.interactions <= {*self.cliques}:
            raise ValueError("Interactions must be selected cliques of at least one column.")
        if self.cliques and self.measured:
            # Both would be paid from the same budget.
            raise ValueError(
                "A selection has either `cliques` to measure or `measured` results, not both."
            )


class Selector(ABC):
    """A selection method: a frozen dataclass whose fields are its options in the spec.

    A subclass defines `select` and overrides the defaults that do not fit it. By default a method
    looks at the data through the curator and selects tables.

    Attributes:
        chooses: Whether it calls the curator's `choose` for every file; that limits the currency of
            the release. A method that does so for some files states how often (`choices`).
        rounds: Whether it measures while it selects. `select` is then called once for each
            independent measurement, and spends both budgets itself, exactly.
        own_delta: Whether its mechanism has a failure probability of its own (a threshold), for
            which the release reserves its delta.
        measures_trends: Whether it may measure trends of pairs besides tables.
        needs_rows: Whether the approximate number of rows must be known before it.
    """

    __slots__ = ()

    chooses: ClassVar[bool] = False
    rounds: ClassVar[bool] = False
    own_delta: ClassVar[bool] = False
    measures_trends: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = False

    @property
    def workload(self) -> tuple[WantedTable, ...] | None:
        """The spec's `tables`: a field, no option, of methods that use it; None for the others."""
        return None

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        """Kinds of results it releases; the reconstruction must take all of them."""
        return TABLES

    @property
    def adaptive(self) -> bool:
        """Whether the choice depends on the data, and so needs a share of the budget."""
        return True

    @property
    def informs_all_pairs(self) -> bool:
        """Whether it scores all pairs, or measures pairs that are representative of all.

        Otherwise no prior can be learned for the other pairs, as posterior sets need.
        """
        return not self.chooses

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the kernel's extensions that it may ask (`dp_core.kernel.extensions`)."""
        return ()

    @property
    def idle(self) -> frozenset[Stage]:
        """Stages that get no share from the preset, because their results would not be used."""
        return frozenset() if self.adaptive else frozenset({"select"})

    def check(self, domain: Domain) -> None:  # noqa: B027
        """Raise BadInput, with the reason and a method that fits, if it cannot take the domain."""

    def check_basics(self, neighbours: Neighbours, measured: Collection[Stage]) -> None:
        """Raise BadInput if `select` needs more than what is known before it.

        Args:
            neighbours: `Relation.of_rows`: under replace-one the number of rows is public.
            measured: Stages before the selection that have a share: `total`, `one_way`.
        """
        if self.needs_rows:
            require_rows(neighbours, measured)

    def fixed_selection(self, domain: Domain) -> Selection | None:  # noqa: ARG002
        """Return what will be measured if the domain alone decides it, otherwise None."""
        return None

    def certain(self, domain: Domain, terms: Terms) -> Certain | None:  # noqa: ARG002
        """Return what will be measured whatever the data are; None if that is not known.

        A method that looks at the data may still measure some tables for certain. It then measures
        them with at least the part of the budget that is stated here.

        Args:
            domain: All columns.
            terms: Budget and earlier noise.
        """
        planned = self.fixed_selection(domain)
        return None if planned is None else Certain(planned, Fraction(1))

    def needs(self, domain: Domain) -> tuple[Clique, ...]:  # noqa: ARG002
        """Return the cliques whose exact counts `select` will ask the curator about.

        They are counted beforehand, in one pass over the data. Empty if they are not yet known.
        """
        return ()

    def statistic(self, domain: Domain) -> Statistic | None:  # noqa: ARG002
        """Return the vector of scores that `select` releases with noise, or None.

        The plan states its noise.
        """
        return None

    def scores_share(self, domain: Domain) -> Fraction:  # noqa: ARG002
        """Return the part of the selection's budget that pays for `statistic`; by default all."""
        return Fraction(1)

    def select_events(self, domain: Domain, relation: Relation) -> Sequence[Asked]:  # noqa: ARG002
        """Return the events by which `select` measures, as far as the domain decides them.

        The plan uses them only to choose the currency of the release.
        """
        return ()

    def choices(self, domain: Domain) -> int:
        """Return about how many private choices `select` makes; by default one for each column.

        Only the choice of the currency and the progress of the stage use it.
        """
        return len(domain) if self.chooses else 0

    def largest_choice(self, domain: Domain) -> Fraction | None:  # noqa: ARG002
        """Return a bound on the cost of a choice relative to what is left to measure after it.

        Both costs are parts of their budgets. With a bound x, if the part p of `measure_cost` is
        still to be spent, a choice costs at most the part x p of `select_cost`. None if no bound is
        known. If what is left is large enough, the plan takes a currency with less noise
        (`dp_core.kernel.cost.covered_choices`).
        """
        return None

    def draws(self, domain: Domain, relation: Relation) -> int:  # noqa: ARG002
        """Return the number of records drawn from exact counts that one row can affect.

        The plan uses it only to refuse a measuring budget that cannot pay for them.
        """
        return 0

    def forecast(
        self,
        domain: Domain,  # noqa: ARG002
        rows: int,  # noqa: ARG002
        currency: Currency,  # noqa: ARG002
        relation: Relation,  # noqa: ARG002
        *,
        one_way: Fraction,  # noqa: ARG002
        measure: Fraction,  # noqa: ARG002
        roughly: bool = False,  # noqa: ARG002
    ) -> tuple[Expected, Expected] | None:
        """Return the least and the largest error expected for a typical file, or None if unknown.

        Args:
            domain: All columns.
            rows: Approximate number of records.
            currency: Currency of the release.
            relation: Its neighbouring relation.
            one_way: Budget of the one-way tables of one measurement.
            measure: Budget of the selected tables of one measurement.
            roughly: Whether a fast approximation is enough, for comparing two currencies.
        """
        return None

    @abstractmethod
    def select(self, inputs: MethodInputs) -> Selection:
        """Choose what to measure; a method with `rounds` also measures it.

        Privacy:
            Spends exactly `select_cost` (and `measure_cost`, with `rounds`) through the curator.
            Everything else is post-processing.
        """


class PlannedSelector(Selector):
    """A selector that does not look at the data: the domain alone decides what is measured."""

    adaptive: ClassVar[bool] = False

    __slots__ = ()

    @abstractmethod
    def fixed_selection(self, domain: Domain) -> Selection:
        """Return what will be measured."""

    def check(self, domain: Domain) -> None:
        """Raise BadInput if nothing can be planned for the domain."""
        self.fixed_selection(domain)

    @final
    def select(self, inputs: MethodInputs) -> Selection:
        """Return what is certain. Asks the curator nothing and spends nothing."""
        found = self.certain(inputs.domain, terms_of(inputs))
        return self.fixed_selection(inputs.domain) if found is None else found.selection


def terms_of(inputs: MethodInputs) -> Terms:
    """Return the terms of a selection that has begun; the values of `known` are not used."""
    return Terms(
        currency=inputs.curator.currency,
        relation=inputs.curator.relation,
        measure=inputs.measure_cost,
        known={table.clique: table.variance for table in tables_of(inputs.known)},
    )
