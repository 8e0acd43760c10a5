"""Structural zeros: combinations of codes that cannot occur, by public rule. Public."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain

_EXCHANGES = 6  # rounds of exchange; rows that are left after them rarely find a partner
_SEARCHED = 64  # rows for which a possible record is searched if no row is possible
_MOST_STATES = 1 << 16  # states of a search


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that excludes all cells in which the code of each column is among the given ones.

    Attributes:
        columns: Columns of the rule.
        codes: For each column the codes, ascending, that cannot occur together.
        text: The rule as written in the schema.
        derived: Whether it is one of the boxes of codes that a rule between columns excludes.
    """

    columns: Clique
    codes: tuple[tuple[int, ...], ...]
    text: str
    derived: bool = False

    def breaks(self, data: Dataset, rows: NDArray[np.intp] | None = None) -> NDArray[np.bool_]:
        """Return which of the given rows break the rule; by default of all rows."""
        return np.asarray(np.logical_and.reduce(self._inside(data, rows)))

    def exchanging(self, data: Dataset, chosen: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows that break the rule, and rows that may exchange a column with them.

        Args:
            data: Synthetic records.
            chosen: Place of the column in the rule.
        """
        inside = self._inside(data)
        rows = np.flatnonzero(np.logical_and.reduce(inside))
        if rows.size == 0:
            return rows, rows
        rest = np.logical_and.reduce([part for part in inside if part is not inside[chosen]])
        return rows, np.flatnonzero(~inside[chosen] & ~rest)

    def _inside(
        self, data: Dataset, rows: NDArray[np.intp] | None = None
    ) -> list[NDArray[np.bool_]]:
        parts = zip(self.columns, self.codes, strict=True)
        return [among(data, column, codes, rows) for column, codes in parts]


@dataclass(frozen=True, slots=True)
class _Staircase:
    """The boxes of one rule between columns; a row breaks it if it is in one of them.

    Attributes:
        columns: Columns of the boxes.
        boxes: The boxes.
    """

    columns: Clique
    boxes: tuple[Rule, ...]
    _steps: dict[tuple[int, ...], _Steps] = field(default_factory=dict, compare=False, repr=False)

    def breaks(self, data: Dataset, rows: NDArray[np.intp] | None = None) -> NDArray[np.bool_]:
        """Return which of the given rows are in a box; by default of all rows."""
        steps = self._of(data.domain.project(self.columns).sizes)
        codes = [data.column(name) for name in self.columns]
        places = [each if rows is None else each[rows] for each in codes]
        found = tuple(step[each] for step, each in zip(steps.places, places, strict=True))
        return np.asarray(steps.inside[found])

    def exchanging(
        self,
        data: Dataset,
        chosen: int,  # noqa: ARG002
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows in a box, and the others, which may exchange a column with them."""
        broken = self.breaks(data)
        return np.flatnonzero(broken), np.flatnonzero(~broken)

    def within(self, domain: Domain) -> NDArray[np.bool_]:
        """Return the cells of a larger clique's domain that are in a box, in a shape to broadcast.

        Args:
            domain: Domain with all columns of the boxes.
        """
        axes = domain.axes(self.columns)
        steps = self._of(tuple(domain.sizes[axis] for axis in axes))
        order = sorted(range(len(axes)), key=lambda place: axes[place])
        shape = [size if axis in axes else 1 for axis, size in enumerate(domain.sizes)]
        return steps.inside[np.ix_(*steps.places)].transpose(order).reshape(shape)

    def _of(self, sizes: tuple[int, ...]) -> _Steps:
        if sizes not in self._steps:
            self._steps[sizes] = _Steps.of(self.boxes, sizes)
        return self._steps[sizes]


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Boxes in few steps of each column: codes that are in the same boxes are one step.

    Attributes:
        places: For each column, the step of each code, shape (codes,).
        inside: Which combinations of steps are in a box.
    """

    places: tuple[NDArray[np.intp], ...]
    inside: NDArray[np.bool_]

    @classmethod
    def of(cls, boxes: Sequence[Rule], sizes: tuple[int, ...]) -> _Steps:
        """Return the steps of boxes over columns of some sizes."""
        places, firsts = [], []
        for axis, size in enumerate(sizes):
            among = np.zeros((size, len(boxes)), dtype=bool)
            for number, box in enumerate(boxes):
                among[list(box.codes[axis]), number] = True
            _, first, place = np.unique(
                np.packbits(among, axis=1), axis=0, return_index=True, return_inverse=True
            )
            places.append(place.reshape(-1))
            firsts.append(among[first])
        inside = np.zeros([len(first) for first in firsts], dtype=bool)
        for number in range(len(boxes)):
            inside[np.ix_(*[np.flatnonzero(first[:, number]) for first in firsts])] = True
        return cls(tuple(places), inside)


@dataclass(frozen=True, slots=True)
class StructuralZeros:
    """All rules of a schema; every synthetic row obeys them.

    Attributes:
        rules: The rules; none by default.
    """

    rules: tuple[Rule, ...] = ()
    _staircases: tuple[_Staircase, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Put the boxes of a rule between columns together, so that they are looked up as one."""
        boxes: dict[tuple[str, Clique], list[Rule]] = {}
        for rule in self.rules:
            if rule.derived:
                boxes.setdefault((rule.text, rule.columns), []).append(rule)
        found = tuple(_Staircase(columns, tuple(those)) for (_, columns), those in boxes.items())
        object.__setattr__(self, "_staircases", found)

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The columns of the rules, each set of columns once."""
        return tuple(dict.fromkeys(rule.columns for rule in self.rules))

    def of_codes(self, kept: Mapping[str, range]) -> StructuralZeros:
        """Return the rules for a domain with fewer codes; rules about other codes are left out.

        Args:
            kept: By column, the codes that are left; in the new domain they begin at 0. Columns
                that are not named keep all codes.
        """
        found = []
        for rule in self.rules:
            codes = tuple(
                tuple(code - kept[name].start for code in own if code in kept[name])
                if name in kept
                else own
                for name, own in zip(rule.columns, rule.codes, strict=True)
            )
            if all(codes):
                found.append(replace(rule, codes=codes))
        return StructuralZeros(tuple(found))

    def mask(self, domain: Domain) -> NDArray[np.bool_]:
        """Return which cells of a clique's domain are impossible, shape `domain.sizes`.

        Only rules whose columns are all in the clique are used.
        """
        impossible = np.zeros(domain.sizes, dtype=bool)
        for stairs in self._staircases:
            if set(stairs.columns) <= set(domain.columns):
                impossible |= stairs.within(domain)
        for rule in self._alone:
            if set(rule.columns) <= set(domain.columns):
                box: list[Sequence[int]] = [range(size) for size in domain.sizes]
                for axis, codes in zip(domain.axes(rule.columns), rule.codes, strict=True):
                    box[axis] = codes
                impossible[np.ix_(*[np.asarray(codes, dtype=np.intp) for codes in box])] = True
        return impossible

    def blocks(self, domain: Domain, *, most_cells: float = math.inf) -> tuple[Clique, ...]:
        """Return the sets of columns that are connected by rules; no two share a column.

        Rules that share a column belong to the same block. Small rules are added first; a rule that
        would give its block more than `most_cells` cells is left out.

        Args:
            domain: All columns.
            most_cells: Most cells of a block; no limit by default.
        """
        found: list[set[str]] = []
        for columns in sorted(self.cliques, key=domain.size):
            touching = [block for block in found if not block.isdisjoint(columns)]
            joined = set(columns).union(*touching)
            if domain.size(joined) <= most_cells:
                found = [block for block in found if block not in touching] + [joined]
        cliques = [tuple(name for name in domain.columns if name in block) for block in found]
        return tuple(sorted(cliques, key=domain.axes))

    def with_empty_levels(self, domain: Domain, *, most_cells: int) -> StructuralZeros:
        """Return the rules, with further rules for levels that they together exclude.

        Without these further rules, a table of one column would allow such a level. Levels that
        only a block of more than `most_cells` cells would show are not found.

        Args:
            domain: All columns.
            most_cells: Most cells of a block of rules.
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

    def with_implied_pairs(self, domain: Domain) -> StructuralZeros:
        """Return the rules, with further rules for pairs of codes that a third column excludes.

        Two codes cannot occur together if, for each level of some third column, one of the two
        cannot. So where several columns are missing under the same condition, each pair of them is
        missing together.

        Args:
            domain: All columns.
        """
        stated: dict[Clique, NDArray[np.bool_]] = {}
        for clique in self.cliques:
            pair = tuple(name for name in domain.columns if name in clique)
            if len(pair) == 2 and pair not in stated:
                allowed = ~self.mask(domain.project(pair))
                stated[pair], stated[pair[::-1]] = allowed, allowed.T
        names = [name for name in domain.columns if any(name in pair for pair in stated)]
        found = []
        for one, other in itertools.combinations(names, 2):
            through = [
                stated[one, middle] @ stated[middle, other]
                for middle in names
                if (one, middle) in stated and (middle, other) in stated
            ]
            if through:
                found += _excluding((one, other), np.logical_and.reduce(through))
        return StructuralZeros((*self.rules, *found)) if found else self

    def violations(self, data: Dataset) -> NDArray[np.bool_]:
        """Return which rows break a rule, shape (rows,)."""
        broken = np.zeros(data.rows, dtype=bool)
        for rule in self._separate:
            broken |= rule.breaks(data)
        return broken

    @property
    def _alone(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if not rule.derived)

    @property
    def _separate(self) -> tuple[Rule | _Staircase, ...]:
        """The rules, with all boxes of a rule between columns as one."""
        return (*self._alone, *self._staircases)

    def repair(self, data: Dataset, *, rng: np.random.Generator) -> Dataset:
        """Return records in which every row is possible; most possible rows stay unchanged.

        A row that breaks a rule exchanges its value in one column of the rule with a random
        possible row, if both are possible afterwards; this leaves all one-way tables unchanged. A
        row that cannot be repaired so takes the values of the rule's columns from a random possible
        row, which shares its value in the rule's first column if such a row exists. A row that
        still breaks a rule becomes a copy of a random possible row. If no row is possible, some
        rows first become possible records. All of this is post-processing.

        Args:
            data: Synthetic records.
            rng: Generator for post-processing.

        Raises:
            BadInput: if every row breaks a rule and no possible record is found.
        """
        broken = self.violations(data)
        if not broken.any():
            return data
        codes = data.codes.copy()
        mended = Dataset(data.domain, codes)
        if broken.all():
            for row in rng.permutation(data.rows)[:_SEARCHED]:
                codes[:, row] = self.possible_record(data.domain, codes[:, row], rng=rng)
            if not self.violations(mended).any():
                return mended
        for attempt in range(_EXCHANGES):
            for rule in self._separate:
                self._exchange(mended, rule, attempt, rng=rng)
            if not self.violations(mended).any():
                return mended
        donors = np.flatnonzero(~self.violations(mended))
        for rule in self._separate:
            axes = data.domain.axes(rule.columns)
            rows = np.flatnonzero(rule.breaks(mended))
            if rows.size == 0:
                continue
            # Keep the first column if a possible row shares its value, so that fewer tables change.
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

    def possible_record(self, domain: Domain, codes: Codes, *, rng: np.random.Generator) -> Codes:
        """Return a record that breaks no rule and shares most values with a given one.

        A rule that is broken loses its codes in one of its columns, whose value then is random
        among the codes left; the other columns of the rule are tried after it.

        Args:
            domain: All columns.
            codes: The record to change, shape (columns,).
            rng: Generator for post-processing.

        Raises:
            BadInput: if the rules leave no record possible, or none is found in many tries.
        """
        states: list[dict[str, frozenset[int]]] = [{}]
        for _ in range(_MOST_STATES):
            if not states:
                break
            left = states.pop()
            found = codes.copy()
            for name, options in left.items():
                axis = domain.columns.index(name)
                if found[axis] not in options:
                    found[axis] = rng.choice(sorted(options))
            alone = Dataset(domain, found[:, None])
            broken = [rule for rule in self._alone if rule.breaks(alone)[0]]
            for stairs in self._staircases:
                if stairs.breaks(alone)[0]:
                    broken += [rule for rule in stairs.boxes if rule.breaks(alone)[0]]
            if not broken:
                return found
            # The rule with the fewest ways out comes first, so that dead ends are found early.
            ways = min((_ways_out(rule, domain, left) for rule in broken), key=len)
            states += [ways[place] for place in rng.permutation(len(ways))]
        raise BadInput(
            "No record was found that obeys all rules of `impossible` and `rules` in the schema;"
            " check that they leave some combination possible."
        )

    def _exchange(
        self, data: Dataset, rule: Rule | _Staircase, attempt: int, *, rng: np.random.Generator
    ) -> None:
        """Exchange one column of a rule between rows that break it and possible rows, in place.

        An exchange is kept if the possible row stays possible and the other row breaks fewer rules.
        """
        if len(rule.columns) < 2:
            return
        # Begin with the last column, because tables with the first column were measured most often.
        chosen = -1 - attempt % len(rule.columns)
        rows, donors = rule.exchanging(data, chosen)
        if rows.size == 0:
            return
        column = data.codes[data.domain.axes(rule.columns)[chosen]]
        donors = rng.choice(donors, size=min(rows.size, donors.size), replace=False)
        rows = rng.permutation(rows)[: donors.size]
        before, possible = self._broken(data, rows), self._broken(data, donors) == 0
        column[rows], column[donors] = column[donors], column[rows]
        kept = possible & (self._broken(data, donors) == 0) & (self._broken(data, rows) < before)
        rows, donors = rows[~kept], donors[~kept]
        column[rows], column[donors] = column[donors], column[rows]

    def _broken(self, data: Dataset, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the number of rules that each of the given rows breaks, shape (rows,)."""
        broken = np.zeros(rows.size, dtype=np.int64)
        for rule in self._separate:
            broken += rule.breaks(data, rows)
        return broken


def _excluding(columns: Clique, allowed: NDArray[np.bool_]) -> list[Rule]:
    """Return rules that exclude the other cells of a pair of columns, one for each kind of row."""
    kinds, places = np.unique(allowed, axis=0, return_inverse=True)
    found = []
    for kind, allows in enumerate(kinds):
        rows, cells = np.flatnonzero(places.ravel() == kind), np.flatnonzero(~allows)
        if cells.size:
            codes = tuple(tuple(int(code) for code in each) for each in (rows, cells))
            found.append(Rule(columns, codes, f"a third column excludes these: {columns}"))
    return found


def _ways_out(
    rule: Rule, domain: Domain, left: Mapping[str, frozenset[int]]
) -> list[dict[str, frozenset[int]]]:
    """Return the states of a search in which a rule is obeyed, one for each column that can do it.

    Args:
        rule: The rule.
        domain: All columns.
        left: The state before: codes that each column may still have; all if it is not named.
    """
    found = []
    for name, codes in zip(rule.columns, rule.codes, strict=True):
        every = frozenset(range(domain.size((name,))))
        if options := left.get(name, every) - set(codes):
            found.append({**left, name: options})
    return found


def among(
    data: Dataset, column: str, codes: Sequence[int], rows: NDArray[np.intp] | None = None
) -> NDArray[np.bool_]:
    """Return which of the given rows have one of some codes in a column; by default of all rows."""
    wanted = np.zeros(data.domain.project((column,)).sizes[0], dtype=bool)
    wanted[list(codes)] = True
    return np.asarray(wanted[data.column(column) if rows is None else data.column(column)[rows]])
