"""What the generators of files share: draws of columns given other columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain


def dataset(
    columns: Sequence[ArrayLike] | NDArray[np.bool_],
    sizes: Sequence[int] = (),
    *,
    names: Sequence[str] = (),
    binary: bool = False,
) -> Dataset:
    """Return columns of codes as a file; unnamed columns are called c1, c2, ...

    Args:
        columns: Codes, shape (columns, rows).
        sizes: Levels of each column; not needed where all have two.
        names: Of the columns.
        binary: All columns have two levels.
    """
    codes = np.ascontiguousarray(np.stack([np.asarray(column) for column in columns]))
    shape = (2,) * len(codes) if binary else tuple(int(size) for size in sizes)
    called = tuple(names) or tuple(f"c{axis + 1}" for axis in range(len(codes)))
    if (codes.max(axis=1) >= np.array(shape)).any() or codes.min() < 0:
        raise ValueError("A code is outside its column's levels.")
    return Dataset(Domain(called, shape), codes.astype(np.uint16))


def skewed(levels: int, power: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return probabilities that fall with the power of their rank, levels in random order."""
    weights = np.arange(1, levels + 1, dtype=np.float64) ** -power
    return rng.permutation(weights / weights.sum())


def conditional(
    parents: int, levels: int, strength: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the chances of each level given each level of a parent, shape (parents, levels).

    Args:
        parents: Levels of the parent.
        levels: Levels of the column.
        strength: Part that depends on the parent: 0 is independence.
        rng: Of the file.
    """
    own = rng.dirichlet(np.full(levels, 0.5), size=parents)
    return strength * own + (1 - strength) * skewed(levels, 0.6, rng)


def given(
    parent: NDArray[np.int64], table: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return codes drawn by the row of `table` that the parent's code names."""
    found = np.zeros(parent.size, dtype=np.int64)
    for code, chances in enumerate(table):
        rows = np.flatnonzero(parent == code)
        if rows.size:
            found[rows] = rng.choice(chances.size, size=rows.size, p=chances / chances.sum())
    return found


def latent(
    rows: int,
    means: NDArray[np.float64],
    factors: int,
    loading: float,
    rng: np.random.Generator,
    *,
    pure_noise: int = 0,
) -> NDArray[np.bool_]:
    """Return yes/no items of an item-response model, shape (items, rows).

    Args:
        rows: Records.
        means: About the part of yes of each item.
        factors: Independent normal abilities behind the items; each item has one main factor.
        loading: Standard deviation that the main factor brings to the logit.
        rng: Of the file.
        pure_noise: Items, the last ones, that depend on nothing.
    """
    items = means.size
    weights = rng.normal(0, 0.2 * loading, (items, factors))
    main = rng.integers(0, factors, items)
    weights[np.arange(items), main] += loading * rng.uniform(0.6, 1.4, items)
    if pure_noise:
        weights[items - pure_noise :] = 0
    # A logit's mean has to grow with its spread, or all items go to one half.
    spread = np.sqrt(1 + 0.35 * (weights**2).sum(axis=1))
    base = np.log(means / (1 - means)) * spread
    logits = base[:, None] + weights @ rng.normal(size=(factors, rows))
    return rng.random((items, rows)) < 1 / (1 + np.exp(-logits))
