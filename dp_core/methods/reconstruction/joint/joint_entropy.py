"""The maximum-entropy joint table given noisy answers, the limit of multiplicative weights.

For answers a_i with standard deviations s_i, both as proportions of all records, the fit is the
joint table p that minimises

    sum_i (q_i(p) - a_i)^2 / (2 s_i^2) + prior * KL(p || start)

The noise of an answer limits its influence; without a prior, answers that no table satisfies would
drive cells to 0. The minimum has the form start * exp(sum_i theta_i q_i), like the result of
multiplicative updates, and theta minimises the smooth dual

    log sum(start * exp(sum theta_i q_i)) - theta . a + prior/2 sum (s_i theta_i)^2

(Dudik, Phillips & Schapire 2004, the l2^2 case; Gull & Daniell 1978), found by L-BFGS.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.reconstruction.joint.dense_answers import Evidence

_ROUNDS = 300
_STEEPEST = 1e3
_NEARLY = 1e-9  # smallest standard deviation of an answer, as a proportion of all records


def fit_entropy(
    evidence: Evidence,
    start: NDArray[np.float64],
    *,
    prior: float,
    weights: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the joint table nearest to `start` that fits noisy answers, and its weights (theta).

    The table is in proportions, and the weights of the queries are a start for the next fit.

    Args:
        evidence: Noisy answers.
        start: Start table, nonnegative, sums to 1; cells with 0 stay 0.
        prior: Weight of the start table, in records, positive.
        weights: Start values of the weights; they affect only the last digits of the result.
    """
    from scipy.optimize import minimize

    asked = evidence.questions
    if not asked.length:
        return start, np.zeros(0)
    held = start > 0
    log_start = np.log(start, out=np.full(start.shape, -np.inf), where=held)
    stddev = np.maximum(evidence.stddev, _NEARLY)
    # Scaled so that the penalty is isotropic; nearly noiseless answers get a limited scale.
    scale = np.minimum(1 / (stddev * np.sqrt(prior)), _STEEPEST)

    def joint_of(theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        logs = log_start + asked.spread(theta)
        largest = float(logs.max())
        joint = np.exp(logs - largest)
        mass = float(joint.sum())
        joint /= mass
        return joint, largest + float(np.log(mass))

    def dual(scaled: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        theta = scaled * scale
        joint, log_mass = joint_of(theta)
        residual = asked.ask(joint) - evidence.answers
        shrink = prior * stddev**2 * theta
        value = log_mass - float(theta @ evidence.answers)
        return value + float(theta @ shrink) / 2, scale * (residual + shrink)

    first = np.zeros(asked.length) if weights is None else weights / scale
    found = minimize(
        dual,
        first,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _ROUNDS, "maxfun": 2 * _ROUNDS, "maxcor": 12, "ftol": 1e-12},
    )
    theta = np.asarray(found.x * scale)
    return joint_of(theta)[0], theta
