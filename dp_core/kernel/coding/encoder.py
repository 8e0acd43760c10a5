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
                edges: Array = in_32_bits(np.array([float(edge) for edge in rule.edges[1:-1]]))
            else:
                self.low, self.high = _fit(int(rule.low)), _fit(int(rule.high))
                edges = np.array([_fit(math.ceil(each)) for each in rule.edges[1:-1]], np.int64)
            kind = edges.dtype.type
            self._grid = EdgeGrid(edges, kind(self.low), kind(self.high))

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
        problem = self.problem(values)
        if self.rule.is_levels:
            codes = values.data.astype(self._type)
        else:
            # Entries without a value are arbitrary, such as a number that means missing.
            within = values.data if problem is None else np.clip(values.data, self.low, self.high)
            codes = self._grid.place(within).astype(self._type, copy=False)
        if problem is None:
            return Encoded(_rows(codes, values), None, {})
        counted, bad = count_problems(problem, values), np.zeros(problem.size, np.bool_)
        for kind in counted:
            found = problem == PROBLEMS.index(kind)
            if kind in self.refused:
                bad |= found
                np.copyto(codes, 0, where=found)
            elif (kind, self.rule.out_of_range) != (Problem.RANGE, "clip"):
                assert self.rule.missing_code is not None
                np.copyto(codes, self.rule.missing_code, where=found)
        refused = None if self.refused.isdisjoint(counted) else _rows(bad, values)
        return Encoded(_rows(codes, values), refused, counted)

    def outside(self, values: Values) -> NDArray[np.bool_]:
        """Return which entries of an integer, number or date column are out of range."""
        outside: NDArray[np.bool_] = (values.data < self.low) | (values.data > self.high)
        return outside

    def problem(self, values: Values) -> NDArray[np.uint8] | None:
        """Return the index in `PROBLEMS` of each entry's problem (0: none); None without any."""
        problem = None if values.state is None else values.state.copy()
        if problem is not None:
            unknown = Problem.LEVEL if self.rule.is_levels else Problem.TYPE
            np.copyto(problem, PROBLEMS.index(unknown), where=problem == State.UNKNOWN)
        if not self.rule.is_levels:
            outside = self.outside(values)
            if outside.any():
                problem = np.zeros(outside.size, np.uint8) if problem is None else problem
                problem[outside & (problem == 0)] = PROBLEMS.index(Problem.RANGE)
        return problem


PROBLEMS: tuple[Problem | None, ...] = (None, *Problem)
assert PROBLEMS.index(Problem.MISSING) == State.MISSING


def count_problems(problem: NDArray[np.uint8], values: Values) -> dict[Problem, int]:
    """Return the number of rows with each problem that occurs.

    Args:
        problem: Problem of each entry of `values`, as `RuleEncoder.problem` returns it.
        values: The typed values.
    """
    if values.index is None:
        counts = [np.count_nonzero(problem == number) for number in range(len(PROBLEMS))]
    elif not problem[:-1].any() and values.index.max(initial=0) < problem.size - 1:
        return {}  # the last entry is for rows without a value
    else:
        rows = np.bincount(values.index, minlength=problem.size)
        counts = [rows[problem == number].sum() for number in range(len(PROBLEMS))]
    found = zip(PROBLEMS, counts, strict=True)
    return {name: int(count) for name, count in found if name is not None and count}


def _fit(whole: int) -> int:
    return min(max(whole, INT64_MIN), INT64_MAX)


def _rows(entries: Array, values: Values) -> Array:
    return entries if values.index is None else entries.take(values.index)
