"""Which degrees of freedom do regressions on the sets of a small file need?

Usage: python benchmarks/few_records.py [--repeats 4000] [--part one joint records]

The rules are compared in files of 10 to 60 records and from 1 to 6 coefficients:

    sets      for a large file: Rubin (1987) for imputations, Reiter (2003) for split sets, and Li,
              Raghunathan and Rubin (1991) for joint tests
    missing   for imputed missing values: Barnard and Rubin (1999); joint tests Reiter (2007)
    file      Satterthwaite's sum, which `dp_core.inference` uses

Parts:
    one      one coefficient: W has c degrees of freedom; noise adds b, a multiple of W
    joint    a joint test of several coefficients of equal noise, at 5 %
    records  least squares on records: y = x b + e. Noise is added to x'y and to the sum of squared
             residuals, and each of five sets is a draw of the file given the noisy sums and x. So W
             has noise as well. Coverage of all slopes together

It prints coverage (or the rate of rejection) of each rule, and the median width of its intervals
relative to those with all variances known.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dp_core.inference.intervals import degrees_joint, degrees_of_sum

Floats = NDArray[np.float64]
LEVEL = 0.95


def barnard_rubin(within: Floats, between: Floats, sets: int, complete_df: float) -> Floats:
    """Return the degrees of freedom of Barnard and Rubin (1999) for missing values."""
    kept = within / (within + between)
    observed = (complete_df + 1) / (complete_df + 3) * complete_df * kept
    large = degrees_of_sum(within, between, sets, np.inf)
    return np.asarray(1 / (1 / large + 1 / observed))


RULES: dict[str, Callable[[Floats, Floats, int, float], Floats]] = {
    "sets": lambda w, b, sets, _: degrees_of_sum(w, b, sets, np.inf),
    "missing": barnard_rubin,
    "file": degrees_of_sum,
}


def reiter(count: int, ratio: float, sets: int, complete_df: float) -> float:
    """Return the degrees of freedom of Reiter (2007, Biometrika 94), equations 1 and 2.

    Without their conditions, Barnard and Rubin's form of `degrees_joint`.
    """
    t, part = count * (sets - 1), ratio / (1 + ratio)
    star = (complete_df + 1) / (complete_df + 3) * complete_df
    a = ratio * t / (t - 2) if t > 2 else 0.0
    two, four = star - 2 * (1 + a), star - 4 * (1 + a)
    if t <= 4 or four <= 0:
        return 1 / (1 / degrees_joint(count, ratio, sets) + 1 / (star * (1 - part)))
    rest = (
        two / ((1 + a) ** 2 * four)
        + 8 * two / ((1 + a) * four**2)
        + 4 / ((1 + a) * four)
        + 4 / (four * two)
        + 16 * two / four**3
        + 8 / four**2
    )
    return 4 + 1 / (1 / four + a**2 * rest / (t - 4))


def shown(value: float) -> str:
    """Return a relative width; a huge one as a power of 10."""
    return f"{value:.2f}" if value < 1000 else f"10^{np.log10(value):.0f}"


def intervals(
    off: Floats, within: Floats, between: Floats, sets: int, complete_df: float, known: Floats
) -> str:
    """Return coverage and median relative width of each rule.

    Args:
        off: Errors of the estimates.
        within: W, same shape.
        between: b, same shape.
        sets: Number of sets.
        complete_df: Degrees of freedom of the analysis of the file.
        known: True standard errors, same shape.
    """
    found = []
    for rule in RULES.values():
        degrees = rule(within, between, sets, complete_df)
        half = stats.t.ppf((1 + LEVEL) / 2, degrees) * np.sqrt(within + between)
        width = float(np.median(half / known)) / stats.norm.ppf((1 + LEVEL) / 2)
        found.append(f"{np.mean(np.abs(off) <= half):.3f}, {shown(width)}")
    return " | ".join(found)


def one(repeats: int) -> None:
    """Print the table of one coefficient."""
    print("\n### one coefficient: coverage, width\n")
    print("| sets | c | m | b / W | sets | missing | file |\n|---|---|---|---|---|---|---|")
    for kind, c, m, r in itertools.product(
        ("posterior", "split"), (4, 8, 25, 55), (3, 5, 20), (0.1, 1, 12)
    ):
        rng = np.random.default_rng([c, m, round(10 * r), kind == "split"])
        within = rng.chisquare(c, repeats) / c
        file = rng.normal(size=repeats)
        if kind == "split":
            each = file[:, None] + np.sqrt(r * m) * rng.normal(size=(repeats, m))
            factor = 1 / m
        else:
            noise = r / (1 + 1 / m)
            measured = file + np.sqrt(noise) * rng.normal(size=repeats)
            each = measured[:, None] + np.sqrt(noise) * rng.normal(size=(repeats, m))
            factor = 1 + 1 / m
        between = factor * each.var(axis=1, ddof=1)
        known = np.full(repeats, np.sqrt(1 + r))
        told = intervals(each.mean(axis=1), within, between, m, c, known)
        print(f"| {kind} | {c} | {m} | {r:g} | {told} |", flush=True)


def joint(repeats: int) -> None:
    """Print the table of joint tests."""
    print("\n### joint test at 5 %: rate of rejection\n")
    print("| k | c | m | r | sets | missing | file |\n|---|---|---|---|---|---|---|")
    for k, c, m, r in itertools.product((2, 5), (6, 12, 25, 50), (3, 5, 20), (0.1, 1, 10)):
        rng = np.random.default_rng([k, c, m, round(10 * r)])
        noise, rejected = r / (1 + 1 / m), np.zeros(3)
        for _ in range(repeats):
            within = rng.chisquare(c) / c
            centre = rng.normal(size=k) + np.sqrt(noise) * rng.normal(size=k)
            each = centre + np.sqrt(noise) * rng.normal(size=(m, k))
            ratio = float((1 + 1 / m) * each.var(axis=0, ddof=1).mean() / within)
            mean = each.mean(axis=0)
            statistic = float(mean @ mean) / within / (k * (1 + ratio))
            degrees = (
                degrees_joint(k, ratio, m),
                reiter(k, ratio, m, c),
                degrees_joint(k, ratio, m, c),
            )
            rejected += stats.f.sf(statistic, k, degrees) < 1 - LEVEL
        told = " | ".join(f"{rate:.3f}" for rate in rejected / repeats)
        print(f"| {k} | {c} | {m} | {r:g} | {told} |", flush=True)


def records(repeats: int) -> None:
    """Print the table of regressions on records."""
    print("\n### least squares on records, five sets: coverage, width\n")
    print("| records | coefficients | noise | sets | missing | file |\n|---|---|---|---|---|---|")
    m = 5
    for n, p, noise in itertools.product((10, 20, 60), (2, 4, 6), (0.3, 1, 3)):
        rng = np.random.default_rng([n, p, round(10 * noise)])
        kept = []
        for _ in range(repeats):
            x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
            inverse = np.linalg.inv(x.T @ x)
            y = rng.normal(size=n)
            coefficients = inverse @ (x.T @ y)
            squares = float(np.square(y - x @ coefficients).sum())
            # Noise on x'y with `noise` times the standard deviation that sampling gives a sum.
            spread = noise * np.sqrt(n)
            measured = coefficients + inverse @ rng.normal(0, spread, p)
            each = measured + rng.normal(0, spread, (m, p)) @ inverse
            of_squares = squares + noise * np.sqrt(2 * (n - p)) * rng.normal()
            drawn = of_squares + noise * np.sqrt(2 * (n - p)) * rng.normal(size=m)
            # No set has a negative sum of squares.
            variance = np.maximum(drawn, 0.05 * (n - p)).mean() / (n - p)
            within = variance * np.diag(inverse)
            between = (1 + 1 / m) * each.var(axis=0, ddof=1)
            of_noise = (1 + 1 / m) * spread**2 * np.square(inverse).sum(axis=1)
            known = np.sqrt(np.diag(inverse) + of_noise)
            kept.append((each.mean(axis=0)[1:], within[1:], between[1:], known[1:]))
        off, within, between, known = (np.concatenate(part) for part in zip(*kept, strict=True))
        told = intervals(off, within, between, m, n - p, known)
        print(f"| {n} | {p} | {noise:g} | {told} |", flush=True)


PARTS = {"one": one, "joint": joint, "records": records}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=4000)
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS))
    options = parser.parse_args()
    for part in options.part:
        PARTS[part](options.repeats)


if __name__ == "__main__":
    main()
