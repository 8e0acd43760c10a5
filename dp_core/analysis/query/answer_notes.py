"""What the reader of an answer must know, one sentence each."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dp_core.analysis.query.asked_counts import Asked
from dp_core.analysis.query.sources import Sources
from dp_core.bundle.quality.bin_bias import heavy_bin
from dp_core.methods.reconstruction.estimates.pooled_functionals import Floats, estimate
from dp_core.schema.bin_edges import value_text
from dp_core.schema.bin_values import BinValues
from dp_core.schema.definition import Column
from dp_core.schema.dependencies import scale_of

_UNUSED = {
    "answers": "single answers",
    "sparse": "tables of which only cells above a threshold were published",
    "totals": "sums",
}


def notes_of(
    sources: Sources, asked: Asked, *, unbounded: bool, negative: bool, sampling: bool
) -> tuple[str, ...]:
    """Return the notes on an answer.

    Args:
        sources: What it was answered from.
        asked: The question on the measured columns.
        unbounded: Whether some group has no bounded interval.
        negative: Whether a count or share was estimated below 0.
        sampling: Whether the intervals include the error of the file as a simple random sample.
    """
    found = tuple(_notes(sources, asked, unbounded, negative))
    if sampling and asked.schema.states_design:
        found += (
            "The sampling error assumes a simple random sample. To use the sample design in the"
            " schema, fit a regression with `infer --design`.",
        )
    return found


def unused_sentence(sources: Sources) -> str:
    """Return a sentence about measurements that answers do not use; empty if there are none."""
    if not sources.unused:
        return ""
    kinds = " and ".join(_UNUSED[kind] for kind in sources.unused)
    return f"The release also has {kinds}, which `query` does not use."


def _notes(sources: Sources, asked: Asked, unbounded: bool, negative: bool) -> Iterator[str]:
    question, schema = asked.question, asked.schema
    if unbounded:
        yield (
            "Groups without a margin are not determined at this noise: their number of records"
            " cannot be distinguished from 0."
        )
    if negative:
        yield (
            "Estimates are not cut off at 0, so that their sums stay unbiased. An estimate below 0"
            " means a small count."
        )
    yield from dict.fromkeys(each.note for each in question.conditions if each.note)
    if question.measure == "share":
        parts = [question.levels_of, *(each.column for each in question.of)]
        with_missing = [
            name
            for name in dict.fromkeys(filter(None, parts))
            if schema.column(name).missing_code is not None
            and not any(each.column == name for each in question.where)
        ]
        for name in with_missing:
            yield (
                f"The denominator includes records with missing {name}; `where {name} is not"
                " missing` leaves them out."
            )
    if question.number is not None:
        yield from _of_number(sources, asked, schema.column(question.number))
    if schema.weight is not None:
        yield (
            f"Records are counted without the survey weights ({schema.weight.name}): this describes"
            " the file, not the population."
        )
    if sources.relation.max_rows > 1:
        yield (
            f"Rows beyond {sources.relation.max_rows} of one {schema.unit.word} were dropped before"
            " counting."
        )
    if sources.unused:
        yield unused_sentence(sources)


def _of_number(sources: Sources, asked: Asked, column: Column) -> Iterator[str]:
    reach = asked.reach
    if reach.any():
        largest = float(np.max(_bin_error(sources, asked), initial=0.0))
        unit = " days" if column.kind == "date" else ""
        yield (
            f"The tables count bins of {column.name}, not values. Each bin is represented by"
            f" {_stands(column)}. The margin does not include the resulting error, which is at most"
            f" {_plain(largest)}{unit}."
        )
        yield from _heavy(sources, column)
    if column.out_of_range != "reject":
        scale = scale_of(column)
        less = 0 if column.kind == "number" else 1
        low, high = (
            column.edges[0] if column.minimum is None else column.minimum,
            column.edges[-1] - less if column.maximum is None else column.maximum,
        )
        became = "moved to the nearest bound" if column.out_of_range == "clip" else "made missing"
        yield (
            f"Values of {column.name} outside {value_text(low, scale)} to {value_text(high, scale)}"
            f" were {became} before counting."
        )
    if column.missing_code is not None:
        yield f"Records with missing {column.name} are left out."


def _plain(value: float) -> str:
    """Return a number with three significant digits and no exponent.

    >>> _plain(83412.0), _plain(0.1234), _plain(0.0)
    ('83,400', '0.123', '0')
    """
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, digits):,.{max(digits, 0)}f}"


def _stands(column: Column) -> str:
    """Return a phrase for the value that represents each bin."""
    if column.choice is not None:
        return "its mean, estimated from the noisy counts of its parts"
    return "its midpoint" if column.within is None else "the mean of a density fitted to the counts"


def _heavy(sources: Sources, column: Column) -> Iterator[str]:
    """Yield a sentence about the bin whose density decides most about the mean, if any does."""
    pooled, clique = sources.pooled, (column.name,)
    counts, variance = pooled.counts(clique), pooled.variance(clique)
    if counts is None or variance is None:
        return
    code = heavy_bin(column, counts, math.sqrt(variance))
    if code is None:
        return
    known = np.maximum(counts[: column.bins], 0.0)
    means = BinValues.of(column)
    part = known / known.sum()
    of_sum = part * means.mean()
    held = ""
    if (means.mean() >= 0).all() and of_sum.sum() > 0 and column.kind != "date":
        held = f" and about {100 * of_sum[code] / of_sum.sum():.0f} % of the sum"
    yield (
        "This answer depends on the density assumed within the bin"
        f" {column.code_labels()[code]}, which contains {100 * part[code]:.1f} % of the records"
        f"{held}."
    )


def _bin_error(sources: Sources, asked: Asked) -> Floats:
    """Return the largest possible error of each answer from the width of the bins.

    Each record's value is within `reach` of the value used for it. So the error of a total is at
    most the sum of `reach` over the records, and that of a mean is at most the mean of `reach`.
    Both are estimated from the tables, within the bounds that `reach` implies.
    """
    question, reach = asked.question, asked.reach
    pooled = sources.pooled
    found = np.zeros(1)
    for group in question.between or ((),):
        counted = asked.counts(group, values=(~np.isnan(asked.values)).astype(np.float64))
        records = np.maximum(estimate(pooled, counted), 0.0)
        off = np.maximum(estimate(pooled, asked.counts(group, values=reach)), 0.0)
        if question.measure == "mean":
            ratio = np.full(off.shape, float(reach.max()))
            np.divide(off, records, out=ratio, where=records > 0)
            off = np.clip(ratio, float(reach.min(where=reach > 0, initial=0.0)), reach.max())
        else:
            off = np.minimum(off, records * reach.max())
        found = found + off
    return found
