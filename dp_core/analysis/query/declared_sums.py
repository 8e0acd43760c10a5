"""Means, totals and quantiles from what a release measured for declared statistics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dp_core.analysis.query.asked_counts import Asked, QueryCell
from dp_core.bundle.reading import Bundle
from dp_core.client.released import Totals
from dp_core.inference.count_intervals import fieller
from dp_core.inference.formulas.analysed_values import with_analysed_values
from dp_core.inference.formulas.declared_statistic import declared_statistic, is_statistic
from dp_core.inference.questions.question import Question
from dp_core.methods.declared_statistics.quantile_tree import tree_answers, tree_quantiles
from dp_core.methods.declared_statistics.sum_answers import GroupSums, answers_of, group_sums
from dp_core.methods.declared_statistics.value_table import ValueTable, tables_of, trees_of
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.pooled_functionals import (
    covariance,
    estimate,
    unobserved,
)
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.noise_quantiles import central_quantile, effective_draws
from dp_core.schema.definition import Column, Schema


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredSums:
    """What was measured of one number by groups.

    Attributes:
        table: The number and its groups.
        column: The number, stored on its grid.
        answers: Noisy answers to its questions.
        quantiles: Whether they are counts from which quantiles are answered, not sums.
    """

    table: ValueTable
    column: Column
    answers: tuple[Totals, ...]
    quantiles: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredAnswer:
    """An answer from declared sums.

    Attributes:
        labels: Codes of each group, columns as in `Question.groups`.
        values: Estimates, in the unit of the column.
        lows, highs: Ends of the intervals; infinite where they are not determined.
        notes: What the reader must know, in sentences.
    """

    labels: tuple[tuple[int, ...], ...]
    values: Floats
    lows: Floats
    highs: Floats
    notes: tuple[str, ...]

    @property
    def ends(self) -> tuple[Floats, Floats, Floats]:
        """The estimates, and the ends of their intervals."""
        return self.values, self.lows, self.highs

    def combined(self, others: Sequence[QueryCell]) -> Self:
        """Return the mean of these answers and others, each weighted by the other's squared margin.

        Their noise is taken as independent: the counts of groups, which both use, are hardly
        uncertain. A difference beyond this answer's margin is attributed to bins: the square of the
        other margin is at least that of the difference less that of this margin. Where this answer
        is not determined, the other takes its place.

        Args:
            others: The other answer of each group.
        """
        ends = [(cell.estimate, cell.low, cell.high) for cell in others]
        value, low, high = np.array(ends, dtype=np.float64).reshape(len(self.labels), 3).T
        own = np.maximum(self.highs - self.values, self.values - self.lows)
        other = np.maximum(high - value, value - low)
        alone, some = np.isnan(value), np.isfinite(own)
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = value - self.values
            least = np.sqrt(np.maximum(apart**2 - own**2, 0.0))
            other = np.maximum(other, least)
            weight = np.where(own > 0, own**2 / (own**2 + other**2), 0.0)
            values = self.values + weight * apart
            below, above = (
                np.hypot((1 - weight) * mine, weight * np.maximum(its, least))
                for mine, its in (
                    (self.values - self.lows, value - low),
                    (self.highs - self.values, high - value),
                )
            )
        both = values, values - below, values + above
        values, lows, highs = (
            np.where(alone, mine, np.where(some, mean, its))
            for mine, mean, its in zip(self.ends, both, (value, low, high), strict=True)
        )
        notes = (*self.notes, "It is combined with the answer from the tables, by precision.")
        return replace(self, values=values, lows=lows, highs=highs, notes=notes)

    def otherwise(self, other: DeclaredAnswer) -> Self:
        """Return the answers, and others where these are not determined."""
        known = np.isfinite(self.lows) & np.isfinite(self.highs)
        pairs = zip(self.ends, other.ends, strict=True)
        values, lows, highs = (np.where(known, *each) for each in pairs)
        return replace(self, values=values, lows=lows, highs=highs)

    def stretched(self, other: DeclaredAnswer, usual: DeclaredAnswer) -> Self:
        """Return the answers with intervals that are longer as those from one source are.

        Args:
            other: Answers from one source at the level that is wanted.
            usual: The same at the level of these answers; where they are not determined, the
                intervals stay.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            low = (other.values - other.lows) / (usual.values - usual.lows)
            high = (other.highs - other.values) / (usual.highs - usual.values)
            low, high = (np.where(np.isfinite(each), each, 1.0) for each in (low, high))
            lows = self.values - low * (self.values - self.lows)
            highs = self.values + high * (self.highs - self.values)
        return replace(self, lows=lows, highs=highs)


def declared_sums(bundle: Bundle) -> tuple[DeclaredSums, ...]:
    """Return what a release measured for its declared statistics."""
    schema = bundle.claims.schema.coarse or bundle.claims.schema
    sentences = [text for text in bundle.declared_texts if is_statistic(text)]
    if not sentences:
        return ()
    statistics = [declared_statistic(text, schema) for text in sentences]
    stored = with_analysed_values(schema, bundle.declared_texts)
    found = []
    for table in tables_of(statistics, stored):
        answers = answers_of(table, bundle.measured)
        if answers is not None:
            found.append(DeclaredSums(table, stored.column(table.column), answers))
    for table in trees_of(statistics, stored):
        answers = tree_answers(table, bundle.measured)
        if answers is not None:
            own = DeclaredSums(table, stored.column(table.column), answers, quantiles=True)
            found.append(own)
    return tuple(found)


def answer_declared(
    sums: Sequence[DeclaredSums],
    question: Question,
    schema: Schema,
    pooled: Pooled,
    *,
    level: float,
) -> DeclaredAnswer | None:
    """Return the answer to a question from what was declared; None if nothing declared has it.

    A question may have fewer groups than the declared statistic, and conditions on its groups.

    Args:
        sums: What the release measured.
        question: The question.
        schema: The published schema as written.
        pooled: The noisy tables, which also tell the number of records.
        level: Confidence level of the intervals.
    """
    if question.measure not in ("mean", "total", "quantile") or question.between is not None:
        return None
    wanted = question.measure == "quantile"
    needed = {*question.by, *(each.column for each in question.where)}
    fitting = [
        each
        for each in sums
        if each.quantiles == wanted
        and each.table.column == question.number
        and needed <= {*each.table.by}
    ]
    if not fitting:
        return None
    # The table with the fewest groups has the least noise.
    best = min(fitting, key=lambda each: each.table.groups)
    table = best.table
    labels, weights = _groups(table, question)
    if not labels:
        return None
    known = _group_counts(table, schema, pooled)
    if wanted:
        values, lows, highs = tree_quantiles(
            *(table, best.column, best.answers, weights),
            *(float(question.quantile or 0), level, known),
        )
        note = (
            "Answered from counts of narrow ranges that were measured for the declared quantiles of"
            f" {_table_words(table)}."
        )
        return DeclaredAnswer(labels, values, lows, highs, (note,))
    counts, shape, layers, sums_ = best.answers
    found = group_sums(table, counts, shape, layers, sums_, known).added(weights)
    lows, highs, values = _intervals(found, question.measure, level)
    return DeclaredAnswer(labels, values, lows, highs, _notes(best, found, question))


def unused_declaration(
    sums: Sequence[DeclaredSums], question: Question, *, sampling: bool, change: bool = False
) -> tuple[str, ...]:
    """Return a note if a question is answered from tables although its number was declared.

    Args:
        sums: What was measured for the declared statistics.
        question: The question.
        sampling: Whether the intervals include the sampling error.
        change: Whether the answer is a change between releases; False by default.
    """
    if question.measure not in ("mean", "total", "quantile"):
        return ()
    own = [each for each in sums if each.table.column == question.number]
    own = [each for each in own if each.quantiles == (question.measure == "quantile")]
    if not own:
        return ()
    why = "this question needs other groups or conditions than were declared"
    if change:
        why = "changes between releases are answered from the tables"
    elif question.between is not None:
        why = "differences are answered from the tables"
    elif sampling:
        why = "--sampling is answered from the tables"
    by = [f"by {', '.join(each.table.by)}" if each.table.by else "for all records" for each in own]
    return (
        f"Answered from the tables, although statistics of {question.number} were declared"
        f" ({'; '.join(dict.fromkeys(by))}): {why}. The interval can be much wider than that of a"
        " declared statistic.",
    )


def _group_counts(
    table: ValueTable, schema: Schema, pooled: Pooled
) -> tuple[Floats, Floats] | None:
    """Return counts of the groups from the noisy tables, and their variances; None if unknown."""
    asked = Asked(Question(measure="mean", number=table.column, by=table.by), schema)
    functionals = asked.counts((), values=asked.has_value)
    if unobserved(pooled, functionals):
        return None
    labels = asked.labels()
    order = sorted(range(len(labels)), key=labels.__getitem__)
    if len(order) != table.groups:
        return None
    counts = estimate(pooled, functionals).ravel()[order]
    return counts, np.maximum(covariance(pooled, functionals, functionals).ravel()[order], 0.0)


def _groups(table: ValueTable, question: Question) -> tuple[tuple[tuple[int, ...], ...], Floats]:
    """Return the codes of each group of a question, and the table's groups that it consists of."""
    places = [table.by.index(name) for name in question.by]
    allowed = [
        {*range(size)}.intersection(*(one.codes for one in question.where if one.column == name))
        for name, size in zip(table.by, table.shape, strict=True)
    ]
    labels = tuple(itertools.product(*(sorted(allowed[place]) for place in places)))
    row = {codes: number for number, codes in enumerate(labels)}
    weights = np.zeros((len(labels), table.groups))
    for number, codes in enumerate(itertools.product(*(range(size) for size in table.shape))):
        if all(code in own for code, own in zip(codes, allowed, strict=True)):
            weights[row[tuple(codes[place] for place in places)], number] = 1.0
    return labels, weights


def _intervals(found: GroupSums, measure: str, level: float) -> tuple[Floats, Floats, Floats]:
    """Return the lower ends of the intervals, the upper ends, and the estimates."""
    quantile = central_quantile(level, effective_draws(found.variance, found.fourth))
    if measure == "total":
        half = quantile * np.sqrt(found.variance) + found.allowance
        return found.totals - half, found.totals + half, found.totals
    # The bias allowance is an error of the total in either direction.
    ends = [
        fieller(
            found.totals + side * found.allowance,
            found.counts,
            found.variance,
            found.counts_variance,
            found.covariance,
            quantile,
        )[place]
        for place, side in enumerate((-1.0, 1.0))
    ]
    values = np.full(found.totals.shape, np.nan)
    np.divide(found.totals, found.counts, out=values, where=found.counts > 0)
    unknown = ~(np.isfinite(ends[0]) & np.isfinite(ends[1]))
    low, high = (
        np.where(unknown, side * math.inf, end) for side, end in zip((-1, 1), ends, strict=True)
    )
    return low, high, values


def _three_digit_text(number: float) -> str:
    """Return a number with three significant digits."""
    return f"{float(f'{number:.3g}'):,.0f}" if number >= 100 else f"{number:.3g}"


def _table_words(table: ValueTable) -> str:
    return f"{table.column} by {', '.join(table.by)}" if table.by else table.column


def _notes(sums: DeclaredSums, found: GroupSums, question: Question) -> tuple[str, ...]:
    first = (
        f"Answered from sums that were measured for the declared {question.measure} of"
        f" {_table_words(sums.table)}, from the numbers' own values and not from the schema's bins."
    )
    limits = sorted({float(each) for each in found.limits})
    span = (
        f"{_three_digit_text(limits[0])} to {_three_digit_text(limits[-1])}"
        if len(limits) > 1
        else _three_digit_text(limits[0])
    )
    beyond = float(found.beyond.sum())
    records = (
        f"About {_three_digit_text(beyond)} records are" if beyond >= 1.5 else "About 1 record is"
    )
    if beyond < 0.5:
        records = "Probably no record is"
    second = (
        f"Values were clipped to limits of {span}, which were chosen from noisy counts. {records}"
        " beyond them. The amount that clipping removed is estimated from noisy counts, and the"
        " interval allows for an error of this estimate. The interval does not cover a record that"
        " is far larger than all others, because a private answer cannot reveal one."
    )
    return first, second
