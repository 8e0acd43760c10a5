"""Combinations of values that cannot occur, by public rule. Public, in codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.dataset import Dataset
from dp_core.domain import Clique, Domain
from dp_core.errors import BadInput


@dataclass(frozen=True, slots=True)
class Rule:
    """A box of impossible cells: every column's code is among those named.

    Attributes:
        columns: Columns the rule speaks of.
        codes: For each of them the codes, sorted, that together cannot occur.
        text: The rule as a person wrote it.
    """

    columns: Clique
    codes: tuple[tuple[int, ...], ...]
    text: str


@dataclass(frozen=True, slots=True)
class StructuralZeros:
    """All rules of a schema; they hold in every sampled row."""

    rules: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules)

    def mask(self, domain: Domain) -> NDArray[np.bool_]:
        """Return which cells of a clique's domain are impossible, shape `domain.sizes`.

        A rule counts only where the clique holds all its columns.
        """
        impossible = np.zeros(domain.sizes, dtype=bool)
        for rule in self.rules:
            if set(rule.columns) <= set(domain.columns):
                box: list[Sequence[int]] = [range(size) for size in domain.sizes]
                for axis, codes in zip(domain.axes(rule.columns), rule.codes, strict=True):
                    box[axis] = codes
                impossible[np.ix_(*[np.asarray(codes, dtype=np.intp) for codes in box])] = True
        return impossible

    def violations(self, data: Dataset) -> NDArray[np.bool_]:
        """Return which rows break a rule, shape (rows,)."""
        broken = np.zeros(data.rows, dtype=bool)
        for rule in self.rules:
            broken |= breaks(rule, data)
        return broken

    def repair(self, data: Dataset, *, rng: np.random.Generator) -> Dataset:
        """Return the data with every broken row made possible; the others are untouched.

        A broken row takes the values of the rule's columns from a random possible row that shares
        its value in as many of the other columns of the rule as it can; where rules overlap and
        that does not help, it becomes a copy of a random possible row. Post-processing.

        Raises:
            BadInput: if no row at all is possible.
        """
        broken = self.violations(data)
        if not broken.any():
            return data
        donors = np.flatnonzero(~broken)
        if donors.size == 0:
            raise BadInput(
                "Every synthetic row breaks a rule of `impossible` in the schema;"
                " check that the rules leave some combination possible."
            )
        codes = data.codes.copy()
        for rule in self.rules:
            axes = data.domain.axes(rule.columns)
            rows = np.flatnonzero(breaks(rule, Dataset(data.domain, codes)))
            if rows.size == 0:
                continue
            # The first column is kept where a possible row shares it: one table is bent, not all.
            kept = axes[0]
            for value in np.unique(codes[kept, rows]):
                these = rows[codes[kept, rows] == value]
                alike = donors[codes[kept, donors] == value]
                chosen = rng.choice(alike if alike.size else donors, size=these.size)
                for axis in axes:
                    codes[axis, these] = codes[axis, chosen]
        left = np.flatnonzero(self.violations(Dataset(data.domain, codes)))
        if left.size:
            codes[:, left] = codes[:, rng.choice(donors, size=left.size)]
        return Dataset(data.domain, codes)


def breaks(rule: Rule, data: Dataset) -> NDArray[np.bool_]:
    """Return which rows break one rule, shape (rows,)."""
    broken = np.ones(data.rows, dtype=bool)
    for column, codes in zip(rule.columns, rule.codes, strict=True):
        size = data.domain.project((column,)).sizes[0]
        among = np.zeros(size, dtype=bool)
        among[list(codes)] = True
        broken &= among[data.column(column)]
    return broken
