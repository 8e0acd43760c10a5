"""The answer of `dp-release query --since`: changes, and whether noise alone could explain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_core.analysis.query.answer_notes import notes_of
from dp_core.analysis.query.answering import prepared, terms_of
from dp_core.analysis.query.asked_counts import Asked
from dp_core.analysis.query.changes.change_intervals import Changes, Side, changes_of, side_of
from dp_core.analysis.query.changes.comparable import (
    check_questions,
    check_releases,
    matched,
)
from dp_core.analysis.query.declared.declared_sums import unused_declaration
from dp_core.analysis.query.query_answer import (
    CHANGES,
    QueryAnswer,
    coverage,
    stated_answer,
    stated_value,
    unit_of,
)
from dp_core.analysis.query.sources import Sources
from dp_core.bundle.reading import Bundle
from dp_core.errors import BadInput

_MANY = 10
"""Number of groups from which a note says how many changes exceed their margin by chance."""


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A release that a change is asked of: its bundle, and its pooled tables."""

    bundle: Bundle
    sources: Sources


def answer_change(
    later: Release, earlier: Release, text: str, *, level: float = 0.95, sampling: bool = False
) -> QueryAnswer:
    """Return the change of an answer between two releases.

    Args:
        later: The later release.
        earlier: The earlier release.
        text: The question (`dp_core.analysis.query.question_grammar`).
        level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
        sampling: Whether they also contain the sampling errors of both files, as of independent
            samples; False by default.

    Raises:
        BadInput: if the text is not a question about both releases, it does not mean the same in
            both, or the releases have the same noise.
    """
    notes = check_releases(later.bundle, earlier.bundle)
    both = (later, earlier)
    places = (later.bundle.place, earlier.bundle.place)
    asked, absent = [], None
    for release in reversed(both):
        try:
            question, own, work = prepared(release.sources, text, level, sampling)
        except BadInput as error:
            raise BadInput(f"In {release.bundle.place}: {error.message}") from error
        if question.waves:
            raise BadInput(
                "The question is a change between waves, and so is the answer with an earlier"
                " release: ask for one of the two."
            )
        asked.append(own)
        why = work.absent(terms_of(own), own.counted)
        absent = absent or (why and (release, why))
    its, mine = asked
    check_questions(mine, its, places)
    unit = unit_of(mine.question, mine.schema, mine.counted)
    if unit == "level":
        raise BadInput(
            f"The quantile of {mine.question.number!r} is a level, which has no change: ask for"
            f" `share of {mine.question.number}`."
        )
    in_bins = mine.in_bins or its.in_bins
    covers = coverage(sampling=sampling, in_bins=in_bins)
    cells: list[dict[str, Any]] = []
    groups: list[tuple[int, ...]] = []
    if absent is None:
        found = matched(mine, its)
        sides = [
            side_of(release.sources, own, level=level, sampling=sampling).at(where)
            for release, own, where in zip(
                both, (mine, its), (found.later, found.earlier), strict=True
            )
        ]
        changes = changes_of(*sides, level=level)
        cells, every = _cells(sides, changes, unit, covers), mine.labels()
        groups = [every[place] for place in found.later]
        notes += (*found.notes, *_notes(both, (mine, its), sides, cells, level, sampling, in_bins))
        declared = (*later.sources.declared, *earlier.sources.declared)
        notes += unused_declaration(declared, mine.question, sampling=sampling, change=True)
    release, why = absent or (later, None)
    return stated_answer(
        later.bundle,
        (mine.question, mine.schema, mine.counted),
        why,
        mine.question.groups,
        groups,
        cells,
        since=earlier.bundle.place,
        earlier_release=earlier.bundle.claims.name,
        level=level,
        covers=covers,
        notes=notes,
        reason=f"In {release.bundle.place}: {why.sentence}" if why else None,
    )


def _cells(sides: Sequence[Side], changes: Changes, unit: str, covers: str) -> list[dict[str, Any]]:
    """Return the numbers of each group, and whether noise explains its change."""
    known = np.isfinite(changes.lows) & np.isfinite(changes.highs) & np.isfinite(changes.values)
    cells = []
    for row, is_known in enumerate(known):
        cell: dict[str, Any] = dict.fromkeys(CHANGES)
        cell |= {"explained_by": None, "determined": bool(is_known)}
        if is_known:
            value, low, high, least, most = (
                float(each[row])
                for each in (
                    *(changes.values, changes.lows, changes.highs),
                    *(changes.noise_lows, changes.noise_highs),
                )
            )
            cell |= {
                "earlier": stated_value(float(sides[1].values[row]), unit),
                "later": stated_value(float(sides[0].values[row]), unit),
                "change": value,
                "margin": max(high - value, value - low),
                "low": low,
                "high": high,
                "noise_explains": value - least if value >= 0 else most - value,
            }
            if least <= 0 <= most:
                cell["explained_by"] = "noise"
            elif low <= 0 <= high:
                cell["explained_by"] = covers
        cells.append(cell)
    return cells


def _notes(
    releases: Sequence[Release],
    asked: Sequence[Asked],
    sides: Sequence[Side],
    cells: Sequence[Mapping[str, Any]],
    level: float,
    sampling: bool,
    in_bins: bool,
) -> tuple[str, ...]:
    """Return what the reader must know; a note that both releases have, only once."""
    each = [
        notes_of(
            *(release.sources, own),
            unbounded=False,
            beyond=side.possible.outside(side.answer),
            uninformed=0,
            exact=False,
            sampling=sampling,
        )
        for release, own, side in zip(releases, asked, sides, strict=True)
    ]
    found = []
    if in_bins:
        found.append(
            "The tables do not show where in its bin a value is. The margin covers this in both"
            " releases. `noise explains` does not: it is valid only if values are distributed"
            " within bins as the estimates assume."
        )
    if sampling:
        found.append(
            "The margins assume independent samples. If the same persons are in both files (a"
            " panel) and their answers are positively correlated, the margins are usually too wide."
        )
    if not all(cell["determined"] for cell in cells):
        found.append(
            "Groups without a margin are not determined at this noise: in one of the releases,"
            " their number of records cannot be distinguished from 0."
        )
    shown = sum(cell["determined"] for cell in cells)
    if shown >= _MANY:
        chance = f"{100 * (1 - level):.3g}"
        found.append(
            f"{shown:,} changes are shown. Of the changes that are 0 in the files, up to {chance} %"
            " are expected to exceed their margin by chance."
        )
    found += each[0] if each[0] == each[1] else ()
    if each[0] != each[1]:
        found += [note for note in each[0] if note in each[1]]
        for words, own, other in (
            ("Earlier release", each[1], each[0]),
            ("Later release", each[0], each[1]),
        ):
            found += [f"{words}: {note}" for note in own if note not in other]
    return tuple(dict.fromkeys(found))
