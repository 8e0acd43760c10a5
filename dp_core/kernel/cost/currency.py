"""The currency of a release: what each event costs, and which guarantee the total implies.

A release pays in one currency, fixed in its plan before the data are read:

- `pure`: epsilon, for Laplace noise. The only currency at delta 0; also possible at any delta.
- `zcdp`: rho, converted to epsilon once (Canonne, Kamath & Steinke 2020).
- `gaussian`: mu^2/2 on the exact curve of the Gaussian mechanism, for Gaussian events only. It
  needs less noise than zcdp for the same guarantee, unless the noise is as small as one record.
- `mixed`: mu^2/2 on the same curve, for Gaussian events and private choices. Each choice must leave
  a part of the total unspent (`covered_choices`).

Costs depend on the ratio of sensitivity and noise alone, except that on the Gaussian curve
`SMOOTHING` is subtracted from the variance of integer noise. Where households are the units, both
are in shares, and the integers are shares: `SMOOTHING` is then S^2 times less in households.

A currency can also set delta aside for events with an own delta. These own deltas are summed, and
the total is converted to epsilon at the rest of the guarantee's delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dp_core.kernel.cost.covered_choices import choice_cost, choice_rho, covered
from dp_core.kernel.cost.curves import (
    SMOOTHING,
    gaussian_epsilon,
    gaussian_limit,
    zcdp_epsilon,
    zcdp_limit,
)
from dp_core.kernel.errors import BadInput
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import LARGEST_SCALE, Event
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent

Kind = Literal["pure", "zcdp", "gaussian", "mixed"]


@dataclass(frozen=True, slots=True)
class Currency:
    """The kind of cost that a release pays, and the total it may spend.

    Attributes:
        kind: `pure`, `zcdp`, `gaussian` or `mixed`.
        limit: Largest sum of costs: epsilon (pure), rho (zcdp) or mu^2/2 (gaussian, mixed).
        own_delta: Largest sum of the events' own deltas; 0 by default.
    """

    kind: Kind
    limit: Fraction
    own_delta: Fraction = Fraction(0)

    def cost(self, event: Event) -> Fraction:
        """Return the exact cost of an event, without its own delta.

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
        if self.kind == "mixed" and isinstance(event, NoisyMaxEvent) and event.gumbel:
            return choice_cost(event.rho())
        if not isinstance(event, GaussianEvent):
            raise ValueError(f"{type(event).__name__} has no cost on the Gaussian curve.")
        smoothed = event.scale**2 - SMOOTHING
        if smoothed <= 0:
            raise ValueError("Noise of this scale is too small for the Gaussian curve.")
        return event.l2_sensitivity_squared / (2 * smoothed)

    def allows(self, event: Event, left: Fraction) -> bool:
        """Return whether an event may be paid for.

        Args:
            event: An event that has a cost in this currency.
            left: What is left of the total after it was paid for.

        Privacy:
            On the Gaussian curve a choice needs enough noise that follows it or could follow it
            (`covered_choices`). The ledger asks this before every charge, and `verify` again.
        """
        if self.kind == "mixed" and isinstance(event, NoisyMaxEvent):
            return covered(self.cost(event), left)
        return True

    def noise_event(self, cost: Fraction, *, l1: int, l2_squared: int) -> Event:
        """Return the event that adds noise to an integer statistic and costs at most `cost`.

        Args:
            cost: Part of `limit`, positive.
            l1: L1 sensitivity of the statistic.
            l2_squared: Squared L2 sensitivity of the statistic.

        Raises:
            ValueError: if the cost is not positive.
        """
        if cost <= 0:
            raise ValueError(f"A cost must be positive, not {cost}.")
        if self.kind == "pure":
            return LaplaceEvent(at_least(l1 / cost), l1)
        variance = Fraction(l2_squared) / (2 * cost)
        if self.kind != "zcdp":
            variance += SMOOTHING
        return GaussianEvent(root_at_least(variance), l2_squared)

    def epsilon(self, spent: Fraction, delta: Fraction) -> Fraction:
        """Return the epsilon at `delta` that a sum of costs implies, rounded up.

        Args:
            spent: Sum of costs, in the currency's unit.
            delta: Delta of the guarantee. At least `own_delta` if the currency is pure, otherwise
                larger.

        Privacy:
            Pure: epsilons and own deltas add up (Dwork et al. 2006; adaptively: Rogers et al.
            2016). Otherwise let d be the sum of the own deltas. The events are d-approximate zCDP.
            If the total alone implies (epsilon, d')-privacy, the events are (epsilon, d + d')-
            private (Bun & Steinke 2016, Lemmas 8.2 and 8.8; adaptively: Whitehouse et al. 2023).
        """
        if spent == 0 or self.kind == "pure":
            return spent
        convert = zcdp_epsilon if self.kind == "zcdp" else gaussian_epsilon
        return convert(spent, delta - self.own_delta)

    def implies(self, epsilon: Fraction, delta: Fraction) -> bool:
        """Return whether the total and the own delta together imply (epsilon, delta)."""
        if epsilon <= 0 or not 0 <= delta < 1 or self.limit <= 0:
            return False
        left = delta - self.own_delta
        if left < 0 or self.own_delta < 0:
            return False
        # Both conversions round to the safe side, so either one suffices as proof.
        if self.limit <= largest_limit(self.kind, epsilon, left):
            return True
        return self.kind != "pure" and left > 0 and self.epsilon(self.limit, delta) <= epsilon

    def to_json(self) -> dict[str, str]:
        """Return the currency as plans and receipts record it, with exact numbers as text."""
        return {"kind": self.kind, "limit": str(self.limit), "own_delta": str(self.own_delta)}


def largest_limit(kind: Kind, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest total in a currency that implies (epsilon, delta), with no own delta.

    Args:
        kind: Kind of the currency.
        epsilon: Positive.
        delta: At least 0. If it is 0, the result is 0 unless the currency is pure.
    """
    if kind == "pure":
        return epsilon
    if delta == 0:
        return Fraction(0)
    return zcdp_limit(epsilon, delta) if kind == "zcdp" else gaussian_limit(epsilon, delta)


def choice_event(currency: Currency, cost: Fraction, sensitivity: int) -> NoisyMaxEvent:
    """Return the event of a private choice that costs at most `cost`.

    Args:
        currency: Currency of the release.
        cost: Budget of the choice, positive.
        sensitivity: Largest change of any one score.

    Raises:
        ValueError: if the currency cannot pay for a choice.
    """
    if currency.kind == "gaussian":
        raise ValueError("The Gaussian curve cannot pay for a private choice; use zcdp or mixed.")
    gumbel = currency.kind != "pure"
    rho = choice_rho(cost) if currency.kind == "mixed" else cost
    # zCDP: epsilon^2/8 = rho, so epsilon = sqrt(8 rho); scale = 2 sensitivity / epsilon.
    squared = Fraction(2 * sensitivity) ** 2 / (8 * rho if gumbel else cost**2)
    scale = _first_float(float(squared) ** 0.5, lambda scale: scale**2 >= squared)
    return NoisyMaxEvent(scale, sensitivity, gumbel)


def at_least(value: Fraction) -> Fraction:
    """Return the smallest float not below `value`, as an exact fraction.

    Raises:
        BadInput: if noise of this scale cannot be drawn.
    """
    return _first_float(float(_drawable(value)), lambda scale: scale >= value)


def root_at_least(value: Fraction) -> Fraction:
    """Return a float whose square is not below `value`, as an exact fraction.

    Raises:
        BadInput: if noise of this scale cannot be drawn.
    """
    _drawable(Fraction(math.isqrt(math.ceil(value))))
    return _first_float(math.sqrt(float(value)), lambda scale: scale**2 >= value)


def _first_float(start: float, is_enough: Callable[[Fraction], bool]) -> Fraction:
    """Return the first of the floats from `start` upwards that is enough."""
    while not is_enough(Fraction(start)):
        start = math.nextafter(start, math.inf)
    return Fraction(start)


def _drawable(scale: Fraction) -> Fraction:
    if scale >= LARGEST_SCALE // 2:
        raise BadInput(
            f"The noise would have a scale of about 10^{len(str(int(scale))) - 1}, which is larger"
            " than any count. Raise epsilon or the stage's share, or ask for less."
        )
    return scale
