"""The choice of the largest score after noise: exponential mechanism and permute-and-flip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.mechanisms.event import ScaledEvent, check_positive, whole_number
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.noise.exact_samplers import noisy_max


@dataclass(frozen=True, slots=True)
class NoisyMaxEvent(ScaledEvent):
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
        check_positive(self.scale, self.sensitivity)

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

    @classmethod
    def read(cls, scale: Fraction, values: Mapping[str, object]) -> Self:
        return cls(scale, whole_number(values["sensitivity"]), values["noise"] == "gumbel")


def choose(scores: NDArray[np.int64], grant: Grant) -> int:
    """Return the index of the largest score after noise: the exponential mechanism.

    Args:
        scores: Exact whole numbers, shape (candidates,). Confidential.
        grant: Paid-for `NoisyMaxEvent`; its scale is in units of the scores.

    Raises:
        TypeError: if the grant is for another kind of event.

    Privacy:
        epsilon-DP with epsilon = 2 sensitivity / scale; with Gumbel noise also epsilon^2/8-zCDP.
        McSherry & Talwar (2007); Cesar & Rogers (2021).
    """
    event = grant.step.event
    if not isinstance(event, NoisyMaxEvent):
        raise TypeError(f"The grant is for {type(event).__name__}, not for a noisy max.")
    return noisy_max(scores, event.scale, gumbel=event.gumbel)
