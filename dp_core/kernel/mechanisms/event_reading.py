"""Events read from receipts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.event import Event, ScaledEvent
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent

_MECHANISMS: Mapping[str, type[ScaledEvent]] = {
    kind.mechanism: kind for kind in (LaplaceEvent, GaussianEvent, NoisyMaxEvent)
}
_EXTENSIONS: Mapping[str, tuple[str, str]] = {
    "stability-histogram": ("thresholds", "StabilityEvent"),
    "perturbed-draws": ("column_draws", "PerturbedDrawsEvent"),
    "polya-urn": ("cell_draws", "PolyaUrnEvent"),
}
"""Module and class of the mechanisms that are loaded only where a receipt names them."""


def event_from_json(values: Mapping[str, object]) -> Event:
    """Return the event that `to_json` wrote.

    Args:
        values: The event's fields, as in a receipt.

    Raises:
        ValueError: if the mechanism is unknown, a field is missing, or there are further fields.
    """
    try:
        name, scale = str(values["mechanism"]), exact_fraction(values["scale"])
        if name in _EXTENSIONS:
            module, of = _EXTENSIONS[name]
            kind = getattr(import_module(f"dp_core.kernel.extensions.{module}"), of)
        elif name in _MECHANISMS:
            kind = _MECHANISMS[name]
        else:
            raise ValueError(f"Unknown mechanism {name!r}.")
        event: Event = kind.read(scale, values)
    except (KeyError, ZeroDivisionError, TypeError) as error:
        raise ValueError(f"Not an event: {type(error).__name__}.") from None
    if event.to_json() != dict(values):
        raise ValueError("The event has fields that its mechanism does not define.")
    return event
