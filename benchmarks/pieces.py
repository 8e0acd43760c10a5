"""Large sets drawn in pieces, against the same set drawn at once: CPU, and records in wrong cells.

From exact tables of all pairs of two random files (nobody's data): one of 20 columns in which
groups of records differ mildly, and one of 8 in which each group has hardly more than one code in a
column, so that records hardly can have the tables. Four ways: at once; in chains of pieces that
make good what those before them missed, as releases draw large sets; in pieces of the same little
work, each by itself; and the first piece alone. CPU, records in wrong cells, and the worst cell.

    python benchmarks/pieces.py
    python benchmarks/pieces.py --rows 1000000 --pieces 8 --method pgm
"""

from __future__ import annotations

import argparse
import itertools
import platform
import time
from collections.abc import Callable, Iterator

import numpy as np

from dp_core.client.released import Measurement
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.reconstruction.pgm import Pgm
from dp_core.methods.reconstruction.reconstructor import LANES, Model, in_series
from dp_core.metrics.marginal_error import Tally
from dp_core.schema.structure.structural_zeros import StructuralZeros

SIZES = {
    "mild": (2, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 30, 50, 100),
    "peaked": (2, 8, 12, 20, 5, 15, 3, 30),
}
GROUPS = 12
MEASURED = 10**8  # records, of which the tables are


def shares(kind: str, domain: Domain) -> dict[Clique, np.ndarray]:
    """Return the table of every pair in a mixture of groups of records."""
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(GROUPS))
    laws = []
    for size in domain.sizes:
        if kind == "mild":
            law = np.exp(rng.normal(size=(GROUPS, size))) / np.arange(1, size + 1)
            laws.append(law / law.sum(axis=1, keepdims=True))
        else:
            laws.append(rng.dirichlet(np.full(size, 0.15), GROUPS))
    return {
        (domain.columns[a], domain.columns[b]): np.einsum("g,gi,gj->ij", weights, laws[a], laws[b])
        for a, b in itertools.combinations(range(len(domain)), 2)
    }


def fitted(method: str, domain: Domain, tables: dict[Clique, np.ndarray]) -> Model:
    """Return a model of the tables as they were measured, with hardly any noise."""
    measured = [
        Measurement(
            domain.project(pair),
            np.rint(share * MEASURED).astype(np.int64),
            noise="gaussian",
            scale=1.0,
            stage="measure",
            grant=1,
        )
        for pair, share in tables.items()
    ]
    chosen = {"gum": Gum, "pgm": Pgm}[method]()
    rng = np.random.default_rng(0)
    return chosen.fit(domain, measured, rows=None, zeros=StructuralZeros(), rng=rng)


def ways(model: Model, rows: int, pieces: int) -> dict[str, Callable[[], Iterator[Dataset]]]:
    """Return what draws a set, by the words of the table."""

    def rng(at: int) -> np.random.Generator:
        return np.random.default_rng([7, at])

    def at_once() -> Iterator[Dataset]:
        yield model.sample(rows, rng=rng(0))

    def in_chains() -> Iterator[Dataset]:
        chains = in_series(model, LANES, pieces)
        for at in range(pieces):
            yield chains[at % LANES].sample(rows // pieces, rng=rng(at))

    def apart() -> Iterator[Dataset]:
        for at in range(pieces):
            yield in_series(model, 1)[0].sample(rows // pieces, rng=rng(at))

    return {
        "at once": at_once,
        f"{pieces} pieces in chains": in_chains,
        f"{pieces} pieces, each by itself": apart,
        "the first piece": lambda: itertools.islice(in_chains(), 1),
    }


def records_off(tally: Tally, tables: dict[Clique, np.ndarray]) -> tuple[float, float]:
    """Return the records in wrong cells, mean over pairs, and the error of the worst cell."""
    gaps = [np.abs(tally.count(pair) - share * tally.rows) for pair, share in tables.items()]
    return float(np.mean([gap.sum() / 2 for gap in gaps])), float(max(gap.max() for gap in gaps))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_600_000)
    parser.add_argument("--pieces", type=int, default=16)
    parser.add_argument("--method", choices=("gum", "pgm"), default="gum")
    parser.add_argument("--files", nargs="+", choices=tuple(SIZES), default=tuple(SIZES))
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, numpy {np.__version__}; {options.method}")
    for kind in options.files:
        sizes = SIZES[kind]
        domain = Domain(tuple(f"c{i}" for i in range(len(sizes))), sizes)
        tables = shares(kind, domain)
        model = fitted(options.method, domain, tables)
        for draw in ways(model, 8000, 4).values():  # compiles
            list(draw())
        print(f"\n{kind}: {len(tables)} pairs of {len(sizes)} columns, {options.rows:,} rows")
        print(f"{'':32} {'CPU us a row':>13} {'records off':>12} {'worst cell':>11}")
        for name, draw in ways(model, options.rows, options.pieces).items():
            tally, spent = Tally(domain, tables), 0.0
            drawn, start = draw(), time.process_time()
            for piece in drawn:
                spent += time.process_time() - start
                tally.add(piece)
                start = time.process_time()
            mean, worst = records_off(tally, tables)
            per_row = 1e6 * spent / tally.rows
            print(f"{name:32} {per_row:13.1f} {mean:12.0f} {worst:11.0f}", flush=True)


if __name__ == "__main__":
    main()
