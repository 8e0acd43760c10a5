"""Laplace sanitizer and perturbed histogram: noisy counts of the table of all columns in bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Released, Table, Totals, tables_of
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.quantile import Quantile
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.linear_questions import BinnedCounts
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.binned_tables import (
    CellsToRecords,
    as_measurement,
    binned_domain,
    zeros_by_bins,
)
from dp_core.methods.parametric.drawn_records import MOST_CELLS, edges_of
from dp_core.methods.parametric.synthesizer import Ask, Edges, Synthesizer, release
from dp_core.methods.parametric.two_cells import counts_of, difference
from dp_core.methods.reconstruction.estimates.consistency import norm_sub, overlapping, reconcile
from dp_core.methods.reconstruction.estimates.raking import margin, others
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variable, Variables

if TYPE_CHECKING:
    from dp_core.client.curator import Curator


def number_bought(variable: Variable, wanted: int) -> int:
    """Return the number of edges to choose: `wanted`, or fewer if the column has few positions."""
    return min(wanted, variable.positions - 1) if variable.numeric else 0


def buy_edges(
    curator: Curator,
    step: str,
    variable: Variable,
    number: int,
    cost: Fraction,
    *,
    replicate: int,
) -> tuple[int, ...]:
    """Return positions that divide a column's records into parts of about equal size.

    The column is cut at its median, each side at its own median and so on (Kaplan, Schnapp &
    Stemmer 2022). So the edges are distinct, and the error of a cut is at most the number of
    records of the range that it cuts. If one side has too few positions for its edges, the other
    side gets them: a value that many records share takes one edge and not all.

    Args:
        curator: Chooses each cut by the exponential mechanism.
        step: Name, unique within the release's stage and replicate.
        variable: A numeric column; missing values are ignored.
        number: Number of edges to choose, from `number_bought`.
        cost: Budget of all edges together, in the release's currency.
        replicate: Index of the independent measurement, 0 if shared.

    Returns:
        Positions between 1 and `positions` - 1, ascending.

    Privacy:
        `number` choices of cost/number each. (Disjoint ranges share no record, so their choices
        could be charged in parallel. They are charged separately, which costs accuracy only.)
    """
    found: list[int] = []
    # Ranges that are still to be cut: first position, end, number of parts, place in the tree.
    ranges = [(0, variable.positions, number + 1, 1)]
    while ranges:
        low, high, parts, place = ranges.pop()
        if parts == 1:
            continue
        left = parts // 2
        share = Fraction(left, parts)
        statistic = Quantile(
            column=variable.name, low=low, high=high, part=share.numerator, of=share.denominator
        )
        chosen = curator.choose(
            "measure", f"{step}-{place}", statistic, cost / number, replicate=replicate
        )
        cut = low + 1 + chosen
        # Every part needs at least one position, so each side gets at most as many parts as
        # positions.
        left = min(max(left, parts - (high - cut)), cut - low)
        ranges += [(low, cut, left, 2 * place), (cut, high, parts - left, 2 * place + 1)]
        found.append(cut)
    return tuple(sorted(found))


_BUYING = Fraction(1, 4)
"""Part of the budget for chosen edges: a misplaced edge only makes two bins unequal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceSanitizer(Synthesizer):
    """Measure the table of all columns with noise, and draw records from it (Bowen & Liu 2020).

    For categorical columns this is the Laplace sanitizer (section 3.1.1); for numeric columns it is
    the perturbed histogram (section 3.1.2, eqn 5), with uniform values within bins. With both kinds
    of columns, simulation 3 also measures a table of the categorical columns alone (`categories`).
    A single column of two levels is one count if the number of records is public
    (`dp_core.methods.parametric.two_cells`).
    Bins are public, or public bins with privately chosen edges between them. (The paper's bins, by
    Scott's rule with the file's own standard deviation, disclose information and are not offered.)

    Attributes:
        bins: Number of equal public bins of each numeric column, instead of the schema's bins; with
            1 only the privately chosen edges divide the column.
        bought: Number of further edges of each numeric column, each chosen privately near a
            quantile of its records. A quarter of the budget pays for them.
        categories: Part of the rest for the table of the categorical columns alone, if there are
            numeric columns too; the paper has 1/2.
        published: Whether, as in the paper, negative counts are set to 0 and the others scaled, and
            each record is drawn independently. Otherwise negative counts become the nearest
            nonnegative ones that agree with each other and with the number of records, and every
            cell gets its share of a set to within one record.
    """

    bins: int | None = None
    bought: int = 0
    categories: Fraction = Fraction(0)
    published: bool = False

    by_bins: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bins is not None and self.bins < 1:
            raise ValueError(f"bins is a number from 1, not {self.bins}.")
        if self.bought < 0:
            raise ValueError(f"bought is a number of edges, from 0, not {self.bought}.")
        if not 0 <= self.categories < 1:
            raise ValueError("categories is a part of the budget, from 0 and below 1.")

    @property
    def chooses(self) -> bool:  # type: ignore[override]
        """Whether edges are chosen privately."""
        return self.bought > 0

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the kernel's extensions that it may ask."""
        return ("quantile",) if self.chooses else ()

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        """Raise BadInput if the table has more than `MOST_CELLS` cells."""
        cells = binned_domain(variables, self._stand_in(variables)).size()
        if cells > MOST_CELLS:
            raise BadInput(
                f"Records would be drawn from one table of all columns, here of {cells:,} cells,"
                f" more than {MOST_CELLS:,}: take fewer columns or bins, or a method"
                " that measures tables of few columns, such as privsyn."
            )

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        """Return the tables to measure; placeholders stand for edges that are not chosen yet."""
        left = 1 - (_BUYING if self._number_bought(variables) else Fraction(0))
        return self._tables(variables, self._stand_in(variables), left)

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        curator = inputs.curator
        if one := difference(curator, variables):
            whole = Ask("cells", one, Fraction(1))
            return tuple(release(inputs, [whole], inputs.measure_cost))
        number = self._number_bought(variables)
        left = 1 - (_BUYING if number else Fraction(0))
        edges = list(edges_of(variables, self.bins))
        for axis, (variable, each) in enumerate(zip(variables, edges, strict=True)):
            if own := number_bought(variable, self.bought):
                assert each is not None
                budget = inputs.measure_cost * (1 - left) * own / number
                bought = buy_edges(
                    curator, f"edge-{axis + 1}", variable, own, budget, replicate=inputs.replicate
                )
                edges[axis] = tuple(sorted({*each, *bought}))
        tables = self._tables(variables, tuple(edges), left)
        return tuple(release(inputs, tables, inputs.measure_cost))

    def model_of(self, variables: Variables, inputs: FitInputs) -> CellsToRecords:
        released, rows, zeros = inputs.released, inputs.rows, inputs.zeros
        two = counts_of(released, rows)
        if two is not None and rows is not None:
            possible = ~zeros.mask(variables.domain)
            table = Table(variables.domain, norm_sub(two, total=float(rows), possible=possible))
            return CellsToRecords(variables, rows, zeros, (table,), (None,), not self.published)
        (counted,) = (
            item
            for item in released
            if isinstance(item, Totals) and isinstance(item.of, BinnedCounts)
        )
        assert isinstance(counted.of, BinnedCounts)
        whole = as_measurement(counted)
        domain = whole.domain
        known = zeros_by_bins(zeros, domain.columns, counted.of.edges)
        # Tables of numeric columns do not have these bins, so only the number of records and tables
        # of categorical columns are used besides.
        levels = {variable.name for variable in variables.categorical}
        measured = [whole, *(each for each in tables_of(released) if levels >= {*each.clique})]
        brought = _cut_at_zero if self.published else _nearest
        table, total = brought(domain, measured, rows, known)
        return CellsToRecords(
            variables, total, zeros, (table,), counted.of.edges, not self.published
        )

    def _tables(self, variables: Variables, edges: Edges, left: Fraction) -> tuple[Ask, ...]:
        """Return the tables with given edges; they share the rest of the budget."""
        levels = tuple(variable.name for variable in variables.categorical)
        part = self.categories if levels and variables.numeric else Fraction(0)
        cells = BinnedCounts(
            columns=variables.domain.columns, sizes=variables.domain.sizes, edges=edges
        )
        asks = (Ask("cells", cells, left * (1 - part)),)
        return (Ask("categories", levels, left * part), *asks) if part else asks

    def _stand_in(self, variables: Variables) -> Edges:
        """Return placeholder edges: the public ones, and one more for each that will be chosen."""
        public = edges_of(variables, self.bins)
        return tuple(
            None if each is None else _with_more(each, number_bought(variable, self.bought))
            for variable, each in zip(variables, public, strict=True)
        )

    def _number_bought(self, variables: Variables) -> int:
        return sum(number_bought(variable, self.bought) for variable in variables)


def _with_more(edges: tuple[int, ...], number: int) -> tuple[int, ...]:
    """Return the edges and `number` more, each of which halves the widest bin."""
    found = list(edges)
    for _ in range(number):
        widest = max(range(len(found) - 1), key=lambda bin: found[bin + 1] - found[bin])
        if found[widest + 1] - found[widest] > 1:
            found.insert(widest + 1, (found[widest] + found[widest + 1]) // 2)
    return tuple(found)


def _nearest(
    domain: Domain, measured: Sequence[Measurement], rows: int | None, zeros: StructuralZeros
) -> tuple[Table, int]:
    """Return the nearest nonnegative table that agrees with the other tables, and its total.

    If the table of the categorical columns was measured, it fixes the total of the bins in each of
    its cells. A single projection of the whole table would favour cells with many bins.
    """
    estimates, subsets, total = overlapping(domain, measured, rows=rows, zeros=zeros)
    reconcile(estimates, subsets, total=float(total))
    (whole,) = (each for each in estimates if each.clique == domain.columns)
    levels = max((each.clique for each in estimates if each is not whole), key=len, default=())
    sums, possible = whole.project(levels)
    groups = norm_sub(sums, total=float(total), possible=possible > 0).ravel()
    first = (domain.axes(levels), range(len(levels)))
    inside = np.moveaxis(whole.values, *first)
    shape = inside.shape
    masks = np.moveaxis(whole.possible, *first).reshape(groups.size, -1)
    parts = inside.reshape(groups.size, -1)
    values = np.array(
        [
            norm_sub(part, total=float(group), possible=mask)
            for part, group, mask in zip(parts, groups, masks, strict=True)
        ]
    )
    return Table(domain, np.moveaxis(values.reshape(shape), *reversed(first))), total


def _cut_at_zero(
    domain: Domain, measured: Sequence[Measurement], rows: int | None, zeros: StructuralZeros
) -> tuple[Table, int]:
    """Return the scaled table with negative counts set to 0, and the number of records."""
    estimates, _, total = overlapping(domain, measured, rows=rows, zeros=zeros)
    cut = {each.clique: np.maximum(each.values, 0.0) for each in estimates}
    possible = ~zeros.mask(domain)
    values = cut.pop(domain.columns)
    for clique, levels in cut.items():
        values = _scale_to_margins(values, domain, clique, levels, possible)
    values = _scale_to_margins(values, domain, (), np.asarray(float(total)), possible)
    return Table(domain, values), total


def _scale_to_margins(
    values: NDArray[np.float64],
    domain: Domain,
    clique: tuple[str, ...],
    wanted: NDArray[np.float64],
    possible: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return a table scaled to given sums over some columns; uniform where it has no mass."""
    sums = margin(Table(domain, values), clique)
    away = others(domain.columns, clique)
    empty = np.expand_dims(sums == 0, away)
    values = np.where(empty, possible, values)
    sums = margin(Table(domain, values), clique)
    factor = np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)
    return np.asarray(values * np.expand_dims(factor, away))


METHOD = LaplaceSanitizer
