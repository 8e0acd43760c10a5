"""A private look at a wide file, which has too many pairs to score each of them well.

First, some pairs of columns are scored that nothing singles out. If they depend, many pairs do, and
scores of all pairs tell more than their noise hides. Otherwise few pairs can depend strongly. Then
a forest of them is chosen privately, and only its edges are scored.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dp_core.methods.selection.budget.chance import Chance
from dp_core.methods.selection.candidates.pairs import (
    Look,
    ask_dependences,
    dependences,
    look,
)
from dp_core.methods.selection.candidates.strongest_forest import Gains, strongest_forest
from dp_core.tables.domain import Clique, Domain
from dp_core.wall.statistics import InDif

if TYPE_CHECKING:
    from dp_core.wall.curator import Curator

CHOICES = Fraction(9, 20)
"""Part of the budget that chooses the forest, if one is chosen."""
SCORES = Fraction(9, 10)
"""Part of the budget of the scores of all pairs, if these are asked for; the rest is the first."""
_CLEAR = 2.5  # standard errors by which usual pairs must depend more than by chance


def look_at_wide(
    curator: Curator,
    domain: Domain,
    every: InDif,
    gains: Gains,
    chance: Chance,
    cost: Fraction,
    *,
    max_cells: int,
    many_depend: Callable[[float], bool],
) -> Look:
    """Return the expected dependences of all pairs, or of a forest of strongly dependent ones.

    Args:
        curator: The only way to ask about the data.
        domain: All columns.
        every: Scores of all pairs.
        gains: Scores by which a forest is chosen.
        chance: Sampling deviations of the file.
        cost: Budget, in the release's currency; spent exactly.
        max_cells: Largest number of cells of a pair.
        many_depend: Returns whether all pairs are worth scoring if they depend as much as usual
            pairs do, in records.
    """
    rows = gains.rows
    usual = dependences(matched_columns(domain, max_cells))
    typical, left, clear = 0.0, cost, False
    if usual is not None:
        left = SCORES * cost
        first = ask_dependences(curator, usual, cost - left, step="usual pairs")
        mean = max(float(np.mean(first.values)), 0.0)
        by_chance = float(np.mean([chance.pair(pair) for pair in usual.pairs]))
        typical = math.sqrt(max(mean**2 - by_chance**2, 0.0))
        clear = mean > by_chance + _CLEAR * first.stddev / math.sqrt(len(first.values))
    if clear and many_depend(typical):
        return look(curator, domain, every, left, rows)
    choices = CHOICES * cost
    forest = strongest_forest(curator, domain, gains, choices, max_cells=max_cells)
    found = look(curator, domain, dependences(forest), left - choices, rows)
    return dataclasses.replace(found, forest=forest, typical=typical)


def matched_columns(domain: Domain, max_cells: int) -> tuple[Clique, ...]:
    """Return pairs of columns half of the file apart, of which no two have a column in common.

    Nothing singles them out, while neighbours in a file often belong together.

    >>> matched_columns(Domain(tuple("abcde"), (2, 3, 2, 90, 2)), 100)
    (('a', 'c'),)
    """
    half = len(domain) // 2
    pairs = zip(domain.columns[:half], domain.columns[half:], strict=False)
    return tuple(pair for pair in pairs if domain.size(pair) <= max_cells)
