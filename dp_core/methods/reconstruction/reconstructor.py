"""What a reconstruction is given and what it returns. Public side of the wall."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Released, ReleasedKind, Table, tables_of

_PIECE_ROWS = 500_000
_PIECE_VALUES = 10**7


class Sampler(Protocol):
    """What draws records of a fitted distribution; every model is one."""

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
        """Estimated number of records, what `rows: same` means; at least 1."""

    @property
    def streams(self) -> bool:
        """Whether a large set may be drawn in pieces of `piece_rows`."""

    def project(self, clique: Clique) -> NDArray[np.float64]:
        """Return the model's expected counts over a clique, records, axes in the clique's order.

        It knows every column, and every clique that it was fitted to.

        Raises:
            KeyError: for another clique, if the model cannot give its table without sampling.
        """


def piece_rows(domain: Domain) -> int:
    """Return how many rows of a set are drawn at a time, where its model streams.

    It bounds the memory of large sets; smaller ones are drawn at once.
    """
    return min(_PIECE_ROWS, _PIECE_VALUES // max(len(domain), 1))


@runtime_checkable
class DrawnInSeries(Protocol):
    """A model of which the pieces of a large set make good what those before them missed."""

    def series(self, number: int) -> Sequence[Sampler]:
        """Return so many chains: each draws piece after piece and remembers what it drew."""


def in_series(model: Model, number: int) -> Sequence[Sampler]:
    """Return so many chains of pieces of a large set; of most models each is drawn by itself."""
    return model.series(number) if isinstance(model, DrawnInSeries) else (model,) * number


@dataclass(frozen=True, slots=True, eq=False)
class FittedTables:
    """What every model that is made of tables holds.

    Attributes:
        domain: All columns.
        tables: Tables it was fitted to, of the same total; enough to restore it.
        rows: Estimated number of records.
        zeros: Impossible combinations, which no drawn record has.
    """

    domain: Domain
    tables: tuple[Table, ...]
    rows: int
    zeros: StructuralZeros


TABLES: frozenset[ReleasedKind] = frozenset({"tables"})
"""What most reconstructions take."""

TABLES_AND_INTERACTIONS: frozenset[ReleasedKind] = frozenset({"tables", "interactions"})
"""What those take that draw noisy tables towards what smaller ones say."""


class Reconstructor(Protocol):
    """A frozen dataclass whose fields are the method's options in the spec.

    Attributes:
        takes: What it can use of what a selection gives.
    """

    takes: ClassVar[frozenset[ReleasedKind]]

    def check(self, domain: Domain) -> None:
        """Raise BadInput, naming the limit and a method that fits, if the domain is too large."""

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        """Return about how many bytes fitting and sampling need at their peak."""

    def fit(
        self,
        domain: Domain,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,
    ) -> Model:
        """Return the model fitted to what was measured.

        Args:
            domain: All columns.
            released: What was measured, at least one of what it takes, of one replicate. Noisy
                tables may overlap, repeat a clique (also with its columns in another order), leave
                columns out, and hold the empty clique, which is the number of rows.
            rows: Number of records where it is public, otherwise None: estimate it.
            zeros: Impossible cells; they get no mass.
            rng: For ties and starts; fitting is otherwise deterministic.
        """

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),
    ) -> Model:
        """Return the model a fit stored as `tables` and `rows`, without fitting again.

        Args:
            domain: All columns.
            tables: Of the model.
            rows: Of the model.
            zeros: As at the fit.
            released: What it was fitted to, for a model that is more than its tables.
        """


AnyModel = TypeVar("AnyModel", bound=Model)


class MadeAnew(ABC, Generic[AnyModel]):
    """A reconstruction that fits nothing: to restore its model is to make it again.

    It takes every domain, because it holds what was released and no table of its own.
    """

    __slots__ = ()

    @abstractmethod
    def make(
        self, domain: Domain, released: Sequence[Released], rows: int, zeros: StructuralZeros
    ) -> AnyModel:
        """Return the model of so many records."""

    @abstractmethod
    def number(self, domain: Domain, released: Sequence[Released]) -> int:
        """Return the number of records where it is not public and no table tells it."""

    def check(self, domain: Domain) -> None:
        """Every domain fits."""

    def fit(
        self,
        domain: Domain,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> AnyModel:
        """Return the model; see `Reconstructor`."""
        from dp_core.methods.reconstruction.estimates.consistency import estimates, whole_rows

        tables = tables_of(released)
        if rows is None and not tables:
            number = self.number(domain, released)
        else:
            number = whole_rows(estimates(domain, tables, zeros=zeros), rows)
        return self.make(domain, released, number, zeros)

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
