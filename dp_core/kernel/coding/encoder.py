"""Encodes the values of a column as codes, or as problems. Confidential side.

The column's `out_of_range` decides what happens to a value outside the schema:

============  ==================  ===================  =====================  ================
problem       `reject`            `clip`               `missing`              missing refused
============  ==================  ===================  =====================  ================
out of range  refused             nearest legal value  the missing level      refused
not a level   refused             refused: no order    the missing level      refused
unreadable    refused             refused              refused                refused
missing       refused, unless missing is a level of the column
============  ==================  ===================  =====================  ================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes, code_type
from dp_core.kernel.coding.coding_rule import CodingRule
from dp_core.kernel.coding.edge_grid import EdgeGrid
from dp_core.kernel.coding.parsed_texts import INT64_MAX, INT64_MIN
from dp_core.kernel.coding.problems import Problem, refused_problems
from dp_core.kernel.coding.raw_values import Array, Reader, State, Values
from dp_core.kernel.coding.stored_texts import in_32_bits

LOOKUP = 1 << 16
"""Widest range of whole numbers that is encoded by table lookup instead of search."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Encoded:
    """Codes of one column of one batch. Confidential.

    Attributes:
        codes: Shape (rows,); 0 where `bad`.
        bad: Which rows are refused, shape (rows,); None if no row is.
        problems: Number of rows with each problem that occurs, refused or settled.
    """

    codes: Codes
    bad: NDArray[np.bool_] | None
    problems: Mapping[Problem, int]


class RuleEncoder:
    """Encodes batches of one column; keeps the tables that are prepared once."""

    def __init__(self, rule: CodingRule) -> None:
        self.rule = rule
        self._type = code_type(rule.codes)
        self.refused = refused_problems(rule.missing, rule.out_of_range)
        self.reader = Reader(rule)
        if not rule.is_levels:
            if rule.continuous:
                # As the reader rounds values.
                ends = in_32_bits(np.array([float(rule.low), float(rule.high)]))
                self.low, self.high = ends.tolist()
                edges = np.array([float(edge) for edge in rule.edges[1:-1]], np.float64)
                self._edges: Array = in_32_bits(edges)
            else:
                self.low, self.high = _fit(int(rule.low)), _fit(int(rule.high))
                whole = [_fit(math.ceil(edge)) for edge in rule.edges[1:-1]]
                self._edges = np.array(whole, dtype=np.int64)
        self._table: Codes | None = None
        self._grid: EdgeGrid | None = None
        if not (rule.is_levels or rule.continuous) and 0 <= self.high - self.low < LOOKUP:
            legal = np.arange(int(self.low), int(self.high) + 1, dtype=np.int64)
            # `right`: a value equal to an edge belongs to the bin above it.
            table = np.searchsorted(self._edges, legal, side="right")
            self._table = table.astype(self._type)

    def encode(self, values: pa.Array) -> Encoded:
        """Return the codes of a batch of raw values, and the rows that do not fit the schema.

        Args:
            values: As the file stores them: text, whole number, float, decimal, boolean, date or
                time, also dictionary-encoded. `dp_core.kernel.coding.raw_values` says how
                each stored type is read.
        """
        return self.place(self.reader.read(values))

    def place(self, values: Values) -> Encoded:
        """Return the codes of typed values."""
        counted = self.counted_in_range(values)
        if counted is not None and self.refused.isdisjoint(counted):
            return Encoded(self._legal_codes(values), None, counted)
        codes, problem = self._codes(values)
        if problem is None:
            return Encoded(_rows(codes, values), None, {})
        counted = count_problems(problem, values)
        stop = np.zeros(len(PROBLEMS), dtype=bool)
        for kind in self.refused:
            stop[PROBLEMS.index(kind)] = True
        stopped = stop[problem]
        bad = _rows(stopped, values) if any(kind in self.refused for kind in counted) else None
        return Encoded(_rows(codes, values), bad, counted)

    def outside(self, values: Values) -> NDArray[np.bool_]:
        """Return which entries of an integer, number or date column are out of range."""
        outside: NDArray[np.bool_] = (values.data < self.low) | (values.data > self.high)
        return outside

    def counted_in_range(self, values: Values) -> dict[Problem, int] | None:
        """Return the rows with each problem; None if a value is out of range or entries are texts.

        Args:
            values: Typed values of the column.
        """
        data, state = values.data, values.state
        if self.rule.is_levels or values.index is not None:
            return None
        outside = data.size > 0 and not (self.low <= data.min() and data.max() <= self.high)
        # Entries without a value are arbitrary, so they do not count.
        if outside and (state is None or self.outside(values)[state == State.VALUE].any()):
            return None
        if state is None:
            return {}
        kinds = {Problem.MISSING: State.MISSING, Problem.TYPE: State.UNKNOWN}
        found = {name: int(np.count_nonzero(state == kind)) for name, kind in kinds.items()}
        return {name: rows for name, rows in found.items() if rows}

    def _legal_codes(self, values: Values) -> Codes:
        """Return the codes if no problem is refused and no value is out of range."""
        if values.state is None:
            return self._place(values.data)
        # Entries without a value are arbitrary, such as a number that means missing.
        codes = self._place(np.clip(values.data, self.low, self.high))
        if self.rule.missing_code is not None:
            np.copyto(codes, self.rule.missing_code, where=values.state != State.VALUE)
        return codes

    def problem(self, values: Values) -> NDArray[np.uint8] | None:
        """Return the index in `PROBLEMS` of each entry's problem (0: none); None without any."""
        problem: NDArray[np.uint8] | None = None
        if values.state is not None:
            unknown = Problem.LEVEL if self.rule.is_levels else Problem.TYPE
            names = {State.VALUE: None, State.MISSING: Problem.MISSING, State.UNKNOWN: unknown}
            problem = np.array([PROBLEMS.index(names[s]) for s in State], np.uint8)[values.state]
        if not self.rule.is_levels:
            outside = self.outside(values)
            if outside.any():
                problem = np.zeros(outside.size, np.uint8) if problem is None else problem
                problem[outside & (problem == 0)] = PROBLEMS.index(Problem.RANGE)
        return problem

    def _codes(self, values: Values) -> tuple[Codes, NDArray[np.uint8] | None]:
        problem = self.problem(values)
        if self.rule.is_levels:
            codes = values.data.astype(self._type)
        elif problem is None:
            codes = self._place(values.data)
        else:
            codes = self._place(np.clip(values.data, self.low, self.high))
        if problem is not None:
            new = np.zeros(len(PROBLEMS), self._type)
            override = np.array([name is not None for name in PROBLEMS])
            if self.rule.missing_code is not None:
                for name in set(PROBLEMS) - {None} - self.refused:
                    new[PROBLEMS.index(name)] = self.rule.missing_code
            if self.rule.out_of_range == "clip":
                override[PROBLEMS.index(Problem.RANGE)] = False
            codes = np.where(override[problem], new[problem], codes)
        return codes, problem

    def _place(self, data: Array) -> Codes:
        """Return the bins of values within the bounds."""
        if self._table is not None:
            looked_up: Codes = self._table.take(data - int(self.low), mode="clip")
            return looked_up
        if self._grid is None:
            kind = self._edges.dtype.type
            self._grid = EdgeGrid(self._edges, kind(self.low), kind(self.high))
        return self._grid.place(data)


PROBLEMS: tuple[Problem | None, ...] = (None, *Problem)


def count_problems(problem: NDArray[np.uint8], values: Values) -> dict[Problem, int]:
    """Return the number of rows with each problem that occurs.

    Args:
        problem: Problem of each entry of `values`, as `RuleEncoder.problem` returns it.
        values: The typed values.
    """
    if values.index is None:
        counts = np.bincount(problem, minlength=len(PROBLEMS))
    elif not problem[:-1].any() and values.index.max(initial=0) < problem.size - 1:
        return {}  # the last entry is for rows without a value
    else:
        rows = np.bincount(values.index, minlength=problem.size)
        counts = np.bincount(problem, weights=rows, minlength=len(PROBLEMS))
    found = zip(PROBLEMS, counts, strict=True)
    return {name: int(count) for name, count in found if name is not None and count}


def _fit(whole: int) -> int:
    return min(max(whole, INT64_MIN), INT64_MAX)


def _rows(entries: Array, values: Values) -> Array:
    return entries if values.index is None else entries.take(values.index)
