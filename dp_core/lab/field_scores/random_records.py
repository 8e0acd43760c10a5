"""Simple random samples of records."""

from __future__ import annotations

import numpy as np

from dp_core.tables.dataset import Dataset


def random_records(data: Dataset, most: int, rng: np.random.Generator) -> Dataset:
    """Return at most this many records in their order, a simple random sample.

    Args:
        data: The records.
        most: Largest number of records; if there are no more, all are returned and `rng` is unused.
        rng: Source of randomness.
    """
    if data.rows <= most:
        return data
    places = np.sort(rng.choice(data.rows, most, replace=False))
    return Dataset(data.domain, np.ascontiguousarray(data.codes[:, places]))
