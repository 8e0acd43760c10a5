"""Checks of the synthetic sets: public ones for the bundle, confidential ones for staff.

The two never meet: `check_fit` takes noisy tables and synthetic counts and its result is
published; `utility` takes the confidential file's counter and its result goes to the internal
folder only, under a first line that says so.
"""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dp_core.dataset import Dataset
from dp_core.domain import Clique, Domain
from dp_core.errors import StageFailed
from dp_core.figures import Internal
from dp_core.marginals import Counter, Measurement
from dp_core.metrics.marginal_error import (
    CELL_LIMIT,
    TRIPLES,
    MarginalError,
    Tally,
    batches,
    small_cliques,
    summarise,
    tvd,
    within_limit,
)
from dp_core.metrics.noise_size import (
    Noise,
    expected_absolute,
    expected_tvd,
    half_width,
)

_NORMAL = 1.959963984540054
CONFIDENTIAL = (
    "CONFIDENTIAL: computed from the confidential data, outside the privacy guarantee."
    " Not to be published, quoted or sent on."
)


@dataclass(frozen=True, slots=True)
class TableFit:
    """How near the synthetic sets come to one noisy table, beside what noise alone does.

    Attributes:
        clique: Columns of the table.
        stage: Stage that paid for it.
        replicate: Set it was measured for, 0 when all sets share it.
        cells: Number of cells.
        noise: Kind of noise.
        scale: Its parameter, records.
        half_width: A cell's noise is within this many records 95 times in 100.
        noise_tvd: Half of the noise's expected L1, as a part of the records.
        set_tvd: For each set it serves: half of the L1 between noisy table and set, likewise.
        expected_tvd: For each of them: what noise and the drawing of rows would give together.
        outside: For each of them: cells further apart than these two explain 95 times in 100.
    """

    clique: Clique
    stage: str
    replicate: int
    cells: int
    noise: Noise
    scale: float
    half_width: int
    noise_tvd: float
    set_tvd: tuple[float, ...]
    expected_tvd: tuple[float, ...]
    outside: tuple[int, ...]

    @property
    def ratio(self) -> float:
        """Distance of the sets over what noise and drawing would give; about 1 is a good fit."""
        expected = math.fsum(self.expected_tvd)
        return math.fsum(self.set_tvd) / expected if expected > 0 else math.nan

    @property
    def outside_share(self) -> float:
        """Part of the cells beyond the 95 % range, mean over the sets; 5 % is to be expected."""
        return sum(self.outside) / max(len(self.outside) * self.cells, 1)


def check_fit(
    measurements: Sequence[Measurement],
    tallies: Sequence[Tally],
    *,
    records: float,
    redrawn: bool = False,
) -> tuple[TableFit, ...]:
    """Compare synthetic sets with the noisy tables they were made from. Public.

    A set is brought to `records` records before it is compared, so a release of fewer or more rows
    than the file has is judged by its shape. A perfect model would still differ from the noisy
    table by the noise and by the drawing of a finite number of rows (multinomial: variance
    n p (1 - p) per cell); both are allowed for, as independent errors. Tables of no column (the
    number of rows) are left out.

    Args:
        measurements: Noisy tables.
        tallies: One per synthetic set, counting at least the tables that serve it.
        records: Public or estimated number of records of the file.
        redrawn: Whether the sets are noise-aware: fitted to the tables with their noise once more,
            and so expected to be as far from them as two noisy tables are from each other.
    """
    times = math.sqrt(2) if redrawn else 1.0
    fits = []
    for table in measurements:
        if not table.clique:
            continue
        served = (
            list(tallies)
            if table.replicate == 0
            else list(tallies[table.replicate - 1 : table.replicate])
        )
        width = half_width(table.noise, table.scale)
        reach = times * width
        mean_noise = times * expected_absolute(table.noise, table.scale)
        whole = 2 * max(records, 1.0)
        distances, expected, outside = [], [], []
        for tally in served:
            counts, rows = tally.count(table.clique), max(tally.rows, 1)
            gap = np.abs(table.values - counts * (records / rows))
            drawing = (records / rows) ** 2 * counts * (1 - counts / rows)
            distances.append(float(gap.sum()) / whole)
            expected.append(float(np.sqrt(mean_noise**2 + 2 / math.pi * drawing).sum()) / whole)
            # Half a record is rounding, not misfit: noisy counts are whole, scaled ones are not.
            limit = np.sqrt(reach**2 + _NORMAL**2 * drawing) + 0.5
            outside.append(int(np.count_nonzero(gap > limit)))
        fits.append(
            TableFit(
                clique=table.clique,
                stage=table.stage,
                replicate=table.replicate,
                cells=table.values.size,
                noise=table.noise,
                scale=table.scale,
                half_width=width,
                noise_tvd=expected_tvd(
                    table.noise, table.scale, cells=table.values.size, records=records
                ),
                set_tvd=tuple(distances),
                expected_tvd=tuple(expected),
                outside=tuple(outside),
            )
        )
    return tuple(fits)


def tally_sets(
    domain: Domain, measurements: Sequence[Measurement], sets: Iterable[Iterable[Dataset]]
) -> tuple[Tally, ...]:
    """Return a tally of each synthetic set, over what the bundle's checks and pictures need.

    That is every measured table and every single column.

    Args:
        domain: All columns.
        measurements: Noisy tables.
        sets: For each set its pieces (a list of one dataset, or a stream of them).
    """
    cliques = needed_counts(domain, measurements)
    tallies = []
    for pieces in sets:
        tally = Tally(domain, cliques)
        for piece in pieces:
            tally.add(piece)
        tallies.append(tally)
    return tuple(tallies)


def needed_counts(domain: Domain, measurements: Sequence[Measurement]) -> tuple[Clique, ...]:
    """Return the marginals of a synthetic set that `check_fit` and the report look at."""
    measured = (table.clique for table in measurements if table.clique)
    return tuple(dict.fromkeys([*((column,) for column in domain.columns), *measured]))


@dataclass(frozen=True, slots=True, repr=False)
class Utility(Internal):
    """Distances between synthetic sets and the confidential file. Confidential.

    Attributes:
        sets: For each set its average error over 1-, 2- and 3-way tables.
    """

    sets: tuple[tuple[MarginalError, ...], ...]

    def means(self) -> dict[int, float]:
        """Return the mean over sets of the average TVD, by number of columns."""
        result: dict[int, float] = {}
        for ways in {error.ways for errors in self.sets for error in errors}:
            values = [error.mean for errors in self.sets for error in errors if error.ways == ways]
            result[ways] = math.fsum(values) / len(values)
        return dict(sorted(result.items()))

    def to_json(self) -> dict[str, object]:
        """Return plain values; the first key says that they are confidential."""
        return {
            "confidential": CONFIDENTIAL,
            "format": 1,
            "mean": {
                f"{ways}-way": None if math.isnan(value) else value
                for ways, value in self.means().items()
            },
            "sets": [
                {
                    f"{error.ways}-way": {
                        "mean_tvd": None if math.isnan(error.mean) else error.mean,
                        "worst_tvd": None if math.isnan(error.worst) else error.worst,
                        "worst_table": list(error.worst_clique),
                        "tables": error.tables,
                        "skipped_because_too_large": error.skipped,
                    }
                    for error in errors
                }
                for errors in self.sets
            ],
        }


def utility(
    real: Counter,
    synthetic: Sequence[Counter],
    domain: Domain,
    *,
    ways: Sequence[int] = (1, 2, 3),
    cell_limit: int = CELL_LIMIT,
) -> Utility:
    """Return the average TVD of each synthetic set to the confidential file. CONFIDENTIAL.

    All one- and two-way tables, and at most 300 three-way ones; the sample is the same in every
    release of the same number of columns.

    Args:
        real: Exact counts of the confidential file, after validation.
        synthetic: Counts of each set.
        domain: All columns.
        ways: Numbers of columns per table.
        cell_limit: Larger tables are left out and counted as such.

    Privacy:
        Spends nothing and protects nothing: for the internal folder, never for the bundle.
    """
    errors: list[list[MarginalError]] = [[] for _ in synthetic]
    for way in ways:
        if way > len(domain):
            continue
        wanted = small_cliques(domain, way, most=TRIPLES if way > 2 else None)
        cliques, skipped = within_limit(domain, wanted, cell_limit=cell_limit)
        distances: list[dict[Clique, float]] = [{} for _ in synthetic]
        for group in batches(domain, cliques):
            exact = real.count(group)
            for found, counter in zip(distances, synthetic, strict=True):
                drawn = counter.count(group)
                for clique in group:
                    found[clique] = tvd(exact[clique].counts, drawn[clique].counts)
        for error, found in zip(errors, distances, strict=True):
            error.append(summarise(way, found, skipped=skipped))
    return Utility(tuple(tuple(error) for error in errors))


def write_utility(folder: Path, result: Utility, *, title: str) -> None:
    """Write `utility.json` and `utility.html` into the internal folder, readable by the owner only.

    Raises:
        StageFailed: if they cannot be written.
    """
    files = {
        "utility.json": json.dumps(result.to_json(), indent=2) + "\n",
        "utility.html": _page(result, title),
    }
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in files.items():
            handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise StageFailed(
            f"The internal utility report could not be written to {folder}"
            f" ({error.strerror}). Mend that and resume."
        ) from None


def _page(result: Utility, title: str) -> str:
    rows = []
    for number, errors in enumerate(result.sets, start=1):
        for error in errors:
            worst = " x ".join(error.worst_clique)
            rows.append(
                f"<tr><td>{number}</td><td>{error.ways}</td><td>{error.mean:.4f}</td>"
                f"<td>{error.worst:.4f}</td><td>{html.escape(worst)}</td>"
                f"<td>{error.tables}</td><td>{error.skipped}</td></tr>"
            )
    means = ", ".join(f"{way}-way {value:.4f}" for way, value in result.means().items())
    return (
        f"<!-- {CONFIDENTIAL} -->\n<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>CONFIDENTIAL utility of {html.escape(title)}</title>"
        "<style>:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;"
        "max-width:60rem;margin:1rem auto;padding:0 1rem}td,th{padding:.2rem .8rem .2rem 0;"
        "text-align:left}.c{font-weight:700;border:2px solid;padding:.5rem}"
        ".t{overflow-x:auto}</style></head>"
        f'<body><p class="c">{CONFIDENTIAL}</p><h1>Utility of {html.escape(title)}</h1>'
        f"<p>Average total variation distance to the confidential file, mean over sets: {means}."
        " 0 is equal, 1 is disjoint.</p>"
        '<div class="t"><table><thead><tr><th>set</th><th>columns per table</th><th>average</th>'
        "<th>worst</th><th>worst table</th><th>tables</th><th>left out (too large)</th></tr>"
        f"</thead><tbody>{''.join(rows)}</tbody></table></div></body></html>\n"
    )
