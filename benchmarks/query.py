"""Do the intervals of `query` cover the file's own value 95 times in 100, and how quick is it?

Usage: python benchmarks/query.py [--design survey interactions one-table yrbss]
       [--epsilon 0.5 1 4] [--noise pure zcdp] [--repeats 200]

Tables of a file with known counts are measured again and again with the noise of a release (NumPy
draws it here: nothing is confidential). Each time every question is asked and its intervals are
compared with the file's own values: counts and shares of all cells of all one- and two-way tables,
shares within groups, and in generated files means by group and differences of groups.

Designs:
    survey        6 columns, 5,000 records: all one-way and two-way tables, equal budget
    interactions  the same file: one-way tables, and interactions of all pairs
    one-table     3 columns, 2,000 records: one table of 120 cells
    yrbss         the survey that ships with the program, 13 columns: all one-way and two-way tables

An unbounded interval ("not determined at this noise") is counted in a column of its own.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.answering import ask
from dp_core.analysis.query.sources import Sources, pooled_sources
from dp_core.client.released import Measurement, Released, Totals
from dp_core.kernel.cost.currency import largest_limit
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.schema.definition import Column, Schema
from dp_core.schema.reading.schema_file import load_schema, parse_schema

DELTA = Fraction(1, 10**9)
DEMO = Path(__file__).parents[1] / "flows" / "demo"
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Design:
    """A file, what is measured of it, and what is asked.

    Attributes:
        schema: Of the file.
        codes: Of the records, shape (columns, records).
        tables: Measured whole.
        beyond: Cliques whose interaction is measured.
        questions: With the kind of each.
    """

    schema: Schema
    codes: Codes
    tables: tuple[Clique, ...]
    beyond: tuple[Clique, ...]
    questions: tuple[tuple[str, str], ...]

    def counts(self, clique: Clique) -> NDArray[np.int64]:
        """Return the exact table."""
        domain = self.schema.domain
        sizes = domain.project(clique).sizes
        cells = np.ravel_multi_index([self.codes[axis] for axis in domain.axes(clique)], sizes)
        return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes)

    def sources(self, released: list[Released]) -> Sources:
        """Return what the questions are answered from."""
        return pooled_sources(self.schema, released, rows=None, relation=Relation("add-remove"))


def questions(
    schema: Schema, *, number: str | None = None, every: int = 1
) -> tuple[tuple[str, str], ...]:
    """Return the questions about all one- and two-way tables, and about means of a number.

    Args:
        schema: Of the file.
        number: Column of which means are asked; None for no means.
        every: Shares within groups are asked of every so manyth pair.
    """
    names = [column.name for column in schema.columns]
    found = []
    for name in names:
        found += [("count", f"count by {name}"), ("share", f"share by {name}")]
    for place, (one, two) in enumerate(itertools.combinations(names, 2)):
        found += [
            ("count, two-way", f"count by {one}, {two}"),
            ("share, two-way", f"share by {one}, {two}"),
        ]
        if place % every == 0:
            found.append(("share in group", f"share of {two} by {one}"))
    for name in names if number else ():
        if name == number:
            continue
        found.append(("mean in group", f"mean of {number} by {name}"))
        first, second = schema.column(name).levels[:2]
        between = f"between {name} = {first.text} and {name} = {second.text}"
        found.append(("difference of means", f"difference in mean of {number} {between}"))
        other = next(each for each in names if each not in (name, number))
        level = schema.column(other).levels[0].text
        found.append(
            ("difference of shares", f"difference in share of {other} = {level} {between}")
        )
    return tuple(found)


def generated(*, beyond: bool) -> Design:
    """Return the design `survey` or `interactions`."""
    sizes = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 12}
    columns: dict[str, object] = {
        name: {"type": "category", "levels": [f"{name}{k}" for k in range(size)]}
        for name, size in sizes.items()
    }
    columns["x"] = {"type": "integer", "min": "0", "max": "7"}
    schema = parse_schema({"version": "1", "title": "generated", "columns": columns})
    rng = np.random.default_rng(20)
    hidden = rng.normal(size=5000)
    drawn = []
    for size in schema.domain.sizes:
        cuts = np.sort(rng.normal(scale=1.2, size=size - 1))
        drawn.append(np.searchsorted(cuts, 0.6 * hidden + 0.8 * rng.normal(size=5000)))
    names = schema.domain.columns
    pairs = tuple(itertools.combinations(names, 2))
    ones = tuple((name,) for name in names)
    asked = questions(schema, number="x")
    codes = np.array(drawn)
    if beyond:
        return Design(schema, codes, ones, pairs, asked)
    return Design(schema, codes, (*ones, *pairs), (), asked)


def one_table() -> Design:
    """Return the design `one-table`."""
    columns = {
        name: {"type": "category", "levels": [f"{name}{k}" for k in range(size)]}
        for name, size in {"a": 4, "b": 5, "c": 6}.items()
    }
    schema = parse_schema({"version": "1", "title": "generated", "columns": columns})
    rng = np.random.default_rng(21)
    codes = np.array([rng.binomial(size - 1, 0.3, size=2000) for size in schema.domain.sizes])
    asked = (
        *questions(schema),
        ("cell", "count by a, b, c"),
        ("share of cell", "share by a, b, c"),
    )
    return Design(schema, codes, (("a", "b", "c"),), (), asked)


def yrbss() -> Design:
    """Return the design `yrbss`."""
    import pandas as pd

    schema = load_schema(DEMO / "yrbss.schema.yaml")
    data = pd.read_csv(DEMO / "yrbss.csv.gz", dtype=str, keep_default_na=False)
    codes = np.array([coded(column, data[column.name].to_numpy()) for column in schema.columns])
    names = schema.domain.columns
    cliques = (*((name,) for name in names), *itertools.combinations(names, 2))
    return Design(schema, codes, cliques, (), questions(schema, every=3))


def coded(column: Column, texts: NDArray[np.object_]) -> Codes:
    """Return the codes of a column's texts."""
    if column.levels:
        known = dict(column.texts())
        return np.array([known.get(text, column.bins) for text in texts])
    edges = np.array([float(edge) for edge in column.edges])
    values = np.array([float(text) if text else np.nan for text in texts])
    found = np.searchsorted(edges[1:-1], values, side="right")
    return np.where(np.isnan(values), column.bins, found)


DESIGNS = {
    "survey": lambda: generated(beyond=False),
    "interactions": lambda: generated(beyond=True),
    "one-table": one_table,
    "yrbss": yrbss,
}


def noise(kind: str, scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> Codes:
    """Return discrete Laplace noise, or normal noise rounded to whole numbers."""
    if kind == "pure":
        q = -math.expm1(-1 / scale)
        return rng.geometric(q, shape) - rng.geometric(q, shape)
    return np.rint(rng.normal(0, scale, shape)).astype(np.int64)


def measured(
    design: Design,
    exact: dict[Clique, NDArray[np.int64]],
    kind: str,
    epsilon: Fraction,
    rng: np.random.Generator,
) -> list[Released]:
    """Return noisy tables and interactions; the budget is divided equally (add-remove)."""
    domain = design.schema.domain
    each = largest_limit("zcdp", epsilon, DELTA) if kind == "zcdp" else epsilon
    each = each / (len(design.tables) + len(design.beyond))
    word = "laplace" if kind == "pure" else "gaussian"
    found: list[Released] = []
    for clique in (*design.tables, *design.beyond):
        whole = clique not in design.beyond
        of = None if whole else Interaction(clique, domain.project(clique).sizes)
        l1, l2 = (1, 1) if of is None else (of.l1("add-remove"), of.l2_squared("add-remove"))
        scale = float(l1 / each) if kind == "pure" else math.sqrt(l2 / (2 * float(each)))
        about = {"noise": word, "scale": scale, "stage": "measure", "grant": 1}
        values = exact[clique] if of is None else of.of_table(exact[clique])
        values = values + noise(kind, scale, values.shape, rng)
        if of is None:
            found.append(Measurement(domain=domain.project(clique), values=values, **about))
        else:
            found.append(Totals(of=of, values=values, **about))
    return found


def report(name: str, design: Design, kind: str, epsilon: Fraction, repeats: int) -> None:
    """Print the rows of one design, noise and epsilon."""
    rng = np.random.default_rng([len(name), round(100 * epsilon), kind == "pure"])
    exact = {clique: design.counts(clique) for clique in (*design.tables, *design.beyond)}
    # Answers from tables with next to no noise are the file's own.
    clear = [
        Measurement(
            domain=design.schema.domain.project(clique),
            values=counts,
            noise="gaussian",
            scale=1e-6,
            stage="measure",
            grant=1,
        )
        for clique, counts in exact.items()
    ]
    known = design.sources(clear)
    truth = {text: ask(known, text).cells for _, text in design.questions}
    covered: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    seconds, slowest, pooling = 0.0, 0.0, 0.0
    for _ in range(repeats):
        begun = time.process_time()
        sources = design.sources(measured(design, exact, kind, epsilon, rng))
        pooling += time.process_time() - begun
        for what, text in design.questions:
            begun = time.process_time()
            found = ask(sources, text)
            spent = time.process_time() - begun
            seconds, slowest = seconds + spent, max(slowest, spent)
            wanted = {cell.codes: cell.estimate for cell in truth[text]}
            tally = covered[what]
            for cell in found.cells:
                true = wanted[cell.codes]
                if true is None:  # an empty group: its shares and means do not exist
                    continue
                if cell.low is None or cell.high is None:
                    tally[2] += 1
                    continue
                tally[0] += 1
                tally[1] += cell.low - 1e-9 <= true <= cell.high + 1e-9
    for what, (count, inside, unbounded) in covered.items():
        each = f"{inside / count:.4f}" if count else "–"
        print(
            f"| {name} | {kind} | {float(epsilon):g} | {what} | {count // repeats:,} | {each} |"
            f" {unbounded / max(count + unbounded, 1):.3f} |",
            flush=True,
        )
    asked = repeats * len(design.questions)
    print(
        f"    CPU ms: {1000 * seconds / asked:.1f} an answer, {1000 * slowest:.0f} the slowest,"
        f" {1000 * pooling / repeats:.0f} to measure and pool",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Coverage and speed of query.")
    parser.add_argument("--design", choices=DESIGNS, nargs="+", default=list(DESIGNS))
    parser.add_argument("--epsilon", type=Fraction, nargs="+", default=["1/2", "1", "4"])
    parser.add_argument("--noise", choices=["pure", "zcdp"], nargs="+", default=["pure", "zcdp"])
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    print("| design | noise | epsilon | answer | answers | covered | unbounded |")
    print("|---|---|---|---|---|---|---|")
    for name in options.design:
        design = DESIGNS[name]()
        for kind, epsilon in itertools.product(options.noise, options.epsilon):
            report(name, design, kind, Fraction(epsilon), options.repeats)


if __name__ == "__main__":
    main()
