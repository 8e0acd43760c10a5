"""Base classes of reconstructions and their models. Public side of the wall."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, ReleasedKind, Table, tables_of
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.estimates.raking import margin
from dp_core.schema.structure.structural_zeros import StructuralZeros

LANES = 4
"""Pieces of a large set that may be drawn in parallel."""
_PIECE_ROWS = 500_000
_PIECE_VALUES = 10**7


class Sampler(Protocol):
    """Draws records from a fitted distribution; every model is a sampler."""

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return `rows` synthetic records; same `rng` state, same records."""


class Model(Sampler, Protocol):
    """A fitted distribution over the domain; sampling it is post-processing and free."""

    @property
    def domain(self) -> Domain:
        """All columns."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Tables the model was fitted to, after consistency; enough to restore it."""

    @property
    def rows(self) -> int:
        """Estimated number of records, at least 1; the size of a set with `rows: same`."""

    @property
    def streams(self) -> bool:
        """Whether a large set may be drawn in pieces of `piece_rows`."""

    def project(self, clique: Clique) -> NDArray[np.float64]:
        """Return the model's expected counts over a clique, records, axes in the clique's order.

        Every model gives the table of each column and of each clique that it was fitted to.

        Raises:
            KeyError: for another clique, if the model cannot give its table without sampling.
        """


def piece_rows(domain: Domain) -> int:
    """Return the number of rows per piece of a set, for a model with `streams`.

    Pieces bound the memory of large sets; smaller sets are one piece.
    """
    return min(_PIECE_ROWS, _PIECE_VALUES // max(len(domain), 1))


@runtime_checkable
class DrawnInSeries(Protocol):
    """A model whose pieces of a large set correct the errors of earlier pieces."""

    def series(self, number: int, pieces: int | None = None) -> Sequence[Sampler]:
        """Return `number` samplers, each of which remembers the pieces it has drawn.

        Args:
            number: Number of samplers; they draw the pieces of the set in turn.
            pieces: Number of pieces of the set. None (the default) if it is not known: then no
                piece can rely on later ones to correct its errors.
        """


def in_series(model: Model, number: int, pieces: int | None = None) -> Sequence[Sampler]:
    """Return `number` samplers for the pieces of a large set; most models ignore earlier pieces.

    Args:
        model: Model that draws the records.
        number: Number of samplers; they draw the pieces of the set in turn.
        pieces: Number of pieces of the set; None (the default) if it is not known.
    """
    return model.series(number, pieces) if isinstance(model, DrawnInSeries) else (model,) * number


def project_smallest(tables: Sequence[Table], clique: Clique) -> NDArray[np.float64]:
    """Return the sums over a clique of the smallest table that contains it.

    Raises:
        KeyError: if no table contains it.
    """
    holders = [table for table in tables if set(clique) <= set(table.clique)]
    if not holders:
        raise KeyError(f"No table holds {list(clique)} together; sample and count instead.")
    return margin(min(holders, key=lambda holder: holder.values.size), clique)


@dataclass(frozen=True, slots=True, eq=False)
class FittedTables(ABC):
    """Base class of models made of tables.

    By default a model gives the tables of cliques that some table contains, and may draw a large
    set in pieces.

    Attributes:
        domain: All columns.
        tables: Fitted tables, all with the same total; they are enough to restore the model.
        rows: Estimated number of records.
        zeros: Impossible cells; no drawn record lies in one.
    """

    domain: Domain
    tables: tuple[Table, ...]
    rows: int
    zeros: StructuralZeros

    @classmethod
    def of_tables(
        cls, domain: Domain, tables: Sequence[Table], rows: int, zeros: StructuralZeros
    ) -> Self:
        """Return the model of fitted tables."""
        return cls(domain, tuple(tables), rows, zeros)

    @property
    def streams(self) -> bool:
        """Whether a large set may be drawn in pieces of `piece_rows`."""
        return True

    def project(self, clique: Clique) -> NDArray[np.float64]:
        return project_smallest(self.tables, clique)

    @abstractmethod
    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Return `rows` synthetic records; same `rng` state, same records."""


TABLES: frozenset[ReleasedKind] = frozenset({"tables"})
"""Kinds of results that most reconstructions use."""

TABLES_AND_INTERACTIONS: frozenset[ReleasedKind] = frozenset({"tables", "interactions"})
"""Kinds that reconstructions use if they estimate tables from all that was measured."""


class Reconstructor(ABC):
    """A reconstruction: a frozen dataclass whose fields are the method's options in the spec.

    Attributes:
        takes: Kinds of released results that the method can use.
    """

    __slots__ = ()

    takes: ClassVar[frozenset[ReleasedKind]]

    def check(self, domain: Domain) -> None:  # noqa: B027
        """Raise BadInput, with the limit and a method that fits, if it cannot take the domain."""

    @abstractmethod
    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        """Return the approximate peak memory of fitting and sampling, in bytes."""

    @abstractmethod
    def model_of(self, inputs: FitInputs) -> Model:
        """Return a model fitted to the released results."""

    def fit(
        self,
        domain: Domain,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,
    ) -> Model:
        """Return the model of these inputs; see `FitInputs`."""
        return self.model_of(FitInputs(domain, released, rows, zeros, rng))

    @abstractmethod
    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),
    ) -> Model:
        """Return the model of an earlier fit from its stored `tables` and `rows`.

        Args:
            domain: All columns.
            tables: Stored `Model.tables`.
            rows: Stored `Model.rows`.
            zeros: Impossible cells, the same as for `fit`.
            released: Results that the model was fitted to, for models that need more than `tables`.
        """


class FromTables(Reconstructor):
    """Base class of reconstructions whose model is restored from its tables alone.

    Attributes:
        model: Class of the model.
    """

    __slots__ = ()

    model: ClassVar[type[FittedTables]]

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),  # noqa: ARG002
    ) -> FittedTables:
        """Return the model; see `Reconstructor`."""
        return self.model.of_tables(domain, tables, rows, zeros)


AnyModel = TypeVar("AnyModel", bound=Model)


class MadeAnew(Reconstructor, Generic[AnyModel]):
    """Base class of reconstructions that have no fit: `restore` builds the model again.

    The model depends on the released results only and stores no tables of its own.
    """

    __slots__ = ()

    @abstractmethod
    def make(
        self, domain: Domain, released: Sequence[Released], rows: int, zeros: StructuralZeros
    ) -> AnyModel:
        """Return the model of `rows` records."""

    @abstractmethod
    def number(self, domain: Domain, released: Sequence[Released]) -> int:
        """Return an estimate of the number of records if it is neither public nor measured."""

    def model_of(self, inputs: FitInputs) -> AnyModel:
        from dp_core.methods.reconstruction.estimates.consistency import estimates, whole_rows

        domain, zeros = inputs.domain, inputs.zeros
        tables = tables_of(inputs.released)
        if inputs.rows is None and not tables:
            number = self.number(domain, inputs.released)
        else:
            number = whole_rows(estimates(domain, tables, zeros=zeros), inputs.rows)
        return self.make(domain, inputs.released, number, zeros)

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],  # noqa: ARG002
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),
    ) -> AnyModel:
        """Return the model; see `Reconstructor`."""
        return self.make(domain, released, rows, zeros)
