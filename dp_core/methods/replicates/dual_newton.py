"""Newton's method for the nearest numbers with given linear sums. Public side of the wall.

The dual problem is convex, has one unknown per sum and a known second derivative. Each sum has a
slack, which sets the cost of missing it. Without slack, sums that contradict each other or cannot
be met would make the unknowns diverge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_ROUNDS = 60  # four to fifteen are usual
_SUFFICIENT = 1e-4  # part of the predicted descent that a step must achieve (Armijo)
_SMALLEST = 1e-8  # step length below which rounding errors dominate


def with_sums(
    equations: Floats,
    sums: Floats,
    slack: Floats,
    primal: Callable[[Floats], tuple[Floats, float, Floats]],
    *,
    tolerance: float,
) -> Floats:
    """Return the nearest numbers to a method's start values that (nearly) have given sums.

    Args:
        equations: Coefficients of the sums, shape (equations, numbers); rows of zeros are ignored.
        sums: Required values, shape (equations,).
        slack: Slack of each sum, positive, in squared units of the sums, shape (equations,). A
            larger slack makes missing the sum cheaper.
        primal: Function of `equations' u`, shape (numbers,), that returns the numbers for this
            dual point, their term of the dual, and the derivative of each number.
        tolerance: Largest error of a sum, with equations scaled to length 1.

    Returns:
        The numbers, shape (numbers,).
    """
    length = np.sqrt(np.einsum("ij,ij->i", equations, equations))
    kept = length > 0
    a, b = equations[kept] / length[kept, None], sums[kept] / length[kept]
    ease = slack[kept] / length[kept] ** 2
    u = np.zeros(b.size)

    def value(u: Floats) -> tuple[float, Floats, Floats]:
        found, height, growth = primal(u @ a)
        return height - float(b @ u) + 0.5 * float(ease @ u**2), found, growth

    height, found, growth = value(u)
    for _ in range(_ROUNDS):
        slope = a @ found - b + ease * u
        if float(np.abs(slope).max(initial=0.0)) < tolerance:
            break
        curve = (a * growth) @ a.T
        # Twice the slack makes steps shorter if equations are redundant.
        curve[np.diag_indices_from(curve)] += 2 * ease
        step = -np.linalg.solve(curve, slope)
        size, gain = 1.0, float(slope @ step)
        while True:
            lower, *rest = value(u + size * step)
            if lower <= height + _SUFFICIENT * size * gain or size < _SMALLEST:
                break
            size /= 2
        u, height, (found, growth) = u + size * step, lower, rest
    return found
