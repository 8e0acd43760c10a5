"""Private choice of the largest score: the exponential mechanism as exact noisy max."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_core.wall.accounting.events import NoisyMaxEvent
from dp_core.wall.ledger.session import Grant
from dp_core.wall.noise.opendp_mechanisms import noisy_max


def choose(scores: NDArray[np.int64], grant: Grant) -> int:
    """Return the index of the largest score after noise.

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
