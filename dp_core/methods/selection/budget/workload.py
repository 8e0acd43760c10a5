"""The tables that a release is asked for, and their expected error in closed form.

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
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

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
            `Interaction.cell_variance`.
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
