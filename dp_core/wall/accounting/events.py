"""What was done to the data, in parameters from which any accountant can recompute its cost.

An event never changes meaning once a release has used it; a new mechanism gets a new class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar, Protocol

from dp_core.documents.exact import exact_fraction
from dp_core.wall.accounting.stability_thresholds import kept_by_chance, log_one_plus_inverse


class Event(Protocol):
    """One use of one mechanism."""

    def epsilon(self) -> Fraction | None:
        """Epsilon apart from `own_delta`, None if the mechanism has none."""

    def rho(self) -> Fraction:
        """Zero-concentrated rho apart from `own_delta`."""

    def own_delta(self) -> Fraction:
        """Probability with which neither holds; what a conversion to epsilon adds is not in it."""

    def to_json(self) -> dict[str, object]:
        """Return the event in plain values, exact."""


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
        scale: Exact value of the sampler's parameter, records.
        l1_sensitivity: Of the integer statistic, for the release's neighbours.
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
        scale: Exact value of the sampler's parameter, records.
        l2_sensitivity_squared: Of the integer statistic, for the release's neighbours.
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
        scale: Exact value of the sampler's parameter, in units of the scores.
        sensitivity: Largest change of any one score, for the release's neighbours.
        gumbel: Gumbel noise (the exponential mechanism), otherwise exponential noise
            (permute-and-flip), which has no discount in zCDP.
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
        """An eighth of epsilon squared under Gumbel noise (Cesar & Rogers 2021), else half."""
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

    Discrete Laplace noise on the count of every cell that holds a record, whatever the number of
    cells that could; what is below the threshold is left out. Every count is of whole records, each
    in one cell (Korolova et al. 2009; Bun, Nissim & Stemmer 2016; Vadhan 2016, Theorem 3.5).

    Attributes:
        scale: Exact value of the sampler's parameter, records.
        l1_sensitivity: Of the table of counts, for the release's neighbours.
        threshold: Least noisy count that is kept, records; from `rows`.
        rows: Most rows of one unit of privacy, k.

    Privacy:
        Let s(c) = P(c + Z >= threshold) be the probability that a cell of c records is kept, d =
        max(s(k), k s(1)) = `kept_by_chance(scale, threshold, k)`, and P, Q the distributions of the
        output on two neighbouring files: common records R, and beside them on one file the unit's
        a_x records in cell x, on the other b_x; sums of a and of b are at most k. (Add-remove: b =
        0.) Cells have independent noise, and a cell without a record is never shown.

        *What can fail.* A cell with a record on both files moves by |a_x - b_x| and costs that over
        the scale: the threshold is post-processing. All of them cost e', and e' <= epsilon because
        the sum of |a_x - b_x| is at most the L1 sensitivity. Any other cell that moves has no
        common record and is observed on one file only, with a_x >= 1 records, say: it is shown
        there with probability s(a_x), on the other file never. P shows some such cell with
        probability d_P <= sum of s(a_x), Q with d_Q <= sum of s(b_x).

        *At most d.* Let such cells hold c_1, ..., c_m records, each at least 1, of k in all at
        most. Up to the threshold s is an exponential, s(c) = e^((c - threshold)/scale)/(1 +
        e^(-1/scale)): it grows and is convex. So for fixed m the sum of s(c_i) is largest where all
        but one are 1 (a vertex), and h(m) = s(k - m + 1) + (m - 1) s(1) is convex in m, so largest
        at m = 1 or m = k: s(k), or k s(1).

        *(epsilon, d)-privacy.* Let p, q be P, Q on the condition that no such cell is shown;
        they differ by e^e' at most. For any set S of outputs let u = p(S), so that q(S) >= e^-e' u
        and P(S) <= (1 - d_P) u + d_P, and Q(S) >= (1 - d_Q) q(S). Then

            P(S) - e^epsilon Q(S) <= d_P + u [(1 - d_P) - e^(epsilon - e') (1 - d_Q)],

        which is linear in u: at u = 0 it is d_P, at u = 1 at most 1 - (1 - d_Q) = d_Q, and both are
        at most d. Nothing here asks which file is which. So d is not doubled under replace-one,
        because no distribution can fail in two ways; and p, q show d-approximate
        (epsilon^2/2)-zCDP (Bun & Steinke 2016, Definition 8.1).
    """

    mechanism: ClassVar[str] = "stability-histogram"
    l1_sensitivity: int
    threshold: int
    rows: int = 1

    def __post_init__(self) -> None:
        _positive(self.scale, self.l1_sensitivity)
        _positive(self.scale, self.rows)
        # privacy: below 1 a cell without a record would have to be kept sometimes, too; below the
        # number of rows `kept_by_chance` is no bound.
        if self.threshold < self.rows:
            raise ValueError(
                f"A threshold is a whole number from {self.rows}, got {self.threshold}."
            )

    def epsilon(self) -> Fraction:
        """L1 sensitivity over scale, apart from `own_delta`."""
        return self.l1_sensitivity / self.scale

    def rho(self) -> Fraction:
        """Half of epsilon squared, apart from `own_delta` (Bun & Steinke 2016, Lemma 8.8)."""
        return self.epsilon() ** 2 / 2

    def own_delta(self) -> Fraction:
        """Probability that a cell of one unit alone is kept, rounded up."""
        return kept_by_chance(self.scale, self.threshold, self.rows)


@dataclass(frozen=True, slots=True)
class PerturbedDrawsEvent(_ScaledEvent):
    """Draws of single codes, each by counts of records to which virtual records were added.

    A draw takes a table of one column given a combination g of others' codes, and returns code i
    with probability (n_gi + a) / (N_g + C a): C codes, N_g the sum of n_gi, a = `scale` (Park &
    Ghosh 2013). Which combination is looked at depends on what was drawn before.

    Attributes:
        scale: Virtual records added to each code, exact.
        draws: Most draws from a combination that one of two differing records is in, whatever is
            drawn, where files differ in one row.
        rows: Most rows of one unit of privacy.

    Privacy:
        One row more or less in (g, i) changes only draws from g. It multiplies the probability of i
        by (n + 1 + a)/(n + a) (N + C a)/(N + 1 + C a), between 1 and 1 + 1/a, and that of another
        code by (N + C a)/(N + 1 + C a), between 1/(1 + 1/a) and 1. A row that is replaced within g
        leaves N_g and multiplies two probabilities by at most 1 + 1/a, or by its inverse; otherwise
        one combination loses a row and another gains one, and a draw looks at one of them. So each
        draw that the two files make differently multiplies the probability of everything drawn by
        at most 1 + 1/a. Along any sequence of draws there are at most `draws` such, and the others
        are the same on both files: the whole is draws log(1 + 1/a)-private.

        Of a unit of k rows it is group privacy (Dwork & Roth 2014, Theorem 2.2; Bun & Steinke 2016,
        Proposition 1.9): files that are joined by k such steps differ by k times that epsilon, and
        by k^2 times that rho.
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
        """Half of the square of each draw's epsilon (Bun & Steinke 2016, Proposition 1.4).

        Draws that the files make alike cost nothing, and of the others there are at most `draws`.
        """
        return self.rows**2 * self.draws * log_one_plus_inverse(self.scale) ** 2 / 2


@dataclass(frozen=True, slots=True)
class PolyaUrnEvent(_ScaledEvent):
    """Records drawn from an urn that begins with all records, and virtual ones in every cell.

    A draw takes a cell with probability in proportion to its records, a = `scale` virtual ones, and
    the times it was drawn before. That is one multinomial sample from proportions which were drawn
    from Dirichlet(n + a) and stay hidden (Blackwell & MacQueen 1973): the Multinomial-Dirichlet
    synthesizer of Abowd & Vilhuber (2008).

    Attributes:
        scale: Virtual records added to each cell, exact.
        records: Records drawn from one urn, at most.
        rows: Most rows of one unit of privacy.

    Privacy:
        Of K cells let i hold n_i records, N in all, and be drawn c_i times in k draws. A sequence
        of draws has probability prod_i (n_i + a)^(c_i) / (N + K a)^(k), with the rising factorial
        x^(c) = x (x + 1) ... (x + c - 1), for which (x + 1)^(c) / x^(c) = (x + c)/x.

        *One record more, in cell i*, multiplies it by (n_i + a + c_i)/(n_i + a), between 1 and
        1 + k/a, and by (N + K a)/(N + K a + k), between 1/(1 + k/(K a)) and 1: by 1 + k/a at most,
        and by 1/(1 + k/a) at least, because K >= 1.

        *A record that moves from cell i to cell j* leaves N, multiplies by (n_j + a + c_j)/(n_j +
        a), from 1 to 1 + k/a, and divides by (n_i - 1 + a + c_i)/(n_i - 1 + a), from 1 to 1 + k/a:
        the product is between 1/(1 + k/a) and 1 + k/a.

        So k records are log(1 + k/a)-private under both relations, and no less in general: all k
        from a cell of one record, on a file where that record is elsewhere. The proportions
        themselves, if they were shown, would have no bound.

        A unit of several rows: group privacy, as of `PerturbedDrawsEvent`.
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

    Raises:
        ValueError: if it is not one of ours; an unknown event has no known cost.
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
        raise ValueError("The event has fields that are not its own.")
    return event


def _positive(scale: Fraction, sensitivity: int) -> None:
    # privacy: a scale of 0 would mean no noise.
    if scale <= 0:
        raise ValueError(f"Noise needs a positive scale, got {scale}.")
    if sensitivity < 1:
        raise ValueError(f"A sensitivity is a whole number from 1, got {sensitivity}.")


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"Expected a whole number, got {value!r}.")
    return value
