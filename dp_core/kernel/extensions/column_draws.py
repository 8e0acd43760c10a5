"""Records drawn column by column from exact counts with added virtual records."""

from __future__ import annotations

import itertools
import secrets
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.drawn_question import DrawnQuestion
from dp_core.kernel.extensions import DRAWN_RECORDS
from dp_core.kernel.mechanisms.event import Event, ScaledEvent, check_positive
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.descriptions import whole

_PRECISE = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Decimal arithmetic whose operations are exact to one unit of the 60th digit."""

_DIGITS = 20
"""Number of digits to which a logarithm is rounded up."""


@dataclass(frozen=True, slots=True)
class PerturbedDrawsEvent(ScaledEvent):
    """Draws of single codes with probabilities from counts plus virtual records.

    Each draw uses the table of one column given a combination g of codes of other columns. It
    returns code i with probability (n_gi + a) / (N_g + C a), where C is the number of codes, N_g
    the sum of n_gi over i, and a = `scale` (Park & Ghosh 2013). The combination used by a draw may
    depend on earlier draws.

    Attributes:
        scale: Virtual records added to each code, exact.
        draws: Largest possible number of draws whose probabilities differ between two files that
            differ in one row: draws from a combination that holds a differing record.
        rows: Largest number of rows of one unit of privacy; 1 by default.

    Raises:
        ValueError: if the scale is not positive, or `draws` or `rows` is below 1.

    Privacy:
        *One row added to (g, i)* changes only draws from g. It multiplies the probability of i by
        (n + 1 + a)/(n + a) (N + C a)/(N + 1 + C a), which is between 1 and 1 + 1/a. It multiplies
        the probability of every other code by (N + C a)/(N + 1 + C a), which is between
        1/(1 + 1/a) and 1. Removing the row has the inverse effect.

        *One row replaced within g* leaves N_g unchanged and multiplies two probabilities by at most
        1 + 1/a, or by at least its inverse. *Replaced by a row of another combination*, one
        combination loses a row and the other gains one; each draw uses only one of the two.

        So each draw that differs between the files multiplies the probability of the whole output
        by at most 1 + 1/a. Any sequence has at most `draws` such draws, and all others have equal
        probabilities on both files. The output is therefore draws log(1 + 1/a)-private.

        A unit of k rows is protected by group privacy (Dwork & Roth 2014, Theorem 2.2; Bun &
        Steinke 2016, Proposition 1.9): k times that epsilon, and k^2 times that rho.
    """

    mechanism: ClassVar[str] = "perturbed-draws"
    draws: int
    rows: int = 1

    def __post_init__(self) -> None:
        check_positive(self.scale, self.draws)
        check_positive(self.scale, self.rows)

    def epsilon(self) -> Fraction:
        """Rows times the number of draws times log(1 + 1/scale), rounded up."""
        return self.rows * self.draws * log_one_plus_inverse(self.scale)

    def rho(self) -> Fraction:
        """Rows^2 times draws times half the square of one draw's epsilon, rounded up.

        Bun & Steinke (2016), Propositions 1.4 and 1.9. Draws whose probabilities are equal on both
        files cost nothing, and at most `draws` of them differ.
        """
        return self.rows**2 * self.draws * log_one_plus_inverse(self.scale) ** 2 / 2


def log_one_plus_inverse(value: Fraction) -> Fraction:
    """Return log(1 + 1/value), rounded up to 20 digits.

    Args:
        value: From 1e-20 to 1e20.

    Raises:
        ValueError: if the value is outside that range.

    >>> float(log_one_plus_inverse(Fraction(1)))
    0.6931471805599453
    """
    # The logarithm loses as many digits as its argument shares with 1: 20 of the 60 at most.
    if not Fraction(1, 10**20) <= value <= 10**20:
        raise ValueError(f"The value must be from 1e-20 to 1e20, not {value}.")
    ratio = _PRECISE.divide(Decimal(value.denominator), Decimal(value.numerator))
    found = _PRECISE.multiply(
        _PRECISE.ln(_PRECISE.add(Decimal(1), ratio)), Decimal("1.0" + 17 * "0" + "1")
    )
    return Fraction(found.normalize(Context(_DIGITS, ROUND_CEILING, MIN_EMIN, MAX_EMAX)))


@dataclass(frozen=True, slots=True)
class ColumnDraws(DrawnQuestion):
    """Records drawn column by column, each column from the counts given some other columns.

    Attributes:
        cliques: One for each column, in the domain's order: the column, then the columns that it
            is drawn conditionally on.
        records: Number of records.
        sweeps: Number of times each column of a record is drawn.
        virtual: Virtual records added to each code, exact.
    """

    NAME: ClassVar[str] = DRAWN_RECORDS
    WHAT: ClassVar[str] = "Drawing records from counts"
    INSTEAD: ClassVar[str] = "measure tables"

    cliques: tuple[Clique, ...]
    records: int
    sweeps: int
    virtual: Fraction

    def event(self, relation: Relation) -> PerturbedDrawsEvent:
        draws = differing_draws(len(self.cliques), self.records, self.sweeps, relation)
        return PerturbedDrawsEvent(self.virtual, draws, relation.max_rows)

    def shape(self, domain: Domain) -> tuple[int, int]:
        # privacy: a draw takes the codes of other columns by their places in the domain.
        if tuple(clique[:1] for clique in self.cliques) != tuple((n,) for n in domain.columns):
            raise ValueError("Every column of the domain needs one table, in the domain's order.")
        for clique in self.cliques:
            domain.project(clique)
        return self.records, len(self.cliques)

    def asks(self, domain: Domain) -> dict[str, object]:  # noqa: ARG002
        tables = [*map(list, self.cliques)]
        return {
            "name": self.NAME,
            "tables": tables,
            "records": self.records,
            "sweeps": self.sweeps,
        }

    @classmethod
    def covered(cls, asks: Mapping[str, Any], event: Event, relation: Relation) -> bool:
        # privacy: draws are proven private only from counts with virtual records.
        if not isinstance(event, PerturbedDrawsEvent):
            return False
        columns, records, sweeps = len(asks["tables"]), asks["records"], asks["sweeps"]
        draws = differing_draws(columns, records, sweeps, relation)
        return event.draws >= draws and event.rows >= relation.max_rows

    def draw(self, counter: Counter, domain: Domain, grant: Grant) -> NDArray[np.int64]:
        counts = counter.count(self.cliques)
        tables = [counts[clique].counts for clique in self.cliques]
        others = [domain.axes(clique[1:]) for clique in self.cliques]
        return draw(tables, others, self.sweeps, grant)


def differing_draws(columns: int, records: int, sweeps: int, relation: Relation) -> int:
    """Return a bound on the draws whose probabilities differ between files that differ in one row.

    Args:
        columns: Number of columns, each of which has a table.
        records: Number of records.
        sweeps: Number of times each column of a record is drawn.
        relation: Neighbouring relation of the release; its `steps` are changes of one row.

    Raises:
        ValueError: if a number is no positive integer; it may be read from an untrusted receipt.

    Privacy:
        Within one record, a column is drawn from the counts at most once for each combination of
        the other columns. Later draws for that combination are uniform and equal on all files. A
        row that is added or removed is in one combination of each column's table. A replaced row
        and its replacement are in at most two.
    """
    numbers = {"columns": columns, "records": records, "sweeps": sweeps}
    columns, records, sweeps = (whole(numbers, name, least=1) for name in numbers)
    return records * columns * min(sweeps, 2 if "replace-one" in relation.steps else 1)


def draw(
    tables: Sequence[NDArray[np.int64]],
    others: Sequence[Sequence[int]],
    sweeps: int,
    grant: Grant,
) -> NDArray[np.int64]:
    """Return records drawn column by column, each starting from the preceding record.

    The first record starts from uniform draws. Draws are exact: they use uniform integers from the
    operating system's entropy.

    Args:
        tables: For each column, the exact counts of its codes (first axis) by the codes of other
            columns (further axes). Confidential.
        others: For each column, the indices of the columns of the further axes.
        sweeps: Number of times each column of a record is drawn. For each combination of the other
            columns, a record uses the counts once; later draws are uniform.
        grant: Paid-for `PerturbedDrawsEvent`; the shape of its step is (records, columns).

    Returns:
        Codes, shape (records, columns).

    Raises:
        TypeError: if the grant is for another kind of event.

    Privacy:
        epsilon-DP, with the epsilon of the event. Park & Ghosh (2013), with uniform draws for a
        repeated combination.
    """
    event = grant.step.event
    if not isinstance(event, PerturbedDrawsEvent):
        raise TypeError(f"The grant is for {type(event).__name__}, not for drawn records.")
    records, columns = grant.step.shape
    assert columns == len(tables) == len(others)
    state = [secrets.randbelow(table.shape[0]) for table in tables]
    found = np.empty((records, columns), dtype=np.int64)
    for record in range(records):
        visited: set[tuple[int, ...]] = set()
        for _ in range(sweeps):
            for column, table in enumerate(tables):
                given = tuple(state[other] for other in others[column])
                # privacy: the event does not pay for a second use of the same counts by one record.
                if (column, *given) in visited:
                    state[column] = secrets.randbelow(table.shape[0])
                    continue
                visited.add((column, *given))
                place: tuple[Any, ...] = (slice(None), *given)
                counts = [int(count) for count in table[place]]
                state[column] = weighted(counts, event.scale.numerator, event.scale.denominator)
        found[record] = state
    return found


def weighted(counts: Sequence[int], virtual: int, parts: int) -> int:
    """Return an index with probability exactly proportional to its count plus virtual/parts."""
    ends = list(itertools.accumulate(count * parts + virtual for count in counts))
    return bisect_right(ends, secrets.randbelow(ends[-1]))
