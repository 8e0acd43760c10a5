"""Newton's method for the numbers nearest to given ones with given sums. Public side of the wall.

The dual of such a problem has one unknown for each sum, is convex, and its second derivative is
known. A slack for each sum says how little it costs to miss it: without one, sums that contradict
each other, or that cannot be had, would drive the unknowns to infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_ROUNDS = 60  # it takes four to fifteen
_SUFFICIENT = 1e-4  # part of the promised descent that a step must bring (Armijo)
_SMALLEST = 1e-8  # of a step; beyond it rounding decides


def with_sums(
    equations: Floats,
    sums: Floats,
    slack: Floats,
    primal: Callable[[Floats], tuple[Floats, float, Floats]],
    *,
    tolerance: float,
) -> Floats:
    """Return the numbers nearest to what a method starts from that have given sums, nearly.

    Args:
        equations: Shape (equations, numbers); those of zeros only are left out.
        sums: Shape (equations,).
        slack: Positive, in squares of the sums: how far a sum may be missed for a unit of distance.
        primal: Of `equations' u`, shape (numbers,), the numbers that belong to it, the part of the
            dual that follows from them, and the derivative of each number.
        tolerance: Largest error of a sum, with equations scaled to length 1.

    Returns:
        Shape (numbers,).
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
        # Twice the slack: a step errs on the short side where equations repeat one another.
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
