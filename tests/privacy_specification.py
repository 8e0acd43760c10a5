"""The parts of docs/privacy-specification.md that are computed from the code.

    python -m tests.privacy_specification            prints the page with these parts made anew
    python -m tests.privacy_specification --write    writes it
    python -m tests.privacy_specification figures    prints each bound beside the largest change
                                                     that files of few records show

The rest of the page is written by hand. A computed part begins with `<!-- computed: NAME -->` and
ends with `<!-- end -->`.
"""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dp_core.bundle.statement.spent_budget import MECHANISMS, accounting_json
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency, Kind
from dp_core.kernel.cost.sensitivity import Bounds, count_bounds
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.cosine_tails import CosineTails
from dp_core.kernel.extensions.cuts import CutDeviations
from dp_core.kernel.extensions.f_score import FScore
from dp_core.kernel.extensions.indif import InDif, RScore
from dp_core.kernel.extensions.minimisers import ClassMinimiser
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.extensions.quantile import Quantile
from dp_core.kernel.privacy import Neighbours, Relation
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.limited_sums import LimitedSums
from dp_core.kernel.questions.linear_questions import (
    BinnedCounts,
    BoxCounts,
    CellCounts,
    CellSums,
    CosineSums,
    Interaction,
    KernelCounts,
    MiddleProducts,
)
from dp_core.kernel.questions.products import Products
from dp_core.kernel.questions.query_scores import QueryCounts, QueryDistance, SignedQueries
from dp_core.kernel.questions.regressions.features import Features, Levels, Number
from dp_core.kernel.questions.regressions.gradients import (
    COEFFICIENT,
    ClassGradient,
    NumberGradient,
)
from dp_core.kernel.questions.regressions.shortened import Scores, SecondMoments
from dp_core.kernel.questions.statistic import Statistic
from dp_core.kernel.questions.table_distance import TableChecks, TableDistance
from dp_core.kernel.questions.vetted import bounds
from tests import trusted_core

ROOT = trusted_core.ROOT
PAGE = ROOT / "docs" / "privacy-specification.md"
RELATIONS: tuple[Neighbours, ...] = get_args(Neighbours)
CONSTANTS = {
    "kernel.cost.curves.SMOOTHING": "variance that the Gaussian curve leaves",
    "kernel.cost.curves.MOST_CELLS": "cells that one unit changes, at most",
    "kernel.cost.curves.MARGIN": "relative margin of a conversion",
    "accounts.loss_distribution.MARGIN": "relative margin of a mass",
    "accounts.loss_distribution.MOST_DIFFERENT": "different scales, at most",
    "accounts.loss_distribution.SMALLEST_DELTA": "smallest delta",
    "kernel.cost.composition.RHO_UNITS": "units of a rho of 1",
    "kernel.questions.linear_questions.GRID": "units of a cosine of 1",
    "kernel.questions.linear.MOST_COMPARED": "entries compared pair by pair, at most",
    "kernel.questions.linear_questions.MOST_ENTRIES": "entries of all interactions, at most",
    "kernel.questions.regressions.shortened.LONGEST": "largest `length_limit`",
    "kernel.questions.whole_numbers.MOST": "size at which an entry is cut",
    "kernel.mechanisms.event.LARGEST_SCALE": "scales are below this",
}
"""Constants of `dp_core` that a bound or a rounding depends on, with their meanings."""


@dataclass(frozen=True, eq=False)
class Example:
    """A question with small parameters.

    Attributes:
        row: First cell of its row in the page's table of sensitivities, without backticks.
        parameters: Its parameters, as the page shows them.
        sizes: Number of codes of each column of the file that it is asked of.
        ask: The statistic; None for a table of counts of all columns.
        rows: Largest number of records of the files that are searched.
        relations: Neighbouring relations under which it may be asked.
    """

    row: str
    parameters: str
    sizes: Mapping[str, int]
    ask: Statistic | None
    rows: int = 3
    relations: Sequence[Neighbours] = RELATIONS

    @property
    def name(self) -> str:
        """Name of the question in receipts."""
        return "table" if self.ask is None else self.ask.NAME

    def bounds(self, relation: Relation) -> Bounds:
        """Return the bounds that a release is charged for."""
        return count_bounds(relation) if self.ask is None else bounds(self.ask, relation)

    def exact(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the exact answer on a file, given by its table over all columns."""
        if self.ask is None:
            return table.reshape(-1)
        codes = np.repeat(np.argwhere(table >= 0), table.reshape(-1), axis=0)
        domain = Domain(tuple(self.sizes), tuple(self.sizes.values()))
        data = Dataset(domain, np.ascontiguousarray(codes.T.astype(np.uint16)))
        return self.ask.exact(MemoryCounter(data))


AGE = Number.line(name="x", positions=3, centre=0, reach=2)
GROUP = Levels(name="g", size=2)
_ANSWERS = np.array([1, -3], np.int64)
_TWO = Cells((("a",), ("a", "b")), ((0,), (1, 0)))
EXAMPLES = (
    Example("table", "2 x 2 cells", {"a": 2, "b": 2}, None),
    Example(
        "binned-counts",
        "3 bins of 4 codes",
        {"a": 4},
        BinnedCounts(columns=("a",), sizes=(4,), edges=((0, 1, 3, 4),)),
    ),
    Example(
        "box-counts",
        "3 boxes of 3 x 2 codes",
        {"a": 3, "b": 2},
        BoxCounts(
            columns=("a", "b"), sizes=(3, 2), boxes=((0, 1, 0, 2), (1, 3, 0, 1), (1, 2, 1, 2))
        ),
    ),
    Example(
        "kernel-counts",
        "3 bins, `weights` 4 and 1",
        {"x": 4},
        KernelCounts(column="x", positions=3, edges=(0, 1, 2, 3), weights=(4, 1)),
    ),
    Example(
        "cell-counts",
        "2 levels, 3 positions or missing",
        {"g": 2, "x": 4},
        CellCounts(by=("g",), sizes=(2,), numbers=("x",), positions=(3,)),
    ),
    Example(
        "cell-sums",
        "`positions` 5, 2 cells",
        {"g": 2, "x": 6},
        CellSums(column="x", positions=5, by=("g",), sizes=(2,)),
    ),
    Example(
        "limited-sums",
        "2 cells with values 0 to 8 and limits 1 to 4 and 0 to 8",
        {"g": 2, "x": 6},
        LimitedSums(
            by=("g",),
            sizes=(2,),
            edges=(None,),
            column="x",
            positions=5,
            runs=(0, 0, 2),
            lows=(1, 0),
            highs=(4, 8),
            centres=(0, 3),
            factors=(2, 1),
        ),
        rows=2,
    ),
    Example(
        "limited-sums",
        "1 cell with limits -3 to 3 and centre -1",
        {"x": 4},
        LimitedSums(
            by=(),
            sizes=(),
            edges=(),
            column="x",
            positions=3,
            runs=(0, -5, 5),
            lows=(-3,),
            highs=(3,),
            centres=(-1,),
            factors=(2,),
        ),
    ),
    Example(
        "products, about the middle",
        "`positions` 3 and 4",
        {"x": 4, "y": 5},
        MiddleProducts(columns=("x", "y"), positions=(3, 4)),
        rows=2,
    ),
    Example(
        "products, about the middle",
        "squares, `positions` 5",
        {"x": 6},
        MiddleProducts(columns=("x", "x"), positions=(5, 5)),
    ),
    Example(
        "products, about the cells",
        "`positions` 3 and 3, 2 cells",
        {"g": 2, "x": 3, "y": 3},
        Products(columns=("x", "y"), positions=(3, 3), about="cells", by=("g",), sizes=(2,)),
        rows=2,
    ),
    Example(
        "products, about the cells",
        "squares, `positions` 4, 2 cells",
        {"g": 2, "x": 4},
        Products(columns=("x", "x"), positions=(4, 4), about="cells", by=("g",), sizes=(2,)),
    ),
    Example("interaction", "`sizes` 3", {"a": 3}, Interaction(("a",), (3,))),
    Example(
        "interaction",
        "`sizes` 2 and 3",
        {"a": 2, "b": 3},
        Interaction(("a", "b"), (2, 3)),
    ),
    Example(
        "query-counts",
        "cells a = 0; a, b = 1, 0",
        {"a": 2, "b": 2},
        QueryCounts(_TWO),
    ),
    Example(
        "query-counts",
        "parities of a, of b, of a and b",
        {"a": 2, "b": 2},
        QueryCounts(Parities((("a",), ("b",), ("a", "b")))),
    ),
    Example(
        "query-distance",
        "`length` 2, `grid` 4",
        {"a": 2, "b": 2},
        QueryDistance(_TWO, _ANSWERS, 4),
    ),
    Example(
        "signed-queries",
        "`length` 2, `factor` 3",
        {"a": 2, "b": 2},
        SignedQueries(_TWO, 3, _ANSWERS, np.array([1, -1])),
    ),
    Example(
        "table-distance",
        "`length` 2, `grid` 4, `weight` 2",
        {"a": 2, "b": 2},
        TableDistance(
            (("a",), ("b",)),
            (np.array([3, 9], np.int64), np.array([2, 0], np.int64)),
            grid=4,
            weights=(2, 1),
            offsets=(5, 0),
        ),
    ),
    Example(
        "table-checks",
        "2 tables",
        {"a": 2, "b": 2},
        TableChecks((("a",), ("b",)), (np.array([1, 2], np.int64), np.array([2, 0], np.int64))),
    ),
    Example("indif", "`length` 1, 3 x 3 cells", {"a": 3, "b": 3}, InDif((("a", "b"),))),
    Example("r-score", "`length` 1, 2 x 4 cells", {"a": 2, "b": 4}, RScore((("a", ("b",)),))),
    Example("f-score", "`length` 1, 2 x 3 cells", {"a": 2, "b": 3}, FScore((("a", ("b",)),)), 4),
    Example(
        "mutual-information",
        "`length` 1, `rows` 3, `grid` 100",
        {"a": 3, "b": 3},
        MutualInformation((("a", ("b",)),), 3, 100),
        relations=("replace-one",),
    ),
    Example(
        "mutual-information",
        "the same, `binary`",
        {"a": 2, "b": 3},
        MutualInformation((("a", ("b",)),), 3, 100, binary=True),
        relations=("replace-one",),
    ),
    Example(
        "quantile",
        "`part` 1 `of` 4, `length` 2",
        {"x": 4},
        Quantile(column="x", low=0, high=3, part=1, of=4),
        rows=4,
    ),
    Example(
        "cut-deviations",
        "3 bins, `left` 1, not to cut",
        {"x": 4},
        CutDeviations(column="x", edges=(0, 1, 2, 4), low=0, high=3, price=1),
        rows=4,
    ),
    Example(
        "cosine-tails",
        "3 bins, `length` 2",
        {"x": 4},
        CosineTails(column="x", edges=(0, 1, 2, 3), prices=(0, 5)),
    ),
    Example(
        "cosine-sums",
        "3 bins or missing, `kept` 2",
        {"x": 5},
        CosineSums(column="x", size=5, edges=(0, 1, 2, 4), kept=2),
    ),
    Example(
        "class-gradient",
        "2 classes, predictors of 3 positions and of 2 levels",
        {"x": 3, "g": 2, "y": 2},
        ClassGradient(
            column="y",
            classes=2,
            features=Features((AGE, GROUP)),
            at=(COEFFICIENT, -3 * COEFFICIENT, COEFFICIENT),
        ),
        rows=1,
    ),
    Example(
        "class-gradient",
        "3 classes, no predictor, at 0",
        {"y": 3},
        ClassGradient(column="y", classes=3, features=Features(), at=(0, 0)),
    ),
    Example(
        "number-gradient",
        "predictor of 2 levels",
        {"g": 2, "x": 3},
        NumberGradient(target=AGE, features=Features((GROUP,)), at=(COEFFICIENT, COEFFICIENT)),
        rows=2,
    ),
    Example(
        "class-minimiser",
        "2 classes, predictor of 2 levels, `ridge` 4",
        {"g": 2, "y": 2},
        ClassMinimiser(column="y", classes=2, features=Features((GROUP,)), ridge=4),
        rows=2,
    ),
    Example(
        "second-moments",
        "1 predictor, `length_limit` 1,000",
        {"x": 4},
        SecondMoments(features=Features((AGE,)), transform=(0, COEFFICIENT), length_limit=1000),
    ),
    Example(
        "second-moments",
        "2 predictors, `length_limit` 2^20",
        {"x": 4, "g": 3},
        SecondMoments(
            features=Features((AGE, GROUP)),
            transform=(COEFFICIENT, 0, COEFFICIENT, COEFFICIENT, 0, -COEFFICIENT),
            length_limit=2**20,
        ),
        rows=2,
    ),
    Example(
        "scores",
        "a number, 1 predictor, `length_limit` 1,000",
        {"x": 4},
        Scores(
            outcome=AGE, features=Features(), transform=(COEFFICIENT,), at=(0,), length_limit=1000
        ),
    ),
    Example(
        "scores",
        "3 levels, 2 predictors, `length_limit` 2^21",
        {"g": 3, "y": 4},
        Scores(
            outcome=Levels(name="y", size=3),
            features=Features((GROUP,)),
            transform=(COEFFICIENT, COEFFICIENT, 0, -COEFFICIENT),
            at=(COEFFICIENT, -COEFFICIENT, 0, 2 * COEFFICIENT),
            length_limit=2**21,
        ),
        rows=2,
    ),
)
"""At least one example of each row of the table of sensitivities."""


def files(example: Example) -> Iterator[NDArray[np.int64]]:
    """Yield every file of up to `rows` records, as a table over all columns.

    Under replace-one, mutual information has a public number of records: only files of that number.
    """
    shape = tuple(example.sizes.values())
    fixed = isinstance(example.ask, MutualInformation)
    for number in range(example.rows if fixed else 0, example.rows + 1):
        for cells in itertools.combinations_with_replacement(range(prod(shape)), number):
            table = np.bincount(cells, minlength=prod(shape)) if cells else np.zeros(prod(shape))
            yield table.astype(np.int64).reshape(shape)


def neighbours(table: NDArray[np.int64], relation: Neighbours) -> Iterator[NDArray[np.int64]]:
    """Yield the files with one record more, or with one record replaced."""
    for cell in np.ndindex(table.shape):
        added = table.copy()
        added[cell] += 1
        if relation == "add-remove":
            yield added
            continue
        for other in map(tuple, np.argwhere(table)):
            replaced = added.copy()
            replaced[other] -= 1
            yield replaced


@cache
def largest_changes(example: Example, relation: Neighbours) -> Bounds:
    """Return the largest change that one record makes on any of the searched files.

    Returns:
        Of one entry, of all entries in the L1 norm, and in the squared L2 norm.
    """
    found = (0, 0, 0)
    known: dict[bytes, list[int]] = {}

    def answer(table: NDArray[np.int64]) -> list[int]:
        if table.tobytes() not in known:
            # Python's integers, because squares of these numbers may exceed 64 bits.
            known[table.tobytes()] = example.exact(table).tolist()
        return known[table.tobytes()]

    for table in files(example):
        before = answer(table)
        for other in neighbours(table, relation):
            moved = [abs(one - two) for one, two in zip(before, answer(other), strict=True)]
            here = max(moved), sum(moved), sum(each * each for each in moved)
            found = tuple(map(max, found, here))
    return found


def figures() -> list[str]:
    """Return the table of sensitivities on small parameters."""
    lines = [
        "| question | parameters | add-remove, 1 row | found | replace-one, 1 row | found"
        " | replace-one, person of 3 rows |",
        "|---|---|---|---|---|---|---|",
    ]
    for example in EXAMPLES:
        cells = [f"`{example.name}`", example.parameters]
        for relation in RELATIONS:
            if relation in example.relations:
                cells.append(_three(example.bounds(Relation(relation))))
                cells.append(_three(largest_changes(example, relation)))
            else:
                cells += ["refused", "-"]
        several = len(example.relations) == len(RELATIONS)
        cells.append(_three(example.bounds(Relation("replace-one", 3))) if several else "refused")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _three(found: Bounds) -> str:
    return ", ".join(f"{each:,}" if each < 10**7 else f"{each:.4g}" for each in found)


def events() -> list[str]:
    """Return the table of mechanisms with their costs."""
    kinds = get_args(Kind)
    lines = [
        f"| mechanism | {' | '.join(f'cost, `{kind}`' for kind in kinds)} | own delta | theorem |",
        "|---|" + "---|" * (len(kinds) + 2),
    ]
    for name, each in MECHANISMS.items():
        costs = [f"`{each.cost[kind]}`" if kind in each.cost else "refused" for kind in kinds]
        own = each.own_delta or "0"
        lines.append(f"| `{name}` | {' | '.join(costs)} | {own} | {each.theorem} |")
    return lines


def conversions() -> list[str]:
    """Return the table of currencies."""
    lines = ["| currency | unit of cost | conversion of the reserved `total` | theorem |"]
    lines.append("|---|---|---|---|")
    known: dict[str, str] = {}
    for kind in get_args(Kind):
        empty = accounting_json(Currency(kind, Fraction(1)), Relation("add-remove"), [])
        sums = empty["composition"]
        formula = known.get(sums["conversion"], f"`{sums['conversion']}`")
        known[sums["conversion"]] = f"as `{kind}`"
        theorem = sums["theorem"]
        for earlier, shorter in list(known.items()):
            theorem = theorem.replace(earlier, shorter)
        known[sums["theorem"]] = f"as `{kind}`"
        lines.append(f"| `{kind}` | {sums['unit']} | {formula} | {theorem} |")
    return lines


def constants() -> list[str]:
    """Return the table of constants."""
    lines = ["| constant | value | meaning |", "|---|---|---|"]
    for path, meaning in CONSTANTS.items():
        module, _, name = f"dp_core.{path}".rpartition(".")
        label = (
            f"[{path.removeprefix('kernel.').partition('.')[2]}](../{module.replace('.', '/')}.py)"
        )
        value = _number(getattr(importlib.import_module(module), name))
        lines.append(f"| {label} | {value} | {meaning} |")
    return lines


def _number(value: int | float | Fraction) -> str:
    if isinstance(value, int) and value >= 1024 and value & (value - 1) == 0:
        return f"2^{value.bit_length() - 1}"
    return f"{float(value):.6g}"


PARTS: Mapping[str, Callable[[], list[str]]] = {
    "events": events,
    "conversions": conversions,
    "constants": constants,
}
_PART = re.compile(r"(<!-- computed: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """Return the page with its computed parts made anew."""

    def made(match: re.Match[str]) -> str:
        return "\n".join([match[1], *PARTS[match[2]](), "", match[3]])

    return _PART.sub(made, PAGE.read_text(encoding="utf-8"))


def parts_of(text: str) -> list[str]:
    """Return the names of the computed parts of a page."""
    return [match[2] for match in _PART.finditer(text)]


def main() -> None:
    """Print the page, write it, or print the largest changes that files of few records show."""
    made: Any = page()
    if sys.argv[1:] == ["figures"]:
        sys.stdout.write("\n".join([*figures(), ""]))
    elif sys.argv[1:] == ["--write"]:
        PAGE.write_text(made, encoding="utf-8")
    else:
        sys.stdout.write(made)


if __name__ == "__main__":
    main()
