"""The currency of one release: what its events cost, and what the sum means.

One release pays in one currency, fixed in its plan before the data are touched:

- `pure`: epsilon; Laplace noise. The only one when delta is 0, and open to any delta.
- `zcdp`: rho, converted once (Canonne, Kamath & Steinke 2020).
- `gaussian`: half of squared mu of the Gaussian curve; only Gaussian events. Less noise than zcdp
  for the same guarantee unless the noise is of the order of one record.

Beside its total it can set a delta aside for events that fail with a probability of their own.
Those are summed, and the rest of the guarantee's delta is what a total is converted at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dp_core.schema.privacy import Noise
from dp_core.wall.accounting.curves import (
    SMOOTHING,
    gaussian_epsilon,
    gaussian_limit,
    zcdp_epsilon,
    zcdp_limit,
)
from dp_core.wall.accounting.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PerturbedDrawsEvent,
    PolyaUrnEvent,
    StabilityEvent,
)
from dp_core.wall.accounting.stability_thresholds import threshold_for

Kind = Literal["pure", "zcdp", "gaussian"]

THEOREMS = {
    "pure": "basic composition of pure differential privacy (Dwork et al. 2006)",
    "zcdp": "zero-concentrated composition, converted by Canonne, Kamath & Steinke (2020)",
    "gaussian": (
        "Gaussian composition with a total fixed beforehand (Smith & Thakurta 2022), the exact"
        " Gaussian curve (Balle & Wang 2018), and smoothing of the discrete noise"
    ),
}

VIRTUAL_PARTS = 1024
"""Virtual records are counted in this part of one."""

URN_PARTS = 1 << 20
"""So are those of an urn, of which all draws together need fewer."""

LEAST_DRAW = 1e-18
"""Least epsilon of one draw by counts; far from 1e-20, below which its cost is not known."""

_ENOUGH = 64
"""Epsilon or rho of one draw that buys the fewest virtual records there are, one part of one."""

OWN_DELTA = (
    "; the probabilities with which thresholds fail are summed beside it (Dwork et al. 2006)"
)
"""What is added where a delta is set aside."""


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """Kind and parameter of the noise of a count; public."""

    kind: Noise
    scale: float

    @property
    def stddev(self) -> float:
        """Standard deviation, records (of the continuous noise, an upper bound)."""
        return self.scale * (math.sqrt(2.0) if self.kind == "laplace" else 1.0)

    @property
    def mean_absolute(self) -> float:
        """Expected absolute error of one cell, records (of the continuous noise)."""
        return self.scale * (1.0 if self.kind == "laplace" else math.sqrt(2.0 / math.pi))

    @property
    def half_width(self) -> float:
        """Half width of the central 95 % range of the noise, records."""
        return self.scale * (math.log(20.0) if self.kind == "laplace" else 1.959963984540054)


@dataclass(frozen=True, slots=True)
class Currency:
    """A kind of cost and the total one release may spend in it.

    Attributes:
        kind: Which arithmetic.
        limit: Total in that arithmetic's unit.
        own_delta: Total of the events' own deltas that it may spend.
    """

    kind: Kind
    limit: Fraction
    own_delta: Fraction = Fraction(0)

    def cost(self, event: Event) -> Fraction:
        """Return what an event costs, exactly; its own delta is counted beside that.

        Raises:
            ValueError: if the event has no cost in this currency.
        """
        if self.kind == "zcdp":
            return event.rho()
        if self.kind == "pure":
            epsilon = event.epsilon()
            if epsilon is None:
                raise ValueError(f"{type(event).__name__} is not purely private.")
            return epsilon
        if not isinstance(event, GaussianEvent):
            raise ValueError(f"{type(event).__name__} does not add up on the Gaussian curve.")
        smoothed = event.scale**2 - SMOOTHING
        if smoothed <= 0:
            raise ValueError("Noise of this scale is too small for the Gaussian curve.")
        return event.l2_sensitivity_squared / (2 * smoothed)

    def noise_event(self, cost: Fraction, *, l1: int, l2_squared: int) -> Event:
        """Return the noise on an integer statistic that `cost` buys; never more than it buys.

        Args:
            cost: Part of `limit`, positive.
            l1: L1 sensitivity of the statistic.
            l2_squared: Its squared L2 sensitivity.
        """
        if cost <= 0:
            raise ValueError(f"A cost is positive, got {cost}.")
        if self.kind == "pure":
            return LaplaceEvent(_at_least(l1 / cost), l1)
        variance = Fraction(l2_squared) / (2 * cost)
        if self.kind == "gaussian":
            variance += SMOOTHING
        return GaussianEvent(_root_at_least(variance), l2_squared)

    def threshold_event(
        self,
        cost: Fraction,
        delta: Fraction,
        *,
        l1: int,
        rows: int = 1,
        threshold: int | None = None,
    ) -> StabilityEvent:
        """Return the stability-based histogram that `cost` and `delta` buy; never more than they.

        Args:
            cost: Part of `limit`, positive.
            delta: Part of `own_delta`, positive.
            l1: L1 sensitivity of its table of counts.
            rows: Most rows of one unit of privacy.
            threshold: Least noisy count that is kept; None for the least that `delta` allows.

        Raises:
            ValueError: if the currency has no cost for it, or the threshold fails with more than
                `delta`.
        """
        if cost <= 0:
            raise ValueError(f"A cost is positive, got {cost}.")
        if self.kind == "gaussian":
            raise ValueError("A threshold does not add up on the Gaussian curve; use pure or zcdp.")
        # zCDP: rho = epsilon^2/2, so the scale l1/epsilon is l1/sqrt(2 rho).
        scale = (
            _at_least(l1 / cost)
            if self.kind == "pure"
            else _root_at_least(Fraction(l1**2) / (2 * cost))
        )
        least = threshold_for(scale, delta, rows)
        if threshold is not None and threshold < least:
            raise ValueError(f"A threshold of {threshold} is too low; it must be at least {least}.")
        return StabilityEvent(scale, l1, threshold or least, rows)

    def draws_event(self, cost: Fraction, draws: int, rows: int = 1) -> PerturbedDrawsEvent:
        """Return the draws by counts and virtual records that `cost` buys; never more than that.

        Args:
            cost: Part of `limit`, positive.
            draws: Most draws that files make differently which differ in one row.
            rows: Most rows of one unit of privacy.

        Raises:
            ValueError: if the currency has no cost for it, or one draw gets less than `LEAST_DRAW`.
        """
        if cost <= 0:
            raise ValueError(f"A cost is positive, got {cost}.")
        if self.kind == "gaussian":
            raise ValueError("Draws do not add up on the Gaussian curve; use pure or zcdp.")
        # What is more than enough is left over: its exponential would overflow.
        each = float(min(cost / draws, Fraction(_ENOUGH)))
        each = (each if self.kind == "pure" else math.sqrt(2 * each)) / rows
        if each < LEAST_DRAW:
            raise ValueError(f"A draw needs an epsilon of {LEAST_DRAW:g} or more.")
        # Floating point only guesses; the event's own cost decides.
        parts = max(1, math.ceil(VIRTUAL_PARTS / math.expm1(each)))
        while (
            self.cost(event := PerturbedDrawsEvent(Fraction(parts, VIRTUAL_PARTS), draws, rows))
            > cost
        ):
            parts += max(1, parts >> 40)
        return event

    def urn_event(self, cost: Fraction, records: int, rows: int = 1) -> PolyaUrnEvent:
        """Return the draws from one urn that `cost` buys; never more than that.

        Args:
            cost: Part of `limit`, positive.
            records: Number of draws.
            rows: Most rows of one unit of privacy.

        Raises:
            ValueError: if the currency has no cost for it, or `cost` is an epsilon below
                `LEAST_DRAW`.
        """
        if cost <= 0:
            raise ValueError(f"A cost is positive, got {cost}.")
        if self.kind == "gaussian":
            raise ValueError("Draws do not add up on the Gaussian curve; use pure or zcdp.")
        # What is more than enough is left over: its exponential would overflow.
        whole = float(min(cost, Fraction(_ENOUGH**2)))
        whole = min((whole if self.kind == "pure" else math.sqrt(2 * whole)) / rows, _ENOUGH)
        if whole < LEAST_DRAW:
            raise ValueError(f"An urn needs an epsilon of {LEAST_DRAW:g} or more.")
        # Floating point only guesses; the event's own cost decides.
        parts = max(1, math.ceil(URN_PARTS * records / math.expm1(whole)))
        while self.cost(event := PolyaUrnEvent(Fraction(parts, URN_PARTS), records, rows)) > cost:
            parts += max(1, parts >> 40)
        return event

    def noise(self, cost: Fraction, *, l1: int, l2_squared: int) -> NoiseScale:
        """Return the same noise as kind and scale."""
        event = self.noise_event(cost, l1=l1, l2_squared=l2_squared)
        kind: Noise = "laplace" if isinstance(event, LaplaceEvent) else "gaussian"
        assert isinstance(event, LaplaceEvent | GaussianEvent)
        return NoiseScale(kind, float(event.scale))

    def epsilon(self, spent: Fraction, delta: Fraction) -> Fraction:
        """Return the epsilon at `delta` that a sum of costs implies, rounded up.

        Args:
            spent: Sum of costs.
            delta: Of the guarantee, at least `own_delta` (more, unless the currency is pure).

        Privacy:
            Pure: epsilons and own deltas add up (Dwork et al. 2006; adaptively: Rogers et al.
            2016). Otherwise the total is d-approximate zCDP with d the sum of the own deltas, which
            gives (epsilon, d + d')-privacy where the total alone gives (epsilon, d') (Bun & Steinke
            2016, Lemmas 8.2 and 8.8; adaptively: Whitehouse et al. 2023).
        """
        if spent == 0 or self.kind == "pure":
            return spent
        convert = zcdp_epsilon if self.kind == "zcdp" else gaussian_epsilon
        return convert(spent, delta - self.own_delta)

    def implies(self, epsilon: Fraction, delta: Fraction) -> bool:
        """Return whether the total, with the own delta beside it, implies (epsilon, delta)."""
        if epsilon <= 0 or not 0 <= delta < 1 or self.limit <= 0:
            return False
        left = delta - self.own_delta
        if left < 0 or self.own_delta < 0:
            return False
        # Both directions round to the safe side; either shows it.
        if self.limit <= largest_limit(self.kind, epsilon, left):
            return True
        return self.kind != "pure" and left > 0 and self.epsilon(self.limit, delta) <= epsilon

    def to_json(self) -> dict[str, str]:
        """Return the currency as plans and receipts have it: every number as exact text."""
        return {"kind": self.kind, "limit": str(self.limit), "own_delta": str(self.own_delta)}

    @property
    def theorem(self) -> str:
        """Why the sum of costs is a guarantee."""
        return THEOREMS[self.kind] + (OWN_DELTA if self.own_delta else "")


def largest_limit(kind: Kind, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest total in a currency that implies (epsilon, delta), delta all for it."""
    if kind == "pure":
        return epsilon
    if delta == 0:
        return Fraction(0)
    return zcdp_limit(epsilon, delta) if kind == "zcdp" else gaussian_limit(epsilon, delta)


def choose_currency(
    epsilon: Fraction,
    delta: Fraction,
    *,
    noise: Noise | Literal["auto"],
    shares: Sequence[tuple[Fraction, int, int, float]],
    choices: tuple[Fraction, int] | None = None,
) -> Currency:
    """Return the currency in which the planned statistics get the least noise. Public.

    Args:
        epsilon: Of the whole release.
        delta: Of the whole release.
        noise: `laplace` or `gaussian` restricts the choice.
        shares: For each planned statistic its part of the budget, its L1 and squared L2
            sensitivities, and its weight (number of cells).
        choices: Part of the budget, and number, of private choices, None without any. They have no
            cost on the Gaussian curve, and their noise counts like that of as many cells.
    """
    kinds: list[Kind] = []
    if noise in ("auto", "laplace"):
        kinds.append("pure")
    if noise in ("auto", "gaussian") and delta > 0:
        kinds += ["zcdp"] if choices else ["gaussian", "zcdp"]
    best: tuple[float, Currency] | None = None
    for kind in kinds:
        currency = Currency(kind, largest_limit(kind, epsilon, delta))
        if currency.limit <= 0:
            continue
        error = sum(
            weight
            * currency.noise(share * currency.limit, l1=l1, l2_squared=l2_squared).mean_absolute
            for share, l1, l2_squared, weight in shares
        )
        if choices and choices[1]:
            part = float(choices[0] * currency.limit) / choices[1]
            # Scales of `choose` for scores that move by 1: exponential noise, or Gumbel's.
            error += choices[1] * (2 / part if kind == "pure" else 2 / math.sqrt(8 * part))
        if best is None or error < best[0]:
            best = (error, currency)
    if best is None:
        raise ValueError("No currency allows this epsilon and delta.")
    return best[1]


def threshold_currency(epsilon: Fraction, delta: Fraction) -> Currency:
    """Return the currency of a release with thresholds: pure, and its whole delta is for them.

    Raises:
        ValueError: if there is no delta to set aside.
    """
    if not 0 < delta < 1:
        raise ValueError("A threshold needs a delta above 0.")
    return Currency("pure", epsilon, delta)


def _at_least(value: Fraction) -> Fraction:
    """Return the smallest float not below `value`, as the exact fraction it is."""
    scale = float(value)
    while Fraction(scale) < value:
        scale = math.nextafter(scale, math.inf)
    return Fraction(scale)


def _root_at_least(value: Fraction) -> Fraction:
    """Return a float whose square is not below `value`, as the exact fraction it is."""
    scale = math.sqrt(float(value))
    while Fraction(scale) ** 2 < value:
        scale = math.nextafter(scale, math.inf)
    return Fraction(scale)
