"""Page for staff: the true error of the sets in every pair of columns, beside the expected error.

The promise is the noise that is expected in the table of a pair, as the public report shows it. The
page is made of numbers that its caller has; it opens nothing itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dp_core.bundle.quality.pair_errors import PairError, State, pair_noise, pair_states
from dp_core.bundle.quality.relations import pool_release
from dp_core.bundle.report.pictures.heat_map import HeatMap, heat_map, shown_columns
from dp_core.client.released import Released
from dp_core.kernel.counting.domain import Clique
from dp_core.lab.evaluation.evaluation_page import page_template
from dp_core.metrics.marginal_error import MarginalError
from dp_core.schema.definition import Schema

MOST_PAIRS = 20
"""Most pairs in the list of the worst."""
MOST_OTHERS = 10
"""Most single columns, and most tables of three columns, in theirs."""
_KNOWN = {
    "measured": "measured",
    "implied": "part of a larger table",
    "unmeasured": "not measured",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilityPage:
    """Makes the page of one release.

    Attributes:
        title: Title of the file.
        schema: The schema as written, not on a grid.
        released: Everything that was measured.
        records: Public or estimated number of records.
        rows: Number of records if it is public, otherwise None.
    """

    title: str
    schema: Schema
    released: Sequence[Released]
    records: float
    rows: float | None = None

    def __call__(
        self,
        notice: str,
        sets: Sequence[Sequence[MarginalError]],
        tables: Mapping[Clique, Sequence[float]],
        scores: Mapping[str, object],
    ) -> str:
        """Return the page as HTML; its first line is the notice.

        Args:
            notice: Who may see it.
            sets: Average error of each set over tables of 1, 2 and 3 columns.
            tables: For each table, its TVD in each set.
            scores: Scores of the sets, from `analysis.evaluation.release_scores`; may be empty.
        """
        columns = self.schema.domain.columns
        states = (
            pair_states(self.released, columns, self.schema.domain.nested)
            if len(columns) > 1
            else {}
        )
        shown = shown_columns(columns, states)
        pairs = {
            (one, two): mean
            for (one, two), mean in _means(tables, 2).items()
            if (one, two) in states
        }
        worst = sorted(pairs, key=lambda pair: -pairs[pair])[:MOST_PAIRS]
        wanted = {*worst} | {pair for pair in states if {*shown}.issuperset(pair)}
        promised = pair_noise(
            pool_release(self.schema, self.released, rows=self.rows),
            self.released,
            {pair: state for pair, state in states.items() if pair in wanted},
            records=self.records,
        )
        maps = _maps(shown, len(columns) - len(shown), pairs, promised, states)
        template = page_template(Path(__file__).with_name("utility_page.html.jinja"))
        return template.render(
            notice=notice,
            title=self.title,
            means=_averages(sets),
            sets=sets,
            scores=scores,
            maps=maps,
            classes=sorted({each for _, _, drawn in maps for each in drawn.classes}),
            worst=[_worst(pair, tables[pair], promised[pair]) for pair in worst],
            others=[
                (name, [_worst(clique, tables[clique]) for clique in _largest(tables, ways)])
                for name, ways in (("columns", 1), ("tables of three columns", 3))
            ],
        )


def _maps(
    shown: tuple[str, ...],
    left_out: int,
    errors: Mapping[tuple[str, str], float],
    promised: Mapping[tuple[str, str], PairError],
    states: Mapping[tuple[str, str], State],
) -> list[tuple[str, str, HeatMap]]:
    """Return the maps with headings and identifiers: true errors, and expected ones if any."""
    if len(shown) < 2 or not errors:
        return []
    inside = [pair for pair in states if {*shown}.issuperset(pair)]
    true = {pair: PairError(states[pair], errors.get(pair)) for pair in inside}
    maps = [("True error of the sets", "true", true)]
    if any(each.tvd is not None for each in promised.values()):
        maps.append(("Expected error", "expected", {**promised}))
    return [
        (
            heading,
            name,
            heat_map(
                shown,
                squares,
                words=f"Heat map of {len(shown)} columns. {heading} for each pair, in percent."
                " The worst pairs are in the table below.",
                left_out=left_out,
            ),
        )
        for heading, name, squares in maps
    ]


def _means(tables: Mapping[Clique, Sequence[float]], ways: int) -> dict[Clique, float]:
    return {
        clique: math.fsum(found) / len(found)
        for clique, found in tables.items()
        if len(clique) == ways and found
    }


def _largest(tables: Mapping[Clique, Sequence[float]], ways: int) -> list[Clique]:
    means = _means(tables, ways)
    return sorted(means, key=lambda clique: -means[clique])[:MOST_OTHERS]


def _worst(
    clique: Clique, found: Sequence[float], noise: PairError | None = None
) -> dict[str, object]:
    """Return a table with a large error: of the mean set and of the worst, in percent.

    For a pair also the expected error due to noise, how often the mean one has it, and how the pair
    is known; None where that is not known.
    """
    mean = 100 * math.fsum(found) / len(found)
    promised = None if noise is None or noise.tvd is None else 100 * noise.tvd
    return {
        "name": " × ".join(clique),
        "mean": mean,
        "largest": 100 * max(found),
        "promised": promised,
        "ratio": mean / promised if promised else None,
        "known": "" if noise is None else _KNOWN[noise.state],
    }


def _averages(sets: Sequence[Sequence[MarginalError]]) -> list[tuple[int, float]]:
    """Return the mean over the sets of the average TVD, by number of columns."""
    found: dict[int, list[float]] = {}
    for error in (error for errors in sets for error in errors):
        if not math.isnan(error.mean):
            found.setdefault(error.ways, []).append(error.mean)
    return [(ways, math.fsum(means) / len(means)) for ways, means in sorted(found.items())]
