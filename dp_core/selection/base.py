"""What a selection method is given and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from dp_core.domain import Clique, Domain
from dp_core.marginals import Measurement

if TYPE_CHECKING:
    from dp_core.curator import Curator
    from dp_core.scores import Statistic


@dataclass(frozen=True, slots=True)
class Selection:
    """The cliques to measure and how the measuring budget is divided among them. Public.

    Attributes:
        cliques: Without repetition; each in the domain's order of columns.
        weights: Part of the measuring budget of each; they sum to exactly 1.
        note: Public facts for the report (noisy scores, what was left out and why).
    """

    cliques: tuple[Clique, ...]
    weights: tuple[Fraction, ...]
    note: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.cliques) != len(self.weights):
            raise ValueError(f"{len(self.cliques)} cliques but {len(self.weights)} weights.")
        if len({frozenset(clique) for clique in self.cliques}) != len(self.cliques):
            raise ValueError("A clique is selected twice.")
        if any(weight <= 0 for weight in self.weights):
            raise ValueError("Every weight is positive: a clique of weight 0 is not measured.")
        if self.cliques and sum(self.weights) != 1:
            raise ValueError(f"Weights sum to {sum(self.weights)}, not to 1.")


class Selector(Protocol):
    """A frozen dataclass whose fields are the method's options in the spec."""

    @property
    def adaptive(self) -> bool:
        """Whether the choice looks at the data (through the curator, under its own share)."""

    def planned(self, domain: Domain) -> Selection | None:
        """Return what will be measured where that is known beforehand, None if adaptive."""

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        """Return the cliques whose exact counts `select` will ask the curator about.

        They are counted beforehand, in one pass over the data.
        """

    def statistic(self, domain: Domain) -> Statistic | None:
        """Return the scores that `select` releases with noise, so that a plan can state it.

        None where the method does not look, or there is nothing to choose from.
        """

    def select(
        self,
        curator: Curator,
        known: Sequence[Measurement],
        *,
        domain: Domain,
        cost: Fraction,
        measure_cost: Fraction,
    ) -> Selection:
        """Choose what to measure.

        Args:
            curator: The only way to ask about the data.
            known: What was measured before (one-way tables, the number of rows).
            domain: All columns.
            cost: Budget of the selection itself, in the release's currency; spent exactly.
            measure_cost: Budget that will measure the result (of one replicate).

        Privacy:
            Spends exactly `cost`, through the curator; everything else is post-processing.
        """


class PlannedSelector(ABC):
    """A selector that does not look at the data: what it measures is known from the domain."""

    __slots__ = ()

    @abstractmethod
    def planned(self, domain: Domain) -> Selection:
        """Return what will be measured."""

    @property
    def adaptive(self) -> bool:
        """Never."""
        return False

    def needs(self, domain: Domain) -> tuple[Clique, ...]:  # noqa: ARG002
        """Return nothing: no exact count is asked about."""
        return ()

    def statistic(self, domain: Domain) -> Statistic | None:  # noqa: ARG002
        """Return None: no score is released."""
        return None

    def select(
        self,
        curator: Curator,  # noqa: ARG002
        known: Sequence[Measurement],  # noqa: ARG002
        *,
        domain: Domain,
        cost: Fraction,  # noqa: ARG002
        measure_cost: Fraction,  # noqa: ARG002
    ) -> Selection:
        """Return what was planned. Nothing is asked of the curator, and nothing spent."""
        return self.planned(domain)
