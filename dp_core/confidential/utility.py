"""Confidential checks of the synthetic sets, for staff.

`utility` takes the confidential file's counter, and its result goes to the internal folder only,
under a first line that says so. The public checks are separate: they use noisy tables
and synthetic counts only, and are published.
"""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dp_core.errors import StageFailed
from dp_core.metrics.marginal_error import (
    CELL_LIMIT,
    TRIPLES,
    MarginalError,
    batches,
    small_cliques,
    summarise,
    tvd,
    within_limit,
)
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.marginal import Counter

CONFIDENTIAL = (
    "CONFIDENTIAL: computed from the confidential data, outside the privacy guarantee."
    " Not to be published, quoted or sent on."
)


class Internal:
    """A result computed from the data without protection, for the internal folder only.

    It prints and logs no content, and cannot be pickled, copied to a worker or written as JSON.
    Only the function that writes internal files reads it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"{type(self).__name__} is confidential and is not pickled.")


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

    All one- and two-way tables are compared, and at most 300 three-way tables. Their sample depends
    only on the number of columns.

    Args:
        real: Counter of the confidential file, after validation.
        synthetic: Counter of each set.
        domain: All columns.
        ways: Numbers of columns of the tables; 1, 2 and 3 by default.
        cell_limit: Most cells of a table; larger ones are skipped, and their number is reported.

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
            f" ({error.strerror}). Correct this and resume the release."
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
