"""An average of parametric methods; each gets a part of the budget and of the records."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from dp_core.client.released import Records, Released
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.privacy import Neighbours
from dp_core.methods import averaging, registry
from dp_core.methods.averaging import check_models
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.synthesizer import Ask, ParametricModel, Synthesizer
from dp_core.schema.variables import Variables


@dataclass(frozen=True, slots=True, eq=False)
class AverageOfMethods(ParametricModel):
    """An average of models of the same file.

    Attributes:
        models: The fitted models.
    """

    models: tuple[ParametricModel, ...]

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        return averaging.draw(self.models, rows, rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Average(Synthesizer):
    """Average parametric models; each releases its own statistics for its part of the budget.

    Attributes:
        models: Names of at least two parametric methods whose questions are known beforehand; each
            runs with its default options.
    """

    models: tuple[str, ...]

    def __post_init__(self) -> None:
        check_models(self.models)

    @property
    def extensions(self) -> tuple[str, ...]:
        """Those of its methods."""
        return tuple({name for method in self._methods() for name in method.extensions})

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
            dataclasses.replace(
                ask, step=f"{name.replace('_', '-')}-{ask.step}", share=ask.share / len(self.models)
            )
            for name, method in zip(self.models, self._methods(), strict=True)
            for ask in method.asks(variables)
        )

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        """Return the statistics of all models; the round numbers tell the models apart."""
        released: list[Released] = []
        cost = inputs.measure_cost / len(self.models)
        for number, method in enumerate(self._methods(), start=1):
            own = dataclasses.replace(inputs, round=number, measure_cost=cost)
            released += method.measure(own, variables)
        return tuple(released)

    def model_of(self, variables: Variables, inputs: FitInputs) -> AverageOfMethods:
        # What the plan measured for all models, such as the number of rows, belongs to no round.
        models = tuple(
            method.model_of(
                variables, dataclasses.replace(inputs, released=_own(inputs.released, number))
            )
            for number, method in enumerate(self._methods(), start=1)
        )
        mean = round(fmean(model.rows for model in models))
        return AverageOfMethods(variables, mean, inputs.zeros, models)

    def _methods(self) -> tuple[Synthesizer, ...]:
        return tuple(registry.find("parametric", name)() for name in self.models)


def _own(released: Sequence[Released], number: int) -> list[Released]:
    """Return the results of a model's own round, and what the plan measured for all models."""
    return [
        dataclasses.replace(item, round=0)
        for item in released
        if not isinstance(item, Records) and item.round in (0, number)
    ]


METHOD = Average
