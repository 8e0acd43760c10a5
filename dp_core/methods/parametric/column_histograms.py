"""Base class of methods that release a histogram of every column, and their model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, Table, Totals, tables_of
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import BinnedCounts
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.binned_tables import CellsToRecords, zeros_by_bins
from dp_core.methods.parametric.synthesizer import Ask, Synthesizer, release
from dp_core.methods.private_domain import quantile_tree
from dp_core.methods.reconstruction.estimates.consistency import norm_sub
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variable, Variables

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimated:
    """A numeric column's histogram as estimated from released sums; cells may be negative.

    Attributes:
        edges: First position of each bin, and then the number of positions.
        values: Records in each bin, shape (bins,).
        missing: Records whose value is missing; 0 if the column cannot be missing.
        variance: Variance of the number of all records as estimated from these sums.
    """

    edges: tuple[int, ...]
    values: Floats
    missing: float
    variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnHistograms(Synthesizer):
    """Release one histogram of every column; columns are independent in the sets.

    A numeric column is cut into many equal public bins, and each method releases its histogram in
    its own way. Columns of levels are treated as unordered: their plain tables are measured.

    Attributes:
        bins: Number of equal bins of each numeric column; as many as the column has positions if
            these are fewer. Each method smooths its bins, so their number hardly matters as long
            as they are narrow.
    """

    bins: ClassVar[int] = 1024
    by_bins: ClassVar[bool] = True

    def edges(self, variable: Variable) -> tuple[int, ...]:
        """Return the first position of each bin of a numeric column, then `positions`. Public."""
        bins = min(self.bins, variable.positions)
        return tuple(number * variable.positions // bins for number in range(bins + 1))

    def ask_column(self, variable: Variable) -> tuple[Ask, ...]:
        """Return the sums to ask of a numeric column, with shares that sum to 1.

        By default they are the counts of its bins. None are known beforehand if the method chooses
        what to ask; then `measure_column` asks.
        """
        if self.chooses:
            return ()
        return (Ask("bins", bin_question(variable, self.edges(variable)), Fraction(1)),)

    def measure_column(
        self, inputs: MethodInputs, variable: Variable, step: str, cost: Fraction
    ) -> list[Released]:
        """Release the sums of a numeric column, by default those of `ask_column`.

        Args:
            inputs: The inputs of `measure`.
            variable: The column.
            step: Prefix of the names of its steps.
            cost: Its budget, in the release's currency; spent exactly.
        """
        asks = self.ask_column(variable)
        return release(inputs, [replace(ask, step=f"{step}-{ask.step}") for ask in asks], cost)

    def estimate(
        self,
        variable: Variable,
        released: Sequence[Totals],
        rows: float | None,  # noqa: ARG002
    ) -> Estimated:
        """Return the histogram of a numeric column, by default its smoothed counts.

        Args:
            variable: The column.
            released: What `measure_column` released.
            rows: Number of records whose value is not missing; None if it is not known.
        """
        (totals,) = released
        edges, counts, missing = bin_counts(variable, totals)
        cells = counts.size + variable.missing
        smoothed = self.smooth(variable, counts, totals.variance)
        return Estimated(edges, smoothed, missing, totals.variance * cells)

    def smooth(
        self,
        variable: Variable,  # noqa: ARG002
        counts: Floats,
        variance: float,  # noqa: ARG002
    ) -> Floats:
        """Return the counts of a column's bins with less noise; here they stay as they are.

        Args:
            variable: The column.
            counts: Noisy counts, shape (bins,).
            variance: Variance of the noise on each.
        """
        return counts

    def in_order(self, variable: Variable, counts: Floats) -> Floats:  # noqa: ARG002
        """Return the counts of a column of levels in a publicly known order; here there is none.

        Args:
            variable: The column.
            counts: Noisy counts of its levels, in the schema's order.
        """
        return counts

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        """Return all sums and tables; nothing if the method chooses what to ask of a column."""
        found: list[Ask] = []
        part = Fraction(1, len(variables))
        for number, variable in enumerate(variables, start=1):
            if not variable.numeric:
                found.append(Ask(f"column-{number}", (variable.name,), part))
                continue
            asked = self.ask_column(variable)
            if not asked:
                return ()
            found += [
                Ask(f"column-{number}-{ask.step}", ask.what, part * ask.share) for ask in asked
            ]
        return tuple(found)

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        each = inputs.measure_cost / len(variables)
        levels = [Ask("", (variable.name,), Fraction(1)) for variable in variables.categorical]
        released = release(inputs, levels, each)
        for number, variable in enumerate(variables, start=1):
            if variable.numeric:
                released += self.measure_column(inputs, variable, f"column-{number}", each)
        return tuple(released)

    def model_of(self, variables: Variables, inputs: FitInputs) -> CellsToRecords:
        zeros = inputs.zeros
        sums = {
            variable.name: [
                item
                for item in inputs.released
                if isinstance(item, Totals) and item.of.clique == (variable.name,)
            ]
            for variable in variables.numeric
        }
        tables = {table.clique: table for table in tables_of(inputs.released)}
        # Every histogram estimates the number of records.
        guesses = [
            (float(table.values.sum()), table.variance * table.values.size)
            for clique, table in tables.items()
            if clique
        ]
        for variable in variables.numeric:
            free = self.estimate(variable, sums[variable.name], None)
            guesses.append((float(free.values.sum()) + free.missing, free.variance))
        total = inputs.number_of_rows(guesses)
        columns: list[Floats] = []
        edges: list[tuple[int, ...] | None] = []
        for variable in variables:
            if not variable.numeric:
                possible = ~zeros.mask(variables.domain.project((variable.name,)))
                counts = tables[variable.name,].values.astype(np.float64)
                counts = self.in_order(variable, counts)
                columns.append(norm_sub(counts, total=float(total), possible=possible))
                edges.append(None)
                continue
            missing = 0.0
            if variable.missing:
                free = self.estimate(variable, sums[variable.name], None)
                missing = min(max(free.missing, 0.0), float(total))
            found = self.estimate(variable, sums[variable.name], total - missing)
            end = (variable.size,) if variable.missing else ()
            own = StructuralZeros(tuple(r for r in zeros.rules if r.columns == (variable.name,)))
            known = zeros_by_bins(own, (variable.name,), ((*found.edges, *end),))
            size = found.values.size + variable.missing
            possible = ~known.mask(Domain((variable.name,), (size,)))[: found.values.size]
            values = norm_sub(found.values, total=total - missing, possible=possible)
            columns.append(np.append(values, missing) if variable.missing else values)
            edges.append((*found.edges, *end))
        cells = tuple(
            Table(Domain((name,), (column.size,)), column)
            for name, column in zip(variables.domain.columns, columns, strict=True)
        )
        return CellsToRecords(variables, total, zeros, cells, tuple(edges), True)


def bin_question(variable: Variable, edges: Sequence[int]) -> BinnedCounts:
    """Return the question for a numeric column's counts in bins; missing has a separate cell.

    Args:
        variable: The column.
        edges: First position of each bin, and then the number of positions.
    """
    end = (variable.size,) if variable.missing else ()
    return BinnedCounts(columns=(variable.name,), sizes=(variable.size,), edges=((*edges, *end),))


def bin_counts(variable: Variable, totals: Totals) -> tuple[tuple[int, ...], Floats, float]:
    """Return edges, noisy counts and noisy missing values of an answer to `bin_question`."""
    assert isinstance(totals.of, BinnedCounts)
    (edges,) = totals.of.edges
    assert edges is not None
    values = totals.values.astype(np.float64)
    if variable.missing:
        return edges[:-1], values[:-1], float(values[-1])
    return edges, values, 0.0


def ask_tree(variable: Variable, edges: Sequence[int], branching: int) -> tuple[Ask, ...]:
    """Return the questions for all levels, the widest intervals first, with equal shares.

    Args:
        variable: A numeric column.
        edges: First position of each of its bins, and then the number of positions.
        branching: Number of intervals of a level in one of the level above.
    """
    widths = quantile_tree.widths(len(edges) - 1, branching)
    return tuple(
        Ask(
            f"level-{level}",
            bin_question(variable, (*edges[:-1:width], edges[-1])),
            Fraction(1, len(widths)),
        )
        for level, width in enumerate(widths, start=1)
    )


def estimate_tree(
    variable: Variable,
    released: Sequence[Totals],
    branching: int,
    *,
    rows: float | None,
    bounded: bool,
) -> Estimated:
    """Return the least-squares counts of the bins, given the answers to `ask_tree`.

    Args:
        variable: The column.
        released: Answers, the widest intervals first.
        branching: As in `ask_tree`.
        rows: Number of records whose value is not missing, if it is known; otherwise None.
        bounded: Whether the parts of an interval become nonnegative, from the widest down.
    """
    levels = [bin_counts(variable, each) for each in released]
    values = quantile_tree.estimate(
        [counts.tolist() for _, counts, _ in levels],
        branching=branching,
        total=rows,
        bounded=bounded,
    )
    missing = float(np.mean([number for *_, number in levels]))
    widest = levels[0][1].size + variable.missing
    return Estimated(
        levels[-1][0], np.array(values), missing, released[0].variance * widest / len(levels)
    )


CHOOSING = Fraction(1, 2)
"""Part of a column's budget for the cuts: wrong cuts and noisy counts do about equal harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutColumns(ColumnHistograms):
    """Choose cuts of a column's bins privately, and count the records between them with noise.

    Records are uniform between two cuts.
    """

    chooses: ClassVar[bool] = True
    extensions: ClassVar[tuple[str, ...]] = ("cut-deviations",)

    @abstractmethod
    def choose_cuts(
        self,
        inputs: MethodInputs,
        variable: Variable,
        edges: tuple[int, ...],
        step: str,
        cost: Fraction,
    ) -> tuple[list[int], Fraction]:
        """Return the chosen cuts, and what they cost together.

        Args:
            inputs: The inputs of `measure`.
            variable: The column.
            edges: First position of each bin, and then the number of positions.
            step: Prefix of the names of its steps.
            cost: The column's budget, of which `CHOOSING` is for the cuts.

        Returns:
            Numbers of the bins before which there is a cut, from 1 to the number of bins - 1, and
            the cost. The cost is at most the part `CHOOSING`; what is left pays for the counts.
        """

    def measure_column(
        self, inputs: MethodInputs, variable: Variable, step: str, cost: Fraction
    ) -> list[Released]:
        edges = self.edges(variable)
        cuts, spent = self.choose_cuts(inputs, variable, edges, step, cost)
        chosen = tuple(edges[cut] for cut in (0, *sorted(cuts), len(edges) - 1))
        asked = bin_question(variable, chosen)
        return [
            inputs.curator.total(
                "measure", f"{step}-counts", asked, cost - spent, replicate=inputs.replicate
            )
        ]
