"""What the reader of an answer must know, one sentence each, or why there is no answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_core.analysis.query.asked_counts import Asked, Counted, QueryCell
from dp_core.analysis.query.bin_errors import bias_of, records_by_bin
from dp_core.analysis.query.sources import Sources
from dp_core.client.noise_scale import noise_for
from dp_core.errors import BadInput
from dp_core.inference.questions.question import Question
from dp_core.inference.spread_measures import SPREAD_MEASURES
from dp_core.kernel.cost.sensitivity import count_l1, count_l2_squared
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from dp_core.methods.reconstruction.estimates.pooled_functionals import unobserved
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column

_UNUSED = {
    "answers": "single answers",
    "sparse": "tables of which only cells above a threshold were published",
    "totals": "sums",
}
SHARE = Fraction(1, 10)
"""Share of a release's budget for which the margin of a missing table is stated."""
MOVED = (
    "An estimate that the noise put outside the possible values was moved to the nearest possible"
    " one, with its interval."
)
"""What became of an answer that is cut to the possible values."""


@dataclass(frozen=True, slots=True)
class NeededTable:
    """A table that would determine the answer.

    Attributes:
        columns: Columns of the table.
        cells: Number of its cells.
        share: Share of the release's budget for which the noise is stated.
        margin: 95 % margin of error of one of its counts at that share, in records; of linked
            tables, in households.
    """

    columns: Clique
    cells: int
    share: float
    margin: float


@dataclass(frozen=True, slots=True)
class Undetermined:
    """Why a question has no answer in the published tables.

    Attributes:
        missing: The smallest groups of columns that no table has together.
        needed: The table that would answer the question; None if its noise cannot be stated.
        sentence: All this in words.
    """

    missing: tuple[Clique, ...]
    needed: NeededTable | None
    sentence: str


def notes_of(
    sources: Sources,
    asked: Asked,
    cells: Sequence[QueryCell] = (),
    *,
    beyond: bool,
    uninformed: int = 0,
    of_sets: bool = False,
    sampling: bool,
) -> tuple[str, ...]:
    """Return the notes on an answer.

    Args:
        sources: What it was answered from.
        asked: The question on the measured columns.
        cells: The answer of each group; empty (the default) for a side of a change.
        beyond: Whether the noise put an estimate outside the possible values.
        uninformed: Number of groups whose interval contains every possible value; 0 by default.
        of_sets: Whether the sets have a weight in some estimate; False by default.
        sampling: Whether the intervals include the error of the file as a simple random sample.
    """
    known = [cell for cell in cells if cell.determined]
    exact = bool(cells) and all(cell.margin == 0 for cell in cells) and not asked.in_bins
    found = (
        *_of_totals(sources, exact),
        *_of_bins(sources, asked, [cell.from_bins for cell in known] if asked.in_bins else []),
        *_of_quantile(asked, known),
        *(
            [
                "This combines the noisy tables with the synthetic sets, weighted by precision; the"
                " sets have no noise in empty cells."
            ]
            if of_sets
            else []
        ),
        *(() if exact else _of_areas(sources, asked)),
        *_notes(sources, asked, cells, beyond, uninformed),
        # The sets follow sums.
        *([unused_sentence(sources)] if sources.unused and not of_sets else []),
    )
    if asked.earlier is not None:
        found = (*_of_waves(asked), *found)
    if sampling and asked.schema.states_design:
        found += (
            "The sampling error assumes a simple random sample. To use the sample design in the"
            " schema, fit a regression with `infer --design`.",
        )
    return found


def why_undetermined(
    sources: Sources, sums: Sequence[Functionals], counted: Counted
) -> Undetermined | None:
    """Return why some sums are not determined; None if all are.

    Args:
        sources: What the question is answered from.
        sums: The sums of counts that it needs.
        counted: What it counts.
    """
    parts = list(dict.fromkeys(p for each in sums for p in unobserved(sources.pooled, each)))
    if not parts:
        return None
    least = tuple(part for part in parts if not any({*other} < {*part} for other in parts))
    unit = "records" if counted == "records" else "households"
    words = [_unmeasured_words(part, unit) for part in least[:3]]
    if len(least) > 3:
        words.append(f"and {len(least) - 3} more groups of columns are missing")
    sentence = f"Not determined: {'; '.join(words)}."
    weights = (pair for each in sums for pair in zip(each.columns, each.weights, strict=True))
    columns = {name for name, each in weights if (each != each[:, :1]).any()}
    needed = tuple(name for name in sources.schema.domain.columns if name in columns)
    table = _needed_table(sources, needed) if needed else None
    if needed:
        sentence += f" The question needs a table of {' x '.join(needed)}"
        if table is not None:
            margin = f"{table.margin:,.0f}" if table.margin >= 10 else f"{table.margin:.2g}"
            sentence += (
                f" ({table.cells:,} cells): with a tenth of this release's budget, each of its"
                f" counts would have a margin of ±{margin} {unit} (95 %)"
            )
        sentence += "."
        if sources.has_sets and counted == "persons":
            sentence += (
                " The synthetic sets have what was measured of these columns; how it differs by the"
                " size of the household is the model's assumption."
            )
        elif sources.has_sets:
            sentence += (
                " The synthetic sets do not answer it either: there they follow the model's"
                " assumption."
            )
    return Undetermined(least, table, f"{sentence} {unused_sentence(sources)}".rstrip())


def _unmeasured_words(part: Clique, unit: str) -> str:
    if not part:
        return f"no published table gives the number of {unit}"
    if len(part) == 1:
        return f"no published table counts {part[0]} (it was not measured)"
    return (
        f"no published table has {', '.join(part[:-1])} and {part[-1]} together (they were not"
        " measured)"
    )


def _needed_table(sources: Sources, needed: Clique) -> NeededTable | None:
    """Return a table with its margin; None if its noise cannot be stated."""
    relation, currency = sources.relation, sources.currency
    if currency is None:
        return None
    l1, l2_squared = count_l1(relation), count_l2_squared(relation)
    try:
        noise = noise_for(currency, SHARE * currency.limit, l1=l1, l2_squared=l2_squared)
    except (ValueError, BadInput):
        return None
    cells = sources.schema.domain.size(needed)
    return NeededTable(needed, cells, float(SHARE), noise.half_width)


def unused_sentence(sources: Sources) -> str:
    """Return a sentence about measurements that answers do not use; empty if there are none."""
    if not sources.unused:
        return ""
    kinds = " and ".join(_UNUSED[kind] for kind in sources.unused)
    return f"The release also has {kinds}, which `query` does not use."


def outside_note(question: Question) -> str:
    """Return what an estimate outside the possible values means, and what became of it."""
    if question.adds_up:
        return (
            "The noise put an estimate outside the possible values, such as below 0. Counts, shares"
            " and totals are not cut, because sums of cut estimates are biased."
        )
    return MOVED


def _notes(
    sources: Sources, asked: Asked, cells: Sequence[QueryCell], beyond: bool, uninformed: int
) -> Iterator[str]:
    question, schema = asked.question, asked.schema
    if any(cell.possible and not cell.determined for cell in cells):
        yield (
            "Groups without a margin are not determined at this noise: their number of records"
            " cannot be distinguished from 0."
        )
    if beyond:
        yield outside_note(question)
    if uninformed and question.number not in question.by:  # a group of its levels is informed
        several = math.prod(len(rows) for rows in asked.groups) > 1
        yield (
            f"{f'In {uninformed:,} of the groups, the' if several else 'The'} interval contains"
            " every possible value: the tables carry no information about it."
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
        yield from _of_number(schema.column(question.number))
    if schema.weight is not None:
        yield (
            f"Records are counted without the survey weights ({schema.weight.name}): this describes"
            " the file, not the population."
        )
    if schema.linked is not None and asked.counts_persons:
        yield (
            f"Persons are counted: each noisy count of households is multiplied by its {MEMBERS},"
            " and so is its noise."
        )
    elif schema.linked is not None:
        yield "Households are counted. A question that names a column of persons counts persons."
    if sources.relation.max_rows > 1:
        yield (
            f"Rows beyond {sources.relation.max_rows} of one {schema.unit.word} were dropped before"
            " counting."
        )


def _of_totals(sources: Sources, exact: bool) -> Iterator[str]:
    """Yield which public totals were used, and which contradict the noisy tables."""
    used, unused = (
        "; ".join(each.in_words for each in totals) for totals in (sources.totals, sources.distant)
    )
    if used and exact:
        yield (
            "The answer follows from public totals, without noise. It is exact if they are those of"
            f" the file, which was not compared with them: {used}."
        )
    elif used:
        yield (
            "These public totals are taken as exact counts of the file, which was not compared with"
            f" them; the margins are valid if they are: {used}."
        )
    if unused:
        yield (
            "These public totals are not used, because they differ from the noisy tables by more"
            f" than the noise explains: {unused}."
        )


def _of_areas(sources: Sources, asked: Asked) -> Iterator[str]:
    """Yield a note on the levels of areas that the counts combine, if smaller areas are used."""
    nested = asked.schema.domain.nested
    names = () if nested is None else nested.columns
    place = next((name for name in asked.columns if name in names), None)
    rest = tuple(name for name in asked.columns if name != place)
    areas = None if place is None else sources.pooled.areas(rest)
    if place is None or areas is None:
        return
    depth = names.index(place) + 1
    told = zip(names, areas.told[1:], strict=False)
    below = [name for name, seen in told if seen and names.index(name) >= depth]
    if not below:
        return
    smaller = " and ".join(below)
    if depth < areas.levels and areas.told[depth]:
        yield (
            f"Each count combines the tables of {place} and the sums over {smaller} areas, weighted"
            " by their precision."
        )
    elif len(below) == 1:
        yield f"Each count is the sum over its {smaller} areas, and has the noise of all of them."
    else:
        yield (
            f"Each count combines the sums over its {smaller} areas, weighted by their precision."
        )


def _of_number(column: Column) -> Iterator[str]:
    if column.out_of_range != "reject":
        scale = column.scale
        less = 0 if column.type.continuous else 1
        low, high = (
            column.edges[0] if column.minimum is None else column.minimum,
            column.edges[-1] - less if column.maximum is None else column.maximum,
        )
        became = "moved to the nearest bound" if column.out_of_range == "clip" else "made missing"
        yield (
            f"Values of {column.name} outside {scale.text(low)} to {scale.text(high)}"
            f" were {became} before counting."
        )
    if column.missing_code is not None:
        yield f"Records with missing {column.name} are left out."


def _bin_words(column: Column, measure: str) -> str:
    """Return what an estimate does with the values within a bin."""
    if measure in SPREAD_MEASURES:
        even = column.within is None and column.choice is None
        return f"uses the mean and the variance of {'even values' if even else 'a density'} in bins"
    density = "a density fitted to the counts"
    within, mean = f"follow {density}", f"the mean of {density}"
    if column.choice is not None:
        parts = "the noisy counts of its parts"
        within, mean = f"are spread like {parts}", f"its mean, estimated from {parts}"
    elif column.within is None:
        within, mean = "are spread evenly", "its midpoint"
    if measure == "quantile":
        return f"assumes that values within each bin {within}"
    return f"represents each bin by {mean}"


def _of_waves(asked: Asked) -> Iterator[str]:
    """Yield how a change between waves of a panel is to be read."""
    panel = asked.schema.panel
    assert panel is not None
    yield "If the interval of a change contains 0, the change is within its margin of error."
    if not panel.balanced:
        yield (
            "Each wave counts the persons who take part in it. Part of a change may come from"
            " persons who take part in one of the two waves only."
        )


def _of_quantile(asked: Asked, known: Sequence[QueryCell]) -> Iterator[str]:
    """Yield that some interval of a quantile reaches the first or last possible value."""
    if asked.question.measure != "quantile":
        return
    column = asked.number_column
    if column.levels:
        low, high = 0.0, column.bins - 1.0
        names = [column.code_labels()[code] for code in (0, column.bins - 1)]
    else:
        low, high = asked.bounds[0][0], asked.bounds[1][column.bins - 1]
        names = [column.scale.text(each) for each in legal_range(column)]
    ends = [(c.low, c.high) for c in known if c.low is not None and c.high is not None]
    reached = [
        f"{name}, the {word} possible value,"
        for name, word, met in (
            (names[0], "first", any(low >= each for each, _ in ends)),
            (names[1], "last", any(high <= each for _, each in ends)),
        )
        if met
    ]
    if reached:
        yield (
            f"An interval that reaches {' or '.join(reached)} is not bounded by the tables on that"
            " side."
        )


def _of_bins(sources: Sources, asked: Asked, from_bins: Sequence[float]) -> Iterator[str]:
    """Yield how much of the intervals comes from bins, and what would reduce it.

    Args:
        sources: What the question was answered from.
        asked: The question on the measured columns.
        from_bins: Part of each interval's width that comes from bins.
    """
    if not from_bins:
        return
    column = asked.number_column
    several = len(from_bins) > 1
    least, most = (math.floor(100 * find(from_bins)) for find in (min, max))
    if most > 0:
        part = f"{most}" if least == most else f"{least} to {most}"
        which = "these intervals" if several else "this interval"
        yield (
            f"Without the error of bins, {which} would be {part} % shorter: the tables do not show"
            f" where in its bin a value of {column.name} is.{_widest(sources, asked, column)}"
            f" {'Narrower' if column.choice is None else 'More'} bins in the schema of a later"
            f" release make {'them' if several else 'it'} shorter."
        )
    yield (
        f"The estimate {_bin_words(column, asked.question.measure)}. The interval covers the usual"
        " error of this; the margin without bins does not. Neither covers values that are rounded"
        " to more than a tenth of the width of a bin."
    )


def _widest(sources: Sources, asked: Asked, column: Column) -> str:
    """Return a sentence about the bin that widens the intervals most; empty if there is only one.

    The bins are those of all groups together. There is no sentence about a quantile or a measure of
    spread, in which the bins have other weights, and none if the groups are bins of the column.
    """
    question = asked.question
    if column.name in question.by or question.measure not in ("mean", "total"):
        return ""
    groups = question.between or ((),)
    each = [records_by_bin(sources, asked, group) for group in groups]
    records = np.sum([one.reshape(-1, column.bins).sum(axis=0) for one in each], axis=0)
    widens = records * bias_of(sources.pooled, asked).doubts(records)
    if np.count_nonzero(records) < 2 or widens.max() <= 0:
        return ""
    code = int(np.argmax(widens))
    held = 100 * records[code] / records.sum()
    return (
        f" The bin {column.code_labels()[code]} adds most to this error, and has"
        f" {held:{'.0f' if held >= 10 else '.2g'}} % of the records."
    )
