"""Histograms of one ordered column: the methods that Bowen & Liu (2020, section 3.1.3) survey.

    python benchmarks/papers/histograms.py --repeats 20

Generated columns replace the papers' files, which are not public or may not be stored here:
`trace` (few values hold most records, most bins are empty, as in NetTrace), `searches` (a cycle
with a trend, as in Search Logs), `ages` (smooth) and `steps` (a dozen constant parts). Neighbours
differ by an added or removed record, the number of records is public, and all of epsilon is for
the column.

1. Hay, Rastogi, Miklau & Suciu (2010), Figure 6: squared error by range size, 4,096 bins. Plain
   noisy counts, a tree without and with constrained inference, branching 2, 4 and 16.
2. Xu et al. (2013): squared error by range size of NoiseFirst and StructureFirst, 256 bins.
3. Acs, Castelluccia & Chen (2012): KL divergence of EFPA with the paper's noise, of the same number
   of coefficients of plain noisy counts at the same epsilon, of our EFPA and of P-HP.
4. Hay et al., Figure 5: squared error of sorted counts as they are, and in order again.
5. All methods, 1,024 bins: L1 of the bins, and squared error of ranges.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np
from common import versions
from numpy.typing import NDArray
from scipy.fft import dct, idct

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.kernel import Kernel
from dp_core.methods import registry
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.column_histograms import (
    ColumnHistograms,
    bin_question,
    estimate_tree,
)
from dp_core.methods.private_domain.quantile_tree import widths
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variable, Variables

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
RANGES = 300
EPSILONS = ("1/100", "1/10", "1")


def columns(bins: int, seed: int = 1) -> Mapping[str, Counts]:
    """Return the generated histograms, with the sizes that the papers' files have."""
    rng = np.random.default_rng(seed)
    place = np.arange(bins) / bins
    trace = np.zeros(bins)
    hosts = rng.choice(bins, bins // 20, replace=False)
    trace[hosts] = 1 / np.arange(1, hosts.size + 1) ** 1.1
    searches = (1.2 + np.sin(2 * np.pi * 30 * place)) * (0.3 + place) + 4 * np.exp(
        -(((place - 0.7) * 40) ** 2)
    )
    ages = np.exp(-place * 1.5) * (1 - place**6) * (1 + 0.15 * np.cos(9 * place))
    steps = np.repeat(rng.gamma(0.6, 1, 12), np.diff(np.linspace(0, bins, 13).astype(int)))
    sizes = {"trace": 25_000, "searches": 300_000, "ages": 100_000, "steps": 50_000}
    shapes = {"trace": trace, "searches": searches, "ages": ages, "steps": steps}
    return {
        name: rng.multinomial(sizes[name], shape / shape.sum()) for name, shape in shapes.items()
    }


def asked(counts: Counts, epsilon: str) -> tuple[Curator, Variables, Fraction]:
    """Return a curator of a column with these counts, and its budget."""
    variable = Variable(name="x", size=counts.size, positions=counts.size)
    variables = Variables((variable,))
    codes = np.repeat(np.arange(counts.size), counts).astype(np.uint16)[None, :]
    cost = Fraction(epsilon)
    session = MemorySession(Currency("pure", cost), "add-remove")
    counter = MemoryCounter(Dataset(variables.domain, codes))
    return Curator(Kernel(variables.domain, counter, session)), variables, cost


def plain(counts: Counts, epsilon: str) -> Floats:
    """Return noisy counts, as they are."""
    curator, (variable,), cost = asked(counts, epsilon)
    edges = tuple(range(counts.size + 1))
    return curator.total("measure", "x", bin_question(variable, edges), cost).values.astype(float)


def by(name: str, **options: object) -> Callable[[Counts, str], Floats]:
    """Return the method that gives the histogram of a fitted model, by single bins."""
    method: ColumnHistograms = registry.find("parametric", name)(**options)

    def histogram(counts: Counts, epsilon: str) -> Floats:
        curator, variables, cost = asked(counts, epsilon)
        zeros, rng = StructuralZeros(), np.random.default_rng(0)
        rows = int(counts.sum())
        released = method.measure(
            MethodInputs(
                curator=curator,
                domain=variables.domain,
                measure_cost=cost,
                stated_rows=rows,
                zeros=zeros,
                rng=rng,
                replicate=0,
            ),
            variables,
        )
        model = method.model_of(variables, FitInputs(variables.domain, released, rows, zeros))
        (values,), (edges,) = (each.values for each in model.cells), model.edges
        assert edges is not None
        width = np.diff(edges)
        return np.repeat(values / width, width)

    return histogram


def tree_answers(
    counts: Counts, epsilon: str, branching: int, starts: Counts, size: int
) -> tuple[Floats, Floats]:
    """Return answers to ranges from a noisy tree: sums of the fewest intervals, and consistent."""
    curator, variables, cost = asked(counts, epsilon)
    method = registry.find("parametric", "hierarchical_histogram")(branching=branching)
    released = method.measure(
        MethodInputs(
            curator=curator,
            domain=variables.domain,
            measure_cost=cost,
            zeros=StructuralZeros(),
            rng=np.random.default_rng(0),
        ),
        variables,
    )
    fitted = estimate_tree(
        variables[0], released, branching, rows=float(counts.sum()), bounded=False
    )
    values = fitted.values
    below = np.concatenate([[0.0], np.cumsum(values)])
    consistent = below[starts + size] - below[starts]
    levels = [
        (width, each.values)
        for width, each in zip(widths(counts.size, branching), released, strict=True)
    ]

    def fewest(low: int, high: int) -> float:
        total, place = 0.0, low
        while place < high:
            width, level = next(
                (width, level)
                for width, level in levels
                if place % width == 0 and place + width <= high
            )
            total += float(level[place // width])
            place += width
        return total

    return np.array([fewest(start, start + size) for start in starts]), consistent


def ranges(bins: int, size: int, rng: np.random.Generator) -> Counts:
    """Return the starts of random ranges of a size."""
    return rng.integers(0, bins - size + 1, RANGES)


def squared_error(found: Floats, counts: Counts, starts: Counts, size: int) -> float:
    """Return the mean squared error of the ranges."""
    below = np.concatenate([[0.0], np.cumsum(found - counts)])
    return float(np.square(below[starts + size] - below[starts]).mean())


def divergence(found: Floats, counts: Counts) -> float:
    """Return the KL divergence of the bins, each with half a record more."""
    p, q = counts + 0.5, np.maximum(found, 0) + 0.5
    p, q = p / p.sum(), q / q.sum()
    return float((p * np.log(p / q)).sum())


def published_efpa(counts: Counts, epsilon: str, rng: np.random.Generator) -> tuple[Floats, int]:
    """Return EFPA's histogram with the paper's noise, and k.

    Half of epsilon is for the choice, and the noise has scale sqrt(k)/epsilon.
    """
    half = float(Fraction(epsilon)) / 2
    exact = dct(counts.astype(float), norm="ortho")
    tails = np.sqrt(np.maximum(np.cumsum(exact[::-1] ** 2)[::-1], 0))
    kept = np.arange(1, counts.size + 1)
    scores = -np.append(tails[1:], 0.0) - math.sqrt(2) * kept / half
    chosen = int(np.argmax(scores + rng.gumbel(0, 2 / half, counts.size))) + 1
    noisy = np.zeros(counts.size)
    noisy[:chosen] = exact[:chosen] + rng.laplace(0, math.sqrt(chosen) / half, chosen)
    return np.asarray(idct(noisy, norm="ortho")), chosen


def truncated(counts: Counts, epsilon: str, kept: int) -> Floats:
    """Return the histogram of the first coefficients of the plain noisy counts."""
    noisy = dct(plain(counts, epsilon), norm="ortho")
    noisy[kept:] = 0
    return np.asarray(idct(noisy, norm="ortho"))


def hay(repeats: int) -> None:
    """Print Figure 6: squared error by range size."""
    bins, sizes = 4096, (1, 4, 16, 64, 256, 1024, 4000)
    print("\n## Hay et al. (2010), Figure 6: mean squared error by range size, 4,096 bins\n")
    print("| file | epsilon | size | plain | tree, b 2 | consistent, b 2 | b 4 | b 16 |")
    print("|---|---|---|---|---|---|---|---|")
    for name in ("trace", "searches"):
        counts = columns(bins)[name]
        for epsilon in ("1/10", "1"):
            errors = {size: np.zeros(5) for size in sizes}
            for repeat in range(repeats):
                rng = np.random.default_rng(repeat)
                noisy = plain(counts, epsilon)
                for size in sizes:
                    starts = ranges(bins, size, rng)
                    below = np.concatenate([[0], np.cumsum(counts)])
                    exact = below[starts + size] - below[starts]
                    errors[size][0] += squared_error(noisy, counts, starts, size)
                    for place, branching in enumerate((2, 4, 16)):
                        raw, fitted = tree_answers(counts, epsilon, branching, starts, size)
                        if branching == 2:
                            errors[size][1] += float(np.square(raw - exact).mean())
                        errors[size][2 + place] += float(np.square(fitted - exact).mean())
            for size in sizes:
                cells = " | ".join(f"{each / repeats:,.0f}" for each in errors[size])
                print(f"| {name} | {epsilon} | {size} | {cells} |")


def compared(
    methods: Mapping[str, Callable[[Counts, str], Floats]],
    bins: int,
    sizes: tuple[int, ...],
    repeats: int,
) -> None:
    """Print KL divergence, L1 and squared range errors of methods on every file."""
    heads = " | ".join(f"size {size}" for size in sizes)
    print(f"| file | epsilon | method | KL | L1 / n | {heads} |")
    print("|---|---|---|---|---|" + "---|" * len(sizes))
    for name, counts in columns(bins).items():
        for epsilon in EPSILONS:
            for label, method in methods.items():
                kl, l1, errors = [], [], []
                for repeat in range(repeats):
                    rng = np.random.default_rng(repeat)
                    found = method(counts, epsilon)
                    kl.append(divergence(found, counts))
                    l1.append(np.abs(found - counts).sum() / counts.sum())
                    errors.append(
                        [
                            squared_error(found, counts, ranges(bins, size, rng), size)
                            for size in sizes
                        ]
                    )
                cells = " | ".join(f"{each:,.0f}" for each in np.mean(errors, axis=0))
                print(
                    f"| {name} | {epsilon} | {label} | {np.mean(kl):.3f} | {np.mean(l1):.3f} |"
                    f" {cells} |"
                )


def xu(repeats: int) -> None:
    """Print the errors of NoiseFirst and StructureFirst by range size."""
    print("\n## Xu et al. (2013): NoiseFirst and StructureFirst, 256 bins\n")
    methods = {
        "plain": plain,
        "NoiseFirst": by("noise_first"),
        "StructureFirst": by("structure_first"),
        "consistent tree": by("hierarchical_histogram"),
    }
    compared(methods, 256, (1, 8, 64, 200), repeats)


def acs(repeats: int) -> None:
    """Print the errors of EFPA with the published noise and ours."""
    print("\n## Acs et al. (2012): EFPA's noise, 1,024 bins\n")
    heads = "published noise | counts, as many kept | efpa | P-HP | plain"
    print(f"| file | epsilon | {heads} |")
    print("|---|---|---|---|---|---|---|")
    own = [by("efpa"), by("p_hp"), plain]
    for name, counts in columns(1024).items():
        for epsilon in EPSILONS:
            found = np.zeros(5)
            for repeat in range(repeats):
                published, kept = published_efpa(counts, epsilon, np.random.default_rng(repeat))
                histograms = [published, truncated(counts, epsilon, kept)]
                histograms += [method(counts, epsilon) for method in own]
                found += [divergence(each, counts) / repeats for each in histograms]
            cells = " | ".join(f"{each:.3f}" for each in found)
            print(f"| {name} | {epsilon} | {cells} |")


def in_order(repeats: int) -> None:
    """Print the error of counts whose order by size is public, 1,024 bins."""
    print("\n## Hay et al. (2010), Figure 5: counts in a public order, 1,024 bins\n")
    print("| file | different counts | epsilon | plain | in order | ratio |")
    print("|---|---|---|---|---|---|")
    sorting = by("sorted_histogram", falling=("x",))
    for name, found in columns(1024).items():
        counts = np.sort(found)[::-1]
        for epsilon in EPSILONS:
            errors = [
                np.mean([((way(counts, epsilon) - counts) ** 2).mean() for _ in range(repeats)])
                for way in (plain, sorting)
            ]
            print(
                f"| {name} | {np.unique(counts).size} | {epsilon} | {errors[0]:.4g} |"
                f" {errors[1]:.4g} | {errors[0] / errors[1]:.3g} |"
            )


def all_methods(repeats: int) -> None:
    """Print all methods beside the plain noisy histogram."""
    print("\n## All methods, 1,024 bins\n")
    methods = {
        "plain": plain,
        "hierarchical": by("hierarchical_histogram"),
        "NoiseFirst": by("noise_first"),
        "EFPA": by("efpa"),
        "P-HP": by("p_hp"),
        "StructureFirst": by("structure_first"),
    }
    compared(methods, 1024, (1, 32, 256), repeats)


def main() -> None:
    """Print all tables, or those that are named."""
    parts = {"hay": hay, "xu": xu, "acs": acs, "order": in_order, "all": all_methods}
    parser = argparse.ArgumentParser(description="Histograms of one ordered column.")
    parser.add_argument("--repeats", type=int, default=20, help="Runs of every cell.")
    parser.add_argument("--only", choices=parts, help="One of the tables.")
    chosen = parser.parse_args()
    print(versions())
    for name, part in parts.items():
        if chosen.only in (None, name):
            part(chosen.repeats)


if __name__ == "__main__":
    main()
