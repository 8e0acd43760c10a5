"""Discrete Laplace noise on whole numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_core.wall.accounting.events import LaplaceEvent
from dp_core.wall.ledger.session import Grant
from dp_core.wall.noise.opendp_mechanisms import add_noise


def perturb(values: NDArray[np.int64], grant: Grant) -> NDArray[np.int64]:
    """Return the values with independent discrete Laplace noise.

    Args:
        values: Exact whole numbers, any shape. Confidential.
        grant: Paid-for `LaplaceEvent`; its scale is in units of the values.

    Returns:
        Noisy values of the same shape; they may be negative.

    Raises:
        TypeError: if the grant is for another kind of event.

    Privacy:
        epsilon-DP with epsilon = l1_sensitivity / scale, for the neighbours that sensitivity was
        computed for. Ghosh, Roughgarden & Sundararajan (2012), section 2.
    """
    event = grant.step.event
    if not isinstance(event, LaplaceEvent):
        raise TypeError(f"The grant is for {type(event).__name__}, not for Laplace noise.")
    return add_noise("laplace", values, event.scale)
