"""Events: each use of a mechanism, with the parameters that determine its privacy cost.

An event never changes meaning once a release has used it; a new mechanism gets a new class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar, Protocol

from dp_core.kernel.cost.stability_thresholds import kept_by_chance, log_one_plus_inverse
from dp_core.kernel.exact import exact_fraction

LARGEST_SCALE = 1 << 53
"""Scales of noise are below: larger noise can leave the 64 bits of a count."""


class Event(Protocol):
    """One use of one mechanism."""

    def epsilon(self) -> Fraction | None:
        """Pure epsilon, holding except with probability `own_delta`; None if there is none."""

    def rho(self) -> Fraction:
        """Parameter rho of zCDP, holding except with probability `own_delta`."""

    def own_delta(self) -> Fraction:
        """Probability that the bounds `epsilon` and `rho` fail; 0 for most mechanisms.

        The delta at which rho is converted to epsilon is not part of it.
        """

    def to_json(self) -> dict[str, object]:
        """Return the event as plain JSON values, with exact numbers as text."""


@dataclass(frozen=True, slots=True)
class _ScaledEvent:
    """Base of all events: an exact scale, and numbers in fields of their own.

    Attributes:
        mechanism: Name of the mechanism in receipts.
        scale: Exact value of the mechanism's parameter.
    """

    mechanism: ClassVar[str]
    scale: Fraction

    def own_delta(self) -> Fraction:
        """Return 0; a mechanism that can fail replaces this."""
        return Fraction(0)

    def to_json(self) -> dict[str, object]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if values.get("rows") == 1:
            del values["rows"]  # stated only if one unit may have several
        return {"mechanism": self.mechanism, **values, "scale": str(self.scale)}


@dataclass(frozen=True, slots=True)
class LaplaceEvent(_ScaledEvent):
    """Discrete Laplace noise on integers, P(z) ~ exp(-|z| / scale).

    Attributes:
        scale: Exact parameter of the sampler, in units of the statistic (records for counts).
        l1_sensitivity: L1 sensitivity of the integer statistic, for the release's neighbours.

    Raises:
        ValueError: if the scale is not positive or the sensitivity is below 1.
    """

    mechanism: ClassVar[str] = "discrete-laplace"
    l1_sensitivity: int

    def __post_init__(self) -> None:
        _positive(self.scale, self.l1_sensitivity)

    def epsilon(self) -> Fraction:
        """L1 sensitivity over scale (Ghosh, Roughgarden & Sundararajan 2012, section 2)."""
        return self.l1_sensitivity / self.scale

    def rho(self) -> Fraction:
        """Half of epsilon squared (Bun & Steinke 2016, Proposition 1.4)."""
        return self.epsilon() ** 2 / 2


@dataclass(frozen=True, slots=True)
class GaussianEvent(_ScaledEvent):
    """Discrete Gaussian noise on integers, P(z) ~ exp(-z^2 / (2 scale^2)).

    Attributes:
        scale: Exact parameter of the sampler, in units of the statistic (records for counts).
        l2_sensitivity_squared: Squared L2 sensitivity of the integer statistic, for the release's
            neighbours.

    Raises:
        ValueError: if the scale is not positive or the sensitivity is below 1.
    """

    mechanism: ClassVar[str] = "discrete-gaussian"
    l2_sensitivity_squared: int

    def __post_init__(self) -> None:
        _positive(self.scale, self.l2_sensitivity_squared)

    def epsilon(self) -> None:
        """Gaussian noise is not purely private."""
        return

    def rho(self) -> Fraction:
        """L2 sensitivity squared over twice the variance (Canonne et al. 2020, Theorem 4)."""
        return self.l2_sensitivity_squared / (2 * self.scale**2)


@dataclass(frozen=True, slots=True)
class NoisyMaxEvent(_ScaledEvent):
    """Report of the index of the largest score after noise of the given scale.

    Attributes:
        scale: Exact parameter of the sampler, in units of the scores.
        sensitivity: Largest change of any one score, for the release's neighbours.
        gumbel: True for Gumbel noise (the exponential mechanism); False for exponential noise
            (permute-and-flip), which has no smaller rho than epsilon^2/2.

    Raises:
        ValueError: if the scale is not positive or the sensitivity is below 1.
    """

    mechanism: ClassVar[str] = "noisy-max"
    sensitivity: int
    gumbel: bool

    def __post_init__(self) -> None:
        _positive(self.scale, self.sensitivity)

    def epsilon(self) -> Fraction:
        """Twice the sensitivity over the scale (McSherry & Talwar 2007, Theorem 6)."""
        return 2 * self.sensitivity / self.scale

    def rho(self) -> Fraction:
        """Epsilon^2/8 under Gumbel noise (Cesar & Rogers 2021), otherwise epsilon^2/2."""
        return self.epsilon() ** 2 / (8 if self.gumbel else 2)

    def to_json(self) -> dict[str, object]:
        return {
            "mechanism": self.mechanism,
            "scale": str(self.scale),
            "sensitivity": self.sensitivity,
            "noise": "gumbel" if self.gumbel else "exponential",
        }


@dataclass(frozen=True, slots=True)
class StabilityEvent(_ScaledEvent):
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
        _positive(self.scale, self.l1_sensitivity)
        _positive(self.scale, self.rows)
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
class PerturbedDrawsEvent(_ScaledEvent):
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
        _positive(self.scale, self.draws)
        _positive(self.scale, self.rows)

    def epsilon(self) -> Fraction:
        """Rows times the number of draws times log(1 + 1/scale), rounded up."""
        return self.rows * self.draws * log_one_plus_inverse(self.scale)

    def rho(self) -> Fraction:
        """Rows^2 times draws times half the square of one draw's epsilon, rounded up.

        Bun & Steinke (2016), Propositions 1.4 and 1.9. Draws whose probabilities are equal on both
        files cost nothing, and at most `draws` of them differ.
        """
        return self.rows**2 * self.draws * log_one_plus_inverse(self.scale) ** 2 / 2


@dataclass(frozen=True, slots=True)
class PolyaUrnEvent(_ScaledEvent):
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
        _positive(self.scale, self.records)
        _positive(self.scale, self.rows)

    def epsilon(self) -> Fraction:
        """Rows times log(1 + records/scale), rounded up."""
        return self.rows * log_one_plus_inverse(self.scale / self.records)

    def rho(self) -> Fraction:
        """Half of epsilon squared (Bun & Steinke 2016, Proposition 1.4)."""
        return self.epsilon() ** 2 / 2


def event_from_json(values: Mapping[str, object]) -> Event:
    """Return the event that `to_json` wrote.

    Args:
        values: The event's fields, as in a receipt.

    Raises:
        ValueError: if the mechanism is unknown, a field is missing, or there are further fields.
    """
    try:
        scale, rows = exact_fraction(values["scale"]), _whole(values.get("rows", 1))
        match values["mechanism"]:
            case "discrete-laplace":
                event: Event = LaplaceEvent(scale, _whole(values["l1_sensitivity"]))
            case "discrete-gaussian":
                event = GaussianEvent(scale, _whole(values["l2_sensitivity_squared"]))
            case "noisy-max":
                gumbel = values["noise"] == "gumbel"
                event = NoisyMaxEvent(scale, _whole(values["sensitivity"]), gumbel)
            case "stability-histogram":
                l1, threshold = _whole(values["l1_sensitivity"]), _whole(values["threshold"])
                event = StabilityEvent(scale, l1, threshold, rows)
            case "perturbed-draws":
                event = PerturbedDrawsEvent(scale, _whole(values["draws"]), rows)
            case "polya-urn":
                event = PolyaUrnEvent(scale, _whole(values["records"]), rows)
            case other:
                raise ValueError(f"Unknown mechanism {other!r}.")
    except (KeyError, ZeroDivisionError, TypeError) as error:
        raise ValueError(f"Not an event: {type(error).__name__}.") from None
    if event.to_json() != dict(values):
        raise ValueError("The event has fields that its mechanism does not define.")
    return event


def _positive(scale: Fraction, sensitivity: int) -> None:
    # privacy: a scale of 0 would mean no noise.
    if scale <= 0:
        raise ValueError(f"The scale must be positive, not {scale}.")
    if sensitivity < 1:
        raise ValueError(f"A sensitivity or number must be at least 1, not {sensitivity}.")


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"Expected a whole number, got {value!r}.")
    return value
