"""Maps of areas within areas, such as districts in counties: a tile for each smaller area.

Every number combines the published noisy tables of all levels. A map has one row for each larger
area, with a tile for each smaller area in it. Tiles are shaded by the number of records or by the
share of a level of another column, as the reader chooses. A large map shows only the areas with the
largest counts, and says how many others there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dp_core.inference.count_intervals import fieller
from dp_core.methods.reconstruction.estimates.functional_noise import cells
from dp_core.methods.reconstruction.estimates.pooled_functionals import is_determined
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.noise_quantiles import central_quantile
from dp_core.schema.definition import Schema
from dp_core.tables.cliques import levels_within

MOST_ROWS = 40
"""Most larger areas of a map."""
MOST_TILES = 240
"""Most smaller areas of a map, unless this leaves less than `LEAST_TILES` for a larger area."""
LEAST_TILES = 4
"""Smaller areas that every larger area may show, whatever the size of the map."""
MOST_SHARES = 8
"""Most shares by which the tiles of a map can be shaded."""
_LEVELS = 3
"""Most levels of one column whose shares can be chosen: those with the largest counts."""
_SIZES = tuple(0.5**power for power in range(6, 0, -1))
"""Limits of the classes of counts, as fractions of the largest count."""
_LETTERS = "abcdefghi"
_WIDEST = 0.1
"""A share with a larger margin is not shaded."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shading:
    """A number that shades the tiles.

    Attributes:
        letter: Letter that identifies it in the names of the page's styles.
        name: What the number is, for the reader.
        classes: Number and limits of each class that occurs, for a legend.
    """

    letter: str
    name: str
    classes: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """A smaller area.

    Attributes:
        label: Its label.
        kinds: Its class for each shading; None if the margin of a share is too wide.
        texts: Its number and margin for each shading.
    """

    label: str
    kinds: tuple[int | None, ...]
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AreaRow:
    """A larger area: its label, count and margin, its tiles, and the number of tiles left out."""

    label: str
    count: int
    margin: int
    tiles: tuple[Tile, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class AreaMap:
    """The smaller areas of a column in the larger areas of another.

    Attributes:
        larger: Name of the column of larger areas.
        smaller: Name of the column of smaller areas.
        shadings: Numbers that can shade the tiles: the count first, then shares.
        rows: Larger areas, in the order of the schema.
        left_out: Number of larger areas that are not shown.
        tiles_left_out: Number of smaller areas that are not shown.
    """

    larger: str
    smaller: str
    shadings: tuple[Shading, ...]
    rows: tuple[AreaRow, ...]
    left_out: int
    tiles_left_out: int

    @property
    def widest(self) -> int:
        """Largest margin of a share that is shaded, in percentage points."""
        return round(100 * _WIDEST)


def area_maps(pooled: Pooled, schema: Schema) -> tuple[AreaMap, ...]:
    """Return a map of each column of areas that lies in another, from the largest areas down.

    Args:
        pooled: All measurements of the release.
        schema: The schema as written, not on a grid; without nested columns there are no maps.
    """
    nested = schema.domain.nested
    pairs = () if nested is None else pairwise(nested.columns)
    found = (_map(pooled, schema, larger, smaller) for larger, smaller in pairs)
    return tuple(each for each in found if each is not None)


def _map(pooled: Pooled, schema: Schema, larger: str, smaller: str) -> AreaMap | None:
    upper, lower = cells(pooled, (larger,)), cells(pooled, (smaller,))
    nested = schema.domain.nested
    if upper is None or lower is None or nested is None:
        return None
    children = levels_within(nested, smaller)
    rows = np.sort(np.argsort(-upper[0], kind="stable")[:MOST_ROWS])
    most = _most_tiles([len(children[row]) for row in rows])
    # Of each, the areas with the largest counts, in order of their codes.
    largest = [children[row][np.argsort(-lower[0][children[row]], kind="stable")] for row in rows]
    shown = [np.sort(codes[:most]) for codes in largest]
    every = np.concatenate(shown)
    unit = "records" if schema.linked is None else "households"
    values: list[Floats] = [lower[0][every]]
    margins: list[Floats] = [np.ceil(lower[1][every] - 1e-9)]
    names = [f"number of {unit}"]
    for name, code in _shares(pooled, schema, smaller):
        share, margin = _share(pooled, smaller, name, code)
        values.append(share[every])
        margins.append(margin[every])
        names.append(f"{name}: {schema.column(name).code_labels()[code]}")
    counted, classes = _by_size(values[0])
    kinds, legends = [counted], [classes]
    for each, margin in zip(values[1:], margins[1:], strict=True):
        own, legend = _by_share(np.where(margin <= _WIDEST, each, np.nan))
        kinds.append(own)
        legends.append(legend)
    labels = schema.column(smaller).code_labels()
    texts = [
        _texts(value, margin, percent=place > 0)
        for place, (value, margin) in enumerate(zip(values, margins, strict=True))
    ]
    tiles = [
        Tile(labels[code], tuple(kind[at] for kind in kinds), tuple(text[at] for text in texts))
        for at, code in enumerate(every)
    ]
    ends = np.cumsum([0, *(len(each) for each in shown)])
    upper_labels = schema.column(larger).code_labels()
    return AreaMap(
        larger=larger,
        smaller=smaller,
        shadings=tuple(
            Shading(letter, name, legend)
            for letter, name, legend in zip(_LETTERS, names, legends, strict=False)
        ),
        rows=tuple(
            AreaRow(
                upper_labels[row],
                round(float(upper[0][row])),
                math.ceil(float(upper[1][row]) - 1e-9),
                tuple(tiles[start:end]),
                len(children[row]) - (end - start),
            )
            for row, (start, end) in zip(rows, pairwise(ends.tolist()), strict=True)
        ),
        left_out=len(children) - len(rows),
        tiles_left_out=len(labels) - len(every),
    )


def _most_tiles(numbers: Sequence[int]) -> int:
    """Return the limit of tiles in a row that gives a map about `MOST_TILES` tiles.

    >>> _most_tiles([3, 100, 9]), _most_tiles([30, 400, 300]), _most_tiles([9] * 40)
    (100, 105, 6)
    """
    most = max(numbers)
    while most > LEAST_TILES and sum(min(number, most) for number in numbers) > MOST_TILES:
        most -= 1
    return most


def _shares(pooled: Pooled, schema: Schema, smaller: str) -> list[tuple[str, int]]:
    """Return columns and levels whose share in every smaller area is determined.

    A column with two levels gives its first level; another column its most frequent levels.
    """
    nested, linked = schema.domain.nested, schema.linked
    names = schema.domain.columns if linked is None else linked.household_columns
    found: list[tuple[str, int]] = []
    for name in names:
        column = schema.column(name)
        if not column.levels or name not in schema.domain.columns:
            continue
        if (nested is not None and name in nested.columns) or len(found) >= MOST_SHARES:
            continue
        if not is_determined(pooled, pooled.with_column((name,), smaller)):
            continue
        whole = cells(pooled, (name,))
        assert whole is not None
        order = np.argsort(-whole[0][: len(column.levels)], kind="stable")
        codes = [0] if len(column.levels) <= 2 else sorted(order[:_LEVELS].tolist())
        found += [(name, code) for code in codes]
    return found[:MOST_SHARES]


def _share(pooled: Pooled, smaller: str, name: str, code: int) -> tuple[Floats, Floats]:
    """Return the share of a level in each smaller area, and its margin.

    The count of a level is the area's count divided by the k levels, plus the level's deviation.
    The margin is the distance to the farther end of Fieller's interval, infinite if the interval is
    unbounded. Laplace noise is taken as one draw, which has the widest interval.
    """
    nested = pooled.domain.nested
    assert nested is not None
    level, size = nested.columns.index(smaller) + 1, pooled.domain.size((name,))
    whole, part = pooled.areas(()), pooled.areas((name,))
    assert whole is not None, "determined tables have all their parts"
    assert part is not None
    count, variance = whole.values[level], whole.variance(level)
    top = count / size + part.values[level][:, code]
    quantile = central_quantile(0.95, 1.0 if pooled.noise == "laplace" else math.inf)
    low, high = fieller(
        top,
        count,
        variance / size**2 + part.variance(level) * (1 - 1 / size),
        variance,
        variance / size,
        quantile,
    )
    share = np.divide(top, count, out=np.full(top.shape, np.nan), where=count > 0)
    margin = np.maximum(high - share, share - low)
    return share, np.where(np.isfinite(margin), margin, np.inf)


def _by_size(counts: Floats) -> tuple[list[int | None], tuple[tuple[int, str], ...]]:
    """Return the class of each count, from 0 to 6, and a legend of those that occur."""
    limits = [_round_to_two_digits(max(float(counts.max()), 1.0) * part) for part in _SIZES]
    limits = sorted({max(each, 1) for each in limits})
    kinds = np.searchsorted(limits, np.rint(counts)) + (len(_SIZES) - len(limits))
    first, texts = int(kinds.min()), {}
    for kind in sorted({*kinds.tolist()}):
        place = kind - (len(_SIZES) - len(limits))
        if place == len(limits):
            texts[kind] = f"more than {limits[-1]:,}"
        elif kind == first or place == 0:
            texts[kind] = f"up to {limits[place]:,}"
        else:
            texts[kind] = f"{limits[place - 1] + 1:,} to {limits[place]:,}"
    return kinds.tolist(), tuple(texts.items())


def _round_to_two_digits(value: float) -> int:
    """Return a number with two significant digits.

    >>> _round_to_two_digits(1234.5), _round_to_two_digits(7.6)
    (1200, 8)
    """
    return int(round(value, min(1 - math.floor(math.log10(max(value, 1.0))), 0)))


def _by_share(shares: Floats) -> tuple[list[int | None], tuple[tuple[int, str], ...]]:
    """Return the class of each share, from 0 to 6, and a legend of those that occur.

    Classes have equal widths, in whole percentage points, from the smallest to the largest share.
    """
    known = 100 * np.clip(shares[np.isfinite(shares)], 0.0, 1.0)
    if not known.size:
        return [None] * len(shares), ()
    width = max(math.ceil((float(known.max()) - float(known.min())) / len(_SIZES)), 1)
    start = math.floor(float(known.min()) / width) * width
    kinds = [
        None
        if math.isnan(share)
        else min(int((100 * min(max(share, 0.0), 1.0) - start) // width), len(_SIZES))
        for share in shares.tolist()
    ]
    occur = sorted({kind for kind in kinds if kind is not None})
    return kinds, tuple(
        (kind, f"{start + kind * width} to {start + (kind + 1) * width} %") for kind in occur
    )


def _texts(values: Floats, margins: Floats, *, percent: bool) -> list[tuple[str, str]]:
    """Return a number and its margin for each tile."""
    if not percent:
        return [
            (f"{value:,.0f}", f"± {margin:,.0f}")
            for value, margin in zip(np.rint(values) + 0.0, margins, strict=True)
        ]
    return [
        (f"{100 * value:z.0f} %", f"± {100 * margin:.{0 if margin >= 0.0095 else 1}f}")
        if math.isfinite(margin)
        else ("–", "too few")
        for value, margin in zip(values.tolist(), margins.tolist(), strict=True)
    ]
