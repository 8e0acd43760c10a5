"""Several parametric methods, each with its part of the budget and of the records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_core import averaging, registry
from dp_core.averaging import By, check_weights
from dp_core.dataset import Dataset
from dp_core.errors import BadInput
from dp_core.marginals import Released
from dp_core.parametric.base import Ask, ParametricModel, Synthesizer
from dp_core.parametric.variables import Variables
from dp_core.privacy import Neighbours
from dp_core.structural_zeros import StructuralZeros


@dataclass(frozen=True, slots=True, eq=False)
class AverageOfMethods(ParametricModel):
    """Models of the same records.

    Attributes:
        variables: All columns.
        rows: Estimated number of records.
        zeros: Impossible cells.
        models: Each by itself.
        weights: Parts of each, summing to 1.
        by: As of `Average`.
    """

    variables: Variables
    rows: int
    zeros: StructuralZeros
    models: tuple[ParametricModel, ...]
    weights: tuple[Fraction, ...]
    by: By

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        return averaging.draw(self.models, self.weights, rows, by=self.by, rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Average(Synthesizer):
    """Average parametric models; each releases its own statistics, so the budget is shared.

    Attributes:
        models: Parametric methods whose questions are known beforehand, with their own default
            options. Each gets its weight's part of the budget.
        weights: What each counts, in proportion; equally if none are stated. Public.
        by: `record`: every set is a mixture. `set`: every set is the work of one model.
    """

    models: tuple[str, ...]
    weights: tuple[Fraction, ...] = ()
    by: By = "record"

    def __post_init__(self) -> None:
        check_weights(self.models, self.weights)
        if "average" in self.models:
            raise ValueError("models are averaged once; name the models of an average themselves.")

    def check(self, variables: Variables, neighbours: Neighbours) -> None:
        """Refuse what a model refuses, and models that draw records or ask as they go."""
        for name, method in zip(self.models, self._methods(), strict=True):
            if type(method).measure is not Synthesizer.measure:
                raise BadInput(
                    f"{name} asks as it goes, or draws records; an average is of methods whose"
                    " statistics are known beforehand, such as modips."
                )
            method.check(variables, neighbours)

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        return tuple(
            dataclasses.replace(ask, step=f"{_step(name)}-{ask.step}", share=part * ask.share)
            for name, method, part in zip(self.models, self._methods(), self._parts, strict=True)
            for ask in method.asks(variables)
        )

    def fit(
        self,
        variables: Variables,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
    ) -> AverageOfMethods:
        # The total of the plan, if it measured one, stands before what the methods asked for.
        own = sum(len(method.asks(variables)) for method in self._methods())
        known, left = list(released[: len(released) - own]), list(released[len(released) - own :])
        models = []
        for method in self._methods():
            number = len(method.asks(variables))
            mine, left = left[:number], left[number:]
            models.append(method.fit(variables, [*known, *mine], rows=rows, zeros=zeros))
        mean = round(
            sum(part * model.rows for part, model in zip(self._parts, models, strict=True))
        )
        return AverageOfMethods(variables, mean, zeros, tuple(models), self._parts, self.by)

    @property
    def _parts(self) -> tuple[Fraction, ...]:
        return averaging.parts(self.models, self.weights)

    def _methods(self) -> tuple[Synthesizer, ...]:
        return tuple(registry.find("parametric", name)() for name in self.models)


def _step(name: str) -> str:
    return name.replace("_", "-")


METHOD = Average
