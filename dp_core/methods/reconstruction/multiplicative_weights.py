"""The joint table fitted to noisy tables and answers by multiplicative weights.

Hardt, Ligett & McSherry, "A simple and practical algorithm for differentially private data
release", 2012. Public side of the wall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dp_core.client.released import Answers, Measurement, Released, ReleasedKind, Table
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.joint.dense_answers import (
    check_size,
    number_of_records,
    possible_cells,
)
from dp_core.methods.reconstruction.joint.joint_model import DenseModel
from dp_core.methods.reconstruction.joint.weighting import FittedJoint, Updating
from dp_core.methods.reconstruction.reconstructor import FittedTables, FromTables
from dp_core.tables.cliques import row_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiplicativeWeights(FromTables):
    """Fit the joint table to noisy tables and answers by multiplicative weights.

    Attributes:
        updates: `limit`: the limit of multiplicative updates with all answers, each weighted by its
            noise. `steps`: one small step per answer, in order, and the mean of the tables after
            each, as in Figure 1 of the paper.
        prior: With `limit`, weight of the uniform table, in records; by default (None) the maximum
            of 1, three times the logarithm of the number of cells, and an eighth of the number of
            answers.
    """

    updates: Updating = "limit"
    prior: float | None = None

    takes: ClassVar[frozenset[ReleasedKind]] = frozenset({"tables", "answers"})
    model: ClassVar[type[FittedTables]] = DenseModel
    # A uniform table of one record causes negligible bias; with a tenth of one the fit does not
    # converge. In mode `split`, with m times the noise in each set, the default options covered .4
    # at a nominal .95.
    unpulled: ClassVar[Mapping[str, object]] = {"updates": "limit", "prior": 1.0}
    """Options with which the model is hardly pulled towards the uniform table."""

    def __post_init__(self) -> None:
        if self.prior is not None and not self.prior > 0:
            raise ValueError(f"prior is a positive number of records, not {self.prior}.")

    def check(self, domain: Domain) -> None:
        check_size(domain, "reconstruct: multiplicative_weights")

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        # The joint table, its logarithms, gradients and copies, and the memory of L-BFGS.
        asked = sum(domain.size(clique) for clique in cliques)
        return 96 * domain.size() + 256 * asked + (2 * row_bytes(domain) + 24) * rows + (64 << 20)

    def model_of(self, inputs: FitInputs) -> DenseModel:
        domain, released, zeros = inputs.domain, inputs.released, inputs.zeros
        self.check(domain)
        number = number_of_records(domain, released, rows=inputs.rows, zeros=zeros)
        possible = possible_cells(domain, zeros)
        fitted = FittedJoint(domain, possible, number, updates=self.updates, prior=self.prior)
        ordered = sorted(released, key=_round)
        if self.updates == "steps":
            iterates = [fitted.joint for _ in fitted.each(ordered)]
            joint = np.mean(iterates, axis=0) if iterates else fitted.joint
        else:
            fitted.add(ordered)
            joint = fitted.joint
        return DenseModel(domain, (Table(domain, joint * number),), number, zeros)


def _round(item: Released) -> int:
    return item.round if isinstance(item, Measurement | Answers) else 0


METHOD = MultiplicativeWeights
