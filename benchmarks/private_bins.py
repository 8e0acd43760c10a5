"""What private bins cost and gain: noisy counts of a tree against private choices of each edge.

    python benchmarks/private_bins.py            # the table below
    python benchmarks/private_bins.py --error    # the constant by which `plan` promises exactness

The column is made up, like the incomes of the Adult survey: a quarter earn nothing, the others
about log-normally, up to 500,000. Twelve bins are bought by 1/20 of a release's budget:

- `tree`: noisy counts of the column's positions at three widths, which is what a release does;
- `tree, evenly`: the same, but records are drawn evenly within a bin, and not in pieces by what the
  counts say of its parts;
- `one by one`: eleven cuts by the exponential mechanism, each paid for (`buy_edges`);
- `by depth`: the same cuts, where those of one depth, whose ranges share no record, are paid once.
  Not built: it is here to see what it would gain;
- `equal widths`: public bins, for nothing.

Then the counts of the bins are released with the rest of the budget, and records are drawn within
them: evenly, except of `tree`. *Uneven*: mean distance of a bin's part from the bins' mean, in
rows, without the bin of those who earn nothing (`buy_edges` does not share the others anew). *TVD*:
between the file and the drawn records over 100 groups of equally many of those who earn. *Mean*:
how far it is off.

With `--repeats 15`, on 21 November 2026:

| rows | epsilon, delta | way | uneven, rows | TVD | mean is off by |
|---|---|---|---|---|---|
| 5,000 | 1, 0 | tree | 108 | 0.136 | 15 % |
| 5,000 | 1, 0 | tree, evenly | 125 | 0.120 | 40 % |
| 5,000 | 1, 0 | one by one | 359 | 0.170 | 47 % |
| 5,000 | 1, 0 | by depth | 230 | 0.127 | 40 % |
| 5,000 | 1, 0 | equal widths | 653 | 0.277 | 31 % |
| 50,000 | 1, 0 | tree | 167 | 0.036 | 3 % |
| 50,000 | 1, 0 | tree, evenly | 188 | 0.091 | 45 % |
| 5,000 | 1, 1e-9 | tree | 54 | 0.103 | 10 % |
| 5,000 | 1, 1e-9 | tree, evenly | 65 | 0.129 | 54 % |
| 50,000 | 1, 1e-9 | tree | 83 | 0.031 | 2 % |
| 50,000 | 1, 1e-9 | tree, evenly | 94 | 0.087 | 45 % |
| 50,000 | 1, 1e-9 | one by one | 1,398 | 0.096 | 58 % |
| 50,000 | 1, 1e-9 | by depth | 1,397 | 0.095 | 59 % |
| 50,000 | 1, 1e-9 | equal widths | 6,506 | 0.252 | 29 % |

The last bin is wide: drawn evenly within it, records are far too rich on average. In pieces by the
noisy counts they are not, for nothing. Little is told apart in a file of 5,000 at epsilon 1; there
a shape is about as far off as with even bins, and the mean a third as far.
"""

from __future__ import annotations

import argparse
import math
import platform
from fractions import Fraction

import numpy as np

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.noise_scale import noise_for
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.methods.parametric.laplace_sanitizer import buy_edges
from dp_core.methods.private_domain.quantile_tree import (
    equal_cuts,
    estimate,
    group_edges,
    pieces_of,
    widths,
)
from dp_core.plan.currency_choice import choose_currency
from dp_core.schema.bin_pieces import Pieces, spread
from dp_core.schema.variables import Variable

POSITIONS, BINS, HIGH = 4096, 12, 500_000.0
DOMAIN = Domain(("income",), (POSITIONS,))


def incomes(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return skewed incomes, a quarter of them 0."""
    earned = np.minimum(rng.lognormal(10, 0.9, rows), HIGH - 1)
    return np.where(rng.random(rows) < 0.25, 0.0, earned)


def tree(codes, currency, cost, rng) -> tuple[tuple[int, ...], Pieces]:
    """Return the cuts that noisy counts of a tree choose, and how records lie between them."""
    leaves = np.bincount(codes, minlength=POSITIONS)
    levels = []
    for width in widths(POSITIONS):
        edges = group_edges(POSITIONS, width)
        noise = noise_for(currency, cost / len(widths(POSITIONS)), l1=1, l2_squared=1)
        exact = np.add.reduceat(leaves, edges[:-1])
        levels.append((exact + draw(noise, len(exact), rng)).tolist())
    records = estimate(levels)
    cuts = equal_cuts(records, BINS)
    return cuts, pieces_of(records, cuts, noise.stddev**2)


def evenly(codes, currency, cost, rng) -> tuple[tuple[int, ...], Pieces]:
    """Return the same cuts, and nothing of what lies between them."""
    return tree(codes, currency, cost, rng)[0], ()


def draw(noise, number, rng):
    """Return noise on counts, of the continuous kind."""
    if noise.kind == "laplace":
        return rng.laplace(0, noise.scale, number)
    return rng.normal(0, noise.scale, number)


def chosen(codes, currency, cost, rng) -> tuple[tuple[int, ...], Pieces]:  # noqa: ARG001
    """Return cuts of the exponential mechanism, each paid for."""
    session = MemorySession(currency, "add-remove")
    curator = Curator(
        Kernel(DOMAIN, MemoryCounter(Dataset(DOMAIN, codes[None].astype(np.uint16))), session)
    )
    variable = Variable(name="income", size=POSITIONS, positions=POSITIONS, low=0.0, high=HIGH)
    return buy_edges(curator, "edges", variable, BINS - 1, cost, replicate=0), ()


def by_depth(codes, currency, cost, rng) -> tuple[tuple[int, ...], Pieces]:
    """Cuts of twelve parts have four depths: eleven choices at a quarter each, charged as four."""
    larger = Currency(currency.kind, currency.limit * 11)
    return chosen(codes, larger, cost * 11 / 4, rng)


def equal(codes, currency, cost, rng) -> tuple[tuple[int, ...], Pieces]:  # noqa: ARG001
    """Return cuts at equal widths."""
    return tuple(POSITIONS * place // BINS for place in range(1, BINS)), ()


WAYS = {
    "tree": tree,
    "tree, evenly": evenly,
    "one by one": chosen,
    "by depth": by_depth,
    "equal widths": equal,
}


def judged(way, values, currency, rng) -> tuple[float, float, float]:
    """Return unevenness, TVD and the error of the mean of one release of the column."""
    codes = np.minimum(values / HIGH * POSITIONS, POSITIONS - 1).astype(int)
    share = 0 if way == "equal widths" else currency.limit / 20
    cuts, pieces = WAYS[way](codes, currency, share, rng)
    edges = np.array([0, *cuts, POSITIONS])
    bins = np.histogram(codes, edges)[0]
    noise = noise_for(currency, currency.limit - share, l1=1, l2_squared=1)
    noisy = np.maximum(bins + draw(noise, BINS, rng), 0)
    size = len(values)
    where = rng.choice(BINS, size, p=noisy / noisy.sum())
    if pieces:
        where, edges = spread(where, edges.tolist(), pieces, rng=rng)
        edges = np.array(edges)
    drawn = (edges[where] + rng.random(size) * np.diff(edges)[where]) * HIGH / POSITIONS
    # Without the first bin where that is those who earn nothing.
    rest = bins[1:] if cuts[0] == 1 else bins
    uneven = float(np.abs(rest - rest.mean()).mean())
    ruler = np.quantile(values[values > 0], np.linspace(0, 1, 101))
    ruler[0], ruler[-1] = 1e-9, HIGH
    ruler = np.concatenate([[-1.0], ruler])
    one, other = (np.histogram(each, ruler)[0] / size for each in (values, drawn))
    # Whoever earns nothing is drawn between 0 and the first edge: the first two groups are one.
    one, other = (np.concatenate([[each[0] + each[1]], each[2:]]) for each in (one, other))
    return (
        uneven,
        float(np.abs(one - other).sum() / 2),
        float(abs(drawn.mean() / values.mean() - 1)),
    )


def comparison(repeats: int) -> None:
    """Print the table of the ways."""
    rng = np.random.default_rng(1)
    print(f"Python {platform.python_version()}, numpy {np.__version__}; {repeats} repeats\n")
    print("| rows | pays in | epsilon | way | uneven, rows | TVD | mean is off by |")
    print("|---|---|---|---|---|---|---|")
    for rows, epsilon, delta in (
        (5_000, 1, "0"),
        (50_000, 1, "0"),
        (5_000, 1, "1e-9"),
        (50_000, 1, "1e-9"),
    ):
        values = incomes(rows, rng)
        delta = Fraction(delta)
        for way in WAYS:
            choices = (Fraction(1, 20), 11) if way in ("one by one", "by depth") else None
            statistics = (
                [(Fraction(1, 60), 1, 1, 1.0)]
                if way.startswith("tree")
                else [(Fraction(1), 1, 1, 1.0)]
            )
            currency = choose_currency(
                Fraction(epsilon), delta, noise="auto", statistics=statistics, choices=choices
            )
            found = np.array([judged(way, values, currency, rng) for _ in range(repeats)])
            uneven, tvd, mean = found.mean(axis=0)
            print(
                f"| {rows:,} | {currency.kind} | {epsilon} | {way} | {uneven:,.0f} | {tvd:.3f}"
                f" | {mean:.0%} |",
                flush=True,
            )


def error(repeats: int) -> None:
    """Print the standard deviation of a bin's error, in those of a count times root of levels."""
    rng = np.random.default_rng(2)
    print("| positions | levels | rows | sigma | bins | sd of a bin / (sigma sqrt(levels)) |")
    print("|---|---|---|---|---|---|")
    for positions, rows, sigma, bins in (
        (4096, 20_000, 10, 12),
        (4096, 200_000, 50, 12),
        (4096, 200_000, 50, 40),
        (400, 20_000, 50, 12),
        (81, 20_000, 50, 12),
        (16, 20_000, 50, 4),
    ):
        errors = []
        for _ in range(repeats):
            codes = np.minimum(rng.lognormal(0, 1, rows) / 12 * positions, positions - 1).astype(
                int
            )
            leaves = np.bincount(codes, minlength=positions)
            levels = []
            for width in widths(positions):
                exact = np.add.reduceat(leaves, group_edges(positions, width)[:-1])
                levels.append((exact + np.rint(rng.normal(0, sigma, len(exact)))).tolist())
            found = estimate(levels)
            starts = [0, *equal_cuts(found, bins)]
            errors += list(np.add.reduceat(leaves, starts) - np.add.reduceat(found, starts))
        size = float(np.std(errors)) / sigma / math.sqrt(len(widths(positions)))
        print(
            f"| {positions} | {len(widths(positions))} | {rows:,} | {sigma} | {bins} | {size:.2f} |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--error", action="store_true")
    parser.add_argument("--repeats", type=int, default=40)
    asked = parser.parse_args()
    (error if asked.error else comparison)(asked.repeats)
