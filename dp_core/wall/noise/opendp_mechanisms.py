"""The only file that calls OpenDP: exact samplers on the operating system's secure randomness."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


def add_noise(
    kind: Literal["laplace", "gaussian"], values: NDArray[np.int64], scale: Fraction
) -> NDArray[np.int64]:
    """Return integers plus exact discrete noise of the given scale, same shape."""
    if values.dtype != np.int64:
        # privacy: discrete noise on floats has no guarantee.
        raise TypeError(f"Noise is added to int64, not to {values.dtype}.")
    dp = _opendp()
    make, metric = (
        (dp.measurements.make_laplace, dp.metrics.l1_distance(T="i64"))
        if kind == "laplace"
        else (dp.measurements.make_gaussian, dp.metrics.l2_distance(T="f64"))
    )
    domain = dp.domains.vector_domain(dp.domains.atom_domain(T="i64"))
    mechanism = make(domain, metric, scale=_exact_float(scale))
    # OpenDP takes writable memory only; a counter's tables are not.
    noisy = np.asarray(mechanism(np.array(values.ravel())), dtype=np.int64)
    return noisy.reshape(values.shape)


def noisy_max(scores: NDArray[np.int64], scale: Fraction, *, gumbel: bool) -> int:
    """Return the index of the largest score after exact Gumbel or exponential noise."""
    if scores.dtype != np.int64 or scores.ndim != 1:
        raise TypeError("Scores are a vector of int64.")
    mechanism = _noisy_max_mechanism(_exact_float(scale), gumbel)
    return int(mechanism(np.array(scores)))


@lru_cache(maxsize=64)
def _noisy_max_mechanism(scale: float, gumbel: bool) -> Any:
    """Return OpenDP's mechanism, which holds its scale and no randomness.

    To make one takes twice as long as to choose with it, and some methods choose hundreds of times
    at one scale.
    """
    dp = _opendp()
    measures = dp.measures
    return dp.measurements.make_noisy_max(
        dp.domains.vector_domain(dp.domains.atom_domain(T="i64")),
        dp.metrics.linf_distance(T="i64"),
        measures.zero_concentrated_divergence() if gumbel else measures.max_divergence(),
        scale=scale,
    )


def _exact_float(scale: Fraction) -> float:
    value = float(scale)
    # privacy: the charge was computed from this fraction; the sampler must use the same number,
    # and takes 0 to mean "no noise".
    if Fraction(value) != scale or value <= 0:
        raise ValueError(f"The scale {scale} is not a positive float.")
    return value


def _opendp() -> Any:
    # Only where noise is drawn; and not its prelude, which imports scikit-learn: 2 s of CPU.
    import opendp.domains
    import opendp.measurements
    import opendp.measures
    import opendp.metrics
    import opendp.mod

    opendp.mod.enable_features("contrib")
    return opendp
