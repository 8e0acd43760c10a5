"""Adapters by which a parametric method serves as a selection and a reconstruction.

`Measuring` takes the place of the selection, `Modelling` that of the reconstruction, so that
parametric releases use the same pipeline: charging, storing and resuming are the same code.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import numpy as np

from dp_core.errors import BadInput
from dp_core.kernel.cost.sensitivity import count_bounds
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Neighbours, Relation, Stage
from dp_core.kernel.questions.statistic import Sum
from dp_core.kernel.questions.vetted import sensitivities
from dp_core.kernel.released import Records, Released, ReleasedKind, Table
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.parametric.synthesizer import ParametricModel, Synthesizer
from dp_core.methods.selection.selector import Asked, Selection, Selector
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring(Selector):
    """The confidential half of a method: releases statistics or records.

    The measuring budget pays for everything.

    Attributes:
        method: The method with its options.
        variables: All columns.
        records: Records per set if the spec states them, otherwise None.
    """

    method: Synthesizer
    variables: Variables
    records: int | None

    rounds: ClassVar[bool] = True

    @property
    def adaptive(self) -> bool:
        """False: a selection budget is not needed."""
        return False

    @property
    def extensions(self) -> tuple[str, ...]:
        """Those of the method."""
        return self.method.extensions

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        """Records, or sums and tables."""
        kinds: tuple[ReleasedKind, ...] = (
            ("records",) if self.method.draws else ("totals", "tables")
        )
        return frozenset(kinds)

    def check(self, domain: Domain) -> None:
        """Accept any domain; `check_basics` calls the check of the method."""

    def check_basics(self, neighbours: Neighbours, measured: Collection[Stage]) -> None:
        self.method.check(self.variables, neighbours)
        known = self.records is not None or neighbours == "replace-one" or "total" in measured
        if self.method.needs_rows and not known:
            raise BadInput(
                "the method must know the number of records per set; give total a share, or state"
                " synthesize.rows."
            )

    def asked(self, domain: Domain, relation: Relation) -> Sequence[Asked]:  # noqa: ARG002
        _, l1_of_count, l2_squared_of_count = count_bounds(relation)
        found = []
        for ask in self.method.asks(self.variables):
            if isinstance(ask.what, Sum):
                l1, l2_squared = sensitivities(ask.what, relation)
                found.append(Asked(ask.share, l1, l2_squared, ask.what.length / l1))
            else:
                cells = self.variables.domain.size(ask.what)
                found.append(Asked(ask.share, l1_of_count, l2_squared_of_count, float(cells)))
        return found

    def select(self, inputs: MethodInputs) -> Selection:
        assert not inputs.select_cost
        inputs = replace(inputs, stated_rows=self.records)
        released = self.method.measure(inputs, self.variables)
        drawn = [item.dataset for item in released if isinstance(item, Records)]
        measured = tuple(item for item in released if not isinstance(item, Records))
        return Selection(measured=measured, records=_join_records(drawn))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing(Measuring):
    """The confidential half of a method that makes private choices."""

    chooses: ClassVar[bool] = True

    def choices(self, domain: Domain) -> int:  # noqa: ARG002
        """Return 0: the method pays for its choices from the measuring budget."""
        return 0


def measuring(method: Synthesizer, variables: Variables, records: int | None) -> Measuring:
    """Return the confidential half of a method."""
    kind = Choosing if method.chooses else Measuring
    return kind(method=method, variables=variables, records=records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modelling:
    """The public half of a method: fits its model to the released results.

    Attributes:
        method: The method with its options.
        variables: All columns.
        positions: Number of grid positions of a numeric column, as stated in the spec.
    """

    method: Synthesizer
    variables: Variables
    positions: int

    takes: ClassVar[frozenset[ReleasedKind]] = frozenset(get_args(ReleasedKind))

    def check(self, domain: Domain) -> None:
        """Accept any domain; the method has already checked it."""

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:  # noqa: ARG002
        # The codes, and a few numbers per value while a set is drawn.
        return 12 * domain.row_bytes * rows + (64 << 20)

    def fit(
        self,
        domain: Domain,  # noqa: ARG002
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> ParametricModel:
        return self.method.fit(self.variables, released, rows=rows, zeros=zeros)

    def restore(
        self,
        domain: Domain,  # noqa: ARG002
        tables: Sequence[Table],  # noqa: ARG002
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),
    ) -> ParametricModel:
        return self.method.fit(self.variables, released, rows=rows, zeros=zeros)


def _join_records(parts: Sequence[Dataset]) -> Dataset | None:
    """Return the records of all parts together, or None if there are none."""
    if not parts:
        return None
    codes = np.concatenate([part.codes for part in parts], axis=1)
    return Dataset(parts[0].domain, np.ascontiguousarray(codes))
