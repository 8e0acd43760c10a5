"""Tables with numeric columns in public bins: their questions, results and records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dp_core.client.released import Measurement, Table, Totals
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import BinnedCounts
from dp_core.methods.parametric.synthesizer import Edges, ParametricModel
from dp_core.methods.reconstruction.sampling.drawing import records
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variables


def binned_domain(variables: Variables, edges: Edges) -> Domain:
    """Return the columns with their numbers of bins, or of levels."""
    sizes = (
        variable.size if each is None else len(each) - 1
        for variable, each in zip(variables, edges, strict=True)
    )
    return Domain(variables.domain.columns, tuple(sizes))


def one_way(variables: Variables, edges: Edges) -> tuple[BinnedCounts, ...]:
    """Return the question for the counts of each column by itself."""
    return tuple(
        BinnedCounts(columns=(variable.name,), sizes=(variable.size,), edges=(each,))
        for variable, each in zip(variables, edges, strict=True)
    )


def as_measurement(counted: Totals) -> Measurement:
    """Return noisy binned counts as a table whose codes are the numbers of the bins.

    Raises:
        TypeError: if the totals are of another statistic than `BinnedCounts`.
    """
    if not isinstance(counted.of, BinnedCounts):
        raise TypeError(f"A table in bins must come from BinnedCounts, not from {counted.of.NAME}.")
    domain = Domain(counted.of.columns, counted.of.shape)
    return Measurement(
        domain=domain,
        values=counted.values.reshape(domain.sizes),
        noise=counted.noise,
        scale=counted.scale,
        stage=counted.stage,
        replicate=counted.replicate,
        grant=counted.grant,
        round=counted.round,
    )


@dataclass(frozen=True, slots=True, eq=False)
class CellsToRecords(ParametricModel):
    """A model that draws records from tables, and then positions within bins.

    Attributes:
        cells: Tables that together have every column once, with numeric columns in bins; they are
            drawn independently of each other. Impossible cells are 0.
        edges: Bin edges of each column; None for a column of levels.
        rounded: Whether each cell gets its share of a set to within one record; otherwise records
            are drawn independently, from one table.
    """

    cells: tuple[Table, ...]
    edges: Edges
    rounded: bool

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        if self.rounded:
            binned = binned_domain(self.variables, self.edges)
            codes = records(binned, self.cells, rows, rng=rng).codes.astype(self.domain.code_type)
        else:
            (table,) = self.cells
            shares = table.values.ravel()
            shares = shares if shares.any() else np.ones_like(shares)
            cells = np.repeat(np.arange(shares.size), rng.multinomial(rows, shares / shares.sum()))
            parts = np.unravel_index(rng.permutation(cells), table.domain.sizes)
            codes = np.array(parts, dtype=self.domain.code_type)
        # A cell of bins can be partly impossible; impossible records drawn there are repaired.
        return self.within_bins(codes, self.edges, rng=rng)


def zeros_by_bins(zeros: StructuralZeros, columns: Sequence[str], edges: Edges) -> StructuralZeros:
    """Return the rules for bins: a bin is impossible if all of its codes are.

    Args:
        zeros: Rules for codes.
        columns: Columns that have bins or levels.
        edges: Of each of these columns.
    """
    edges_of = dict(zip(columns, edges, strict=True))
    rules = []
    for rule in zeros.rules:
        codes = []
        for name, those in zip(rule.columns, rule.codes, strict=True):
            each = edges_of[name]
            if each is None:
                codes.append(those)
                continue
            inside = set(those)
            bins = enumerate(pairwise(each))
            codes.append(
                tuple(bin for bin, (low, high) in bins if inside.issuperset(range(low, high)))
            )
        if all(codes):
            rules.append(replace(rule, codes=tuple(codes)))
    return StructuralZeros(tuple(rules))
