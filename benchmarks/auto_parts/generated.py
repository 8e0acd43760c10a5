"""The generated files on which the constants of `auto` are set: seeded, NumPy only, nobody's data.

Each function returns the same file for the same `draw`; another draw is another file of the same
kind, from another seed, for checking that constants were not fitted to one. `GENERATED` lists all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.auto_parts.census import census, census_5k
from benchmarks.auto_parts.draws import conditional, dataset, given, latent, skewed
from dp_core.kernel.counting.dataset import Dataset

EVERY_DRAW = 10_000
"""Distance of the seeds of two draws of a file."""


def binary_16(draw: int = 0) -> Dataset:
    """Sixteen yes/no items behind which are two abilities: a short questionnaire (seed 101)."""
    rng = np.random.default_rng(101 + EVERY_DRAW * draw)
    return dataset(latent(20_000, rng.uniform(0.08, 0.7, 16), 2, 3.0, rng), binary=True)


def binary_32(draw: int = 0) -> Dataset:
    """Thirty-two yes/no items behind which are three abilities (seed 102)."""
    rng = np.random.default_rng(102 + EVERY_DRAW * draw)
    return dataset(latent(10_000, rng.uniform(0.05, 0.6, 32), 3, 1.2, rng), binary=True)


def binary_60(draw: int = 0) -> Dataset:
    """Sixty yes/no items behind which are four abilities, a third of them mere noise (seed 103)."""
    rng = np.random.default_rng(103 + EVERY_DRAW * draw)
    items = latent(30_000, rng.uniform(0.05, 0.6, 60), 4, 1.3, rng, pure_noise=20)
    return dataset(items, binary=True)


def symptoms(draw: int = 0) -> Dataset:
    """Twenty-four symptoms, each of a few people in a hundred, of three diseases (104)."""
    rng = np.random.default_rng(104 + EVERY_DRAW * draw)
    rows, columns = 15_000, 24
    disease = rng.choice(4, size=rows, p=[0.8, 0.1, 0.07, 0.03])
    chance = rng.uniform(0.001, 0.01, (4, columns))
    for number in (1, 2, 3):
        typical = rng.choice(columns, size=8, replace=False)
        chance[number, typical] = rng.uniform(0.15, 0.5, 8)
    return dataset((rng.random((rows, columns)) < chance[disease]).T, binary=True)


def _household(rows: int, rng: np.random.Generator) -> Dataset:
    """Return eight columns of 2 to 6 levels that depend on one another moderately."""
    sizes = (2, 3, 4, 2, 5, 3, 6, 2)
    codes = [rng.choice(2, size=rows, p=[0.45, 0.55])]
    for axis, size in enumerate(sizes[1:], start=1):
        parent = int(rng.integers(0, axis))
        table = conditional(sizes[parent], size, 0.5, rng)
        codes.append(given(codes[parent], table, rng))
    return dataset(codes, sizes)


def small_500(draw: int = 0) -> Dataset:
    """Five hundred households, eight columns of 2 to 6 levels: noise is nearly all (seed 105)."""
    return _household(500, np.random.default_rng(105 + EVERY_DRAW * draw))


def small_2000(draw: int = 0) -> Dataset:
    """Two thousand households, eight columns of 2 to 6 levels (seed 106)."""
    return _household(2_000, np.random.default_rng(106 + EVERY_DRAW * draw))


def triples(draw: int = 0) -> Dataset:
    """Four xor-like triples, whose pairs show nothing, on top of weak pairs (seed 107)."""
    rng = np.random.default_rng(107 + EVERY_DRAW * draw)
    rows, codes, sizes = 20_000, [], []
    for levels, kept in ((2, 0.9), (2, 0.7), (3, 0.85), (4, 0.8)):
        first, second = rng.integers(0, levels, (2, rows))
        third = np.where(
            rng.random(rows) < kept, (first + second) % levels, rng.integers(0, levels, rows)
        )
        codes += [first, second, third]
        sizes += [levels] * 3
    for size in (2, 3, 5):
        parent = int(rng.integers(0, 12))
        codes.append(given(codes[parent], conditional(sizes[parent], size, 0.25, rng), rng))
        sizes.append(size)
    return dataset(codes, sizes)


def tiny(draw: int = 0) -> Dataset:
    """A thousand records of 96 cells with no structure: the full table is best (seed 108)."""
    rng = np.random.default_rng(108 + EVERY_DRAW * draw)
    sizes = (2, 2, 2, 3, 4)
    cells = rng.choice(96, size=1_000, p=rng.dirichlet(np.full(96, 0.4)))
    return dataset(np.unravel_index(cells, sizes), sizes)


def nothing(draw: int = 0) -> Dataset:
    """Twelve independent columns of 2 to 30 levels: what a pair costs is lost (seed 109)."""
    rng = np.random.default_rng(109 + EVERY_DRAW * draw)
    sizes = (2, 2, 3, 3, 4, 5, 6, 8, 10, 15, 20, 30)
    codes = [rng.choice(size, size=10_000, p=skewed(size, 0.8, rng)) for size in sizes]
    return dataset(codes, sizes)


def clusters(draw: int = 0) -> Dataset:
    """Five clusters of three strongly dependent columns among 25 independent ones (seed 110)."""
    rng = np.random.default_rng(110 + EVERY_DRAW * draw)
    rows, codes, sizes = 20_000, [], []
    for _ in range(5):
        shape = rng.integers(2, 7, 3)
        root = rng.choice(shape[0], size=rows, p=skewed(int(shape[0]), 0.7, rng))
        codes.append(root)
        for size in shape[1:]:
            codes.append(given(root, conditional(int(shape[0]), int(size), 0.9, rng), rng))
        sizes += [int(size) for size in shape]
    for _ in range(25):
        size = int(rng.integers(2, 9))
        codes.append(rng.choice(size, size=rows, p=skewed(size, 0.7, rng)))
        sizes.append(size)
    order = rng.permutation(len(sizes))
    return dataset([codes[axis] for axis in order], [sizes[axis] for axis in order])


def large_columns(draw: int = 0) -> Dataset:
    """Places of 500 and 1,000 levels, one below the other's region, among small columns (111)."""
    rng = np.random.default_rng(111 + EVERY_DRAW * draw)
    rows = 30_000
    region = rng.choice(10, size=rows, p=skewed(10, 0.6, rng))
    # Fifty places of each region, and a tenth of records in any place.
    within = np.kron(np.eye(10), skewed(50, 1.0, rng))
    place = given(region, 0.9 * within + 0.1 * skewed(500, 1.0, rng), rng)
    product = rng.choice(1_000, size=rows, p=skewed(1_000, 1.1, rng))
    kind = product % 7  # functional
    small = [given(region, conditional(10, size, 0.4, rng), rng) for size in (2, 3, 4)]
    small += [given(kind, conditional(7, size, 0.5, rng), rng) for size in (2, 5)]
    sizes = (500, 10, 1_000, 7, 2, 3, 4, 2, 5)
    return dataset([place, region, product, kind, *small], sizes)


def chain(draw: int = 0) -> Dataset:
    """Twenty columns, each of which depends on the one before it: a tree is all (seed 112)."""
    rng = np.random.default_rng(112 + EVERY_DRAW * draw)
    sizes = [int(size) for size in rng.integers(2, 9, 20)]
    codes = [rng.choice(sizes[0], size=20_000, p=skewed(sizes[0], 0.5, rng))]
    for before, size in itertools.pairwise(sizes):
        codes.append(given(codes[-1], conditional(before, size, 0.75, rng), rng))
    return dataset(codes, sizes)


GENERATED: Mapping[str, Callable[[int], Dataset]] = {
    make.__name__: make
    for make in (
        binary_16,
        binary_32,
        binary_60,
        symptoms,
        census,
        census_5k,
        small_500,
        small_2000,
        triples,
        tiny,
        nothing,
        clusters,
        large_columns,
        chain,
    )
}


def described(names: Sequence[str]) -> str:
    """Return a markdown table of the files."""
    lines = [
        "| file | rows | columns | levels | cells | what it stands for |",
        "|---|" + "--:|" * 4 + "---|",
    ]
    for name in names:
        make = GENERATED[name]
        data, domain = make(0), make(0).domain
        said = (make.__doc__ or "").partition("\n")[0]
        levels = f"{min(domain.sizes)} to {max(domain.sizes)}"
        lines.append(
            f"| {name} | {data.rows} | {len(domain)} | {levels} | {domain.size():.1e} | {said} |"
        )
    return "\n".join(lines)
