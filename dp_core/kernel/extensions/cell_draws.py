"""Records drawn from the cells of a table, each with added virtual records."""

from __future__ import annotations

import math
import secrets
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.drawn_question import DrawnQuestion
from dp_core.kernel.extensions import DRAWN_CELLS
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent, log_one_plus_inverse
from dp_core.kernel.mechanisms.event import Event, ScaledEvent, check_positive
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.descriptions import whole
from dp_core.kernel.questions.linear_questions import Edges, binned, binned_shape, check_bins


@dataclass(frozen=True, slots=True)
class PolyaUrnEvent(ScaledEvent):
    """Records drawn from a Polya urn that starts with all records plus virtual ones in every cell.

    Each draw takes a cell with probability proportional to its number of records, plus a = `scale`
    virtual records, plus the number of times the cell was drawn before. Together the draws are one
    multinomial sample whose proportions come from Dirichlet(n + a) and are not published (Blackwell
    & MacQueen 1973): the Multinomial-Dirichlet synthesizer of Abowd & Vilhuber (2008).

    Attributes:
        scale: Virtual records added to each cell, exact.
        records: Largest number of records drawn from one urn.
        rows: Largest number of rows of one unit of privacy; 1 by default.

    Raises:
        ValueError: if the scale is not positive, or `records` or `rows` is below 1.

    Privacy:
        *Notation.* There are K cells and N records. Cell i holds n_i records and is drawn c_i times
        in k draws. A sequence of draws has probability prod_i (n_i + a)^(c_i) / (N + K a)^(k), with
        the rising factorial x^(c) = x (x + 1) ... (x + c - 1), which satisfies
        (x + 1)^(c) / x^(c) = (x + c)/x.

        *One record added to cell i* multiplies the probability by (n_i + a + c_i)/(n_i + a), which
        is between 1 and 1 + k/a, and by (N + K a)/(N + K a + k), which is between 1/(1 + k/(K a))
        and 1. The product is at most 1 + k/a, and at least 1/(1 + k/a) because K >= 1.

        *One record moved from cell i to cell j* leaves N unchanged. It multiplies the probability
        by (n_j + a + c_j)/(n_j + a), which is between 1 and 1 + k/a, and divides it by
        (n_i - 1 + a + c_i)/(n_i - 1 + a), which is between 1 and 1 + k/a. The result is between
        1/(1 + k/a) and 1 + k/a.

        So a sample of k records is log(1 + k/a)-private under both neighbouring relations. The
        bound is tight for moved records: take all k draws from a cell whose only record is in
        another cell on the neighbouring file. Publishing the proportions would have no bound.

        A unit of several rows is protected by group privacy, as in `PerturbedDrawsEvent`.
    """

    mechanism: ClassVar[str] = "polya-urn"
    records: int
    rows: int = 1

    def __post_init__(self) -> None:
        check_positive(self.scale, self.records)
        check_positive(self.scale, self.rows)

    def epsilon(self) -> Fraction:
        """Rows times log(1 + records/scale), rounded up."""
        return self.rows * log_one_plus_inverse(self.scale / self.records)

    def rho(self) -> Fraction:
        """Half of epsilon squared (Bun & Steinke 2016, Proposition 1.4)."""
        return self.epsilon() ** 2 / 2


@dataclass(frozen=True, slots=True)
class CellDraws(DrawnQuestion):
    """Records drawn from the cells of a table.

    Attributes:
        clique: Columns of the table.
        records: Number of records.
        kind: `independent` draws each record independently from the counts plus virtual records;
            `urn` draws one multinomial sample with proportions from their posterior.
        edges: Bins of each column.
        virtual: Virtual records added to each cell, exact.
    """

    NAME: ClassVar[str] = DRAWN_CELLS
    WHAT: ClassVar[str] = "Drawing records from counts"
    INSTEAD: ClassVar[str] = "measure tables"

    clique: Clique
    records: int
    kind: Literal["independent", "urn"]
    edges: Edges
    virtual: Fraction

    def event(self, relation: Relation) -> PerturbedDrawsEvent | PolyaUrnEvent:
        of_kind = PerturbedDrawsEvent if self.kind == "independent" else PolyaUrnEvent
        return of_kind(self.virtual, self.records, relation.max_rows)

    def shape(self, domain: Domain) -> tuple[int, int]:
        return self.records, len(self.binned(domain))

    def asks(self, domain: Domain) -> dict[str, object]:  # noqa: ARG002
        edges = [None if each is None else list(each) for each in self.edges]
        columns = list(self.clique)
        return {"name": self.NAME, "columns": columns, "edges": edges, "records": self.records}

    @classmethod
    def covered(cls, asks: Mapping[str, Any], event: Event, relation: Relation) -> bool:
        # privacy: draws are proven private only from counts with virtual records.
        if not isinstance(event, PerturbedDrawsEvent | PolyaUrnEvent):
            return False
        draws = event.draws if isinstance(event, PerturbedDrawsEvent) else event.records
        # privacy: all draws use the same table, so under both neighbouring relations the
        # probabilities of all of them can differ, and nothing else can.
        return draws >= whole(asks, "records", least=1) and event.rows >= relation.max_rows

    def binned(self, domain: Domain) -> Domain:
        """Return the domain of what is drawn: bins of the columns that have them.

        Raises:
            ValueError: if edges do not ascend from 0 to the number of codes.
        """
        own = domain.project(self.clique)
        check_bins(own.sizes, self.edges)
        return Domain(own.columns, binned_shape(own.sizes, self.edges))

    def draw(self, counter: Counter, domain: Domain, grant: Grant) -> NDArray[np.int64]:
        cells, counts = counter.observed(self.clique)
        codes = binned(cells.astype(np.int64), self.edges)
        return draw(codes, counts, self.binned(domain).sizes, grant)


def draw(
    cells: NDArray[np.int64], counts: NDArray[np.int64], sizes: Sequence[int], grant: Grant
) -> NDArray[np.int64]:
    """Return records drawn from the counts of cells plus virtual records.

    Draws are exact: they use uniform integers from the operating system's entropy. Only cells that
    hold a record are visited. Every cell has the same number of virtual records, so drawing a
    virtual record means drawing a cell uniformly from all cells.

    Args:
        cells: Codes of the cells that hold a record, shape (cells, columns); a cell may occur
            several times. Confidential.
        counts: Number of records in each cell, shape (cells,). Confidential.
        sizes: Number of codes of each column; the product may be any number.
        grant: Paid-for `PerturbedDrawsEvent` for independent draws, or `PolyaUrnEvent` for one
            multinomial sample; the shape of its step is (records, columns).

    Returns:
        Codes, shape (records, columns).

    Raises:
        TypeError: if the grant is for another kind of event.
        ValueError: if the grant paid for fewer records than its shape has.

    Privacy:
        See the event. The guarantee holds under both neighbouring relations.
    """
    event = grant.step.event
    if isinstance(event, PerturbedDrawsEvent):
        paid, urn = event.draws, False
    elif isinstance(event, PolyaUrnEvent):
        paid, urn = event.records, True
    else:
        raise TypeError(f"The grant is for {type(event).__name__}, not for drawn records.")
    records, columns = grant.step.shape
    # privacy: every draw adds to the privacy loss.
    if records > paid:
        raise ValueError(f"The grant is for {paid:,} draws, not for {records:,}.")
    assert columns == len(sizes)
    # In units of 1/parts of a record, all weights are integers.
    virtual, parts = event.scale.numerator, event.scale.denominator
    ends = np.cumsum(counts).tolist()
    real = (ends[-1] if ends else 0) * parts
    both = real + math.prod(sizes) * virtual
    found = np.empty((records, columns), dtype=np.int64)
    for record in range(records):
        # privacy: an urn also holds a copy of every record drawn before; independent draws do not.
        place = secrets.randbelow(both + record * parts if urn else both)
        if place < real:
            found[record] = cells[bisect_right(ends, place // parts)]
        elif place < both:
            found[record] = _cell((place - real) // virtual, sizes)
        else:
            found[record] = found[(place - both) // parts]
    return found


def _cell(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the codes of the cell with a row-by-row number, an integer of any size."""
    codes = [0] * len(sizes)
    for column in range(len(sizes) - 1, -1, -1):
        number, codes[column] = divmod(number, sizes[column])
    return codes
