"""Methods whose release is a set of drawn records, and adapters of all parametric methods.

By the adapters a parametric method serves as a selection and a reconstruction.
`Measuring` takes the place of the selection, `Modelling` that of the reconstruction, so that
parametric releases use the same pipeline: charging, storing and resuming are the same code.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal, get_args

import numpy as np

from dp_core.client.noise_scale import sensitivities
from dp_core.client.released import Records, Released, ReleasedKind, Table
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import count_bounds
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Neighbours, Relation, Stage
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.drawn_answers import draw_cells
from dp_core.methods.drawn_events import draws_event, urn_event
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.binned_tables import binned_domain
from dp_core.methods.parametric.synthesizer import Ask, ParametricModel, Synthesizer
from dp_core.methods.reconstruction.reconstructor import Reconstructor
from dp_core.methods.reconstruction.sampling.drawing import equally_often
from dp_core.methods.selection.selector import Asked, Selection, Selector
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variable, Variables
from dp_core.tables.cliques import row_bytes

MOST_CELLS = 1_000_000
"""Largest number of cells of a table of all columns, with numeric columns in bins. With more, noise
or virtual records outweigh the records of most files, and the computation takes minutes."""
BINS = 10
"""Default number of equal bins of a numeric column if neither schema nor spec states bins."""


def edges_of(variables: Variables, bins: int | None = None) -> tuple[tuple[int, ...] | None, ...]:
    """Return for each column the first position of every bin and the number of codes. Public.

    Args:
        variables: All columns.
        bins: Number of equal bins of every numeric column, as far as its positions allow; by
            default the schema's bins.

    Returns:
        One entry per column; None for a column of levels. Missing is a bin of its own.
    """
    return tuple(_edges(variable, bins) if variable.numeric else None for variable in variables)


def _edges(variable: Variable, bins: int | None) -> tuple[int, ...]:
    if bins is None and len(variable.bins) > 1:
        edges = variable.bins
    else:
        parts = min(bins or BINS, variable.positions)
        edges = tuple(part * variable.positions // parts for part in range(parts + 1))
    return (*edges, variable.size) if variable.missing else edges


def number_of_cells(variables: Variables) -> int:
    """Return the number of cells of the table of all columns, with numeric columns in bins."""
    return binned_domain(variables, edges_of(variables)).size()


def number_of_records(rows: int | None) -> int:
    """Return the number of records to draw: the size of a set, which must be known.

    Raises:
        BadInput: if the number is 0, because there would be nothing to draw or to charge for.
    """
    assert rows is not None
    if not rows:
        raise BadInput(
            "A set of this file would have no records, because the file has no rows; check that it"
            " is the right file, or state synthesize.rows."
        )
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDraws(Synthesizer):
    """Draw records from tables, by default from one of all columns, with virtual records in cells.

    With fewer bins in the schema the virtual records have less weight, but values are coarser:
    positions within a bin are drawn uniformly, or with the weights of privately chosen bins.

    Attributes:
        kind: How the kernel draws the records: `independent` of each other, or from an `urn`.
    """

    kind: ClassVar[Literal["independent", "urn"]]
    draws: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    extensions: ClassVar[tuple[str, ...]] = ("drawn-cells",)
    by_bins: ClassVar[bool] = True

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        """Raise BadInput if the table has so many cells that virtual records would dominate it."""
        cells = number_of_cells(variables)
        if cells > MOST_CELLS:
            raise BadInput(
                f"Records would be drawn from one table of all columns, here of {cells:,} cells,"
                f" more than {MOST_CELLS:,}: the virtual records in every cell would"
                " outweigh the real ones; use fewer columns or bins, or privsyn."
            )

    def tables(self, variables: Variables) -> tuple[Clique, ...]:
        """Return the tables to draw from, which have every column once and equal budgets."""
        return (variables.domain.columns,)

    def asks(self, variables: Variables) -> tuple[Ask, ...]:  # noqa: ARG002
        """Return nothing: the method releases records and no statistics."""
        return ()

    def evenness(
        self,
        variables: Variables,
        currency: Currency,
        cost: Fraction,
        rows: int,
        max_rows: int = 1,
    ) -> float:
        """Return the part of the drawn records that is independent of a file of `rows`. Public.

        Args:
            variables: All columns.
            currency: Currency of the release.
            cost: Budget of the draws.
            rows: Number of records of the file.
            max_rows: Largest number of records of one person, 1 by default.
        """
        clique, *others = self.tables(variables)
        of_kind = draws_event if self.kind == "independent" else urn_event
        event = of_kind(currency, cost / (1 + len(others)), rows, max_rows)
        cells = binned_domain(variables, edges_of(variables)).size(clique)
        virtual = cells * float(event.scale)
        return virtual / (virtual + rows)

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        records = number_of_records(inputs.rows)
        edges = dict(zip(variables.domain.columns, edges_of(variables), strict=True))
        codes = np.empty((len(variables), records), dtype=variables.domain.code_type)
        cliques = self.tables(variables)
        for number, clique in enumerate(cliques, start=1):
            drawn = draw_cells(
                inputs.curator,
                "measure",
                "records" if len(cliques) == 1 else f"column-{number}",
                clique,
                # privacy: tables of the same records compose; each gets an equal part.
                inputs.measure_cost / len(cliques),
                records=records,
                kind=self.kind,
                edges=[edges[name] for name in clique],
                replicate=inputs.replicate,
            )
            for name, axis in zip(clique, variables.domain.axes(clique), strict=True):
                column, each = drawn.column(name), edges[name]
                # Of a number, the first position of the bin.
                codes[axis] = column if each is None else np.array(each[:-1])[column]
        return (Records(Dataset(variables.domain, codes), inputs.replicate),)

    def model_of(self, variables: Variables, inputs: FitInputs) -> DrawnRecords:
        (records,) = (item for item in inputs.released if isinstance(item, Records))
        drawn = records.dataset
        rows = inputs.number_of_rows() or drawn.rows
        return DrawnRecords(variables, rows, inputs.zeros, drawn, edges_of(variables))


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRecords(ParametricModel):
    """Released records, which are the set; positions are drawn within their bins.

    A set with as many rows as there are records consists of these records. Another number of rows
    repeats or leaves out records, each as often as any other to within one. So sets from one
    release (mode `shared`) are copies of the records in another order, apart from positions within
    bins: more sets of other records are more private draws, and each is charged (mode `split`).

    Attributes:
        data: The released records; a numeric column has the first position of a bin.
        edges: Bin edges of each column, see `edges_of`.
    """

    data: Dataset
    edges: tuple[tuple[int, ...] | None, ...]

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        codes = self.data.codes[:, equally_often(self.data.rows, rows, rng=rng)]
        for column, each in enumerate(self.edges):
            if each is not None:
                codes[column] = np.searchsorted(each, codes[column], side="right") - 1
        return self.within_bins(codes, self.edges, rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring(Selector):
    """The confidential half of a method: releases statistics or records.

    The measuring budget pays for everything.

    Attributes:
        method: The method with its options.
        variables: All columns.
        records: Records per set if the spec states them, otherwise None.
    """

    method: Synthesizer
    variables: Variables
    records: int | None

    rounds: ClassVar[bool] = True
    adaptive: ClassVar[bool] = False

    @property
    def chooses(self) -> bool:  # type: ignore[override]
        """Whether the method does."""
        return self.method.chooses

    @property
    def extensions(self) -> tuple[str, ...]:
        """Those of the method."""
        return self.method.extensions

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        """Records, or sums and tables."""
        kinds: tuple[ReleasedKind, ...] = (
            ("records",) if self.method.draws else ("totals", "tables")
        )
        return frozenset(kinds)

    def check(self, domain: Domain) -> None:
        """Accept any domain; `check_basics` calls the check of the method."""

    def check_basics(self, neighbours: Neighbours, measured: Collection[Stage]) -> None:
        self.method.check(self.variables, neighbours)
        known = self.records is not None or neighbours == "replace-one" or "total" in measured
        if self.method.needs_rows and not known:
            raise BadInput(
                "the method must know the number of records per set; give total a share, or state"
                " synthesize.rows."
            )

    def choices(self, domain: Domain) -> int:  # noqa: ARG002
        """Return 0: the method pays for its choices from the measuring budget."""
        return 0

    def select_events(self, domain: Domain, relation: Relation) -> Sequence[Asked]:  # noqa: ARG002
        _, l1_of_count, l2_squared_of_count = count_bounds(relation)
        found = []
        for ask in self.method.asks(self.variables):
            if isinstance(ask.what, Sum):
                l1, l2_squared = sensitivities(ask.what, relation)
                found.append(Asked(ask.share, l1, l2_squared, ask.what.length / l1))
            else:
                cells = self.variables.domain.size(ask.what)
                found.append(Asked(ask.share, l1_of_count, l2_squared_of_count, float(cells)))
        return found

    def select(self, inputs: MethodInputs) -> Selection:
        assert not inputs.select_cost
        inputs = replace(inputs, stated_rows=self.records)
        released = self.method.measure(inputs, self.variables)
        drawn = next((item.dataset for item in released if isinstance(item, Records)), None)
        measured = tuple(item for item in released if not isinstance(item, Records))
        return Selection(measured=measured, records=drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modelling(Reconstructor):
    """The public half of a method: fits its model to the released results.

    Attributes:
        method: The method with its options.
        variables: All columns.
        positions: Number of grid positions of a numeric column, as stated in the spec.
    """

    method: Synthesizer
    variables: Variables
    positions: int

    takes: ClassVar[frozenset[ReleasedKind]] = frozenset(get_args(ReleasedKind))

    def memory(self, domain: Domain, cliques: Sequence[Clique], rows: int) -> int:  # noqa: ARG002
        # The codes, and a few numbers per value while a set is drawn.
        return 12 * row_bytes(domain) * rows + (64 << 20)

    def model_of(self, inputs: FitInputs) -> ParametricModel:
        return self.method.model_of(self.variables, inputs)

    def restore(
        self,
        domain: Domain,
        tables: Sequence[Table],  # noqa: ARG002
        *,
        rows: int,
        zeros: StructuralZeros,
        released: Sequence[Released] = (),
    ) -> ParametricModel:
        return self.model_of(FitInputs(domain, released, rows, zeros))
