"""A generated panel: the same persons in three waves, some of them absent in some."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

WAVES = ("2023", "2024", "2025")
COLUMNS: dict[str, Any] = {
    "sex": {"type": "category", "levels": [{"1": "male"}, {"2": "female"}], "constant": "true"},
    "birth": {"type": "integer", "min": "1940", "max": "2009", "bins": "5", "constant": "true"},
    "work": {"type": "category", "levels": [{"1": "employed"}, {"2": "other"}]},
    "income": {"type": "integer", "min": "0", "max": "4999", "bins": "5"},
    "health": {"type": "ordinal", "levels": ["bad", "fair", "good"], "missing": "level"},
}
VARYING = ("work", "income", "health")
CONSTANT = ("sex", "birth")


def panel_document(
    *, wave: str | None = "year", columns: Any = None, **keys: Any
) -> dict[str, Any]:
    """Return the schema of the panel as plain values; further keys are those of `panel`."""
    panel = {"person": "id", "waves": list(WAVES), **({"wave": wave} if wave else {}), **keys}
    return {
        "version": "1",
        "title": "Panel of a town",
        "rows_about": "400",
        "panel": panel,
        "columns": copy.deepcopy(COLUMNS if columns is None else columns),
    }


def panel_frame(persons: int = 400, seed: int = 0, *, everyone: bool = False) -> pd.DataFrame:
    """Return the rows as texts, in random order: `id`, `year` and the columns; no two equal."""
    rng = np.random.default_rng(seed)
    here = rng.random((persons, len(WAVES))) < (1 if everyone else 0.8)
    here[np.arange(persons), rng.integers(0, len(WAVES), persons)] = True
    of, wave = np.nonzero(here)
    base = rng.integers(0, 4000, persons)
    found = pd.DataFrame(
        {
            "id": [f"p{number:04d}" for number in of],
            "year": np.array(WAVES)[wave],
            "sex": rng.integers(1, 3, persons)[of].astype(str),
            "birth": rng.integers(1940, 2010, persons)[of].astype(str),
            "work": rng.integers(1, 3, of.size).astype(str),
            "income": (base[of] + 300 * wave + rng.integers(0, 300, of.size)).astype(str),
            "health": np.array(["bad", "fair", "good", ""])[rng.integers(0, 4, of.size)],
        }
    )
    return found.sample(frac=1, random_state=seed).reset_index(drop=True)


def write_waves(folder: Path, rows: pd.DataFrame) -> None:
    """Write a CSV file for each wave: `wave-2023.csv`, without the year."""
    for wave in WAVES:
        part = rows[rows["year"] == wave].drop(columns="year")
        part.to_csv(folder / f"wave-{wave}.csv", index=False)
