"""CIPHER: the joint table, built from smaller tables by adding one column at a time.

Eugenio and Liu, "Construction of Differentially Private Empirical Distributions from a low-order
Marginals Set through Solving Linear Equations with l2 Regularization", Algorithm 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dp_core.client.released import Measurement, ReleasedKind, Table, tables_of
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.reconstruction.estimates.consistency import (
    consistent,
    estimates,
    norm_sub,
    whole_rows,
)
from dp_core.methods.reconstruction.joint.cipher_equations import Equations, Form, Weight, unknowns
from dp_core.methods.reconstruction.joint.joint_model import DenseModel
from dp_core.methods.reconstruction.reconstructor import TABLES, FittedTables, FromTables
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import row_bytes

ONE_THREAD = 1_000
"""Unknowns of the largest system from which on all threads of BLAS solve it."""
RIDGE = 1e-6
"""Ridge penalty (lambda) of the equations. It settles which of many solutions is taken; from 1e-4
on it would bend the tables that were measured."""
_MOST_UNKNOWNS = 1024
"""Largest number of unknowns, which is the number of cells of all columns but one: 11 columns of 2
levels (about a minute on one core with `pivot: all`, a few seconds otherwise), 7 of 3, or 5 of 5.
"""

_Tables: TypeAlias = dict[Clique, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cipher(FromTables):
    """Build tables of more and more columns, each from the tables with one column fewer.

    A set of columns that was measured keeps its table. A subset of measured sets gets the mean of
    their margins, and an unmeasured column is uniform. The table of every other set is the solution
    of the linear equations of `cipher_equations`.

    The defaults were the most accurate in benchmarks (`benchmarks/papers/README.md`). The paper's
    form is `weight: even`, `pivot: random`, `tables: measured`. Proportional fitting (`reconstruct:
    dense`) is as accurate as the defaults from the same tables, and handles larger domains in less
    time.

    Attributes:
        form: Form of the equations. `conditional`: in conditional probabilities, as in the paper;
            more accurate if the tables agree. `joint`: each equation is multiplied by the
            probability of its condition, which avoids near-zero denominators.
        weight: Which solution is taken if there are several: that with the smallest sum of z**2
            (`even`, as in the paper), or of P z**2 (`prob`), which is closer to independence.
        pivot: Column that is solved for: the `last` or `first` of a set, a `random` one (as in
            the paper), or each in turn with the mean of the results (`all`).
        tables: `agree`: the measured tables are first made to agree by least squares, and they,
            every intermediate table and the result are replaced by the nearest nonnegative ones.
            `clip`: the equations reconcile the tables in part, and negative cells of all these
            tables are set to zero and the others scaled. `measured`, as in the paper: the same,
            but only in the result.
    """

    form: Form = "conditional"
    weight: Weight = "prob"
    pivot: Literal["all", "last", "first", "random"] = "all"
    tables: Literal["agree", "clip", "measured"] = "agree"

    takes: ClassVar[frozenset[ReleasedKind]] = TABLES
    model: ClassVar[type[FittedTables]] = DenseModel

    def check(self, domain: Domain) -> None:
        wide = unknowns([size for size in domain.sizes if size > 1])
        if wide > _MOST_UNKNOWNS:
            other = "`reconstruct: dense`" if domain.size() <= 2**22 else "`method: privsyn`"
            raise BadInput(
                f"CIPHER's largest system of equations has {wide:.3g} unknowns (the joint table"
                f" without one column), more than the {_MOST_UNKNOWNS} that `reconstruct:"
                f" cipher` solves; use {other}, or fewer and coarser columns."
            )

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:  # noqa: ARG002
        wide = unknowns([size for size in domain.sizes if size > 1])
        tables = math.prod(size + 1 for size in domain.sizes if size > 1)
        systems = 32 * wide**2 + 24 * len(domain) * wide
        records = (2 * row_bytes(domain) + 24) * rows
        return 16 * tables + systems + 72 * domain.size() + records + (48 << 20)

    def model_of(self, inputs: FitInputs) -> DenseModel:
        domain = inputs.domain
        self.check(domain)
        zeros = inputs.zeros.with_empty_levels(domain, most_cells=domain.size())
        given, total = self._given(domain, tables_of(inputs.released), inputs.rows, zeros)
        given = {clique: values / total for clique, values in given.items()}
        # Hundreds of small systems: a second thread of BLAS only waits for the first, at 30 times
        # the CPU where other work shares the cores.
        wide = unknowns([size for size in domain.sizes if size > 1])
        with threadpool_limits(limits=1 if wide < ONE_THREAD else None, user_api="blas"):
            joint = self._joint(domain, given, zeros, inputs.rng)
        joint = self._corrected(joint, ~zeros.mask(domain)) * total
        return DenseModel(domain, (Table(domain, joint),), total, zeros)

    def _given(
        self,
        domain: Domain,
        measurements: Sequence[Measurement],
        rows: int | None,
        zeros: StructuralZeros,
    ) -> tuple[Mapping[Clique, NDArray[np.float64]], int]:
        """Return the tables to start from, in records, and the number of records."""
        if self.tables == "agree":
            tables, total = consistent(domain, measurements, rows=rows, zeros=zeros)
            return {table.clique: table.values for table in tables}, total
        found = estimates(domain, measurements, zeros=zeros)
        total = whole_rows(found, rows)
        return {table.clique: table.values for table in found if table.clique}, total

    def _joint(
        self,
        domain: Domain,
        given: Mapping[Clique, NDArray[np.float64]],
        zeros: StructuralZeros,
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        """Return the joint table of all columns, in proportions, before the last correction."""
        # A column with one level carries no information, so tables are taken without it.
        columns = tuple(
            name for name, size in zip(domain.columns, domain.sizes, strict=True) if size > 1
        )
        known = _without_single_levels(given, columns)
        found: _Tables = {(): np.asarray(1.0)}
        for size in range(1, len(columns) + 1):
            last = found
            found = {}
            for clique in itertools.combinations(columns, size):
                possible = ~zeros.mask(domain.project(clique))
                values = _covered(clique, known)
                if values is None:
                    values = self._step(clique, last, possible, rng)
                if self.tables != "measured":
                    values = self._corrected(values, possible)
                found[clique] = values
        return found[columns].reshape(domain.sizes)

    def _step(
        self,
        clique: Clique,
        smaller: _Tables,
        possible: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        """Return the table of a set of columns that no given table contains."""
        if len(clique) == 1:
            return possible / max(int(possible.sum()), 1)
        faces = [smaller[clique[:k] + clique[k + 1 :]] for k in range(len(clique))]
        equations = Equations(form=self.form, weight=self.weight, ridge=RIDGE)
        pivots: Sequence[int] = range(len(clique))
        if self.pivot == "random":
            pivots = [int(rng.integers(len(clique)))]
        elif self.pivot != "all":
            pivots = [len(clique) - 1 if self.pivot == "last" else 0]
        mask = None if possible.all() else possible
        joints = [equations.joint(faces, pivot, mask) for pivot in pivots]
        return np.asarray(sum(joints) / len(joints))

    def _corrected(
        self, values: NDArray[np.float64], possible: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return nonnegative proportions that sum to 1, with 0 in impossible cells."""
        if self.tables != "agree":
            values = np.maximum(values, 0.0) * possible
            total = float(values.sum())
            if total > 0:
                return values / total
        return norm_sub(values, total=1.0, possible=possible)


def _covered(
    clique: Clique, known: Mapping[Clique, NDArray[np.float64]]
) -> NDArray[np.float64] | None:
    """Return a set's own table, or the mean of its margins in larger tables, or None."""
    if clique in known:
        return known[clique]
    margins = [
        values.sum(axis=tuple(axis for axis, name in enumerate(larger) if name not in clique))
        for larger, values in known.items()
        if set(clique) < set(larger)
    ]
    return np.asarray(sum(margins) / len(margins)) if margins else None


def _without_single_levels(
    given: Mapping[Clique, NDArray[np.float64]], columns: Clique
) -> Mapping[Clique, NDArray[np.float64]]:
    """Return the tables over `columns` only; those that then have equal columns are averaged."""
    grouped: dict[Clique, list[NDArray[np.float64]]] = {}
    for clique, values in given.items():
        kept = tuple(name for name in clique if name in columns)
        if kept:
            shape = tuple(size for size in values.shape if size > 1)
            grouped.setdefault(kept, []).append(values.reshape(shape))
    return {clique: np.asarray(sum(same) / len(same)) for clique, same in grouped.items()}


METHOD = Cipher
