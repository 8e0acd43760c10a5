"""The tables that a release is asked for, their expected error, and division of a budget.

A table is a sum of orthogonal parts, one for each subset S of its columns, whose errors are
independent (`dp_core.methods.reconstruction.estimates.pooled_parts`). If everything measured tells
part S with precision 1 / c(S), the answer to a question q, a product of one vector q_i per column,
has the variance

    sum over S of c(S) * product over i in S of |P q_i|^2
                       * product over i not in S of (q_i . 1)^2 / p_i^2

with p_i the levels of column i and P the projection on vectors that sum to 0. The error of an entry
of the workload is the mean of this over all its questions. A mean of products over all combinations
is the product of the means, so an entry needs two numbers per column, however many ranges it asks
(ResidualPlanner: Xiao, He, Zhang & Kifer, NeurIPS 2023, Section 5; ranges and prefixes as in
ResidualPlanner+, with the parts kept whole).

Cells are one kind of question about a column. The others are all ranges lo..hi of its codes, and
all prefixes ..hi.

`shares` minimises the total error of tables. The total error is the sum over tables of cells times
noise. If the standard deviation of the noise is proportional to `rho ** -1/2`, it is minimal for
shares proportional to `cells ** 2/3`; if proportional to `1 / epsilon`, for shares proportional to
`cells ** 1/2` (Lagrange multipliers; Zhang et al., PrivSyn, 2021, Section 4.2). Roots are computed
with integers, so that shares are exact and equal on every machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from dp_core.kernel.counting.domain import Clique, Domain

MOST_COLUMNS = 10
"""Largest number of columns of a table that is asked for: it has 2^10 parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTable:
    """A table that will be looked at: one entry of `tables` in the spec.

    Attributes:
        of: Its columns, different, in the domain's order.
        weight: How much its error counts, positive; 1 by default.
        ranges: Those of its columns of which all ranges are asked instead of the cells.
        prefixes: Those of its columns of which all prefixes are asked instead of the cells.
        missing: Those of its columns whose last code means missing; no range or prefix has it.
    """

    of: Clique
    weight: Fraction = Fraction(1)
    ranges: Clique = ()
    prefixes: Clique = ()
    missing: Clique = ()

    @property
    def sums(self) -> bool:
        """Whether ranges or prefixes of a column are asked."""
        return bool(self.ranges or self.prefixes)

    def to_json(self) -> dict[str, object]:
        """Return the entry as the spec writes it."""
        return {
            "of": list(self.of),
            "weight": str(self.weight),
            **({"ranges": list(self.ranges)} if self.ranges else {}),
            **({"prefixes": list(self.prefixes)} if self.prefixes else {}),
        }


class Told(NamedTuple):
    """A measurement as far as its noise is concerned.

    Attributes:
        clique: Its columns; empty for the number of records.
        variance: Noise variance of a cell, in records squared; of an interaction, s^2 of
            `dp_core.client.interactions`.
        alone: Whether only the interaction of the columns was measured.
    """

    clique: Clique
    variance: float
    alone: bool = False


def worths(tables: Iterable[WantedTable], domain: Domain) -> dict[Clique, float]:
    """Return how much the variance c(S) of each part counts in the weighted error of all tables.

    Args:
        tables: The workload; the result is linear in the weights.
        domain: All columns.

    Returns:
        All subsets of the tables' columns of two levels or more, the empty one included; all worths
        are positive.
    """
    found: dict[Clique, float] = {}
    for table in tables:
        factors = {name: _factors(table, name, domain.size((name,))) for name in table.of}
        for part in parts_of(table.of, domain):
            own = math.prod(factors[name][name not in part] for name in table.of)
            found[part] = found.get(part, 0.0) + float(table.weight) * own
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), domain.axes(item[0]))))


def parts_of(clique: Clique, domain: Domain) -> Iterator[Clique]:
    """Yield the column sets of a table's parts; columns with one level are left out."""
    several = [name for name in clique if domain.size((name,)) > 1]
    for count in range(len(several) + 1):
        yield from itertools.combinations(several, count)


def precisions(
    parts: Iterable[Clique], told: Sequence[Told], domain: Domain
) -> dict[Clique, float]:
    """Return the precision 1 / c(S) of each part from all measurements, in 1 / records squared."""
    found = dict.fromkeys(parts, 0.0)
    for each in told:
        if each.alone:
            if each.clique in found:
                found[each.clique] += 1 / each.variance
            continue
        within = {*each.clique}
        for part in found:
            if within.issuperset(part):
                found[part] += domain.size(part) / (domain.size(each.clique) * each.variance)
    return found


def mean_variance(
    table: WantedTable, told: Sequence[Told], domain: Domain, *, rows_public: bool
) -> float:
    """Return the mean noise variance of the answers to an entry, in records squared.

    For a table of cells that is the variance of each cell; it is infinite if a part was not told.

    Args:
        table: The entry; its weight is not used.
        told: All measurements.
        domain: All columns.
        rows_public: Whether the number of records is known exactly.
    """
    worth = {part: own / float(table.weight) for part, own in worths([table], domain).items()}
    if rows_public:
        worth.pop((), None)
    known = precisions(worth, told, domain)
    if not all(known.values()):
        return math.inf
    return math.fsum(own / known[part] for part, own in worth.items())


def _factors(table: WantedTable, name: str, size: int) -> tuple[float, float]:
    """Return a column's mean |P q|^2 and mean (q . 1)^2 / p^2 over its questions."""
    if name not in table.ranges and name not in table.prefixes:
        return 1 - 1 / size, 1 / size**2
    last = size - (name in table.missing)
    # For each number of codes in a question, the number of such questions.
    lengths = range(1, last + 1)
    times = [last - length + 1 if name in table.ranges else 1 for length in lengths]
    number = sum(times)
    square = sum(count * length**2 for count, length in zip(times, lengths, strict=True)) / number
    length = sum(count * length for count, length in zip(times, lengths, strict=True)) / number
    return length - square / size, square / size**2


Allocation = Literal["rho", "epsilon", "equal"]
"""The currency for which the division is optimal; `equal` gives every table the same share."""

_DIGITS = 10**6  # roots have six decimals, which is far more than accuracy requires


def shares(cells: Sequence[int], allocation: Allocation = "rho") -> tuple[Fraction, ...]:
    """Return each table's part of the budget; the parts sum to exactly 1.

    Args:
        cells: Number of (relevant) cells of each table, at least 1.
        allocation: `rho` for zCDP budgets, `epsilon` for pure ones, or `equal`.

    >>> shares([8, 27, 64])
    (Fraction(4, 29), Fraction(9, 29), Fraction(16, 29))
    """
    if any(count < 1 for count in cells):
        raise ValueError(f"Every table needs at least one cell, got {list(cells)}.")
    return normalise([weight(count, allocation) for count in cells])


def weight(cells: int, allocation: Allocation = "rho") -> int:
    """Return the relative weight of a table as an integer, in units of 1e-6.

    >>> weight(27), weight(25, "epsilon"), weight(25, "equal")
    (9000000, 5000000, 1000000)
    """
    if allocation == "rho":
        return _cube_root(cells**2 * _DIGITS**3)
    if allocation == "epsilon":
        return math.isqrt(cells * _DIGITS**2)
    return _DIGITS


def normalise(weights: Sequence[int]) -> tuple[Fraction, ...]:
    """Return integer weights as exact shares that sum to 1."""
    total = sum(weights)
    return tuple(Fraction(part, total) for part in weights)


def _cube_root(value: int) -> int:
    """Return the largest integer whose cube is at most `value`."""
    root = round(math.cbrt(value))
    while root**3 > value:
        root -= 1
    while (root + 1) ** 3 <= value:
        root += 1
    return root
