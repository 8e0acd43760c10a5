"""Confidential checks of the synthetic sets, for staff.

`utility` takes the confidential file's counter, and its result goes to the internal folder only,
under a first line that says so. The public checks are separate: they use noisy tables
and synthetic counts only, and are published.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dp_core.errors import StageFailed
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.marginal import Counter
from dp_core.metrics.marginal_error import (
    CELL_LIMIT,
    TRIPLES,
    MarginalError,
    batches,
    mostly_empty,
    small_cliques,
    summarise,
    tvd,
    tvd_of_cells,
    within_limit,
)

CONFIDENTIAL = (
    "CONFIDENTIAL: computed from the confidential data, outside the privacy guarantee."
    " Not to be published, quoted or sent on."
)

Page: TypeAlias = Callable[
    [
        str,
        Sequence[Sequence[MarginalError]],
        Mapping[Clique, Sequence[float]],
        Mapping[str, object],
    ],
    str,
]
"""Makes a page of a notice for its first line, the averages of each set, the TVD of each table in
each set, and the scores of the sets."""

_MOST_LISTED = 500
"""Most tables in the file of numbers, the worst first."""
_NO_PAGE = (
    f"<!-- {CONFIDENTIAL} -->\n<!doctype html>\n<p>{CONFIDENTIAL}</p>\n"
    "<p>The page could not be made. The numbers are in utility.json.</p>\n"
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
        tables: For each table that was compared, its TVD in each set.
    """

    sets: tuple[tuple[MarginalError, ...], ...]
    tables: Mapping[Clique, tuple[float, ...]]

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
            "worst_tables": [
                {"columns": list(clique), "tvd": list(found)}
                for clique, found in sorted(
                    self.tables.items(), key=lambda each: -math.fsum(each[1])
                )[:_MOST_LISTED]
            ],
        }


def utility(
    real: Counter,
    synthetic: Sequence[Counter],
    domain: Domain,
    *,
    ways: Sequence[int] = (1, 2, 3),
    cell_limit: int = CELL_LIMIT,
    progress: Callable[[float], None] = lambda _: None,
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
        progress: Called with the part that is done, 0 to 1; does nothing by default.

    Privacy:
        Spends nothing and protects nothing: for the internal folder, never for the bundle.
    """
    errors: list[list[MarginalError]] = [[] for _ in synthetic]
    tables: dict[Clique, tuple[float, ...]] = {}
    compared = {
        way: within_limit(
            domain,
            small_cliques(domain, way, most=TRIPLES if way > 2 else None),
            cell_limit=cell_limit,
        )
        for way in ways
        if way <= len(domain)
    }
    number = (1 + len(synthetic)) * sum(len(cliques) for cliques, _ in compared.values())
    done = 0
    for way, (cliques, skipped) in compared.items():
        distances: list[dict[Clique, float]] = [{} for _ in synthetic]
        sparse = _mostly_empty(real, domain, cliques)
        for clique in sparse:
            cells, sizes = real.observed(clique), domain.project(clique).sizes
            for found, counter in zip(distances, synthetic, strict=True):
                found[clique] = tvd_of_cells(cells, counter.observed(clique), sizes)
            done += 1 + len(synthetic)
            progress(done / number)
        for group in batches(domain, [each for each in cliques if each not in sparse]):
            exact = real.count(group)
            done += len(group)
            progress(done / number)
            for found, counter in zip(distances, synthetic, strict=True):
                drawn = counter.count(group)
                for clique in group:
                    found[clique] = tvd(exact[clique].counts, drawn[clique].counts)
                done += len(group)
                progress(done / number)
        for error, found in zip(errors, distances, strict=True):
            found = {clique: found[clique] for clique in cliques}
            error.append(summarise(way, found, skipped=skipped))
        if synthetic:
            tables |= {clique: tuple(each[clique] for each in distances) for clique in cliques}
    return Utility(tuple(tuple(error) for error in errors), tables)


def _mostly_empty(real: Counter, domain: Domain, cliques: Sequence[Clique]) -> dict[Clique, None]:
    """Return the cliques whose tables have far more cells than the file has records, in order."""
    large = [clique for clique in cliques if mostly_empty(domain, clique, 0)]
    if not large:
        return {}
    rows = int(real.count([()])[()].counts)
    return dict.fromkeys(clique for clique in large if mostly_empty(domain, clique, rows))


def write_utility(
    folder: Path, result: Utility, page: Page, *, scores: Mapping[str, object] | None = None
) -> None:
    """Write `utility.json` and `utility.html` into the internal folder, readable by the owner only.

    Args:
        folder: The internal folder; it is made if it does not exist.
        result: What is written.
        page: Makes the page for people.
        scores: Further scores of the sets as plain values, confidential; none by default.

    Raises:
        StageFailed: if they cannot be written.

    Privacy:
        Whether the page can be made may depend on one record. So both files are written whatever
        the data are, and no error is raised because of them.
    """
    found = dict(scores or {})
    files = {
        "utility.json": _or(lambda: _json(result, found), _json(result, {})),
        "utility.html": _or(
            lambda: page(CONFIDENTIAL, result.sets, result.tables, found),
            _NO_PAGE,
        ),
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


def _json(result: Utility, scores: Mapping[str, object]) -> str:
    values = result.to_json() | ({"scores": scores} if scores else {})
    return json.dumps(values, indent=2) + "\n"


def _or(make: Callable[[], str], otherwise: str) -> str:
    """Return the text that `make` makes, or another if it fails."""
    try:
        return make()
    except Exception:  # privacy: no error that depends on the data may leave.
        return otherwise
