"""Expected errors of all pairs of columns, of the sets or of the noisy tables, as a heat map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dp_core.bundle.published import Published
from dp_core.bundle.quality.pair_errors import (
    PairError,
    pair_noise,
    pair_states,
    set_distances,
)
from dp_core.bundle.quality.table_fit import needed_counts
from dp_core.bundle.report.pictures.heat_map import (
    HeatMap,
    heat_map,
    short_percent,
    shown_columns,
)
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.marginal_error import Tally


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
        of_sets: Whether the values are errors of the sets, not of the noisy tables.
    """

    map: HeatMap | None
    pairs: int
    measured: int
    implied: int
    unmeasured: int
    words: str
    of_sets: bool = False


def pair_map(published: Published, pooled: Pooled, tallies: Sequence[Tally] = ()) -> PairMap | None:
    """Return the map of a release; None if it has fewer than two columns.

    Of linked tables the columns of another member are left out: their tables with columns of the
    household repeat those of a member, and `member_maps` shows those of two members.

    Args:
        published: The release.
        pooled: All its measurements.
        tallies: One per synthetic set, of the marginals in `table_fit.needed_counts`; none by
            default.
    """
    linked = published.schema.linked
    others = () if linked is None else linked.others
    columns = tuple(name for name in pooled.domain.columns if name not in others)
    if len(columns) < 2:
        return None
    states = pair_states(published.released, columns, pooled.domain.nested)
    count = Counter(states.values())
    if len(states) == count["unmeasured"]:
        return PairMap(None, len(states), 0, 0, count["unmeasured"], "")
    shown = shown_columns(columns, states)
    chosen = {*shown}
    drawn_states = {pair: state for pair, state in states.items() if chosen.issuperset(pair)}
    known = [pair for pair, state in drawn_states.items() if state != "unmeasured"]
    counted = needed_counts(tallies[0].domain, published.released) if tallies else ()
    distances = set_distances(tallies, counted, known, published.mode)
    if distances is None:
        squares = pair_noise(pooled, published.released, drawn_states, records=published.records)
    else:
        squares = {
            pair: PairError(state, distances.get(pair)) for pair, state in drawn_states.items()
        }
    told = {pair: each.tvd for pair, each in squares.items() if each.tvd is not None}
    words = _range_words(told) if told else ""
    shape = (
        f"Heat map of {len(shown)} columns: expected"
        f" {'noise' if distances is None else 'error of the sets'} of each pair, in percent of the"
        f" {'records' if linked is None else 'households'}."
        f" {words} The values are in the table below."
    )
    drawn = heat_map(shown, squares, words=shape, left_out=len(columns) - len(shown))
    return PairMap(
        *(drawn, len(states), count["measured"], count["implied"], count["unmeasured"], words),
        of_sets=distances is not None,
    )


def _range_words(told: Mapping[tuple[str, str], float]) -> str:
    """Return a sentence about the smallest and the largest value."""
    least, most = min(told, key=told.__getitem__), max(told, key=told.__getitem__)
    low, high = short_percent(told[least]), short_percent(told[most])
    if low == high:
        return f"It is {low} % for every measured pair."
    return (
        f"It is least for {' × '.join(least)}, {low} %, and largest for {' × '.join(most)},"
        f" {high} %."
    )
