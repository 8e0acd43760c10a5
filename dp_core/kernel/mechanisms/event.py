"""Events: each use of a mechanism, with the parameters that determine its privacy cost.

An event never changes meaning once a release has used it; a new mechanism gets a new class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar, Protocol, Self

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
class ScaledEvent:
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

    @classmethod
    def read(cls, scale: Fraction, values: Mapping[str, object]) -> Self:
        """Return the event with a scale whose other fields are whole numbers of a receipt.

        Raises:
            ValueError: if one of them is no whole number.
            LookupError: if one is missing.
        """
        named = {field.name for field in fields(cls)} - {"scale"}
        stated = {"rows": 1, **values}
        return cls(scale, **{name: whole_number(stated[name]) for name in named})


def check_positive(scale: Fraction, sensitivity: int) -> None:
    """Raise ValueError unless the scale is above 0 and the sensitivity at least 1."""
    # privacy: a scale of 0 would mean no noise.
    if scale <= 0:
        raise ValueError(f"The scale must be positive, not {scale}.")
    if sensitivity < 1:
        raise ValueError(f"A sensitivity or number must be at least 1, not {sensitivity}.")


def whole_number(value: object) -> int:
    """Return a value that is a whole number; raise ValueError if it is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"Expected a whole number, got {value!r}.")
    return value
