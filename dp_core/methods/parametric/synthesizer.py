"""What a parametric method is given and what it returns.

A method has two halves. `measure` is on the confidential side and asks the curator only; `fit`
and the model it returns are on the public side and know nothing but what was released. Where the
drawn records are themselves the mechanism (a posterior predictive draw), `measure` releases them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.privacy import Neighbours
from dp_core.schema.variables import Variables
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Released, Table
from dp_core.wall.statistics import Sum

if TYPE_CHECKING:
    from dp_core.wall.curator import Curator


@dataclass(frozen=True, slots=True)
class Ask:
    """One noisy statistic that a method will release, known from the columns alone.

    Attributes:
        step: Name of the step: lower case, digits and hyphens, unique within the method.
        what: A sum over records, or the clique of a table of counts.
        share: Its part of the method's budget.
    """

    step: str
    what: Sum | Clique
    share: Fraction


class Synthesizer(ABC):
    """A parametric method: a frozen dataclass whose fields are its options under `synthesize`.

    Attributes:
        chooses: Whether it uses the curator's `choose`; that decides what the release can pay in.
        draws: Whether it releases records that were drawn by confidential counts; the release
            then pays in pure epsilon.
        needs_rows: Whether it must know, before it measures, how many records a set holds.
    """

    __slots__ = ()

    chooses: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = False

    @property
    def by_bins(self) -> bool:
        """Whether numbers are drawn within bins, and so as counts of a private choice say."""
        return False

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: B027
        """Raise BadInput, naming the limit and a method that fits, if the columns will not do."""

    @abstractmethod
    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        """Return what will be released, as far as it is known beforehand; shares sum to 1.

        The plan tells by it how large the noise will be. A method that only draws records, or
        whose questions follow from answers, returns what it can: nothing, at worst.
        """

    def measure(
        self,
        curator: Curator,
        variables: Variables,
        *,
        cost: Fraction,
        rows: int | None,  # noqa: ARG002
        zeros: StructuralZeros,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        replicate: int = 0,
    ) -> tuple[Released, ...]:
        """Release the statistics; unless a method says otherwise, those of `asks`, tables first.

        It may be called again after a crash: then the curator gives back what was paid for, and
        everything else must follow from that and `rng`, so that the same questions are asked.

        Args:
            curator: The only way to ask about the data.
            variables: All columns.
            cost: Budget, in the release's currency; spent exactly.
            rows: Records that a set will hold, where that is public by now: stated in the spec,
                public under replace-one, or noisy.
            zeros: Impossible cells.
            rng: For post-processing.
            replicate: Which of the m independent releases this is, 0 when shared.

        Privacy:
            Spends exactly `cost`, through the curator, in the stage `measure`.
        """
        asks = self.asks(variables)
        tables = [(ask.what, cost * ask.share) for ask in asks if isinstance(ask.what, tuple)]
        released: list[Released] = []
        if tables:
            # One batch: what is drawn together is charged together, under one name.
            cliques, costs = zip(*tables, strict=True)
            released += curator.measure("measure", cliques, costs, replicate=replicate)
        for ask in asks:
            if isinstance(ask.what, Sum):
                budget = cost * ask.share
                released.append(
                    curator.total("measure", ask.step, ask.what, budget, replicate=replicate)
                )
        return tuple(released)

    @abstractmethod
    def fit(
        self,
        variables: Variables,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
    ) -> ParametricModel:
        """Return the model of what was released: no randomness, so that it can be made again.

        Args:
            variables: All columns.
            released: What `measure` returned (and the noisy number of rows, where it was measured).
            rows: Number of records where it is public, otherwise None: estimate it.
            zeros: Impossible cells; no drawn record is in one.
        """


class ParametricModel(ABC):
    """A model with which sets are drawn; its parameters are drawn anew for every set.

    Attributes:
        variables: All columns.
        rows: Estimated number of records, at least 1.
        zeros: Impossible cells.
    """

    variables: Variables
    rows: int
    zeros: StructuralZeros

    @property
    def domain(self) -> Domain:
        """All columns."""
        return self.variables.domain

    @property
    def tables(self) -> tuple[Table, ...]:
        """None: it is made again from what was released."""
        return ()

    @property
    def streams(self) -> bool:
        """Never: parameters are drawn once for a whole set."""
        return False

    def project(self, clique: Clique) -> NDArray[np.float64]:
        """Raise KeyError: its tables are known by drawing only."""
        raise KeyError(f"{' x '.join(clique)} is known by drawing records only.")

    @abstractmethod
    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return `rows` synthetic records; same `rng` state, same records."""
