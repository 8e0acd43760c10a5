"""Discrete Gaussian noise on whole numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_core.wall.accounting.events import GaussianEvent
from dp_core.wall.ledger.session import Grant
from dp_core.wall.noise.opendp_mechanisms import add_noise


def perturb(values: NDArray[np.int64], grant: Grant) -> NDArray[np.int64]:
    """Return the values with independent discrete Gaussian noise.

    Args:
        values: Exact whole numbers, any shape. Confidential.
        grant: Paid-for `GaussianEvent`; its scale is in units of the values.

    Returns:
        Noisy values of the same shape; they may be negative.

    Raises:
        TypeError: if the grant is for another kind of event.

    Privacy:
        rho-zCDP with rho = l2_sensitivity^2 / (2 scale^2), for the neighbours that sensitivity was
        computed for. Canonne, Kamath & Steinke (2020), Theorem 4.
    """
    event = grant.step.event
    if not isinstance(event, GaussianEvent):
        raise TypeError(f"The grant is for {type(event).__name__}, not for Gaussian noise.")
    return add_noise("gaussian", values, event.scale)
