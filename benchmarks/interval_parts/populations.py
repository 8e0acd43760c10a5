"""Two generated populations of known structure, as data frames.

Neither was used to choose a constant of the program. `posterior.py` and `interval_warnings.py` take
them as populations. Each is drawn anew from a fixed seed, so it is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ROWS = 200_000


def latent_classes() -> pd.DataFrame:
    """Return a latent class model: ten columns of 2 to 9 levels, independent within five classes.

    The classes have shares of .4 to .05. In each class a column has its own distribution, drawn
    from a Dirichlet distribution around the column's average; one of the classes differs strongly.
    """
    rng = np.random.default_rng(2023)
    group = rng.choice(5, ROWS, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    columns = {}
    for place, size in enumerate((2, 2, 2, 3, 3, 4, 5, 6, 7, 9)):
        average = rng.dirichlet(np.ones(size))
        shares = np.stack(
            [rng.dirichlet(average * part + 0.05) for part in (30, 20, 12, 8, 2)]
        ).cumsum(axis=1)
        shares /= shares[:, -1:]
        code = (rng.random(ROWS)[:, None] > shares[group]).sum(axis=1)
        columns[f"c{place}"] = np.char.add("l", np.minimum(code, size - 1).astype(str))
    return pd.DataFrame(columns)


def curves() -> pd.DataFrame:
    """Return eight numbers and two categories that depend on one another by curves.

    The relations are: a parabola, a threshold, a wave, a spread that grows, a product of two
    columns, a skewed number, one line, a category that is frequent in the middle of a number, and
    one that follows a threshold.
    """
    rng = np.random.default_rng(4046)
    base = rng.normal(0, 1, ROWS)
    other = rng.uniform(-1, 1, ROWS)
    noise = rng.normal(0, 1, (7, ROWS))
    numbers = {
        "base": base,
        "other": other,
        "parabola": base**2 + 0.7 * noise[0],
        "threshold": 2.0 * (other > 0.4) + noise[1],
        "wave": np.sin(3 * base) + 0.6 * noise[2],
        "spread": noise[3] * np.exp(0.6 * other),
        "product": base * other + 0.5 * noise[4],
        "skewed": np.exp(0.4 * base + 0.5 * noise[5]),
    }
    clipped: dict[str, NDArray[np.float64] | NDArray[np.str_]] = {
        name: np.clip(values, *np.quantile(values, [0.001, 0.999]))
        for name, values in numbers.items()
    }
    middle = rng.random(ROWS) < 0.1 + 0.6 * np.exp(-2 * base**2)
    high = np.digitize(other + 0.3 * noise[6], [-0.3, 0.4, 0.8])
    clipped["middle"] = np.where(middle, "yes", "no")
    clipped["step"] = np.char.add("s", high.astype(str))
    return pd.DataFrame(clipped)


GENERATED: dict[str, Callable[[], pd.DataFrame]] = {
    "latent-classes": latent_classes,
    "curves": curves,
}
