"""The fitted tables of pair rows, arranged by the column of a member that is changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.linked_columns import MEMBERS, OTHER, LinkedColumns
from dp_core.schema.structure.structural_zeros import StructuralZeros

MOST_RULE_CELLS = 1 << 22
"""Most combinations of codes of the columns of one rule about members."""


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """Tables of one member's columns, listed by the person column whose value is changed.

    A cell of entry e has the index `base[e] + stride[e] * value`, plus `strides[k]` times the code
    of `columns[k]` for each k from `first[e]` to before `first[e + 1]`. Columns are numbered:
    household columns first, then `members`, then person columns.

    Attributes:
        of_column: Start of each person column's entries, shape (person columns + 1,).
        base: Start of the entry's table, shape (entries,).
        stride: Stride of the changed column, shape (entries,).
        first: Start of the entry's other columns, shape (entries + 1,).
        columns: Numbers of the other columns.
        strides: Their strides, same shape.
    """

    of_column: NDArray[np.int64]
    base: NDArray[np.int64]
    stride: NDArray[np.int64]
    first: NDArray[np.int64]
    columns: NDArray[np.int64]
    strides: NDArray[np.int64]

    @classmethod
    def of(
        cls, linked: LinkedColumns, cliques: Sequence[Clique], sizes: Sequence[tuple[int, ...]]
    ) -> Listed:
        """Return the entries of tables that lie one after the other.

        Args:
            linked: Names of the columns.
            cliques: Columns of each table, without those of the other member.
            sizes: Shape of each table.
        """
        names = (*linked.household_columns, MEMBERS, *linked.person_columns)
        starts = np.cumsum([0, *(math.prod(shape) for shape in sizes)])
        of_column, base, stride, first = [0], [], [], [0]
        columns: list[int] = []
        strides: list[int] = []
        for name in linked.person_columns:
            for clique, shape, start in zip(cliques, sizes, starts, strict=False):
                if name not in clique:
                    continue
                steps = _strides(shape)
                base.append(int(start))
                for other, step in zip(clique, steps, strict=True):
                    if other == name:
                        stride.append(step)
                    else:
                        columns.append(names.index(other))
                        strides.append(step)
                first.append(len(columns))
            of_column.append(len(base))
        return cls(*(np.array(each, dtype=np.int64) for each in (
            of_column, base, stride, first, columns, strides
        )))  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ListedPairs:
    """Tables of a member's and another member's column, listed by the column that is changed.

    If a member's value is changed, the cell with another member's code has the index
    `base + stride * value + other_stride * code`.

    Attributes:
        of_column: Start of each person column's entries, shape (person columns + 1,).
        base: Start of the entry's table, shape (entries,).
        other: The other member's person column, shape (entries,).
        stride: Stride of the changed column, shape (entries,).
        other_stride: Stride of the other member's column, shape (entries,).
        nobody: Code of the other member's column in a household of one member, shape (entries,); -1
            if the changed column is the other member's, whom such a household does not have.
    """

    of_column: NDArray[np.int64]
    base: NDArray[np.int64]
    other: NDArray[np.int64]
    stride: NDArray[np.int64]
    other_stride: NDArray[np.int64]
    nobody: NDArray[np.int64]

    @classmethod
    def of(cls, linked: LinkedColumns, tables: Sequence[Table], start: int) -> ListedPairs:
        """Return the entries of tables that lie one after the other.

        Args:
            linked: Names of the columns.
            tables: Tables of a person column and a column of the other member.
            start: Place of the first table.
        """
        entries: list[list[tuple[int, int, int, int, int]]] = [[] for _ in linked.person_columns]
        for table in tables:
            one, two = (
                linked.person_columns.index(name.removeprefix(OTHER)) for name in table.clique
            )
            many = table.domain.sizes[1]
            entries[one].append((start, two, many, 1, many - 1))
            entries[two].append((start, one, 1, many, -1))
            start += table.values.size
        flat = np.array([entry for own in entries for entry in own], dtype=np.int64).reshape(-1, 5)
        of_column = np.cumsum([0, *map(len, entries)])
        return cls(of_column, *(np.ascontiguousarray(column) for column in flat.T))


@dataclass(frozen=True, slots=True, eq=False)
class MemberTargets:
    """What the members of all households should add up to.

    Attributes:
        own: Tables of one member's columns.
        pairs: Tables of two members' columns.
        wanted: Wanted counts of all cells, households, one table after the other.
        rules: Masks of one member's columns.
        forbidden: Whether each cell of the masks cannot occur, one mask after the other.
    """

    own: Listed
    pairs: ListedPairs
    wanted: NDArray[np.float64]
    rules: Listed
    forbidden: NDArray[np.bool_]

    @classmethod
    def of(
        cls, domain: Domain, tables: Sequence[Table], zeros: StructuralZeros, households: int
    ) -> MemberTargets:
        """Return the targets of the members' values.

        Args:
            domain: Domain of pair rows.
            tables: Fitted tables; those of household columns alone are left out.
            zeros: Impossible cells; those about the other member are left out, because they follow
                from the others.
            households: Number of households, to which the tables are scaled.

        Raises:
            BadInput: if a rule is about too many codes.
        """
        linked = domain.linked
        assert linked is not None
        own: list[Table] = []
        pairs: list[Table] = []
        for table in tables:
            others = [name for name in table.clique if name in linked.others]
            if not others:
                if any(name in linked.person_columns for name in table.clique):
                    own.append(table)
            elif len(table.clique) == 2 and table.clique[0] in linked.person_columns:
                pairs.append(table)
        values = [
            table.values.ravel() * (households / max(float(table.values.sum()), 1e-9))
            for table in (*own, *pairs)
        ]
        before = sum(table.values.size for table in own)
        masks, about = [], []
        for clique in ruled_members(domain, zeros):
            about.append(clique)
            masks.append(zeros.mask(domain.project(clique)))
        return cls(
            Listed.of(linked, [t.clique for t in own], [t.domain.sizes for t in own]),
            ListedPairs.of(linked, pairs, before),
            np.concatenate([np.zeros(0), *values]),
            Listed.of(linked, about, [mask.shape for mask in masks]),
            np.concatenate([np.zeros(0, np.bool_), *(mask.ravel() for mask in masks)]),
        )


def ruled_members(domain: Domain, zeros: StructuralZeros) -> list[Clique]:
    """Return the columns of each rule that is about a member, and not about the other one.

    Args:
        domain: Domain of pair rows.
        zeros: Impossible cells.

    Raises:
        BadInput: if a rule is about too many codes.
    """
    linked = domain.linked
    assert linked is not None
    found = []
    for clique in zeros.cliques:
        names = set(clique)
        if not names & {*linked.person_columns} or names & {*linked.others}:
            continue
        if domain.size(clique) > MOST_RULE_CELLS:
            raise BadInput(
                f"The rules about {', '.join(clique)} compare {domain.size(clique):,}"
                f" combinations, more than the maximum of {MOST_RULE_CELLS:,}; give the columns"
                " fewer codes, or remove a column from the rule."
            )
        found.append(clique)
    return found


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]
