"""The change of an answer between two releases, with its interval.

The noise of two releases is independent. So the change of a count has the sum of the two variances
and of the two fourth cumulants, which give the quantile of its noise. The interval of every other
change but that of a quantile follows from the two intervals (MOVER with correlation 0: Zou & Donner
2008).

Bins cause errors of both answers. If both releases have the same bins, these errors are nearly the
same, so most of them cancels in the change of a mean or total.

The ends of the interval of a quantile are not those of an estimate with an error of a known
distribution. So both intervals have half of the error probability (Bonferroni), and the ends of the
interval of the change are the differences of their opposite ends. This needs no independence. With
independent noise, 1 - sqrt(level) would be enough, which is hardly more than half: .0253 instead of
.025.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.answer_notes import notes_of
from dp_core.analysis.query.answering import answers_of, prepare_question, terms_of
from dp_core.analysis.query.asked_counts import Asked
from dp_core.analysis.query.bin_errors import BinErrors
from dp_core.analysis.query.comparable import check_questions, check_releases, common_groups
from dp_core.analysis.query.declared_sums import unused_declaration
from dp_core.analysis.query.possible_answers import PossibleAnswers, moved_to, possible_answers
from dp_core.analysis.query.query_answer import (
    CHANGES,
    QueryAnswer,
    coverage,
    stated_answer,
    stated_value,
    unit_of,
)
from dp_core.analysis.query.sources import Sources
from dp_core.analysis.query.term_intervals import Ends, Intervals
from dp_core.bundle.reading import Bundle
from dp_core.errors import BadInput
from dp_core.inference.count_intervals import difference_of, rounded_up
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.functional_noise import (
    errors_are_whole,
    fourth_cumulant,
)
from dp_core.metrics.noise_quantiles import central_quantile, effective_draws


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The answers of one release; arrays with one entry for each group.

    Attributes:
        answer: Answers with their intervals.
        noise: The same with intervals for the noise only.
        possible: The smallest and the largest possible answers.
        sums: Of sums, the variances with and without sampling, and the fourth cumulant of the
            noise; None (the default) for other measures.
        counts: Whether the answers are numbers of records.
        whole: Whether their errors are whole numbers.
        quantiles: Whether the answers are quantiles. Then `answer` has half of the error
            probability, and so has `noise` if bins do not matter.
        in_bins: Whether bins matter for a quantile.
        errors: Errors of a mean or total by bins; None (the default) for other answers.
        of_sets: Which answers the sets have a weight in.
    """

    answer: Ends
    noise: Ends
    possible: PossibleAnswers
    of_sets: NDArray[np.bool_]
    sums: tuple[Floats, ...] | None = None
    counts: bool = False
    whole: bool = False
    quantiles: bool = False
    in_bins: bool = False
    errors: BinErrors | None = None

    @property
    def values(self) -> Floats:
        """The estimates of `answer`, cut to the possible ones."""
        return self.possible.cut(self.answer)[0]

    def at(self, places: tuple[int, ...]) -> Side:
        """Return the answers of some groups."""
        index = np.array(places, dtype=np.intp)

        def some(value: Any) -> Any:
            if isinstance(value, PossibleAnswers | BinErrors):
                return value.at(places)
            if isinstance(value, tuple):
                return tuple(each[index] for each in value)
            return value[index] if isinstance(value, np.ndarray) else value

        return replace(self, **{each.name: some(getattr(self, each.name)) for each in fields(self)})


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Changes, later minus earlier; arrays with one entry for each group.

    Attributes:
        values: Changes of the estimates.
        lows, highs: Ends of their intervals; infinite where one of the answers is not determined.
        noise_lows, noise_highs: Ends of their intervals for the noise only.
    """

    values: Floats
    lows: Floats
    highs: Floats
    noise_lows: Floats
    noise_highs: Floats


def side_of(sources: Sources, asked: Asked, *, level: float, sampling: bool) -> Side:
    """Return the answers of one release, in the order of `asked.labels()`.

    Args:
        sources: What the release answers from.
        asked: The question, which the tables determine.
        level: Confidence level of the interval of the change.
        sampling: Whether it includes the sampling error of the file.
    """
    quantiles = asked.question.measure == "quantile"
    half = (1 + level) / 2 if quantiles else level
    work = Intervals(sources, half, sampling, asked.possible)
    noise = replace(work, sampling=False, level=level if asked.in_bins else half)
    parts = terms_of(asked)
    answer, own = (answers_of(each, asked, parts) for each in (work, noise))
    possible = possible_answers(asked, parts)
    side = Side(answer.plain, own.without_bins, possible, answer.of_sets)
    if quantiles:
        return replace(side, quantiles=True, in_bins=asked.in_bins)
    first, *others = parts[0]
    if asked.question.is_of_spread or first.asked or first.bottom or others:
        errors = work.bin_errors(first) if asked.in_bins and not others else None
        return replace(side, errors=errors)
    top, sums = first.top, work.sums(first.top)
    variance, alone, fourth = (
        np.broadcast_to(each, top.shape).ravel()
        for each in (sums.variance, sums.noise, fourth_cumulant(sources.pooled, top))
    )
    # Where the margin is 0, the sum is known exactly: an impossible group, or a public number.
    exact, certain = (ends[1] == ends[2] for ends in (side.noise, side.answer))
    return replace(
        side,
        sums=(
            np.where(exact & certain, 0.0, variance),
            *(np.where(exact, 0.0, each) for each in (alone, fourth)),
        ),
        counts=asked.question.measure == "count",
        whole=errors_are_whole(sources.pooled),
    )


def changes_of(later: Side, earlier: Side, *, level: float) -> Changes:
    """Return the changes between the same groups of two releases.

    Args:
        later: Answers of the later release, group by group.
        earlier: Answers of the earlier one for the same groups.
        level: Confidence level of the intervals.
    """
    found = _uncut_changes(later, earlier, level)
    values = np.asarray(later.values - earlier.values)
    possible = later.possible.minus(earlier.possible)
    moved = possible.cut((found.values, found.lows, found.highs), values)
    noise = moved_to(values, (found.values, found.noise_lows, found.noise_highs))
    return Changes(*moved, *noise[1:])


def _uncut_changes(later: Side, earlier: Side, level: float) -> Changes:
    """Return the changes before they are cut to the possible ones; arguments as `changes_of`."""
    values = np.asarray(later.answer[0] - earlier.answer[0])
    if later.sums is not None and earlier.sums is not None:
        both = (one + other for one, other in zip(later.sums, earlier.sums, strict=True))
        *variances, fourth = both
        half, alone = (_half_width(later, earlier, each, fourth, level) for each in variances)
        return Changes(values, values - half, values + half, values - alone, values + alone)
    if later.quantiles:
        lows, highs = _farthest(later.answer, earlier.answer)
        binned = later.in_bins or earlier.in_bins
        own = (
            _apart(later.noise, earlier.noise) if binned else _farthest(later.noise, earlier.noise)
        )
        return Changes(values, lows, highs, *own)
    changes = _apart(later.answer, earlier.answer, _correlation(later, earlier, level))
    return Changes(values, *changes, *_apart(later.noise, earlier.noise))


def _correlation(later: Side, earlier: Side, level: float) -> Floats | float:
    """Return the correlation of the errors of both answers, which have those by bins in common."""
    if later.errors is None or earlier.errors is None:
        return 0.0
    quantile = central_quantile(level)
    # Half the width of an interval; more if it ends where all values are at one end of their bins.
    one, other = (
        np.maximum((ends[2] - ends[1]) / 2, quantile * np.sqrt(errors.variance))
        for ends, errors in ((later.answer, later.errors), (earlier.answer, earlier.errors))
    )
    common = quantile**2 * later.errors.covariance(earlier.errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nan_to_num(common / (one * other)))


def _apart(later: Ends, earlier: Ends, correlation: Floats | float = 0.0) -> tuple[Floats, Floats]:
    """Return the interval of the difference of two estimates, by default independent ones."""
    estimates, lows, highs = zip(later, earlier, strict=True)
    return difference_of(estimates, lows, highs, correlation)


def _farthest(later: Ends, earlier: Ends) -> tuple[Floats, Floats]:
    """Return the differences of opposite ends of two intervals."""
    return np.asarray(later[1] - earlier[2]), np.asarray(later[2] - earlier[1])


def _half_width(
    later: Side, earlier: Side, variance: Floats, fourth: Floats, level: float
) -> Floats:
    """Return half of the width of the interval of the change of a sum.

    Args:
        later: Answers of the later release.
        earlier: Answers of the earlier one.
        variance: Variance of the change.
        fourth: Fourth cumulant of its noise.
        level: Confidence level.
    """
    draws = effective_draws(variance, fourth)
    half = np.asarray(central_quantile(level, draws) * np.sqrt(variance))
    if not later.counts:
        return half
    if later.whole and earlier.whole:
        # The error is a whole number, as if the continuous one were rounded.
        return np.asarray(np.maximum(half, np.ceil(half - 0.5)))
    return rounded_up(half, variance)


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
        text: The question (`dp_core.inference.questions.question_grammar`).
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
            question, own, work = prepare_question(release.sources, text, level, sampling)
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
        here, there, about_groups = common_groups(mine, its)
        sides = [
            side_of(release.sources, one, level=level, sampling=sampling).at(where)
            for release, one, where in zip(both, (mine, its), (here, there), strict=True)
        ]
        changes = changes_of(*sides, level=level)
        cells, every = _cells(sides, changes, unit, covers), mine.labels()
        groups = [every[place] for place in here]
        notes += (*about_groups, *_notes(both, (mine, its), sides, cells, level, sampling, in_bins))
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
    allowed = sides[0].possible.allowed & sides[1].possible.allowed
    for row, is_known in enumerate(known):
        cell: dict[str, Any] = dict.fromkeys(CHANGES)
        cell |= {"explained_by": None, "determined": bool(is_known)}
        cell |= {} if allowed[row] else {"possible": False}
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
            beyond=side.possible.outside(side.answer),
            of_sets=bool(side.of_sets.any()),
            sampling=sampling,
        )
        for release, own, side in zip(releases, asked, sides, strict=True)
    ]
    found = []
    if in_bins:
        found.append(
            "The tables do not show where in its bin a value is. The margin covers the usual"
            " error of this in both releases; `noise explains` does not."
        )
    if sampling:
        found.append(
            "The margins assume independent samples. If the same persons are in both files (a"
            " panel) and their answers are positively correlated, the margins are usually too wide."
        )
    if not all(cell["determined"] or not cell.get("possible", True) for cell in cells):
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
    found += [note for note in each[0] if note in each[1]]
    for words, own, other in (
        ("Earlier release", each[1], each[0]),
        ("Later release", each[0], each[1]),
    ):
        found += [f"{words}: {note}" for note in own if note not in other]
    return tuple(dict.fromkeys(found))
