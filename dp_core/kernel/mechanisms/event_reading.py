"""Events read from receipts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.mechanisms.event import Event

_MECHANISMS: Mapping[str, tuple[str, str]] = {
    "discrete-laplace": ("mechanisms.additive_noise", "LaplaceEvent"),
    "discrete-gaussian": ("mechanisms.additive_noise", "GaussianEvent"),
    "noisy-max": ("mechanisms.private_choice", "NoisyMaxEvent"),
    "stability-histogram": ("extensions.thresholds", "StabilityEvent"),
    "perturbed-draws": ("extensions.column_draws", "PerturbedDrawsEvent"),
    "polya-urn": ("extensions.cell_draws", "PolyaUrnEvent"),
}
"""Module and class of each mechanism, loaded only where a receipt names it."""


def event_from_json(values: Mapping[str, object]) -> Event:
    """Return the event that `to_json` wrote.

    Args:
        values: The event's fields, as in a receipt.

    Raises:
        ValueError: if the mechanism is unknown, a field is missing, or there are further fields.
    """
    try:
        module, kind = _MECHANISMS[str(values["mechanism"])]
        of = getattr(import_module(f"dp_core.kernel.{module}"), kind)
        event: Event = of.read(exact_fraction(values["scale"]), values)
    except (KeyError, ZeroDivisionError, TypeError) as error:
        raise ValueError(f"Not an event: {type(error).__name__}.") from None
    if event.to_json() != dict(values):
        raise ValueError("The event has fields that its mechanism does not define.")
    return event
