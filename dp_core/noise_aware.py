"""Sets whose spread carries the noise: fresh noise on the published tables, for each set its own.

With a flat prior the true tables are, given the noisy ones, spread about them as the noisy ones are
about the true. So what is fitted to the noisy tables with fresh noise of the same distribution is a
draw of what the file may have been, and the sets are multiple imputations of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.marginals import Answers, Measurement, Released
from dp_core.privacy import Noise


def redraw(released: Sequence[Released], *, rng: np.random.Generator) -> tuple[Released, ...]:
    """Return what was released with fresh noise of the same distribution on every number.

    Args:
        released: Noisy tables and answers.
        rng: For post-processing: the noise here protects nothing, it only shows what is not known.

    Raises:
        TypeError: for what was released by a threshold, a choice or a draw: its noise is not known
            from it alone.
    """
    drawn: list[Released] = []
    for item in released:
        if not isinstance(item, Measurement | Answers):
            raise TypeError(f"The noise of {type(item).__name__} cannot be drawn again.")
        noise = _noise(item.noise, item.scale, item.values.shape, rng)
        drawn.append(dataclasses.replace(item, values=item.values + noise))
    return tuple(drawn)


def _noise(
    kind: Noise, scale: float, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.int64]:
    if kind == "laplace":
        # The difference of two geometric numbers is a discrete Laplace one.
        q = -np.expm1(-1 / scale)
        return np.asarray(rng.geometric(q, shape) - rng.geometric(q, shape), dtype=np.int64)
    return np.rint(rng.normal(0.0, scale, shape)).astype(np.int64)
