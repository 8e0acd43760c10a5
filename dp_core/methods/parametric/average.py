"""An average of parametric methods; each gets a part of the budget and of the records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from dp_core.errors import BadInput
from dp_core.methods import averaging, registry
from dp_core.methods.averaging import check_weights
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.parametric.synthesizer import Ask, ParametricModel, Synthesizer
from dp_core.schema.privacy import Neighbours, Relation, Stage
from dp_core.schema.variables import Variables
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.accounting.currency import Currency, NoiseScale
from dp_core.wall.released import Measurement, Records, Released, Totals
from dp_core.wall.statistics import Sum

if TYPE_CHECKING:
    from dp_core.wall.curator import Curator

ROUNDS = 1000
"""Number of rounds reserved for each model; the second model's rounds follow the first's."""


@dataclass(frozen=True, slots=True, eq=False)
class AverageOfMethods(ParametricModel):
    """An average of models of the same file.

    Attributes:
        variables: All columns.
        rows: Estimated number of records.
        zeros: Impossible cells.
        models: The fitted models.
        weights: Part of each model, summing to 1.
    """

    variables: Variables
    rows: int
    zeros: StructuralZeros
    models: tuple[ParametricModel, ...]
    weights: tuple[Fraction, ...]

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        return averaging.draw(self.models, self.weights, rows, rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Average(Synthesizer):
    """Average parametric models; each releases its own statistics for its part of the budget.

    Attributes:
        models: Names of at least two parametric methods whose questions are known beforehand; each
            runs with its default options.
        weights: Relative weights of the models, also in the budget; equal if empty. Public.
    """

    models: tuple[str, ...]
    weights: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        check_weights(self.models, self.weights)
        if "average" in self.models:
            raise ValueError("An average cannot contain another average; name its models directly.")

    @property
    def by_bins(self) -> bool:
        return any(method.by_bins for method in self._methods())

    def check(self, variables: Variables, neighbours: Neighbours) -> None:
        """Raise BadInput if a model refuses the columns, draws records or makes private choices."""
        for name, method in zip(self.models, self._methods(), strict=True):
            if method.draws or method.chooses:
                raise BadInput(
                    f"{name} {'draws records' if method.draws else 'makes choices'}; an average"
                    " needs methods that release sums and counts, such as modips."
                )
            method.check(variables, neighbours)

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        return tuple(
            dataclasses.replace(ask, step=f"{name.replace('_', '-')}-{ask.step}", share=share)
            for name, method, part in zip(self.models, self._methods(), self._parts, strict=True)
            for ask in method.asks(variables)
            for share in [part * ask.share]
        )

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        """Return the statistics of all models; the round numbers tell the models apart."""
        released: list[Released] = []
        for number, (method, part) in enumerate(zip(self._methods(), self._parts, strict=True), 1):
            own = dataclasses.replace(
                inputs,
                curator=cast("Curator", InRounds(inputs.curator, number)),
                measure_cost=inputs.measure_cost * part,
            )
            released += method.measure(own, variables)
        return tuple(released)

    def fit(
        self,
        variables: Variables,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
    ) -> AverageOfMethods:
        # What the plan measured for all models, such as the number of rows, belongs to no round.
        models = tuple(
            method.fit(
                variables,
                _own(released, number),
                rows=rows,
                zeros=zeros,
            )
            for number, method in enumerate(self._methods(), start=1)
        )
        mean = round(
            sum(part * model.rows for part, model in zip(self._parts, models, strict=True))
        )
        return AverageOfMethods(variables, mean, zeros, models, self._parts)

    @property
    def _parts(self) -> tuple[Fraction, ...]:
        return averaging.parts(self.models, self.weights)

    def _methods(self) -> tuple[Synthesizer, ...]:
        return tuple(registry.find("parametric", name)() for name in self.models)


class InRounds:
    """A view of the curator for one model, which shifts round numbers to that model's own."""

    def __init__(self, curator: Curator, number: int) -> None:
        self._curator = curator
        self._number = number

    @property
    def domain(self) -> Domain:
        """The curator's domain; the other properties are the curator's too."""
        return self._curator.domain

    @property
    def relation(self) -> Relation:
        return self._curator.relation

    @property
    def neighbours(self) -> Neighbours:
        return self._curator.neighbours

    @property
    def currency(self) -> Currency:
        return self._curator.currency

    def count_noise(self, cost: Fraction) -> NoiseScale:
        return self._curator.count_noise(cost)

    def statistic_noise(self, sum: Sum, cost: Fraction) -> NoiseScale:
        return self._curator.statistic_noise(sum, cost)

    def public_rows(self) -> int | None:
        return self._curator.public_rows()

    def measure(
        self,
        stage: Stage,
        cliques: Sequence[Clique],
        costs: Sequence[Fraction],
        *,
        replicate: int = 0,
        round: int = 0,
    ) -> tuple[Measurement, ...]:
        place = self._place(round)
        return self._curator.measure(stage, cliques, costs, replicate=replicate, round=place)

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
        place = self._place(round)
        return self._curator.total(stage, step, sum, cost, replicate=replicate, round=place)

    def _place(self, round: int) -> int:
        assert 0 <= round < ROUNDS
        return self._number * ROUNDS + round


def _own(released: Sequence[Released], number: int) -> list[Released]:
    """Return the results of a model's own rounds, and what the plan measured for all models."""
    found: list[Released] = []
    for item in released:
        if isinstance(item, Records):
            continue
        model, round_ = divmod(item.round, ROUNDS)
        if model in (0, number):
            found.append(dataclasses.replace(item, round=round_))
    return found


METHOD = Average
