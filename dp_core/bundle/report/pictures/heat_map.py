"""Heat maps: expected errors of all pairs of columns, and tables of two members of a household.

The triangle has one square for each pair, darker for a larger error, and each column's name at its
diagonal place: the pairs of a column are to the left of its name and below it. Colours are classes
of fixed limits, so maps of different releases can be compared.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.bundle.published import Published
from dp_core.bundle.quality.pair_errors import (
    PairError,
    State,
    pair_noise,
    pair_states,
    set_distances,
)
from dp_core.bundle.quality.table_fit import needed_counts
from dp_core.kernel.counting.linked_columns import OTHER
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.marginal_error import Tally
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables, other
from dp_core.text.pages.page_html import html_templates

LIMITS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Limits of the classes of a TVD; a value on a limit is in the lower class."""
MOST_COLUMNS = 60
"""Most columns of a map."""
_WITH_NUMBERS = 18
"""Most columns for which the squares are large enough for numbers."""
_WITH_HINTS = 30
"""Most columns for which every square has a text of its own when pointed at."""
_LONGEST = 26
"""Most characters of a name beside the map."""
_LETTER = 7.2
"""Width of a letter of names and labels, a little more than the average, CSS pixels."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A heat map, ready for a page.

    Attributes:
        columns: The columns shown, in the order of the map.
        left_out: Number of columns that are not shown.
        squares: The value of each pair of the columns shown.
        svg: The picture.
        classes: Class of the squares and limits of each class that occurs, for a legend.
        states: The states that occur.
    """

    columns: tuple[str, ...]
    left_out: int
    squares: Mapping[tuple[str, str], PairError]
    svg: str
    classes: tuple[tuple[str, str], ...]
    states: frozenset[State]

    def rows(self) -> list[tuple[str, list[str]]]:
        """Return the values as a table: each column with its values beside those before it."""
        return [
            (name, [_number(self.squares[other, name]) for other in self.columns[:place]])
            for place, name in enumerate(self.columns)
        ]


def shown_columns(
    columns: Sequence[str], states: Mapping[tuple[str, str], State]
) -> tuple[str, ...]:
    """Return the columns for a map, at most `MOST_COLUMNS`, in their order.

    Of more, those in most known pairs are shown; of equal ones, the first.

    Args:
        columns: All columns.
        states: How each pair is known.
    """
    known = dict.fromkeys(columns, 0)
    for pair, state in states.items():
        for name in pair:
            known[name] += state != "unmeasured"
    places = {name: place for place, name in enumerate(columns)}
    chosen = sorted(columns, key=lambda name: (-known[name], places[name]))[:MOST_COLUMNS]
    return tuple(sorted(chosen, key=places.__getitem__))


def heat_map(
    columns: Sequence[str],
    squares: Mapping[tuple[str, str], PairError],
    *,
    words: str,
    left_out: int = 0,
) -> HeatMap:
    """Return the heat map of some columns.

    Args:
        columns: Columns in the order of the map, at most `MOST_COLUMNS`.
        squares: The value of each pair, by its columns in that order.
        words: What the map shows, for those who do not see it.
        left_out: Number of columns that are not shown; 0 by default.
    """
    shown = {
        (first, second): squares[first, second]
        for place, second in enumerate(columns)
        for first in columns[:place]
    }
    values = [each.tvd for each in shown.values() if each.tvd is not None]
    ends = ["", *(f"{100 * limit:g} %" for limit in LIMITS)]
    texts = [f"up to {ends[1]}", *map(" to ".join, itertools.pairwise(ends[1:]))]
    texts.append(f"over {ends[-1]}")
    kinds = sorted({class_of(value) for value in values})
    return HeatMap(
        columns=tuple(columns),
        left_out=left_out,
        squares=shown,
        svg=_svg(columns, shown, words),
        classes=tuple((f"heat{kind}", texts[kind]) for kind in kinds),
        states=frozenset(each.state for each in shown.values()),
    )


def class_of(value: float) -> int:
    """Return the class of a TVD, from 0 to the number of limits.

    >>> class_of(0.004), class_of(0.01), class_of(0.011), class_of(1.0)
    (0, 0, 1, 6)
    """
    return sum(value > limit for limit in LIMITS)


def short_percent(value: float) -> str:
    """Return a share in percent for a small place.

    >>> short_percent(0.0042), short_percent(0.0314), short_percent(0.314), short_percent(0.00004)
    ('0.4', '3.1', '31', '0.0')
    """
    return f"{100 * value:.1f}" if value < 0.0995 else f"{100 * value:.0f}"


def _svg(columns: Sequence[str], squares: Mapping[tuple[str, str], PairError], words: str) -> str:
    count = len(columns)
    numbers = count <= _WITH_NUMBERS
    side = 36 if numbers else 22 if count <= _WITH_HINTS else 14
    names = [name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…" for name in columns]
    width = max(place * side + 8 + round(_LETTER * len(name)) for place, name in enumerate(names))
    hints = count <= _WITH_HINTS
    drawn = squares_svg().heat_map(columns, names, squares, side, width, numbers, hints, words)
    return str(drawn)


@cache
def squares_svg() -> Any:
    """Return the macros that draw pictures of squares."""
    environment = html_templates(Path(__file__).parent.parent)
    environment.filters |= {"heat": class_of, "short": short_percent}
    return environment.get_template("squares.svg.jinja").module


def _number(square: PairError) -> str:
    if square.tvd is None:
        return "–" if square.state == "unmeasured" else "unknown"
    text = short_percent(square.tvd)
    return f"({text})" if square.state == "implied" else text


@dataclass(frozen=True, slots=True)
class PairMap:
    """The heat map of a release and what to say about it.

    Attributes:
        map: The map.
        count: Number of pairs of all columns in each state.
        words: The smallest and the largest value in the map, as a sentence; empty without values.
        of_sets: Whether the values are errors of the sets, not of the noisy tables.
    """

    map: HeatMap
    count: Counter[State]
    words: str
    of_sets: bool


def pair_map(published: Published, pooled: Pooled, tallies: Sequence[Tally] = ()) -> PairMap | None:
    """Return the map of a release; None if no pair was measured.

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
        return None
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
    return PairMap(drawn, count, words, of_sets=distances is not None)


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


MOST_MAPS = 6
"""Most pictures in the page."""
MOST_CODES = 30
"""Most codes of a column that is drawn."""
_SQUARES = 260.0
"""Width of all squares of a picture, if it has few; CSS pixels."""
_WIDEST, _NARROWEST = 44.0, 14.0
"""Largest and smallest width of a square, CSS pixels."""
_LONGEST_MEMBER = 18
"""Most characters of a label."""


@dataclass(frozen=True, slots=True)
class MemberMap:
    """The table of a column of one member by the same column of another.

    Attributes:
        name: The column.
        svg: The picture.
        words: What it shows, in a sentence or two.
    """

    name: str
    svg: str
    words: str


def member_maps(pooled: Pooled, schema: Schema) -> tuple[MemberMap, ...]:
    """Return a picture of each determined table of a column by that of another member.

    Args:
        pooled: All measurements of the release.
        schema: Schema of the release; without linked tables there are no pictures.
    """
    if schema.linked is None:
        return ()
    found: list[MemberMap] = []
    for name in schema.linked.person_columns:
        size = schema.column(name).of_member.size
        if size <= MOST_CODES and len(found) < MOST_MAPS:
            counts = pooled.counts((name, other(name)))
            width = pooled.half_width((name, other(name)))
            if counts is not None and width is not None:
                # Which of the two members is named first does not matter.
                pairs = counts[:size, :size]
                found.append(_draw_map(schema, name, (pairs + pairs.T) / 2, width))
    return tuple(found)


def in_words(page: str, linked: LinkedTables) -> str:
    """Return a page in which columns of another member have names for people.

    Code is left as it is, because it needs the names of the columns.

    Args:
        page: The page, HTML.
        linked: The linked tables.
    """
    names = sorted(map(escape, linked.others), key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})(?![\w])")
    parts = re.split(r"(<(?:pre|code)\b.*?</(?:pre|code)>)", page, flags=re.DOTALL)
    for place in range(0, len(parts), 2):
        parts[place] = pattern.sub(
            lambda found: f"other member’s {found[0].removeprefix(OTHER)}", parts[place]
        )
    return "".join(parts)


def _draw_map(
    schema: Schema, name: str, counts: NDArray[np.float64], half_width: float
) -> MemberMap:
    labels = schema.column(name).of_member.code_labels()
    shares = np.maximum(counts, 0.0)
    total = float(shares.sum())
    percent = 100 * shares / total if total > 0 else shares
    most = max(float(percent.max(initial=0.0)), 1e-9)
    shown = [
        text if len(text) <= _LONGEST_MEMBER else f"{text[: _LONGEST_MEMBER - 1]}…"
        for text in labels
    ]
    left = 16 + _LETTER * max(map(len, shown))
    side = round(min(max(_SQUARES / len(labels), _NARROWEST), _WIDEST))
    words = _words(labels, name, percent)
    svg = squares_svg().member_map(shown, percent.tolist(), most, side, left, words)
    noise = 100 * half_width / total if total > 0 else 0.0
    margin = f"The 95 % margin of error of a square is at most ± {noise:.1f} %."
    return MemberMap(name, str(svg), f"{words} {margin}")


def _words(labels: tuple[str, ...], name: str, percent: NDArray[np.float64]) -> str:
    row, column = np.unravel_index(int(np.argmax(percent)), percent.shape)
    alike = float(np.trace(percent))
    return (
        f"The most frequent pair is {labels[row]} and {labels[column]}. Both members have the same"
        f" {name} code in {alike:.0f} % of the pairs."
    )
