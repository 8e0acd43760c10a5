"""Laplace and Gaussian noise that is added to whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.processors import threads
from dp_core.kernel.mechanisms.event import ScaledEvent, check_positive
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.noise.exact_samplers import add_noise

PIECE_CELLS = 4096
"""Number of cells in a piece, which one thread draws at a time."""
FEW_CELLS = 8192
"""Number of cells up to which one thread draws all, because starting threads would take longer."""


@dataclass(frozen=True, slots=True)
class LaplaceEvent(ScaledEvent):
    """Discrete Laplace noise on integers, P(z) ~ exp(-|z| / scale).

    Attributes:
        scale: Exact parameter of the sampler, in units of the statistic (records for counts).
        l1_sensitivity: L1 sensitivity of the integer statistic, for the release's neighbours.

    Raises:
        ValueError: if the scale is not positive or the sensitivity is below 1.
    """

    mechanism: ClassVar[str] = "discrete-laplace"
    l1_sensitivity: int

    def __post_init__(self) -> None:
        check_positive(self.scale, self.l1_sensitivity)

    def epsilon(self) -> Fraction:
        """L1 sensitivity over scale (Ghosh, Roughgarden & Sundararajan 2012, section 2)."""
        return self.l1_sensitivity / self.scale

    def rho(self) -> Fraction:
        """Half of epsilon squared (Bun & Steinke 2016, Proposition 1.4)."""
        return self.epsilon() ** 2 / 2


@dataclass(frozen=True, slots=True)
class GaussianEvent(ScaledEvent):
    """Discrete Gaussian noise on integers, P(z) ~ exp(-z^2 / (2 scale^2)).

    Attributes:
        scale: Exact parameter of the sampler, in units of the statistic (records for counts).
        l2_sensitivity_squared: Squared L2 sensitivity of the integer statistic, for the release's
            neighbours.

    Raises:
        ValueError: if the scale is not positive or the sensitivity is below 1.
    """

    mechanism: ClassVar[str] = "discrete-gaussian"
    l2_sensitivity_squared: int

    def __post_init__(self) -> None:
        check_positive(self.scale, self.l2_sensitivity_squared)

    def epsilon(self) -> None:
        """Gaussian noise is not purely private."""
        return

    def rho(self) -> Fraction:
        """L2 sensitivity squared over twice the variance (Canonne et al. 2020, Theorem 4)."""
        return self.l2_sensitivity_squared / (2 * self.scale**2)


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


def add_to_tables(
    exact: Sequence[NDArray[np.int64]], grants: Sequence[Grant]
) -> list[NDArray[np.int64]]:
    """Return tables with noise on every cell (`add`); if one draw fails, nothing is returned.

    Args:
        exact: Exact tables of any shapes. Confidential.
        grants: The grant that paid for each table.

    Returns:
        Noisy tables of the same shapes.

    Raises:
        Exception: any exception that `add` raises.

    Privacy:
        The noise of all cells is independent. It comes from the operating system's generator, which
        never gives two threads the same bytes, so the assignment of cells to threads has no effect.
    """
    at_once = threads()
    if at_once == 1 or sum(table.size for table in exact) <= FEW_CELLS:
        return [add(table, grant) for table, grant in zip(exact, grants, strict=True)]
    flat = [np.ascontiguousarray(table).ravel() for table in exact]
    pieces = [
        (cells[start : start + PIECE_CELLS], grant)
        for cells, grant in zip(flat, grants, strict=True)
        for start in range(0, cells.size, PIECE_CELLS)
    ]
    with ThreadPoolExecutor(at_once) as pool:
        drawn = np.concatenate(list(pool.map(lambda piece: add(*piece), pieces)))
    ends = np.cumsum([cells.size for cells in flat])[:-1]
    parts = np.split(drawn, ends)
    return [part.reshape(table.shape) for part, table in zip(parts, exact, strict=True)]
