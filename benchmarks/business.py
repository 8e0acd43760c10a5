"""Means, totals and quantiles of skewed numbers by industry: do intervals cover, how wide are they?

    python benchmarks/business.py [--files log-normal pareto] [--rows 4000 50000]
        [--epsilon 0.5 1 4] [--repeats 10] [--small-groups]

A file of firms in 20 industries is drawn for each repeat. Turnover is an integer from 0 to a
billion. It is log-normal with a standard deviation of the logarithm of 1.6, or Pareto with the
exponent 1.3. Industries differ in scale by a factor of e^1.5. Each file is released in memory at
(epsilon, 1e-6), tables only, with the usual share of 0.3 for two declared statistics: the mean and
the median of turnover by industry. From the same release come the total and the quantile 0.9. For
each statistic the script prints the part of the industries whose 95 % interval contains the file's
value, the median half-width of the intervals relative to the file's value, and the median absolute
error relative to it, which is 0 for an exact answer. Beside it stand:

    bins     the answer of a release without the declaration, from bins a factor of 10 wide
    OpenDP   its bounded sum and count by industry, at the same share of the budget as one declared
             statistic (0.15), with the bounds of the schema; error only
    oracle   the same with the bounds 0 and the file's own 99 % quantile of each industry, which no
             private method knows; the limit's own bias is part of the error

`--small-groups` instead draws 5,000 firms in 8 industries and 5 size classes, of which the largest
has about 12 firms in an industry, and declares the total by both.

Errors of OpenDP and of the oracle are those of the mean. Their budget is divided equally between
sum and count.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from functools import partial

import numpy as np
import opendp.prelude as opendp
import pandas as pd
from numpy.typing import NDArray

import dp_core as dp

Floats = NDArray[np.float64]
INDUSTRIES = [f"i{place:02d}" for place in range(20)]
MOST = 1_000_000_000
SHARE = 0.15
DECLARED = ["mean of turnover by industry", "median of turnover by industry"]
QUESTIONS = {
    "mean": "mean of turnover by industry",
    "total": "total of turnover by industry",
    "median": "median of turnover by industry",
    "quantile .9": "quantile 0.9 of turnover by industry",
}


def firms(kind: str, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a file of firms."""
    place = rng.integers(0, len(INDUSTRIES), rows)
    scale = np.exp(1.5 * place / (len(INDUSTRIES) - 1))
    if kind == "log-normal":
        turnover = scale * np.exp(12 + 1.6 * rng.standard_normal(rows))
    else:
        turnover = scale * 1e5 * (1 + rng.pareto(1.3, rows))
    turnover = np.clip(np.floor(turnover), 0, MOST).astype(np.int64)
    return pd.DataFrame({"industry": np.array(INDUSTRIES)[place], "turnover": turnover})


def schema(rows: int) -> dict[str, object]:
    """Return the schema, with bins a factor of 10 wide."""
    edges = [0, *(10**power for power in range(3, 10)), MOST + 1]
    return {
        "version": 1,
        "title": "Business survey",
        "rows_about": rows,
        "columns": {
            "industry": {"type": "category", "levels": INDUSTRIES},
            "turnover": {"type": "integer", "min": 0, "max": MOST, "edges": edges},
        },
    }


def true_values(file: pd.DataFrame) -> dict[str, Floats]:
    """Return the file's own statistics by industry."""
    groups = file.groupby("industry")["turnover"]
    return {
        "mean": groups.mean().to_numpy(float),
        "total": groups.sum().to_numpy(float),
        "median": groups.median().to_numpy(float),
        "quantile .9": groups.quantile(0.9).to_numpy(float),
    }


def by_opendp(file: pd.DataFrame, bounds: Floats, rho: float) -> Floats:
    """Return the mean by industry of OpenDP's bounded sum over its count.

    Args:
        file: The file.
        bounds: Upper bound of the turnover of each industry.
        rho: Budget of the sum and the count together, in zCDP.
    """
    found = []
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"))
    metric = opendp.symmetric_distance()
    for name, bound in zip(INDUSTRIES, bounds, strict=True):
        values = file.loc[file["industry"] == name, "turnover"].tolist()
        sum_of = (domain, metric) >> opendp.t.then_clamp((0, int(bound))) >> opendp.t.then_sum()
        count_of = (domain, metric) >> opendp.t.then_count()
        noisy = []
        for query, reach in ((sum_of, float(bound)), (count_of, 1.0)):
            scale = reach / math.sqrt(rho)
            noisy.append((query >> opendp.m.then_gaussian(scale))(values))
        found.append(noisy[0] / max(noisy[1], 1))
    return np.array(found)


def main() -> None:
    """Print the tables."""
    opendp.enable_features("contrib")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", nargs="+", default=["log-normal", "pareto"])
    parser.add_argument("--rows", nargs="+", type=int, default=[4000, 50_000])
    parser.add_argument("--epsilon", nargs="+", default=["0.5", "1", "4"])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--small-groups", action="store_true")
    given = parser.parse_args()
    if given.small_groups:
        for epsilon in given.epsilon:
            small_groups(epsilon, given.repeats)
        return
    print("file, rows, epsilon, statistic: covered; half-width, error / bins: half-width, error")
    print("mean only: error of OpenDP, error of the oracle")
    started = time.process_time()
    for kind in given.files:
        for rows in given.rows:
            for epsilon in given.epsilon:
                _one(kind, rows, epsilon, given.repeats)
    print(f"{time.process_time() - started:.0f} CPU seconds, {given.repeats} repeats")


def small_groups(epsilon: str, repeats: int) -> None:
    """Print how often totals by industry and size class are covered, and the widths."""
    rng = np.random.default_rng(1)
    sizes = [f"size {place}" for place in range(1, 6)]
    own = schema(5000)
    columns = {**own["columns"], "size": {"type": "ordinal", "levels": sizes}}  # type: ignore[dict-item]
    columns["industry"] = {"type": "category", "levels": INDUSTRIES[:8]}
    question = "total of turnover by industry, size"
    inside, width, number = (defaultdict(list) for _ in range(3))
    for _ in range(repeats):
        size = rng.choice(5, 5000, p=[0.5, 0.24, 0.18, 0.06, 0.02])
        turnover = np.exp(11 + 1.2 * size + 1.6 * rng.standard_normal(5000))
        file = pd.DataFrame(
            {
                "industry": np.array(INDUSTRIES)[rng.integers(0, 8, 5000)],
                "size": np.array(sizes)[size],
                "turnover": np.minimum(turnover, MOST).astype(np.int64),
            }
        )
        made = dp.release(
            file,
            {**own, "columns": columns},
            epsilon=epsilon,
            delta=1e-6,
            sets=0,
            analyses=[question],
        )
        keys = ["industry", "size"]
        frame = made.query(question).frame.merge(
            file.groupby(keys)["turnover"].agg(true="sum", firms="size").reset_index(), on=keys
        )
        frame["inside"] = (frame["low"] <= frame["true"]) & (frame["true"] <= frame["high"])
        frame["width"] = (frame["high"] - frame["low"]) / 2 / frame["true"]
        for name, part in frame.groupby("size"):
            inside[name] += [*part["inside"]]
            width[name] += [*part["width"]]
            number[name] += [*part["firms"]]
    for name in sizes:
        print(
            f"small groups, {epsilon}, {name}: {np.median(number[name]):.0f} firms in a group,"
            f" covered {np.mean(inside[name]):.3f} of {len(inside[name])},"
            f" half-width {np.median(width[name]):.3g} of the total",
            flush=True,
        )


def _one(kind: str, rows: int, epsilon: str, repeats: int) -> None:
    rng = np.random.default_rng(rows)
    found: dict[tuple[str, str], list[Floats]] = defaultdict(list)
    rho = float(_rho(float(epsilon))) * SHARE
    for _ in range(repeats):
        file = firms(kind, rows, rng)
        wanted, own = true_values(file), schema(rows)
        usual = partial(dp.release, file, own, epsilon=epsilon, delta=1e-6, sets=0)
        declared, binned = usual(analyses=DECLARED), usual()
        for statistic, question in QUESTIONS.items():
            true = wanted[statistic]
            for source, made in (("declared", declared), ("bins", binned)):
                answer = made.query(question)
                if not answer.determined:
                    nothing = np.full(len(true), np.inf)
                    found[statistic, f"{source} covered"].append(np.ones(len(true)))
                    found[statistic, f"{source} width"].append(nothing)
                    found[statistic, f"{source} error"].append(nothing)
                    continue
                frame = answer.frame
                value, low, high = (frame[n].to_numpy(float) for n in ("estimate", "low", "high"))
                # What is not determined has an infinite interval.
                inside = ~((low > true) | (true > high))
                found[statistic, f"{source} covered"].append(inside.astype(float))
                width = np.nan_to_num((high - low) / 2 / true, nan=np.inf)
                found[statistic, f"{source} width"].append(width)
                found[statistic, f"{source} error"].append(
                    np.nan_to_num(np.abs(value - true) / true, nan=np.inf)
                )
        limits = file.groupby("industry")["turnover"].quantile(0.99).to_numpy(float)
        for source, bounds in (("OpenDP", np.full(len(limits), float(MOST))), ("oracle", limits)):
            mean = by_opendp(file, bounds, rho)
            found["mean", source].append(np.abs(mean - wanted["mean"]) / wanted["mean"])
    for statistic in QUESTIONS:
        every = {name: np.concatenate(v) for (of, name), v in found.items() if of == statistic}
        line = (
            f"{kind}, {rows:,}, {epsilon}, {statistic}: {np.mean(every['declared covered']):.3f};"
            f" {np.median(every['declared width']):.3g}, {np.median(every['declared error']):.3g}"
            f" / {np.median(every['bins width']):.3g}, {np.median(every['bins error']):.3g}"
        )
        if statistic == "mean":
            line += f"; {np.median(every['OpenDP']):.3g}, {np.median(every['oracle']):.3g}"
        print(line, flush=True)


def _rho(epsilon: float) -> float:
    """Return the zCDP budget of (epsilon, 1e-6), by the usual conversion."""
    log = math.log(1e6)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


if __name__ == "__main__":
    main()
