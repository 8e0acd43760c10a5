"""Noise-aware sets: the noisy tables that each set is fitted to. Public side of the wall.

With a flat prior the true tables are, given the noisy ones, spread about these as these are about
the true ones. So what is fitted to the published tables with fresh noise of the same kind and scale
is a draw of what the file may have been, and m such sets are multiple imputations of the file:
Rubin's rule (1987) holds, T = W + (1 + 1/m) B, with sampling in W and noise in B.

The m draws of a number's noise are made together. They are centred, because what they have in
common would be an error of every set alike, and shortened by sqrt(m/(m + 1)), so that (1 + 1/m) B,
and not B, has the variance of the noise in expectation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.privacy import Noise
from dp_core.wall.released import Answers, Measurement, Released, Totals
from dp_core.wall.statistics.interactions import Interaction

SETS = 20
"""How many to make: the noise's part of an interval is within 7 % of what ever more sets give."""

_PIECE = 1 << 16  # cells whose noise is held for all sets at a time

_Method = TypeVar("_Method")


def redraw(
    released: Sequence[Released], *, number: int, sets: int, rng: np.random.Generator
) -> tuple[Released, ...]:
    """Return what one set is fitted to: what was released, with noise added once more.

    Args:
        released: Noisy tables, answers and interactions.
        number: Number of the set, 1..`sets`.
        sets: Number of sets, at least 2.
        rng: In the same state for every set of a release, since their noise is drawn together. It
            protects nothing: it only shows what is not known.

    Raises:
        TypeError: for what was released by a threshold, a choice or a draw: what its noise may have
            been is not known from it alone.
    """
    if not 1 <= number <= sets or sets < 2:
        raise ValueError(f"Set {number} of {sets}; noise shows in how at least 2 sets differ.")
    drawn: list[Released] = []
    for item in released:
        # The noise of an interaction is that of its entries, and small in their steps.
        if not isinstance(item, Measurement | Answers | Totals) or (
            isinstance(item, Totals) and not isinstance(item.of, Interaction)
        ):
            raise TypeError(f"The noise of {type(item).__name__} cannot be drawn again.")
        noise = _centred(item.noise, item.scale, item.values.shape, number, sets, rng)
        values = item.values + np.rint(noise).astype(np.int64)
        drawn.append(dataclasses.replace(item, values=values))
    return tuple(drawn)


def unshrunk(method: _Method) -> _Method:
    """Return a method that does not draw noisy tables towards what it takes for likely.

    What is drawn towards something is nearer to the truth on the whole and wrong in one direction
    everywhere, which no interval covers. A method says in `for_inference` which of its options do
    so, and what they are without; a selection says so of what is measured best only if it is drawn
    in afterwards.
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
    """Return one of `sets` draws that sum to 0, each of the noise's variance times m - 1 in m + 1.

    That is (1 - 1/m) for the mean that is taken off, and m/(m + 1) for the rule's 1 + 1/m.
    """
    found = np.empty(math.prod(shape))
    for start in range(0, found.size, _PIECE):
        piece = found[start : start + _PIECE]
        noise = _noise(kind, scale, (sets, piece.size), rng)
        piece[:] = noise[number - 1] - noise.mean(axis=0)
    return np.asarray(found.reshape(shape) * math.sqrt(sets / (sets + 1)))


def _noise(
    kind: Noise, scale: float, shape: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.float64]:
    if kind == "laplace":
        # The difference of two geometric numbers is a discrete Laplace one.
        q = -math.expm1(-1 / scale)
        difference = rng.geometric(q, shape) - rng.geometric(q, shape)
        return np.asarray(difference, dtype=np.float64)
    # A whole draw is not needed: it is rounded once it is centred.
    return np.asarray(rng.normal(0.0, scale, shape), dtype=np.float64)
