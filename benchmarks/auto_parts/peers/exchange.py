"""What the scripts of public tools share: a CSV of codes in, one out. Each runs in its own venv."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Task:
    """What is asked of a tool.

    Attributes:
        method: Which of its methods, with a number after a hyphen where it has one.
        epsilon: Of its own guarantee.
        delta: Of its own guarantee.
        seed: Of whatever it seeds.
        table: Codes, a column each.
        sizes: Levels of each column; codes run from 0. Public.
        source: The CSV of the table.
        made: Path of the CSV that it is to write.
    """

    method: str
    epsilon: float
    delta: float
    seed: int
    table: pd.DataFrame
    sizes: dict[str, int]
    source: Path
    made: Path

    def write(self, table: pd.DataFrame) -> None:
        """Write the records that a tool made."""
        table[list(self.sizes)].to_csv(self.made, index=False)


def asked() -> Task:
    """Return the task of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sizes", type=Path, required=True)
    parser.add_argument("--made", type=Path, required=True)
    found = parser.parse_args()
    np.random.seed(found.seed)  # noqa: NPY002  (the tools draw from it)
    return Task(
        found.method,
        found.epsilon,
        found.delta,
        found.seed,
        pd.read_csv(found.data),
        json.loads(found.sizes.read_text()),
        found.data,
        found.made,
    )


def zcdp(epsilon: float, delta: float) -> float:
    """Return the largest rho of which rho-zCDP implies (epsilon, delta).

    By the bound of Canonne, Kamath and Steinke (2020), proposition 12, minimised over the order.
    """
    orders = 1 + np.logspace(-3, 4, 20_000)
    low, high = 0.0, epsilon + 1.0
    for _ in range(200):
        rho = (low + high) / 2
        log_delta = (
            (orders - 1) * (orders * rho - epsilon)
            + orders * np.log1p(-1 / orders)
            - np.log(orders - 1)
        ).min()
        low, high = (rho, high) if log_delta <= math.log(delta) else (low, rho)
    return low
