"""Planned events, and paid permission to carry them out once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dp_core.kernel.exact import plain_fraction
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.privacy import Stage

TABLE: Mapping[str, object] = {"name": "table"}
"""`Step.asks` of a table of counts; for another statistic it is the result of its `to_json`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One planned event: what is asked of the data, with which noise, at which cost.

    Raises ValueError unless its stage and name are plain texts, and its cost a plain fraction.

    Attributes:
        stage: Stage whose share of the budget pays.
        name: Name of the step, unique within the release and stage.
        cost: Budget for the step, in the release's currency; the event costs at most this.
        event: The mechanism and its parameters.
        shape: Shape of the noisy result, fixed before the draw.
        asks: Plain JSON values that describe what is computed from the data. They determine the
            sensitivity, so anyone can check the calibration of the event. By default a table of
            counts.
    """

    stage: Stage
    name: str
    cost: Fraction
    event: Event
    shape: tuple[int, ...]
    asks: Mapping[str, object] = field(default_factory=lambda: TABLE)

    def __post_init__(self) -> None:
        # privacy: a fraction or a text of another type could compare, add up or be written as it
        # likes, and even a fraction could change after the charge.
        if {type(self.stage), type(self.name)} != {str}:
            raise ValueError("The stage and the name of a step must be plain texts.")
        object.__setattr__(self, "cost", plain_fraction(self.cost))


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission, already paid for, to carry out one event once.

    Only a session makes grants.

    Attributes:
        number: Number of the charge's receipt within the release.
        step: The step that was paid for.
    """

    number: int
    step: Step
