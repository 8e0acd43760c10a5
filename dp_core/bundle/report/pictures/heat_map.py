"""A heat map of all pairs of columns: one square for each pair, darker for a larger error.

The triangle has each column's name at its diagonal place: the pairs of a column are to the left of
its name and below it. Colours are classes of fixed limits, so maps of different releases can be
compared, and the numbers stand in the squares as long as there is room.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dp_core.bundle.quality.pair_errors import PairError, State
from dp_core.text.pages.html_template import html_templates

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
"""Width of a letter of these names, a little more than the average, CSS pixels."""


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
