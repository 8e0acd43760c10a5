"""Noise-aware sets: the noisy tables that each set is fitted to. Public side of the wall.

With a flat prior, the distribution of the true tables given the noisy ones is that of the noisy
tables plus fresh noise. So a model fitted to the published tables with fresh noise of the same kind
and scale is a draw from the posterior distribution of the file's tables. m such sets are multiple
imputations of the file, and Rubin's rule (1987) holds: T = W + (1 + 1/m) B, where W contains the
sampling variance and B the noise variance.

The m noise values of a cell are drawn together and centred (`centred_draws`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Answers, Measurement, Released, Totals
from dp_core.kernel.privacy import Noise
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.replicates.centred_draws import centred

SETS = 20
"""Default number of sets: intervals from noise alone are within 7 % of the width for many sets."""

_PIECE = 1 << 16  # number of cells whose noise is drawn for all sets at once

_Method = TypeVar("_Method")


def redraw(
    released: Sequence[Released], *, number: int, sets: int, rng: np.random.Generator
) -> tuple[Released, ...]:
    """Return the results that one set is fitted to: the released ones with fresh noise added.

    Args:
        released: Noisy tables, answers and interactions.
        number: Number of the set, 1..`sets`.
        sets: Number of sets, at least 2.
        rng: Generator, in the same state for every set of a release because their noise is drawn
            together. This noise protects nothing; it represents the uncertainty of the tables.

    Raises:
        ValueError: if there is one set only.
        TypeError: for a result of a threshold, a private choice or a private draw, because its
            noise distribution does not follow from the result alone.
    """
    if not 1 <= number <= sets or sets < 2:
        raise ValueError(f"Set {number} of {sets}; noise shows in how at least 2 sets differ.")
    drawn: list[Released] = []
    for item in released:
        # The noise of an interaction is that of its entries, which are integers in fine steps.
        if not isinstance(item, Measurement | Answers | Totals) or (
            isinstance(item, Totals) and not isinstance(item.of, Interaction)
        ):
            raise TypeError(f"The noise of {type(item).__name__} cannot be drawn again.")
        noise = _centred(item.noise, item.scale, item.values.shape, number, sets, rng)
        values = item.values + np.rint(noise).astype(np.int64)
        drawn.append(dataclasses.replace(item, values=values))
    return tuple(drawn)


def unshrunk(method: _Method) -> _Method:
    """Return a method with its options for inference, which do not shrink noisy tables.

    Shrinkage makes tables more accurate on average but biases them systematically, and no interval
    covers that bias. A method's `for_inference` gives the values of the options concerned. A
    selection's `for_inference` excludes measurements that are useful only with shrinkage.
    """
    options: Mapping[str, Any] = getattr(method, "for_inference", {})
    return dataclasses.replace(method, **options)  # type: ignore[type-var]


def _centred(
    kind: Noise,
    scale: float,
    shape: tuple[int, ...],
    number: int,
    sets: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Return one of `sets` centred draws; see `centred`."""
    found = np.empty(math.prod(shape))
    for start in range(0, found.size, _PIECE):
        piece = found[start : start + _PIECE]
        noise = _noise(kind, scale, (sets, piece.size), rng)
        piece[:] = centred(noise)[number - 1]
    return found.reshape(shape)


def _noise(
    kind: Noise, scale: float, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.float64]:
    if kind == "laplace":
        # The difference of two geometric variables has the discrete Laplace distribution.
        q = -math.expm1(-1 / scale)
        difference = rng.geometric(q, shape) - rng.geometric(q, shape)
        return np.asarray(difference, dtype=np.float64)
    # The draw need not be an integer, because it is rounded after centring.
    return np.asarray(rng.normal(0.0, scale, shape), dtype=np.float64)
