"""Answers a question: estimates from all noisy tables and from the sets, and their intervals.

Estimates are generalised least squares over everything that was measured. Counts, shares and
totals have no bounds, so they may be negative; means, quantiles and ratios are cut to the possible
values (`possible_answers`). Answers about a number are combined with what the synthetic sets tell
(`set_counts`). The intervals include the noise; with `sampling` they also include the error of
the file as a simple random sample of a large population. The interval of a sum follows from the
distribution of its own noise (`dp_core.metrics.noise_quantiles`). Shares and means have Fieller's
interval, and their differences combine two of these.

The tables do not show where in its bin a value is. An estimate takes a density that is fitted to
the counts, and the interval includes how far this is usually wrong (`bin_errors`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dp_core.analysis.query.answer_notes import Undetermined, notes_of, outside_note
from dp_core.analysis.query.asked_counts import Asked, Counted, QueryCell
from dp_core.analysis.query.declared_sums import DeclaredAnswer, answer_declared, unused_declaration
from dp_core.analysis.query.distribution_answers import quantile_answers, spread_answers
from dp_core.analysis.query.possible_answers import check_informative, possible_answers
from dp_core.analysis.query.sources import NOTE, Sources, asked_groups
from dp_core.analysis.query.term_intervals import Answers, Intervals, Term
from dp_core.errors import BadInput
from dp_core.inference.questions.between_waves import read_any_question
from dp_core.inference.questions.question import Question
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.schema.definition import Schema

_ESTIMATED_AT = 0.95
"""Level of the intervals from which the weights of sums and of tables follow."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to a question.

    Attributes:
        question: The question as it was understood.
        columns: Columns that name the groups.
        cells: One answer for each group, in the order of the levels.
        level: Confidence level of the intervals.
        sampling: Whether they include the sampling error of the file.
        in_bins: Whether they include the error of bins, as for a number with bins of several
            values.
        notes: What the reader must know, in sentences.
        undetermined: Why there is no answer; None if there is one.
        counted: What is counted: `records` (the default) or, of linked tables, `households` or
            `persons`.
        declared: Whether it is computed from what was measured for a declared statistic, and from
            the tables if they determine it.
        of_sets: Whether the sets have a weight in some estimate.
    """

    question: Question
    columns: tuple[str, ...]
    cells: tuple[QueryCell, ...]
    level: float
    sampling: bool
    in_bins: bool = False
    notes: tuple[str, ...] = ()
    undetermined: Undetermined | None = None
    counted: Counted = "records"
    declared: bool = False
    of_sets: bool = False


def ask(sources: Sources, text: str, *, level: float = 0.95, sampling: bool = False) -> QueryResult:
    """Return the answer to a question about the file of a release, with its margin of error.

    Args:
        sources: What the release answers from (`sources_of`).
        text: The question (`dp_core.inference.questions.question_grammar`).
        level: Confidence level of the intervals; 0.95 by default.
        sampling: Whether intervals also include the error of the file as a simple random sample;
            False by default.

    Returns:
        The answer. If the tables do not determine it, `undetermined` says why.

    Raises:
        BadInput: if the text is not a question about this release.
    """
    question, asked, work = prepare_question(sources, text, level, sampling)
    if (declared := _from_declared(sources, asked, text, level, sampling)) is not None:
        return declared
    parts = terms_of(asked)
    absent = _absent(work, asked, parts)
    if absent is not None:
        if (drawn := _from_draws(sources, question, level, sampling)) is not None:
            return drawn
        return QueryResult(
            *(question, question.groups, (), level, sampling, asked.in_bins),
            undetermined=absent,
            counted=asked.counted,
        )
    possible = possible_answers(asked, parts)
    found = answers_of(work, asked, parts)
    _, lows, highs = possible.cut(found.without_bins)
    margins = np.maximum(highs - lows, 0.0) / 2
    ends = possible.cut(found.plain)
    if not asked.in_bins:
        margins = np.full(margins.shape, np.nan)
    cells = tuple(
        QueryCell(codes, *_plain(*numbers), possible=bool(allowed))
        for codes, *numbers, allowed in sorted(
            zip(asked.labels(), *ends, margins, possible.allowed, strict=True)
        )
    )
    notes = notes_of(
        *(sources, asked, cells),
        beyond=possible.outside(found.plain),
        uninformed=int(possible.uninformed(ends).sum()),
        of_sets=bool(found.of_sets.any()),
        sampling=sampling,
    )
    return QueryResult(
        question,
        question.groups,
        cells,
        level,
        sampling,
        asked.in_bins,
        (*notes, *unused_declaration(sources.declared, question, sampling=sampling)),
        counted=asked.counted,
        of_sets=bool(found.of_sets.any()),
    )


def prepare_question(
    sources: Sources, text: str, level: float, sampling: bool
) -> tuple[Question, Asked, Intervals]:
    """Return a question, its sums of counts, and what is known of them; arguments as for `ask`.

    Raises:
        BadInput: if the text is not a question about this release.
    """
    if not 0 < level < 1:
        raise BadInput(f"The level must be between 0 and 1, such as 0.95, not {level}.")
    question, asked = read_informative(text, sources.schema)
    if sampling and asked.counts_persons:
        raise BadInput(
            "--sampling is not available for a question about persons, because the file is a sample"
            " of households; leave it out."
        )
    return question, asked, Intervals(sources, level, sampling, asked.possible)


def read_informative(text: str, schema: Schema) -> tuple[Question, Asked]:
    """Return a question whose answer depends on the file, and its sums of counts.

    Raises:
        BadInput: if the text is not a question, or if every file has the same answer.
    """
    question = read_any_question(text, schema)
    asked = Asked.of(question, schema)
    asked.check_groups()
    check_informative(question, possible_answers(asked, terms_of(asked)))
    return question, asked


def _from_declared(
    sources: Sources, asked: Asked, text: str, level: float, sampling: bool
) -> QueryResult | None:
    """Return an answer from what was measured for a declared statistic; None if there is none.

    Estimates from sums and from tables are combined by precision (`DeclaredAnswer.combined`).
    """
    if sampling or not sources.declared:
        return None
    question = asked.question
    plain = replace(sources, declared=())

    def answered(level: float) -> tuple[DeclaredAnswer, DeclaredAnswer] | None:
        """Return the answers from what was declared alone, and those with the tables."""
        own = sources.declared, question, sources.schema, sources.pooled
        alone = answer_declared(*own, level=level)
        if alone is None:
            return None
        tables = ask(plain, text, level=level)
        cells = {each.codes: each for each in tables.cells}
        some = tables.undetermined is None
        both = alone.combined([cells[codes] for codes in alone.labels]) if some else alone
        return alone, both

    usual = answered(_ESTIMATED_AT)
    if usual is None:
        return None
    found = usual[1]
    if level != _ESTIMATED_AT and (other := answered(level)) is not None:
        # Neither the estimates nor the weights depend on the level.
        found = found.stretched(other[0].otherwise(other[1]), usual[0].otherwise(found))
    place = {codes: at for at, codes in enumerate(asked.labels())}
    places = [place[codes] for codes in found.labels]
    possible = possible_answers(asked, terms_of(asked)).at(places)
    stated = tuple(
        QueryCell(codes, *_plain(value, low, high, math.nan), possible=bool(allowed))
        for codes, value, low, high, allowed in zip(
            found.labels, *possible.cut(found.ends), possible.allowed, strict=True
        )
    )
    return QueryResult(
        question,
        question.groups,
        stated,
        level,
        sampling,
        notes=(*found.notes, *([outside_note(question)] if possible.outside(found.ends) else [])),
        declared=True,
    )


def _from_draws(
    sources: Sources, question: Question, level: float, sampling: bool
) -> QueryResult | None:
    """Return an answer from sets that consist of private draws; None if there is none."""
    asked = asked_groups(question, sources.schema)
    if sources.drawn is None or asked is None:
        return None
    column, groups = asked
    cells = []
    for codes in groups:
        found = sources.drawn.posterior(column, codes)
        if found is None:
            return None
        value = found.in_population if sampling else found.in_file
        own = codes if question.groups else ()
        cells.append(QueryCell(own, *value(level, count=question.measure == "count")))
    return QueryResult(question, question.groups, tuple(cells), level, sampling, notes=(NOTE,))


def answers_of(work: Intervals, asked: Asked, terms: Sequence[Sequence[Term]]) -> Answers:
    """Return the answers to a question.

    No interval of a mean or total goes beyond those of the answers with all values at one end of
    their bins (Horowitz & Manski 2000, J. Amer. Statist. Assoc. 95).

    Args:
        work: What is known of sums of counts.
        asked: The question.
        terms: Its terms (`terms_of`).
    """
    if asked.question.measure == "quantile":
        return quantile_answers(work, asked)
    if asked.question.is_of_spread:
        return spread_answers(work, asked)
    plain, of_sets = work.answer(terms[0])
    if len(terms) == 1:
        return Answers(plain, plain, of_sets)
    without, _ = work.answer(terms[0], bins=False)
    ((_, least, _), _), ((_, _, most), _) = (work.answer(each) for each in terms[1:])
    value, low, high = plain
    low = np.maximum(low, np.minimum(least, without[1]))
    high = np.minimum(high, np.maximum(most, without[2]))
    return Answers((value, low, high), without, of_sets)


def terms_of(asked: Asked) -> list[list[Term]]:
    """Return the terms of the answer and, if bins matter, of the smallest and largest possible."""
    if asked.question.measure == "quantile" or asked.question.is_of_spread:
        return [[Term(asked.by_bin())]]
    if asked.earlier is not None:
        return _terms_of_waves(asked, asked.earlier)
    found = [_parts(asked)]
    if asked.in_bins:
        low, high = asked.bounds
        found += [_parts(asked, (low, high)), _parts(asked, (high, low))]
    return found


def _absent(work: Intervals, asked: Asked, parts: Sequence[Sequence[Term]]) -> Undetermined | None:
    """Return why the answer is not determined; each wave of a change has tables of its own."""
    if asked.earlier is not None:
        for side in (0, 1):
            found = work.absent([[terms[side]] for terms in parts], asked.counted)
            if found is not None:
                return found
    return work.absent(parts, asked.counted)


def _terms_of_waves(later: Asked, earlier: Asked) -> list[list[Term]]:
    """Return the terms of a change: those of a difference, each with its own columns."""
    found = [[*_parts(later), *_parts(earlier)]]
    if later.in_bins:
        (low, high), (its_low, its_high) = later.bounds, earlier.bounds
        for mine, its in ((low, its_high), (high, its_low)):
            found.append([*_parts(later, (mine, mine)), *_parts(earlier, (its, its))])
    return found


def _parts(asked: Asked, values: tuple[Floats, Floats] | None = None) -> list[Term]:
    """Return the terms of the answer: one, or the two of a difference.

    Args:
        asked: The question on the measured columns.
        values: For a mean or total: the value of each code in the first term, and in the second.
            Defaults to the mean value of each bin.
    """
    question = asked.question
    groups = question.between or ((),)
    found: list[Term] = []
    for place, group in enumerate(groups):
        match question.measure:
            case "count":
                found.append(Term(asked.counts((*question.of, *group))))
            case "total" | "mean":
                own = np.nan_to_num(asked.values if values is None else values[place])
                known = asked.has_value if question.measure == "mean" else None
                bottom = None if known is None else asked.counts(group, values=known)
                top, by_bin = asked.counts(group, values=own), own[: asked.number_column.bins]
                in_bins = asked.in_bins and values is None
                found.append(Term(top, bottom, asked, group, by_bin, in_bins))
            case "ratio":
                found.append(Term(asked.counts(question.of), asked.counts(question.to)))
            case "share":
                # `share by a` divides the whole; `share of a by b` divides each group of b.
                inside = question.by if question.of or question.levels_of else ()
                whole = asked.counts(group, by=inside)
                found.append(Term(asked.counts((*question.of, *group)), whole))
            case other:
                raise AssertionError(f"A {other} has no terms.")
    return found


def _plain(
    value: float, low: float, high: float, margin: float
) -> tuple[float | None, float | None, float | None, float | None]:
    if not (math.isfinite(low) and math.isfinite(high)):
        return None, None, None, None
    return float(value), float(low), float(high), None if math.isnan(margin) else float(margin)
