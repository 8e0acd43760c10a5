"""Exact noise for a grant: added to every value, or to scores to choose the largest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.cost.events import GaussianEvent, LaplaceEvent, NoisyMaxEvent
from dp_core.kernel.ledger.session import Grant
from dp_core.kernel.noise.exact_samplers import add_noise, noisy_max


def add(values: NDArray[np.int64], grant: Grant) -> NDArray[np.int64]:
    """Return the values with independent discrete noise of the grant's kind and scale.

    Args:
        values: Exact whole numbers, any shape. Confidential.
        grant: Paid-for `LaplaceEvent` or `GaussianEvent`; its scale is in units of the values.

    Returns:
        Noisy values of the same shape; they may be negative.

    Raises:
        TypeError: if the grant is for another kind of event.

    Privacy:
        Holds for the neighbours of the event's sensitivity. Laplace: epsilon-DP with
        epsilon = l1_sensitivity / scale; Ghosh, Roughgarden & Sundararajan (2012), section 2.
        Gaussian: rho-zCDP with rho = l2_sensitivity^2 / (2 scale^2); Canonne, Kamath & Steinke
        (2020), Theorem 4.
    """
    match grant.step.event:
        case LaplaceEvent() as event:
            return add_noise("laplace", values, event.scale)
        case GaussianEvent() as event:
            return add_noise("gaussian", values, event.scale)
        case other:
            raise TypeError(f"The grant is for {type(other).__name__}, not for added noise.")


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
