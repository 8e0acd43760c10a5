"""Pictures of noisy tables of two members of a household, and words for another member's columns.

The pictures are drawn from the published noisy tables together; nothing else is needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from dp_core.bundle.report.pictures.heat_map import squares_svg
from dp_core.kernel.counting.linked_columns import OTHER
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables, other

MOST_MAPS = 6
"""Most pictures in the page."""
MOST_CODES = 30
"""Most codes of a column that is drawn."""
_SQUARES = 260.0
"""Width of all squares of a picture, if it has few; CSS pixels."""
_WIDEST, _NARROWEST = 44.0, 14.0
"""Largest and smallest width of a square, CSS pixels."""
_LETTER = 7.2
"""Width of a letter, CSS pixels."""
_LONGEST = 18
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
    shown = [text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…" for text in labels]
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
