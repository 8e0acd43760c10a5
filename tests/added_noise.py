"""The privacy loss of added noise, exactly: by the values and the scale that the drawing is handed.

Draws are held to their law and scale by `tests/distributions/test_noise.py`, and the curator's ways
to them are audited by draws in `test_audit.py` and others. What is left
of a statistic is how far its values move and what sensitivity the kernel takes for them; that
takes no draws, and never fails by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_core.kernel.mechanisms import additive_noise

Values = NDArray[np.int64]


def handed_over(patch: pytest.MonkeyPatch, ask: Callable[[], Values]) -> tuple[Values, str, float]:
    """Return the exact values of a question, the kind of their noise, and its scale.

    Args:
        patch: Used while `ask` runs.
        ask: Puts one question to a curator, and returns what it is answered.
    """
    asked = []

    def noise(kind: str, values: Values, scale: Fraction) -> Values:
        asked.append((np.array(values), kind, float(scale)))
        return values + 1_000_003 + np.arange(values.size).reshape(values.shape)

    with patch.context() as here:
        # In place of the sampler: the kernel computes, charges and hands over as ever.
        here.setattr(additive_noise, "add_noise", noise)
        answer = ask()
    ((values, kind, scale),) = asked
    # Nothing but what was drawn is answered.
    assert np.array_equal(np.ravel(answer), values.ravel() + 1_000_003 + np.arange(values.size))
    return values, kind, scale


def loss(
    patch: pytest.MonkeyPatch, first: Callable[[], Values], second: Callable[[], Values]
) -> float:
    """Return what two neighbours' answers tell: epsilon under Laplace noise, rho under Gaussian.

    Dwork et al. (2006), Proposition 1; Bun and Steinke (2016), Proposition 6: of discrete noise
    both are reached, the first where every entry is beyond both of its values.
    """
    (one, kind, scale), (other, *noise) = (handed_over(patch, ask) for ask in (first, second))
    assert noise == [kind, scale]  # otherwise the scale itself would tell
    change = np.abs(other - one).astype(float)
    if kind == "laplace":
        return float(change.sum() / scale)
    return float((change**2).sum() / (2 * scale**2))
