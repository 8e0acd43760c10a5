"""What was done to the data, in parameters from which any accountant can recompute its cost.

An event never changes meaning once a release has used it; a new mechanism gets a new class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dp_core.exact import exact_fraction


class Event(Protocol):
    """One use of one mechanism."""

    def epsilon(self) -> Fraction | None:
        """Pure epsilon, None if the mechanism is not purely private."""

    def rho(self) -> Fraction:
        """Zero-concentrated rho."""

    def own_delta(self) -> Fraction:
        """Probability that rho does not cover; what a conversion to epsilon adds is not in it."""

    def to_json(self) -> dict[str, object]:
        """Return the event in plain values, exact."""


@dataclass(frozen=True, slots=True)
class LaplaceEvent:
    """Discrete Laplace noise on integers, P(z) ~ exp(-|z| / scale).

    Attributes:
        scale: Exact value of the sampler's parameter, records.
        l1_sensitivity: Of the integer statistic, for the release's neighbours.
    """

    scale: Fraction
    l1_sensitivity: int

    def __post_init__(self) -> None:
        _positive(self.scale, self.l1_sensitivity)

    def epsilon(self) -> Fraction:
        """L1 sensitivity over scale (Ghosh, Roughgarden & Sundararajan 2012, section 2)."""
        return self.l1_sensitivity / self.scale

    def rho(self) -> Fraction:
        """Half of epsilon squared (Bun & Steinke 2016, Proposition 1.4)."""
        return self.epsilon() ** 2 / 2

    def own_delta(self) -> Fraction:
        return Fraction(0)

    def to_json(self) -> dict[str, object]:
        return {
            "mechanism": "discrete-laplace",
            "scale": str(self.scale),
            "l1_sensitivity": self.l1_sensitivity,
        }


@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """Discrete Gaussian noise on integers, P(z) ~ exp(-z^2 / (2 scale^2)).

    Attributes:
        scale: Exact value of the sampler's parameter, records.
        l2_sensitivity_squared: Of the integer statistic, for the release's neighbours.
    """

    scale: Fraction
    l2_sensitivity_squared: int

    def __post_init__(self) -> None:
        _positive(self.scale, self.l2_sensitivity_squared)

    def epsilon(self) -> None:
        """Gaussian noise is not purely private."""
        return

    def rho(self) -> Fraction:
        """L2 sensitivity squared over twice the variance (Canonne et al. 2020, Theorem 4)."""
        return self.l2_sensitivity_squared / (2 * self.scale**2)

    def own_delta(self) -> Fraction:
        return Fraction(0)

    def to_json(self) -> dict[str, object]:
        return {
            "mechanism": "discrete-gaussian",
            "scale": str(self.scale),
            "l2_sensitivity_squared": self.l2_sensitivity_squared,
        }


@dataclass(frozen=True, slots=True)
class NoisyMaxEvent:
    """Report of the index of the largest score after noise of the given scale.

    Attributes:
        scale: Exact value of the sampler's parameter, in units of the scores.
        sensitivity: Largest change of any one score, for the release's neighbours.
        gumbel: Gumbel noise (the exponential mechanism), otherwise exponential noise
            (permute-and-flip), which has no discount in zCDP.
    """

    scale: Fraction
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

    def own_delta(self) -> Fraction:
        return Fraction(0)

    def to_json(self) -> dict[str, object]:
        return {
            "mechanism": "noisy-max",
            "scale": str(self.scale),
            "sensitivity": self.sensitivity,
            "noise": "gumbel" if self.gumbel else "exponential",
        }


def event_from_json(values: Mapping[str, object]) -> Event:
    """Return the event that `to_json` wrote.

    Raises:
        ValueError: if it is not one of ours; an unknown event has no known cost.
    """
    try:
        scale = exact_fraction(values["scale"])
        match values["mechanism"]:
            case "discrete-laplace":
                event: Event = LaplaceEvent(scale, _whole(values["l1_sensitivity"]))
            case "discrete-gaussian":
                event = GaussianEvent(scale, _whole(values["l2_sensitivity_squared"]))
            case "noisy-max":
                gumbel = values["noise"] == "gumbel"
                event = NoisyMaxEvent(scale, _whole(values["sensitivity"]), gumbel)
            case other:
                raise ValueError(f"Unknown mechanism {other!r}.")
    except (KeyError, ZeroDivisionError, TypeError) as error:
        raise ValueError(f"Not an event: {type(error).__name__}.") from None
    if event.to_json() != dict(values):
        raise ValueError("The event has fields that are not its own.")
    return event


def _positive(scale: Fraction, sensitivity: int) -> None:
    # privacy: OpenDP takes a scale of 0 to mean "no noise" and returns the exact value.
    if scale <= 0:
        raise ValueError(f"Noise needs a positive scale, got {scale}.")
    if sensitivity < 1:
        raise ValueError(f"A sensitivity is a whole number from 1, got {sensitivity}.")


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"Expected a whole number, got {value!r}.")
    return value
