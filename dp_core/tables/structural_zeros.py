"""Combinations of values that cannot occur, by public rule. Public, in codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain

_EXCHANGES = 6  # rounds of exchange; what is left then has hardly a partner


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

    def blocks(self, domain: Domain, *, most_cells: int) -> tuple[Clique, ...]:
        """Return the sets of columns that rules tie together, as far as their cells can be held.

        Rules that share a column belong to one block. A rule that would make its block larger
        than `most_cells` is in none; small rules come first. No two blocks share a column.
        """
        found: list[set[str]] = []
        for rule in sorted(self.rules, key=lambda rule: domain.size(rule.columns)):
            touching = [block for block in found if not block.isdisjoint(rule.columns)]
            joined = set(rule.columns).union(*touching)
            if domain.size(joined) <= most_cells:
                found = [block for block in found if block not in touching] + [joined]
        cliques = [tuple(name for name in domain.columns if name in block) for block in found]
        return tuple(sorted(cliques, key=domain.axes))

    def with_empty_levels(self, domain: Domain, *, most_cells: int) -> StructuralZeros:
        """Return the rules and, as rules of their own, the levels that they together exclude.

        Without them a table of that column alone would not know that the level cannot occur.
        Levels that only a block of more than `most_cells` cells would show are not looked for.
        """
        empty = []
        for clique in self.blocks(domain, most_cells=most_cells):
            impossible = self.mask(domain.project(clique))
            for axis, name in enumerate(clique):
                others = tuple(other for other in range(len(clique)) if other != axis)
                codes = np.flatnonzero(impossible.all(axis=others))
                if codes.size:
                    levels = tuple(int(code) for code in codes)
                    empty.append(Rule((name,), (levels,), f"no possible record has these: {name}"))
        return StructuralZeros((*self.rules, *empty)) if empty else self

    def violations(self, data: Dataset) -> NDArray[np.bool_]:
        """Return which rows break a rule, shape (rows,)."""
        broken = np.zeros(data.rows, dtype=bool)
        for rule in self.rules:
            broken |= breaks(rule, data)
        return broken

    def repair(self, data: Dataset, *, rng: np.random.Generator) -> Dataset:
        """Return the data with every row made possible; rows that are possible mostly stay.

        A broken row exchanges its value in one column of a rule with a random possible row, where
        both are possible afterwards: no column's table moves. What cannot be mended so takes the
        values of the rule's columns from a random possible row, one that shares its first value
        if there is any; where that does not help, it becomes a copy of a random possible row.
        Post-processing.

        Raises:
            BadInput: if no row at all is possible.
        """
        broken = self.violations(data)
        if not broken.any():
            return data
        if broken.all():
            raise BadInput(
                "Every synthetic row breaks a rule of `impossible` in the schema;"
                " check that the rules leave some combination possible."
            )
        codes = data.codes.copy()
        mended = Dataset(data.domain, codes)
        for attempt in range(_EXCHANGES):
            for rule in self.rules:
                self._exchange(mended, rule, attempt, rng=rng)
            if not self.violations(mended).any():
                return mended
        donors = np.flatnonzero(~self.violations(mended))
        for rule in self.rules:
            axes = data.domain.axes(rule.columns)
            rows = np.flatnonzero(breaks(rule, mended))
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
        left = np.flatnonzero(self.violations(mended))
        if left.size:
            codes[:, left] = codes[:, rng.choice(donors, size=left.size)]
        return mended

    def _exchange(
        self, data: Dataset, rule: Rule, attempt: int, *, rng: np.random.Generator
    ) -> None:
        """Exchange one column of a rule between rows that break it and possible ones, in place.

        An exchange is kept if the possible row stays so and the other one breaks fewer rules.
        """
        if len(rule.columns) < 2:
            return
        inside = [among(data, *part) for part in zip(rule.columns, rule.codes, strict=True)]
        rows = np.flatnonzero(np.logical_and.reduce(inside))
        if rows.size == 0:
            return
        # A later column first: the first one is what most often was measured with others.
        chosen = -1 - attempt % len(rule.columns)
        column = data.codes[data.domain.axes(rule.columns)[chosen]]
        rest = np.logical_and.reduce([part for part in inside if part is not inside[chosen]])
        donors = np.flatnonzero(~inside[chosen] & ~rest)
        donors = rng.choice(donors, size=min(rows.size, donors.size), replace=False)
        rows = rng.permutation(rows)[: donors.size]
        before, possible = self._broken(data, rows), self._broken(data, donors) == 0
        column[rows], column[donors] = column[donors], column[rows]
        kept = possible & (self._broken(data, donors) == 0) & (self._broken(data, rows) < before)
        rows, donors = rows[~kept], donors[~kept]
        column[rows], column[donors] = column[donors], column[rows]

    def _broken(self, data: Dataset, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return how many rules each of some rows breaks."""
        broken = np.zeros(rows.size, dtype=np.int64)
        for rule in self.rules:
            broken += breaks(rule, data, rows)
        return broken


def breaks(rule: Rule, data: Dataset, rows: NDArray[np.intp] | None = None) -> NDArray[np.bool_]:
    """Return which rows (of those named, otherwise of all) break one rule."""
    return np.asarray(
        np.logical_and.reduce(
            [
                among(data, column, codes, rows)
                for column, codes in zip(rule.columns, rule.codes, strict=True)
            ]
        )
    )


def among(
    data: Dataset, column: str, codes: Sequence[int], rows: NDArray[np.intp] | None = None
) -> NDArray[np.bool_]:
    """Return which rows (of those named, otherwise of all) have one of some codes of a column."""
    wanted = np.zeros(data.domain.project((column,)).sizes[0], dtype=bool)
    wanted[list(codes)] = True
    return np.asarray(wanted[data.column(column) if rows is None else data.column(column)[rows]])
