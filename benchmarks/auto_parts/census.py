"""A generated census: many levels, ordered columns, structural zeros, functional dependencies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.auto_parts.draws import conditional, dataset, given, skewed
from dp_core.kernel.counting.dataset import Dataset

SIZES: Mapping[str, int] = {
    "age": 100,
    "sex": 2,
    "region": 20,
    "country": 40,
    "origin": 5,
    "education": 16,
    "education_group": 5,
    "marital": 7,
    "relationship": 6,
    "children": 8,
    "work": 9,
    "occupation": 15,
    "hours": 99,
    "income": 50,
    "over": 2,
    "gain": 100,
    "weight": 100,
    "tenure": 4,
}
LEFT_OUT_5K = ("country", "gain", "weight", "tenure")
"""Columns that the small census does not have."""
Codes = dict[str, NDArray[np.int64]]


def census(draw: int = 0) -> Dataset:
    """Fifty thousand people, 18 columns of 2 to 100 levels, skewed: a census (seed 201)."""
    rng = np.random.default_rng(201 + 10_000 * draw)
    return _as_dataset(_people(50_000, rng), tuple(SIZES))


def census_5k(draw: int = 0) -> Dataset:
    """Five thousand people, 14 of the census's columns: noise is as large as counts (seed 202)."""
    rng = np.random.default_rng(202 + 10_000 * draw)
    return _as_dataset(
        _people(5_000, rng), tuple(name for name in SIZES if name not in LEFT_OUT_5K)
    )


def _as_dataset(people: Codes, names: tuple[str, ...]) -> Dataset:
    return dataset([people[name] for name in names], [SIZES[name] for name in names], names=names)


def _clipped(values: NDArray[np.float64], column: str) -> NDArray[np.int64]:
    return np.clip(np.floor(values), 0, SIZES[column] - 1).astype(np.int64)


def _people(rows: int, rng: np.random.Generator) -> Codes:
    """Return all columns; nobody under 16 works, is married or has children."""
    people: Codes = {}
    years = np.where(
        rng.random(rows) < 0.6, rng.uniform(0, 55, rows), 55 + rng.gamma(2.0, 9.0, rows)
    )
    people["age"] = age = _clipped(years, "age")
    adult = age >= 16
    people["sex"] = rng.choice(2, size=rows, p=[0.51, 0.49])
    people["region"] = rng.choice(20, size=rows, p=skewed(20, 0.8, rng))
    _origins(people, rng)
    _education(people, adult, rng)
    _families(people, adult, rng)
    _work(people, adult, rng)
    _money(people, rng)
    people["tenure"] = given(
        np.minimum(people["income"] // 10, 4), conditional(5, 4, 0.5, rng), rng
    )
    return people


def _origins(people: Codes, rng: np.random.Generator) -> None:
    """Add the country, nine in ten the same one, and what depends on it."""
    rows = people["age"].size
    home = np.zeros(40)
    home[0] = 1.0
    abroad = np.concatenate([[0.0], skewed(39, 1.2, rng)])
    stay = rng.uniform(0.8, 0.97, 20)
    people["country"] = given(
        people["region"], stay[:, None] * home + (1 - stay)[:, None] * abroad, rng
    )
    group = np.where(people["country"] == 0, 0, 1 + people["country"] % 4)
    people["origin"] = np.where(
        rng.random(rows) < 0.85, group, rng.choice(5, size=rows, p=[0.7, 0.1, 0.1, 0.05, 0.05])
    )


def _education(people: Codes, adult: NDArray[np.bool_], rng: np.random.Generator) -> None:
    """Add education, which no child has much of, and its group, a function of it."""
    age, rows = people["age"], people["age"].size
    reached = 8.5 - 0.03 * np.maximum(age - 40, 0) + rng.normal(0, 2.6, rows)
    heaped = np.where(rng.random(rows) < 0.35, 8.0, reached)
    most = np.clip(age - 4, 0, 15)
    people["education"] = np.minimum(_clipped(np.where(adult, heaped, age / 2), "education"), most)
    people["education_group"] = np.searchsorted(
        np.array([4, 8, 9, 13]), people["education"], side="right"
    )


def _families(people: Codes, adult: NDArray[np.bool_], rng: np.random.Generator) -> None:
    """Add marital status, the place in the household and children."""
    band = np.clip((people["age"] - 16) // 10, 0, 6)
    chances = np.array(
        [
            [0.88, 0.08, 0.01, 0.01, 0.01, 0.005, 0.005],
            [0.48, 0.43, 0.05, 0.02, 0.01, 0.005, 0.005],
            [0.22, 0.60, 0.11, 0.04, 0.02, 0.005, 0.005],
            [0.13, 0.63, 0.15, 0.04, 0.03, 0.01, 0.01],
            [0.08, 0.64, 0.15, 0.03, 0.08, 0.01, 0.01],
            [0.06, 0.60, 0.09, 0.02, 0.21, 0.01, 0.01],
            [0.05, 0.42, 0.05, 0.01, 0.45, 0.01, 0.01],
        ]
    )
    people["marital"] = np.where(adult, given(band, chances, rng), 0)
    married = people["marital"] == 1
    single = given(np.minimum(band, 3), conditional(4, 4, 0.6, rng), rng)
    # A husband is a married man, a wife a married woman, and nobody else.
    people["relationship"] = np.where(married, people["sex"], 2 + single)
    expected = np.where(married, 1.8, 0.5) * np.exp(-(((people["age"] - 40) / 14.0) ** 2))
    children = np.minimum(rng.poisson(expected), SIZES["children"] - 1)
    people["children"] = np.where(adult, children, 0)


def _work(people: Codes, adult: NDArray[np.bool_], rng: np.random.Generator) -> None:
    """Add who works as what and for how long; 0 everywhere for those who do not."""
    rows = people["age"].size
    works = adult & (rng.random(rows) < np.where(people["age"] < 65, 0.78, 0.15))
    kinds = 1 + given(people["education_group"], conditional(5, 8, 0.3, rng), rng)
    people["work"] = np.where(works, kinds, 0)
    state = people["education_group"] * 2 + people["sex"]
    jobs = 1 + given(state, conditional(10, 14, 0.6, rng), rng)
    people["occupation"] = np.where(works, jobs, 0)
    time = np.where(rng.random(rows) < 0.5, 40.0, rng.normal(38, 12, rows))
    time += 4 * (people["work"] == 3) - 5 * (people["sex"] == 0)
    heaped = np.where(rng.random(rows) < 0.6, 5 * np.round(time / 5), time)
    people["hours"] = np.where(works, np.maximum(_clipped(heaped, "hours"), 1), 0)


def _money(people: Codes, rng: np.random.Generator) -> None:
    """Add income of work, whether it is over a bound (a function of it), gains and weights."""
    rows = people["age"].size
    logarithm = (
        1.6
        + 0.09 * people["education"]
        + 0.012 * people["hours"]
        + 0.006 * np.minimum(people["age"], 55)
        + 0.15 * people["sex"]
        + rng.normal(0, 0.45, rows)
    )
    income = np.maximum(_clipped(np.exp(logarithm), "income"), 1)
    people["income"] = np.where(people["work"] > 0, income, 0)
    people["over"] = (people["income"] >= 20).astype(np.int64)
    has_gain = rng.random(rows) < np.where(people["over"] == 1, 0.15, 0.03)
    gain = np.maximum(_clipped(np.exp(rng.normal(2.0, 0.9, rows)), "gain"), 1)
    people["gain"] = np.where(has_gain, gain, 0)
    people["weight"] = _clipped(rng.lognormal(2.6, 0.5, rows), "weight")
