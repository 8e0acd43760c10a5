"""Base classes of parametric methods and their models.

A method has two halves. `measure` is on the confidential side and asks the curator only; `fit` and
the model it returns are on the public side and receive released results only. If drawing records is
the mechanism itself (a posterior predictive draw), `measure` releases the records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, Table
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variables

Edges = tuple[tuple[int, ...] | None, ...]
"""For each column the first code of every bin, then the number of codes; None for levels."""


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
        chooses: Whether it calls the curator's `choose`; that limits the currency of the release.
        draws: Whether it releases records drawn from exact counts; the release then pays in pure
            epsilon.
        needs_rows: Whether it must know the number of records per set before it measures.
    """

    __slots__ = ()

    chooses: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    needs_rows: ClassVar[bool] = False

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the kernel's extensions that it may ask (`dp_core.kernel.extensions`)."""
        return ()

    @property
    def by_bins(self) -> bool:
        """Whether numbers are drawn within bins, with the weights of privately chosen bins."""
        return False

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: B027
        """Raise BadInput, with the limit and a method that fits, if it cannot take the columns."""

    @abstractmethod
    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        """Return the statistics to release as far as they are known beforehand; shares sum to 1.

        The plan states their noise. A method that only draws records, or whose later questions
        depend on answers, returns what it knows, possibly nothing.
        """

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        """Return the released statistics; by default those of `asks`, tables first.

        Args:
            inputs: Whom to ask, and with what budget; `select_cost` is 0.
            variables: All columns.

        Privacy:
            Spends exactly `measure_cost`, through the curator, in the stage `measure`.
        """
        return tuple(release(inputs, self.asks(variables), inputs.measure_cost))

    @abstractmethod
    def model_of(self, variables: Variables, inputs: FitInputs) -> ParametricModel:
        """Return the model of the released results, without randomness, so that it is reproducible.

        Args:
            variables: All columns.
            inputs: Results of `measure`, the noisy number of rows if it was measured, and what is
                known besides.
        """


def release(inputs: MethodInputs, asks: Sequence[Ask], cost: Fraction) -> list[Released]:
    """Return the released statistics, tables first.

    Args:
        inputs: Whom to ask.
        asks: The statistics; each costs its share of `cost`.
        cost: Budget, in the release's currency.
    """
    curator = inputs.curator
    tables = [(ask.what, cost * ask.share) for ask in asks if isinstance(ask.what, tuple)]
    released: list[Released] = []
    if tables:
        # One batch: noise that is drawn together is charged together, under one step name.
        cliques, costs = zip(*tables, strict=True)
        released += curator.measure(
            "measure", cliques, costs, replicate=inputs.replicate, round=inputs.round
        )
    for ask in asks:
        if isinstance(ask.what, Sum):
            budget = cost * ask.share
            answer = curator.total(
                *("measure", ask.step, ask.what, budget),
                replicate=inputs.replicate,
                round=inputs.round,
            )
            released.append(answer)
    return released


@dataclass(frozen=True, slots=True, eq=False)
class ParametricModel(ABC):
    """A model that draws its parameters anew for every set.

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
        """Empty: the model is restored from the released results."""
        return ()

    @property
    def streams(self) -> bool:
        """False: parameters are drawn once for a whole set."""
        return False

    def project(self, clique: Clique) -> NDArray[np.float64]:
        """Raise KeyError: the model has no tables, only drawn records."""
        raise KeyError(f"{' x '.join(clique)} is known by drawing records only.")

    @abstractmethod
    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return `rows` synthetic records; same `rng` state, same records."""

    def within_bins(self, codes: Codes, edges: Edges, *, rng: np.random.Generator) -> Dataset:
        """Return possible records with a drawn position in place of each number of a bin.

        Args:
            codes: Number of the bin or level of each record, shape (columns, rows); changed.
            edges: Bin edges of each column.
            rng: Generator; same state, same records.
        """
        for axis, each in enumerate(edges):
            if each is not None:
                codes[axis] = self.variables[axis].within(codes[axis], each, rng=rng)
        return self.zeros.repair(Dataset(self.domain, np.ascontiguousarray(codes)), rng=rng)
