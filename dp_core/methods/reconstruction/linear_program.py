"""The joint table that minimises the largest deviation from the answers, by linear programming.

Barak, Chaudhuri, Dwork, Kale, McSherry & Talwar, "Privacy, accuracy, and consistency too: a
holistic solution to contingency table release", PODS 2007, Section 4. Public side of the wall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import ReleasedKind, Table
from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.joint.dense_answers import (
    Evidence,
    gather,
    number_of_records,
    possible_cells,
)
from dp_core.methods.reconstruction.joint.joint_model import DenseModel
from dp_core.methods.reconstruction.reconstructor import FittedTables, FromTables
from dp_core.tables.cliques import row_bytes

_MOST_CELLS = 2**12  # of the joint table; each is a variable of the program
_MOST_ENTRIES = 2**21  # 300 answers about 4,096 cells take ten seconds; more take minutes
_NEARLY = 1e-9  # smallest standard deviation of an answer, as a proportion of all records


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearProgram(FromTables):
    """Fit the nonnegative joint table that minimises the largest deviation from the answers.

    Deviations are measured in standard deviations of each answer's noise. The program always has a
    solution. The solver returns a vertex of the set of solutions, which has at most one more
    nonempty cell than there are answers. If a cell with records is empty in the table, the relative
    entropy of the data from the table is infinite.
    """

    takes: ClassVar[frozenset[ReleasedKind]] = frozenset({"tables", "answers"})
    model: ClassVar[type[FittedTables]] = DenseModel

    def check(self, domain: Domain) -> None:
        if domain.size() > _MOST_CELLS:
            raise BadInput(
                f"The joint table of all columns has {domain.size():.3g} cells, more than the"
                f" {_MOST_CELLS:,} of `reconstruct: linear_program`; use"
                " `reconstruct: multiplicative_weights`, which takes the same answers."
            )

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:
        asked = sum(domain.size(clique) for clique in cliques)
        entries = min(max(asked, len(cliques)) * domain.size(), _MOST_ENTRIES)
        return 64 * entries + (2 * row_bytes(domain) + 24) * rows + (64 << 20)

    def model_of(self, inputs: FitInputs) -> DenseModel:
        domain, released, zeros = inputs.domain, inputs.released, inputs.zeros
        self.check(domain)
        number = number_of_records(domain, released, rows=inputs.rows, zeros=zeros)
        possible = possible_cells(domain, zeros)
        evidence = gather(domain, released, rows=number, possible=possible)
        joint = possible / possible.sum()
        if evidence.questions.length:
            joint = _least_deviation(evidence, possible)
        return DenseModel(domain, (Table(domain, joint * number),), number, zeros)


def _least_deviation(evidence: Evidence, possible: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the fitted joint table, in proportions."""
    from scipy import sparse
    from scipy.optimize import linprog

    asked = evidence.questions
    cells = np.flatnonzero(possible)
    if asked.length * cells.size > _MOST_ENTRIES:
        raise BadInput(
            f"{asked.length:,} answers about {cells.size:,} cells are too many for"
            " `reconstruct: linear_program`; use `reconstruct: multiplicative_weights`."
        )
    matrix = sparse.csr_array(asked.matrix()[:, cells])
    stddev = np.maximum(evidence.stddev, _NEARLY)
    # In standard deviations of the noise: minimise `worst` subject to |(matrix @ p - answers) /
    # stddev| <= worst.
    scaled = sparse.diags_array(1 / stddev) @ matrix
    wanted = evidence.answers / stddev
    ones = np.ones((asked.length, 1))
    found = linprog(
        c=np.r_[np.zeros(cells.size), 1.0],
        A_ub=sparse.vstack([sparse.hstack([scaled, -ones]), sparse.hstack([-scaled, -ones])]),
        b_ub=np.r_[wanted, -wanted],
        A_eq=sparse.csr_array(np.r_[np.ones(cells.size), 0.0][np.newaxis]),
        b_eq=[1.0],
        bounds=(0, None),
        method="highs-ds",
    )
    if found.x is None:
        raise StageFailed("The linear program was not solved; use another reconstruction.")
    joint = np.zeros(possible.size)
    joint[cells] = np.maximum(found.x[:-1], 0.0)
    return np.asarray((joint / joint.sum()).reshape(possible.shape))


METHOD = LinearProgram
