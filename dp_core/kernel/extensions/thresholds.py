"""Tables of the observed cells whose noisy count reaches a threshold; from Laplace noise.

The histogram adds discrete Laplace noise Z of scale b to the count of each *observed* cell and
keeps the cells with count + Z >= T. Unobserved cells are never published. So a cell with a single
record, which is unobserved on the file without that record, must be kept with a very small
probability only. With a = e^(-1/b), that probability is

    P(1 + Z >= T) = a^(T - 1) / (1 + a)    for T >= 1,

and it is the whole delta of the histogram under both neighbouring relations. A person with up to k
rows may have all k in one cell without other records, or one in each of k such cells;
`kept_by_chance` covers both. `StabilityEvent` has the proofs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.cost.sensitivity import count_l1
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.counting.sparse_cells import sparse_result, words
from dp_core.kernel.drawn_question import DrawnQuestion
from dp_core.kernel.extensions import SPARSE_TABLE
from dp_core.kernel.mechanisms.event import Event, ScaledEvent, check_positive
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.noise.exact_samplers import add_noise
from dp_core.kernel.privacy import Relation

_PRECISE = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Decimal arithmetic whose operations, including `exp`, are exact to one unit of the 60th digit."""

_DIGITS = 20
"""Number of digits to which a probability is rounded up."""

_MARGIN = Decimal("1." + 40 * "0" + "1")
"""Safety factor, far larger than 60-digit errors and far smaller than the rounding up."""

_MOST = 2000
"""Largest exponent used; e^-2000 is an upper bound for larger ones and has few digits."""


@dataclass(frozen=True, slots=True)
class StabilityEvent(ScaledEvent):
    """Stability-based histogram: noisy counts of the observed cells that reach a threshold.

    The mechanism adds discrete Laplace noise to the count of every cell that holds a record and
    leaves out each cell whose noisy count is below the threshold. The number of cells of the table
    does not matter. Each record counts in exactly one cell (Korolova et al. 2009; Bun, Nissim &
    Stemmer 2016; Vadhan 2016, Theorem 3.5).

    Attributes:
        scale: Exact parameter of the sampler, records.
        l1_sensitivity: L1 sensitivity of the table of counts, for the release's neighbours.
        threshold: Least noisy count that is kept, records; at least `rows`.
        rows: Largest number of rows of one unit of privacy (k in the proof); 1 by default.

    Raises:
        ValueError: if the scale is not positive, the sensitivity or `rows` is below 1, or the
            threshold is below `rows`.

    Privacy:
        *Notation.* Two neighbouring files share the records R. In cell x, one file holds a_x
        further records of the unit, and the other file holds b_x. The sum of a and the sum of b
        are at most k (add-remove: b = 0). P and Q are the distributions of the output on the two
        files. Let s(c) = P(c + Z >= threshold) be the probability that a cell of c records is kept,
        and d = max(s(k), k s(1)) = `kept_by_chance(scale, threshold, k)`. Cells have independent
        noise, and a cell without a record is never published.

        *Which cells can fail.* First take the cells that hold a record on both files. Such a count
        changes by |a_x - b_x| and costs |a_x - b_x| / scale, because the threshold is
        post-processing. Together they cost e' <= epsilon, because the sum of |a_x - b_x| is at most
        the L1 sensitivity. Every other cell that changes holds no common record and is observed on
        one file only, say with a_x >= 1 records. On that file it is published with probability
        s(a_x), on the other file never. So P publishes some such cell with probability
        d_P <= sum of s(a_x), and Q with probability d_Q <= sum of s(b_x).

        *Both are at most d.* Let such cells hold c_1, ..., c_m records, each at least 1 and at most
        k in total. For c up to the threshold, s(c) = e^((c - threshold)/scale)/(1 + e^(-1/scale)),
        which is increasing and convex. So for fixed m the sum of s(c_i) is largest at a vertex,
        where all but one of the c_i are 1. Its value there, h(m) = s(k - m + 1) + (m - 1) s(1), is
        convex in m and therefore largest at m = 1 or m = k, where it is s(k) or k s(1).

        *(epsilon, d)-privacy.* Let p and q be P and Q conditional on no such cell being published;
        their probabilities differ by a factor of at most e^e'. For any set S of outputs let
        u = p(S). Then q(S) >= e^-e' u, P(S) <= (1 - d_P) u + d_P, and Q(S) >= (1 - d_Q) q(S), so

            P(S) - e^epsilon Q(S) <= d_P + u [(1 - d_P) - e^(epsilon - e') (1 - d_Q)].

        The right-hand side is linear in u. It is d_P at u = 0 and at most 1 - (1 - d_Q) = d_Q at
        u = 1, and both are at most d. The argument is symmetric in the two files. Replace-one does
        not double d, because each of P and Q fails only with cells of its own file. The pair p, q
        also shows d-approximate (epsilon^2/2)-zCDP (Bun & Steinke 2016, Definition 8.1).
    """

    mechanism: ClassVar[str] = "stability-histogram"
    l1_sensitivity: int
    threshold: int
    rows: int = 1

    def __post_init__(self) -> None:
        check_positive(self.scale, self.l1_sensitivity)
        check_positive(self.scale, self.rows)
        # privacy: with a threshold below 1, cells without records would need noise too; below
        # `rows`, `kept_by_chance` is not a bound.
        if self.threshold < self.rows:
            raise ValueError(f"The threshold must be at least {self.rows}, not {self.threshold}.")

    def epsilon(self) -> Fraction:
        """L1 sensitivity over scale, holding except with probability `own_delta`."""
        return self.l1_sensitivity / self.scale

    def rho(self) -> Fraction:
        """Epsilon^2/2, holding except with `own_delta` (Bun & Steinke 2016, Lemma 8.8)."""
        return self.epsilon() ** 2 / 2

    def own_delta(self) -> Fraction:
        """Probability that a cell with records of one unit only is kept, rounded up."""
        return kept_by_chance(self.scale, self.threshold, self.rows)


@dataclass(frozen=True, slots=True)
class ThresholdTable(DrawnQuestion):
    """The observed cells of a table whose noisy count reaches a threshold.

    Attributes:
        clique: Columns of the table.
        capacity: Largest number of cells that are kept; if more reach the threshold, those with
            the smallest noisy counts are dropped.
        scale: Scale of the noise on each count, records, exact.
        threshold: Least noisy count that is kept, records.
    """

    NAME: ClassVar[str] = SPARSE_TABLE
    WHAT: ClassVar[str] = "A table with a threshold"
    INSTEAD: ClassVar[str] = "measure the whole table"

    clique: Clique
    capacity: int
    scale: Fraction
    threshold: int

    def event(self, relation: Relation) -> StabilityEvent:
        return StabilityEvent(self.scale, count_l1(relation), self.threshold, relation.max_rows)

    def shape(self, domain: Domain) -> tuple[int, int]:
        if self.capacity < 1:
            raise ValueError(f"A table keeps at least 1 cell, not {self.capacity}.")
        return self.capacity, len(words(domain.project(self.clique).sizes)) + 1

    def asks(self, domain: Domain) -> dict[str, object]:
        sizes = [*domain.project(self.clique).sizes]
        columns = [*self.clique]
        return {"name": self.NAME, "columns": columns, "sizes": sizes, "capacity": self.capacity}

    @classmethod
    def covered(cls, asks: Mapping[str, Any], event: Event, relation: Relation) -> bool:  # noqa: ARG003
        # privacy: observed cells are proven private only above a threshold.
        return (
            isinstance(event, StabilityEvent)
            and event.l1_sensitivity >= count_l1(relation)
            and event.rows >= relation.max_rows
        )

    def draw(self, counter: Counter, domain: Domain, grant: Grant) -> NDArray[np.int64]:
        cells, counts = counter.observed(self.clique)
        return release(cells, counts, domain.project(self.clique).sizes, grant)


def release(
    cells: Codes, counts: NDArray[np.int64], sizes: Sequence[int], grant: Grant
) -> NDArray[np.int64]:
    """Return the cells whose noisy counts reach the threshold, in the stored form.

    Args:
        cells: Codes of every cell that holds a record, each once, ascending, shape (cells,
            columns). Confidential.
        counts: Exact numbers of records, shape (cells,), all positive. Confidential.
        sizes: Number of codes of each column.
        grant: Paid-for `StabilityEvent`; the first number of its step's shape is the capacity. If
            more cells reach the threshold, those with the largest noisy counts are kept; among
            equal counts, the first ones.

    Returns:
        A `sparse_result` that always has `capacity` rows.

    Raises:
        TypeError: if the grant is for another kind of event.

    Privacy:
        (epsilon, own delta)-DP with the values of the event, for the neighbours of its sensitivity.
        Korolova, Kenthapadi, Mishra & Ntoulas (2009); Bun, Nissim & Stemmer (2016).
    """
    event = grant.step.event
    if not isinstance(event, StabilityEvent):
        raise TypeError(f"The grant is for {type(event).__name__}, not for a histogram.")
    # privacy: the proof is for distinct cells that hold a record. With noise on empty cells, more
    # cells could appear than the own delta accounts for.
    assert counts.min(initial=1) > 0
    noisy = add_noise("laplace", counts, event.scale)
    kept = np.flatnonzero(noisy >= event.threshold)
    # privacy: from here on only noisy counts and kept cells are used.
    capacity = grant.step.shape[0]
    if len(kept) > capacity:
        largest = np.argsort(-noisy[kept], kind="stable")[:capacity]
        kept = kept[np.sort(largest)]
    return sparse_result(cells[kept], noisy[kept], sizes, capacity)


def kept_by_chance(scale: Fraction, threshold: int, rows: int) -> Fraction:
    """Return an upper bound on the probability that a cell with one unit's records only is kept.

    The bound holds for any distribution of the unit's records over such cells. It is the larger of
    two probabilities, rounded up to 20 digits: that of one cell with all k records, and k times
    that of a cell with one record.

    Args:
        scale: Scale of the discrete Laplace noise, records; positive.
        threshold: Least noisy count that is kept, records; at least `rows`.
        rows: Largest number of records of a unit (k), at least 1.

    Raises:
        ValueError: if an argument is outside its range.

    >>> [float(kept_by_chance(Fraction(scale), 60, 4)) for scale in (1, 4)]
    [3.495112756275616e-25, 8.832610335821661e-07]
    """
    if scale <= 0 or rows < 1 or threshold < rows:
        raise ValueError(
            f"The threshold must be at least {rows} and the scale positive, not {threshold} and"
            f" {scale}."
        )
    spread = _PRECISE.multiply(Decimal(rows), _power(Fraction(threshold - 1) / scale))
    passed = max(spread, _power(Fraction(threshold - rows) / scale))
    bound = _PRECISE.divide(passed, _PRECISE.add(Decimal(1), _power(1 / scale)))
    bound = _PRECISE.multiply(bound, _MARGIN)
    return Fraction(bound.normalize(Context(_DIGITS, ROUND_CEILING, MIN_EMIN, MAX_EMAX)))


def _power(exponent: Fraction) -> Decimal:
    """Return e^-exponent to 60 digits; an exponent above `_MOST` counts as `_MOST`."""
    least = min(exponent, Fraction(_MOST))
    quotient = _PRECISE.divide(Decimal(least.numerator), Decimal(least.denominator))
    return _PRECISE.exp(quotient.copy_negate())
