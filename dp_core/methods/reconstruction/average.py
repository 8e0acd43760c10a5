"""Averages of several reconstructions of the same tables; each draws a part of the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, ReleasedKind, Table
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods import averaging, registry
from dp_core.methods.averaging import check_models
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.reconstructor import (
    TABLES,
    Model,
    Reconstructor,
    Sampler,
    in_series,
)
from dp_core.methods.reconstruction.sampling.drawing_progress import (
    Progress,
    ReportingSampler,
    WithListener,
    step_of,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros


@dataclass(frozen=True, slots=True, eq=False)
class AverageModel(ReportingSampler):
    """An average of models that were fitted to the same tables.

    Attributes:
        domain: All columns.
        models: The fitted models.
        rows: Estimated number of records.
    """

    domain: Domain
    models: tuple[Model, ...]
    rows: int

    @property
    def tables(self) -> tuple[Table, ...]:
        """Tables of all models in order; each model's begin with its number of rows, twice."""
        rows = Table(self.domain.project(()), np.array(float(self.rows)))
        return tuple(table for model in self.models for table in (rows, rows, *model.tables))

    @property
    def streams(self) -> bool:
        return all(model.streams for model in self.models)

    def series(self, number: int, pieces: int | None = None) -> Sequence[AverageSeries]:
        """Return `number` samplers for pieces of a large set; each mixes samplers of all models."""
        chains = [in_series(model, number, pieces) for model in self.models]
        return [AverageSeries(each) for each in zip(*chains, strict=True)]

    def project(self, clique: Clique) -> NDArray[np.float64]:
        return np.asarray(np.mean([model.project(clique) for model in self.models], axis=0))

    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        return averaging.draw(_with_listener(self.models, progress), rows, rng=rng)


@dataclass(frozen=True, slots=True)
class AverageSeries(ReportingSampler):
    """A sampler for pieces of a large set; each model draws its part of every piece.

    Attributes:
        chains: One sampler per model.
    """

    chains: Sequence[Sampler]

    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        return averaging.draw(_with_listener(self.chains, progress), rows, rng=rng)


def _with_listener(samplers: Sequence[Sampler], progress: Progress) -> list[WithListener]:
    """Return samplers that report the progress of the combined drawing."""
    number = len(samplers)
    return [
        WithListener(sampler, step_of(progress, at / number, (at + 1) / number))
        for at, sampler in enumerate(samplers)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Average(Reconstructor):
    """Average several models that are fitted to the same tables, which are paid for once.

    Attributes:
        models: Names of reconstruction methods, at least two; each runs with its default options.
    """

    models: tuple[str, ...] = ("gum", "pgm")

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES

    def __post_init__(self) -> None:
        check_models(self.models)

    def check(self, domain: Domain) -> None:
        """Raise BadInput if a model refuses the domain or does not use tables."""
        for name, method in zip(self.models, self._methods(), strict=True):
            if not self.takes <= method.takes:
                raise BadInput(f"{name} has no use for tables, which are what is averaged here.")
            method.check(domain)

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        return sum(method.memory(domain, cliques, rows) for method in self._methods())

    def model_of(self, inputs: FitInputs) -> AverageModel:
        models = tuple(method.model_of(inputs) for method in self._methods())
        return AverageModel(inputs.domain, models, round(fmean(model.rows for model in models)))

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),
    ) -> AverageModel:
        groups: list[list[Table]] = []
        position = 0
        while position < len(tables):
            # Two consecutive totals mark the start of a model: no model stores its number of rows
            # twice.
            pair = tables[position : position + 2]
            if len(pair) == 2 and not any(table.clique for table in pair):
                groups.append([])
                position += 2
            else:
                groups[-1].append(tables[position])
                position += 1
        models = tuple(
            method.restore(domain, group, rows=rows, zeros=zeros, released=released)
            for method, group in zip(self._methods(), groups, strict=True)
        )
        return AverageModel(domain, models, rows)

    def _methods(self) -> tuple[Reconstructor, ...]:
        return tuple(registry.find("reconstruction", name)() for name in self.models)


METHOD = Average
