"""Layers: public ranges of a number whose width doubles with the distance from its origin."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_LAYERS = 20
"""Largest number of layers on each side of the origin."""


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """Ranges of positions by the distance of their values from the origin.

    The origin is 0 or, if the range does not contain it, the end of the range nearest to 0.

    Attributes:
        edges: First position of each layer, and last the number of positions.
        origin: Value of the origin, in the unit of the values.
        near, far: Smallest and largest distance of the values of a layer from the origin.
        above: Whether the layer is above the origin.
        least, most: Smallest and largest value of all positions.
    """

    edges: tuple[int, ...]
    origin: int
    near: Floats
    far: Floats
    above: NDArray[np.bool_]
    least: int
    most: int

    @property
    def means(self) -> Floats:
        """Mean distance of a value in each layer, if the logarithms are uniform within it."""
        near, far = np.maximum(self.near, 1e-9 + self.far / 16), self.far
        ratio = np.maximum(far / np.maximum(near, 1e-300), 1 + 1e-9)
        return np.where(far > near, (far - near) / np.log(ratio), far)

    @property
    def squares(self) -> Floats:
        """Mean squared distance of a value in each layer, under the same distribution."""
        near, far = np.maximum(self.near, 1e-9 + self.far / 16), self.far
        ratio = np.maximum(far / np.maximum(near, 1e-300), 1 + 1e-9)
        return np.where(far > near, (far**2 - near**2) / 2 / np.log(ratio), far**2)

    @property
    def limits(self) -> tuple[int, ...]:
        """Distances to which values may be clipped, ascending; the last one clips nothing."""
        return tuple(sorted({int(each) for each in self.far if each >= 1})) or (1,)


def layers_of(values: NDArray[np.int64]) -> Layers:
    """Return the layers of a number.

    Args:
        values: Value of each position, ascending.
    """
    least, most = int(values[0]), int(values[-1])
    origin = min(max(least, 0), most)
    distance = np.abs(values - origin)
    span = int(distance.max())
    bounds = [span >> place for place in range(1, MOST_LAYERS) if span >> place]
    cuts = {0, len(values)}
    for bound in bounds:
        # The first value above the bound, on each side.
        cuts.add(int(np.searchsorted(values, origin + bound, side="right")))
        cuts.add(int(np.searchsorted(values, origin - bound, side="left")))
    if least < origin:
        cuts.add(int(np.searchsorted(values, origin, side="left")))
    edges = tuple(sorted(each for each in cuts if 0 <= each <= len(values)))
    near = [int(distance[low:high].min()) for low, high in pairwise(edges)]
    far = [int(distance[low:high].max()) for low, high in pairwise(edges)]
    above = [bool(values[low] >= origin) for low in edges[:-1]]
    return Layers(
        edges,
        origin,
        np.array(near, dtype=np.float64),
        np.array(far, dtype=np.float64),
        np.array(above),
        least,
        most,
    )
