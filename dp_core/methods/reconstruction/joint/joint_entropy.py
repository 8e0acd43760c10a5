"""The joint table of largest entropy given noisy answers, the limit of multiplicative weights.

Answers a_i with standard deviation s_i, both as parts of all records, leave the joint table p that
minimises

    sum_i (q_i(p) - a_i)^2 / (2 s_i^2) + prior * KL(p || start)

A small answer is followed as far as its noise allows, and no further; without a prior, answers that
no table has would drive cells to nothing. The minimum is start * exp(sum_i theta_i q_i), what
multiplicative updates make, and theta minimises the smooth dual

    log sum(start * exp(sum theta_i q_i)) - theta . a + prior/2 sum (s_i theta_i)^2

(Dudik, Phillips & Schapire 2004, the l2^2 case; Gull & Daniell 1978), found by L-BFGS.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.reconstruction.joint.dense_answers import Evidence

_ROUNDS = 300
_STEEPEST = 1e3
_NEARLY = 1e-9  # least standard deviation of an answer, as a part of all records


@dataclass(frozen=True, slots=True, eq=False)
class EntropyFit:
    """The fitted joint table.

    Attributes:
        joint: Sums to 1; shape of the domain.
        weights: Weights of the questions, a start for the next fit.
    """

    joint: NDArray[np.float64]
    weights: NDArray[np.float64]


def fit_entropy(
    evidence: Evidence,
    start: NDArray[np.float64],
    *,
    prior: float,
    weights: NDArray[np.float64] | None = None,
    rounds: int = _ROUNDS,
) -> EntropyFit:
    """Return the joint table that answers leave, nearest to `start`.

    Args:
        evidence: Noisy answers.
        start: Nonnegative, sums to 1; what is 0 stays 0.
        prior: Records that the start counts for, positive.
        weights: Start of the fit; it affects only the last digits of the result.
        rounds: Largest number of rounds.
    """
    from scipy.optimize import minimize

    asked = evidence.questions
    if not asked.length:
        return EntropyFit(start, np.zeros(0))
    held = start > 0
    log_start = np.log(start, out=np.full(start.shape, -np.inf), where=held)
    stddev = np.maximum(evidence.stddev, _NEARLY)
    # Scaled so that the penalty is round; what hardly has noise is held by the data instead.
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
        options={"maxiter": rounds, "maxfun": 2 * rounds, "maxcor": 12, "ftol": 1e-12},
    )
    theta = np.asarray(found.x * scale)
    return EntropyFit(joint_of(theta)[0], theta)
