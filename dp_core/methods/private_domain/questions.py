"""The questions of the stage `domain`: noisy counts that are all planned beforehand.

Bins of a number: counts of its positions in groups of several widths (`quantile_tree`). Levels: one
count per level. In each table of counts a record is in one cell, so the sensitivities are those of
a histogram, every currency can pay for them, and the release states its losses exactly. The answers
decide which bins and levels later stages ask about, but not the number of their questions and
cells, nor their cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_core.client.noise_scale import NoiseScale, noise_for
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.questions.linear_questions import BinnedCounts
from dp_core.methods.private_domain.quantile_tree import group_edges, widths
from dp_core.schema.definition import Column, Schema

if TYPE_CHECKING:
    from dp_core.client.curator import Curator
    from dp_core.client.released import Totals

SHARE, DRAWN_SHARE = Fraction(1, 20), Fraction(1, 5)
"""Default shares of the budget: in general, and if levels that are not kept are drawn again, for
which these counts are the only source."""
_BIN_ERROR = 1.75
"""Standard deviation of a bin's error if there are several widths, relative to that of one count
times the root of the number of widths. It is the largest value of `benchmarks/private_bins.py
--error`, rounded up."""


def default_share(schema: Schema) -> Fraction:
    """Return the default share of the stage; 0 if nothing is chosen privately."""
    choices = [column.choice for column in schema.private if column.choice is not None]
    if any(choice.drawn for choice in choices):
        return DRAWN_SHARE
    return SHARE if choices else Fraction(0)


@dataclass(frozen=True, slots=True)
class Question:
    """One table of counts about a column.

    Attributes:
        column: Name of the column.
        step: Name of the charge; unique, and part of a file name.
        what: The counts to release.
        share: Part of the stage's budget.
    """

    column: str
    step: str
    what: BinnedCounts
    share: Fraction


def questions(schema: Schema) -> tuple[Question, ...]:
    """Return all questions of the stage in order; empty if nothing is chosen privately."""
    found = []
    for number, column in enumerate(schema.private, start=1):
        asked = _counts(column)
        share = Fraction(1, len(schema.private) * len(asked))
        found += [
            Question(column.name, f"column-{number}-{depth}", what, share)
            for depth, what in enumerate(asked, start=1)
        ]
    return tuple(found)


def ask(curator: Curator, schema: Schema, cost: Fraction) -> tuple[Totals, ...]:
    """Return the noisy answers to all questions; a repeated call returns the paid answers.

    Args:
        curator: Curator for the codes of `Schema.stored`.
        schema: Schema with privately chosen bins or levels.
        cost: Budget of the stage, spent exactly.

    Privacy:
        Each question is one event of exactly its part of `cost`, through the curator.
    """
    return tuple(
        curator.total("domain", each.step, each.what, cost * each.share)
        for each in questions(schema)
    )


@dataclass(frozen=True, slots=True)
class PlannedChoice:
    """The private choice of a column's bins or levels, and its expected accuracy.

    Attributes:
        column: Name of the column.
        of: `bins` or `levels`.
        number: Number of bins, or of levels kept.
        among: Number of grid positions, or of levels to choose from.
        cost: Budget of the choice, in the release's currency.
        noise: Noise of each count.
        within: Half the width of the central 95 % range of the number of rows of a bin or level.
        groups: Levels only: number of groups of the others if they are drawn again, otherwise 0.
    """

    column: str
    of: str
    number: int
    among: int
    cost: Fraction
    noise: NoiseScale
    within: float
    groups: int = 0

    def in_words(self) -> str:
        """Return the plan's description of the choice."""
        rows = f"about {_round_to_two_digits(self.within):,} rows"
        if self.of == "levels":
            number = "" if self.number == 1 else f"{self.number:,} "
            found = (
                f"{self.column}: the {number}most frequent of {self.among:,} levels, by"
                f" counts that are within {rows}"
            )
            if self.groups:
                groups = "1 group" if self.groups == 1 else f"{self.groups:,} groups"
                found += (
                    f"; the others are {groups} in the tables, and are drawn again by these counts,"
                    " independently of other columns"
                )
            return found
        return (
            f"{self.column}: {self.number} bins, each holds its {ordinal(self.number)} of the rows"
            f" to within {rows} (more where many share one value)"
        )


def planned_choices(
    schema: Schema, currency: Currency, cost: Fraction, *, l1: int, l2_squared: int
) -> tuple[PlannedChoice, ...]:
    """Return the planned private choices and their expected accuracy.

    Args:
        schema: Schema of the release.
        currency: Currency of the release.
        cost: Budget of the stage.
        l1: L1 sensitivity of a histogram.
        l2_squared: Squared L2 sensitivity of a histogram.
    """
    found = []
    asked = questions(schema)
    for column in schema.private:
        mine = [each for each in asked if each.column == column.name]
        assert column.choice is not None
        noise = noise_for(currency, cost * mine[0].share, l1=l1, l2_squared=l2_squared)
        levels = bool(column.levels)
        # With one width a bin's count is a sum over positions, each with its own noise.
        alone = math.sqrt(column.choice.among.bins / column.bins)
        spread = alone if len(mine) == 1 else _BIN_ERROR * math.sqrt(len(mine))
        within = 1.96 * spread * noise.stddev
        found.append(
            PlannedChoice(
                column=column.name,
                of="levels" if levels else "bins",
                number=column.bins - len(column.choice.groups),
                among=column.choice.among.bins,
                cost=sum((cost * each.share for each in mine), Fraction(0)),
                noise=noise,
                within=noise.half_width if levels else within,
                groups=len(column.choice.groups) if column.choice.drawn else 0,
            )
        )
    return tuple(found)


def ordinal(number: int) -> str:
    """Return the fraction 1/`number` in words.

    >>> ordinal(2), ordinal(12), ordinal(30)
    ('half', 'twelfth', '1/30')
    """
    words = (
        *("half", "third", "quarter", "fifth", "sixth", "seventh"),
        *("eighth", "ninth", "tenth", "eleventh", "twelfth"),
    )
    return words[number - 2] if number - 2 < len(words) else f"1/{number}"


def _round_to_two_digits(value: float) -> int:
    """Return a number of rows rounded to two digits."""
    size = int(10 ** max(0, math.floor(math.log10(max(value, 1.0))) - 1))
    return max(1, math.ceil(value / size) * size)


def _counts(column: Column) -> Sequence[BinnedCounts]:
    assert column.choice is not None
    among = column.choice.among
    if column.levels:
        edges: list[tuple[int, ...] | None] = [None]
    else:
        # Missing values have a cell of their own at every width.
        end = () if among.missing_code is None else (among.size,)
        edges = [(*group_edges(among.bins, width), *end) for width in widths(among.bins)]
    return [
        BinnedCounts(columns=(column.name,), sizes=(among.size,), edges=(each,)) for each in edges
    ]
