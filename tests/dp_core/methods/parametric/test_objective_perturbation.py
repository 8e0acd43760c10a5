"""Why objective perturbation is not offered: one released minimiser tells two files apart.

The published mechanism (Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2) with its random term on
a grid, as every program with numbers of finite precision has it, if a coarser one.
"""

from __future__ import annotations

import numpy as np
import pytest

GRID = 2.0**-20
RIDGE = 5.0


def gradient(x, y, w):
    """Return the gradient of the penalised logistic loss."""
    return x.T @ (1 / (1 + np.exp(-x @ w)) - y) + RIDGE * w


def minimiser(x, y, b):
    """Return the point where the gradient is -b, up to rounding."""
    w = np.zeros(x.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-x @ w))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + RIDGE * np.eye(len(w))
        slope = gradient(x, y, w) + b
        step = np.linalg.solve(hessian, slope)
        while np.linalg.norm(gradient(x, y, w - step) + b) > max(np.linalg.norm(slope), 1e-9):
            step = step / 2
        w = w - step
    return w


def off_the_grid(x, y, w):
    """Return how far the random term that w implies for a file is from the grid, in its steps."""
    implied = gradient(x, y, w) / GRID
    return float(np.abs(implied - np.rint(implied)).max())


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_an_exact_minimiser_tells_neighbouring_files_apart_whatever_epsilon_is(epsilon):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(60, 3))
    x /= np.linalg.norm(x, axis=1).max()
    y = (rng.random(60) < 0.5).astype(float)
    for _ in range(50):
        # A vector of a random direction; its norm has a Gamma distribution of shape d.
        b = rng.normal(size=3)
        b *= rng.gamma(3, 2 / epsilon) / np.linalg.norm(b)
        w = minimiser(x, y, np.rint(b / GRID) * GRID)
        assert off_the_grid(x, y, w) < 0.01
        without_the_last = off_the_grid(x[:-1], y[:-1], w)
        # By chance three coordinates are as near to the grid as that once in 100,000 times.
        assert without_the_last > 0.01


def test_noise_on_the_output_hides_the_grid():
    """With output noise, as of Iyengar et al. (2019), neither file fits the grid."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=(60, 3)) / 5
    y = (rng.random(60) < 0.5).astype(float)
    found = []
    for _ in range(50):
        b = np.rint(rng.normal(size=3) / GRID) * GRID
        w = minimiser(x, y, b) + rng.normal(size=3) * 1e-3
        found.append([off_the_grid(x, y, w) < 0.01, off_the_grid(x[:-1], y[:-1], w) < 0.01])
    assert not np.any(found)
