"""How long exact noise takes, beside OpenDP's samplers of the same distributions.

Usage:
    python benchmarks/noise.py

Prints CPU nanoseconds for a cell, or for a candidate of a private choice, and the ratio. Each
figure is the least of five runs, taken by turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp

from dp_core.kernel.noise.exact_samplers import add_noise, noisy_max

CELLS, CANDIDATES, CHOICES, RUNS = 100_000, 1_000, 100, 5
SCALES = (Fraction(1), Fraction(12.345), Fraction(1000))


def main() -> None:
    """Print the table."""
    dp.enable_features("contrib")
    print(f"{'what':<34}{'ours, ns':>10}{'OpenDP, ns':>12}{'ratio':>8}")
    for name, number, ours, theirs in pairs():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(RUNS):
            for found, draw in zip(times, (ours, theirs), strict=True):
                start = time.process_time()
                draw()
                found.append((time.process_time() - start) / number * 1e9)
        mine, other = min(times[0]), min(times[1])
        print(f"{name:<34}{mine:>10.0f}{other:>12.0f}{other / mine:>7.1f}x")


def pairs() -> list[tuple[str, int, Callable[[], Any], Callable[[], Any]]]:
    """Return what is compared: its name, how many it draws, and the two that draw it."""
    found: list[tuple[str, int, Callable[[], Any], Callable[[], Any]]] = []
    vectors = dp.vector_domain(dp.atom_domain(T="i64"))
    zeros = np.zeros(CELLS, dtype=np.int64)
    for scale in SCALES:
        laplace = dp.m.make_laplace(vectors, dp.l1_distance(T="i64"), scale=float(scale))
        gaussian = dp.m.make_gaussian(vectors, dp.l2_distance(T="f64"), scale=float(scale))
        for kind, theirs in (("laplace", laplace), ("gaussian", gaussian)):
            found.append(
                (
                    f"{kind} noise, scale {float(scale):g}",
                    CELLS,
                    lambda kind=kind, scale=scale: add_noise(kind, zeros, scale),
                    lambda theirs=theirs: theirs(zeros),
                )
            )
    scores = np.arange(CANDIDATES, dtype=np.int64)
    for gumbel in (True, False):
        measure = dp.zero_concentrated_divergence() if gumbel else dp.max_divergence()
        choose = dp.m.make_noisy_max(vectors, dp.linf_distance(T="i64"), measure, scale=50.0)
        found.append(
            (
                "exponential mechanism" if gumbel else "permute-and-flip",
                CANDIDATES * CHOICES,
                lambda gumbel=gumbel: [
                    noisy_max(scores, Fraction(50), gumbel=gumbel) for _ in range(CHOICES)
                ],
                lambda choose=choose: [choose(scores) for _ in range(CHOICES)],
            )
        )
    return found


if __name__ == "__main__":
    main()
