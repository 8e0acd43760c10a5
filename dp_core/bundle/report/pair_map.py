"""The noise that is expected in the table of every pair of columns, as a heat map."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dp_core.bundle.published import Published
from dp_core.bundle.quality.pair_noise import pair_noise, pair_states
from dp_core.bundle.report.pictures.heat_map import (
    HeatMap,
    Square,
    heat_map,
    short_percent,
    shown_columns,
)


@dataclass(frozen=True, slots=True)
class PairMap:
    """The heat map of a release and what to say about it.

    Attributes:
        map: The map; None if no pair was measured.
        pairs: Number of pairs of all columns.
        measured: Number of pairs with a table or interaction of their own.
        implied: Number of pairs that only a table of more columns contains.
        unmeasured: Number of pairs that no table contains.
        words: The smallest and the largest value in the map, as a sentence; empty without values.
    """

    map: HeatMap | None
    pairs: int
    measured: int
    implied: int
    unmeasured: int
    words: str


def pair_map(published: Published) -> PairMap | None:
    """Return the map of a release; None if it has fewer than two columns."""
    schema = published.written
    columns = schema.domain.columns
    if len(columns) < 2:
        return None
    states = pair_states(published.released, columns)
    count = Counter(states.values())
    known = len(states) - count["unmeasured"]
    if not known:
        return PairMap(None, len(states), 0, 0, count["unmeasured"], "")
    shown = shown_columns(columns, states)
    chosen = {*shown}
    found = pair_noise(
        published.released,
        schema,
        {pair: state for pair, state in states.items() if chosen.issuperset(pair)},
        records=published.records,
        rows=published.records if published.records_public else None,
    )
    squares = {pair: Square(each.state, each.tvd) for pair, each in found.items()}
    told = {pair: each.value for pair, each in squares.items() if each.value is not None}
    words = ""
    if told:
        least, most = min(told, key=told.__getitem__), max(told, key=told.__getitem__)
        words = f"It is least for {' × '.join(least)}, {short_percent(told[least])} %"
        if len(told) > 1:
            words += f", and largest for {' × '.join(most)}, {short_percent(told[most])} %"
        words += "."
    shape = (
        f"Heat map of {len(shown)} columns: expected noise of each pair, in percent of the records."
        f" {words} The values are in the table below."
    )
    drawn = heat_map(shown, squares, words=shape, left_out=len(columns) - len(shown))
    return PairMap(
        drawn, len(states), count["measured"], count["implied"], count["unmeasured"], words
    )
