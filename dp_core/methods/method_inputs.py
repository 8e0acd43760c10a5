"""What a method is given: to ask about the data, and to fit a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dp_core.client.released import Measurement, Released, tables_of
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.structure.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from dp_core.client.curator import Curator


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodInputs:
    """Everything that a selection or a parametric method is given for one measurement.

    A method may be called again after a crash. The curator then returns what was already paid for.
    Everything else must follow from these results and `rng`, so that the questions are the same.

    Attributes:
        curator: The only way to ask about the data.
        domain: All columns.
        known: What was measured before (one-way tables, the number of rows); empty by default.
        select_cost: Budget of the selection itself, in the release's currency; 0 by default.
        measure_cost: Budget for measuring the result, for one replicate.
        zeros: Impossible cells.
        rng: Generator for post-processing.
        replicate: Index of the independent measurement, 0 (the default) if shared. A method that
            measures passes it to the curator.
        round: Round of what a parametric method measures, 0 by default; it tells the models of an
            average apart.
        stated_rows: Number of records of a set if the spec states it; None by default.
        ordered: Number of ordered codes of each column whose trends with others can be used; empty
            by default.
    """

    curator: Curator
    domain: Domain
    known: Sequence[Released] = ()
    select_cost: Fraction = Fraction(0)
    measure_cost: Fraction
    zeros: StructuralZeros
    rng: np.random.Generator
    replicate: int = 0
    round: int = 0
    stated_rows: int | None = None
    ordered: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int | None:
        """Number of records of a set: stated, public or noisy; None if it is not known."""
        if self.stated_rows is not None:
            return self.stated_rows
        public = self.curator.public_rows()
        if public is not None:
            return public
        for item in self.known:
            if isinstance(item, Measurement) and not item.clique:
                return max(1, int(item.values))
        return None


@dataclass(frozen=True, slots=True)
class FitInputs:
    """What a model is fitted to. Public.

    Attributes:
        domain: All columns.
        released: Results of one replicate, at least one of a kind that the method takes. Noisy
            tables may overlap, repeat a clique (also with its columns in another order) and leave
            columns out. A table of the empty clique is the number of rows.
        rows: Number of records if it is public; None to estimate it.
        zeros: Impossible cells; they get no mass.
        rng: Generator for ties and start values, by default in a fixed state; fitting is otherwise
            deterministic.
    """

    domain: Domain
    released: Sequence[Released]
    rows: int | None
    zeros: StructuralZeros
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def number_of_rows(self, estimates: Sequence[tuple[float, float]] = ()) -> int:
        """Return the public number of records, or the mean of estimates by precision; at least 1.

        It is 0 if nothing tells it.

        Args:
            estimates: Estimates besides the measured numbers of rows, each with its variance, in
                records squared; none by default.
        """
        if self.rows is not None:
            return max(1, self.rows)
        told = [
            *estimates,
            *(
                (float(table.values), table.variance)
                for table in tables_of(self.released)
                if not table.clique
            ),
        ]
        if not told:
            return 0
        weights = [1 / max(variance, 1e-12) for _, variance in told]
        return max(1, round(float(np.average([value for value, _ in told], weights=weights))))
