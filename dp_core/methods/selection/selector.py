"""What a selection method is given and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import numpy as np

from dp_core.schema.privacy import Neighbours, Relation, Stage
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Released, ReleasedKind

if TYPE_CHECKING:
    from dp_core.wall.accounting.currency import Currency
    from dp_core.wall.curator import Curator
    from dp_core.wall.statistics import Statistic

TABLES: frozenset[ReleasedKind] = frozenset({"tables"})


class Asked(NamedTuple):
    """One event by which a method will measure, for the choice of what the release pays in.

    Attributes:
        share: Part of the measuring budget.
        l1, l2_squared: Sensitivities.
        weight: How much its noise counts: as that of so many cells.
    """

    share: Fraction
    l1: int
    l2_squared: int
    weight: float


@dataclass(frozen=True, slots=True)
class Expected:
    """What error is left, as parts of all records: average total variation distances.

    Attributes:
        two: Over all tables of two columns.
        three: Over all tables of three columns; 0 where there are fewer columns.
    """

    two: float
    three: float


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be measured, and what was measured or made already. Public.

    Attributes:
        cliques: To measure with the measuring budget, without repetition; most methods give each in
            the domain's order of columns.
        weights: Part of the measuring budget of each; they sum to exactly 1.
        note: Public facts for the report (noisy scores, what was left out and why), plain values.
        measured: What a method measured while it selected; there are no cliques then.
        records: Synthetic records that a method made while it selected, if it is one that does.
        interactions: Which of the cliques are measured as interactions, what their tables say
            beyond all margins, rather than as tables (`Curator.interactions`). The method then says
            `interactions` in `gives`.
    """

    cliques: tuple[Clique, ...] = ()
    weights: tuple[Fraction, ...] = ()
    note: Mapping[str, object] = field(default_factory=dict)
    measured: tuple[Released, ...] = ()
    records: Dataset | None = None
    interactions: frozenset[Clique] = frozenset()

    def __post_init__(self) -> None:
        if len(self.cliques) != len(self.weights):
            raise ValueError(f"{len(self.cliques)} cliques but {len(self.weights)} weights.")
        if len({frozenset(clique) for clique in self.cliques}) != len(self.cliques):
            raise ValueError("A clique is selected twice.")
        if any(weight <= 0 for weight in self.weights):
            raise ValueError("Every weight is positive: a clique of weight 0 is not measured.")
        if self.cliques and sum(self.weights) != 1:
            raise ValueError(f"Weights sum to {sum(self.weights)}, not to 1.")
        if () in self.interactions or not self.interactions <= {*self.cliques}:
            raise ValueError("Interactions are of cliques that are selected, of a column or more.")
        if self.cliques and self.measured:
            # Both would be paid from the same budget.
            raise ValueError(
                "A method measures what it selects itself, or leaves it to be measured."
            )


class Selector(Protocol):
    """A frozen dataclass whose fields are the method's options in the spec.

    Attributes:
        chooses: Whether it uses the curator's `choose`; that decides what the release can pay in.
        rounds: Whether it measures while it selects. Then `select` is called once for each
            independent measurement, and spends both budgets itself, exactly.
        own_delta: Whether its mechanism fails with a probability of its own (a threshold), for
            which the release sets its delta aside.
    """

    chooses: ClassVar[bool]
    rounds: ClassVar[bool]
    own_delta: ClassVar[bool]

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        """What it releases; a reconstruction must take all of it."""

    @property
    def adaptive(self) -> bool:
        """Whether the choice looks at the data (through the curator, under its own share)."""

    def check(self, domain: Domain) -> None:
        """Raise BadInput, saying why and naming a method that fits, if the domain will not do."""

    def check_basics(self, neighbours: Neighbours, measured: Collection[Stage]) -> None:
        """Raise BadInput if `select` could not do with what is known before it.

        Args:
            neighbours: `Relation.of_rows`: under replace-one the number of rows is public.
            measured: Stages before the selection that have a share: `total`, `one_way`.
        """

    def planned(self, domain: Domain) -> Selection | None:
        """Return what will be measured where that is known beforehand, otherwise None."""

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        """Return the cliques whose exact counts `select` will ask the curator about.

        They are counted beforehand, in one pass over the data.
        """

    def statistic(self, domain: Domain) -> Statistic | None:
        """Return the scores that `select` releases with noise, so that a plan can state it.

        None where the method does not look, or there is nothing to choose from.
        """

    def asked(self, domain: Domain, relation: Relation) -> Sequence[Asked]:
        """Return the events by which `select` measures, where they are known beforehand.

        The plan weighs by them what the release is to pay in; nothing else depends on it.
        """

    def choices(self, domain: Domain) -> int:
        """Return about how many private choices `select` makes, where it makes any.

        The plan weighs by it what the release is to pay in; nothing else depends on it.
        """

    def draws(self, domain: Domain, relation: Relation) -> int:
        """Return how many draws by counts, of those that one row changes, `select` pays for.

        The plan refuses a measuring budget that cannot pay them; nothing else depends on it.
        """

    def select(
        self,
        curator: Curator,
        known: Sequence[Released],
        *,
        domain: Domain,
        cost: Fraction,
        measure_cost: Fraction,
        zeros: StructuralZeros,
        rng: np.random.Generator,
        replicate: int = 0,
    ) -> Selection:
        """Choose what to measure; a method of rounds measures it too.

        It may be called again after a crash: then the curator gives back what was paid for, and
        everything else follows from that and `rng`, so that the same questions are asked.

        Args:
            curator: The only way to ask about the data.
            known: What was measured before (one-way tables, the number of rows).
            domain: All columns.
            cost: Budget of the selection itself, in the release's currency; spent exactly.
            measure_cost: Budget that will measure the result (of one replicate).
            zeros: Impossible cells.
            rng: For post-processing.
            replicate: Which of the m independent measurements this is, 0 when shared; to be handed
                on to the curator by a method of rounds.

        Privacy:
            Spends exactly `cost` (a method of rounds: and `measure_cost`), through the curator;
            everything else is post-processing.
        """


class AdaptiveSelector(ABC):
    """A selector that looks at the data; what most of them have in common."""

    __slots__ = ()

    chooses: ClassVar[bool] = False
    rounds: ClassVar[bool] = False
    own_delta: ClassVar[bool] = False

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        """Tables."""
        return TABLES

    @property
    def adaptive(self) -> bool:
        """Always."""
        return True

    def check(self, domain: Domain) -> None:  # noqa: B027
        """Take any domain; a method that cannot says so."""

    def check_basics(  # noqa: B027
        self, neighbours: Neighbours, measured: Collection[Stage]
    ) -> None:
        """Do with anything; a method that cannot says so."""

    def planned(self, domain: Domain) -> Selection | None:  # noqa: ARG002
        """Return None: it is not known beforehand."""
        return None

    def needs(self, domain: Domain) -> tuple[Clique, ...]:  # noqa: ARG002
        """Return nothing: what will be asked about is not known beforehand."""
        return ()

    def statistic(self, domain: Domain) -> Statistic | None:  # noqa: ARG002
        """Return None: no vector of scores is released."""
        return None

    def asked(self, domain: Domain, relation: Relation) -> Sequence[Asked]:  # noqa: ARG002
        """Return nothing: it is not known beforehand."""
        return ()

    def choices(self, domain: Domain) -> int:
        """Return one for each column, where there are choices at all."""
        return len(domain) if self.chooses else 0

    def draws(self, domain: Domain, relation: Relation) -> int:  # noqa: ARG002
        """None; a method that draws records by counts says how many draws."""
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
        """Return the least and the most error to expect of a file like others; None: not known.

        Args:
            domain: All columns.
            rows: About how many records there are.
            currency: What the release pays in.
            relation: Its neighbours.
            one_way: Budget of the one-way tables of one measurement.
            measure: Budget of what is selected, of one measurement.
            roughly: Whether to compare is enough, and it has to be fast.
        """
        return None

    @abstractmethod
    def select(
        self,
        curator: Curator,
        known: Sequence[Released],
        *,
        domain: Domain,
        cost: Fraction,
        measure_cost: Fraction,
        zeros: StructuralZeros,
        rng: np.random.Generator,
        replicate: int = 0,
    ) -> Selection:
        """Choose what to measure; see `Selector`."""


class PlannedSelector(ABC):
    """A selector that does not look at the data: what it measures is known from the domain."""

    __slots__ = ()

    chooses: ClassVar[bool] = False
    rounds: ClassVar[bool] = False
    own_delta: ClassVar[bool] = False

    @abstractmethod
    def planned(self, domain: Domain) -> Selection:
        """Return what will be measured."""

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        """Tables."""
        return TABLES

    @property
    def adaptive(self) -> bool:
        """Never."""
        return False

    def check(self, domain: Domain) -> None:
        """Refuse a domain for which nothing can be planned."""
        self.planned(domain)

    def check_basics(  # noqa: B027
        self, neighbours: Neighbours, measured: Collection[Stage]
    ) -> None:
        """Do with anything: nothing is asked."""

    def needs(self, domain: Domain) -> tuple[Clique, ...]:  # noqa: ARG002
        """Return nothing: no exact count is asked about."""
        return ()

    def statistic(self, domain: Domain) -> Statistic | None:  # noqa: ARG002
        """Return None: no score is released."""
        return None

    def asked(self, domain: Domain, relation: Relation) -> Sequence[Asked]:  # noqa: ARG002
        """Return nothing: tables are measured."""
        return ()

    def choices(self, domain: Domain) -> int:  # noqa: ARG002
        """None."""
        return 0

    def draws(self, domain: Domain, relation: Relation) -> int:  # noqa: ARG002
        """None."""
        return 0

    def select(
        self,
        curator: Curator,  # noqa: ARG002
        known: Sequence[Released],  # noqa: ARG002
        *,
        domain: Domain,
        cost: Fraction,  # noqa: ARG002
        measure_cost: Fraction,  # noqa: ARG002
        zeros: StructuralZeros,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        replicate: int = 0,  # noqa: ARG002
    ) -> Selection:
        """Return what was planned. Nothing is asked of the curator, and nothing spent."""
        return self.planned(domain)
