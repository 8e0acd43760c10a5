"""The joint table of all columns, held cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dp_core.client.released import ReleasedKind, Table, tables_of
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.estimates.consistency import consistent
from dp_core.methods.reconstruction.estimates.raking import Margin, rake_among_zeros
from dp_core.methods.reconstruction.joint.dense_answers import MOST_CELLS, check_size
from dp_core.methods.reconstruction.joint.joint_model import DenseModel
from dp_core.methods.reconstruction.reconstructor import TABLES, FittedTables, FromTables
from dp_core.tables.cliques import row_bytes

_ROUNDS = 100  # of fitting, which stops earlier if no cell changes by more than .01 records


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense(FromTables):
    """Fit the joint table: the measured one if there is one, otherwise the maximum-entropy table.

    A measured joint table is only made nonnegative. From smaller tables, iterative proportional
    fitting gives the maximum-entropy joint table with these margins; for one-way tables that is
    their product.
    """

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES
    model: ClassVar[type[FittedTables]] = DenseModel

    def check(self, domain: Domain) -> None:
        check_size(domain, "reconstruct: dense")

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:  # noqa: ARG002
        return 72 * domain.size() + (2 * row_bytes(domain) + 24) * rows + (16 << 20)

    def model_of(self, inputs: FitInputs) -> DenseModel:
        domain = inputs.domain
        self.check(domain)
        zeros = inputs.zeros.with_empty_levels(domain, most_cells=MOST_CELLS)
        tables, rows = consistent(domain, tables_of(inputs.released), rows=inputs.rows, zeros=zeros)
        whole = next((table for table in tables if table.clique == domain.columns), None)
        if whole is None:
            joint = (~zeros.mask(domain)).astype(np.float64)
            joint *= rows / max(joint.sum(), 1.0)
            margins: list[Margin] = [((), np.asarray(float(rows)))]
            margins += [(table.clique, table.values) for table in tables]
            joint = rake_among_zeros(joint, domain.columns, margins, rounds=_ROUNDS)
            whole = Table(domain, joint)
        return DenseModel(domain, (whole,), rows, zeros)


METHOD = Dense
