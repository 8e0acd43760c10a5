"""Sensitivities, and kind and scale of noise, for plans and methods. Public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.privacy import Noise, Relation
from dp_core.kernel.questions.statistic import Statistic
from dp_core.kernel.questions.vetted import bounds


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """Kind and scale of the noise on each value of a statistic; public.

    Attributes:
        kind: `laplace` or `gaussian`.
        scale: Parameter of the noise, in units of the values (records for counts).
    """

    kind: Noise
    scale: float

    @property
    def stddev(self) -> float:
        """Standard deviation of the continuous noise, an upper bound; same unit as `scale`."""
        return self.scale * (math.sqrt(2.0) if self.kind == "laplace" else 1.0)

    @property
    def mean_absolute(self) -> float:
        """Expected absolute value of the continuous noise; same unit as `scale`."""
        return self.scale * (1.0 if self.kind == "laplace" else math.sqrt(2.0 / math.pi))

    @property
    def half_width(self) -> float:
        """Half-width of the central 95 % range of the continuous noise; same unit as `scale`."""
        return self.scale * (math.log(20.0) if self.kind == "laplace" else 1.959963984540054)


def noise_for(currency: Currency, cost: Fraction, *, l1: int, l2_squared: int) -> NoiseScale:
    """Return kind and scale of the noise of `Currency.noise_event`, with the same arguments."""
    event = currency.noise_event(cost, l1=l1, l2_squared=l2_squared)
    kind: Noise = "laplace" if isinstance(event, LaplaceEvent) else "gaussian"
    assert isinstance(event, LaplaceEvent | GaussianEvent)
    return NoiseScale(kind, float(event.scale))


def sensitivities(statistic: Statistic, relation: Relation) -> tuple[int, int]:
    """Return the L1 and the squared L2 sensitivity; see `bounds`."""
    return bounds(statistic, relation)[1:]
