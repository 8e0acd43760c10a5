"""Private looks at pairs: by their distances from products, and in wide files by a forest.

*Distances from products.* InDif compares a pair with the product of its own exact columns, so one
record moves it by up to 4. The product of noisy one-way tables is public. One record moves the
distance from it by 1 only, so the noise is a quarter (under replace-one, a third). In return, the
noise of the one-way tables looks like dependence. Its expected size is known.

*Wide files* have too many pairs to score each of them well. First, some pairs of columns are scored
that nothing singles out. If they depend, many pairs do, and scores of all pairs tell more than
their noise hides. Otherwise few pairs can depend strongly. Then a forest of them is chosen
privately, and only its edges are scored.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.questions.table_distance import TableDistance
from dp_core.methods.selection.budget.chance import Chance
from dp_core.methods.selection.budget.dependence import expected_near_products, usual
from dp_core.methods.selection.candidates.model_errors import GRID
from dp_core.methods.selection.candidates.pairs import (
    DISTANCES,
    Look,
    ask_dependences,
    dependences,
    look,
    most_dependent,
)
from dp_core.methods.selection.candidates.strongest_forest import Gains, strongest_forest
from dp_core.methods.selection.selector import Dependences

if TYPE_CHECKING:
    from dp_core.kernel.curator import Curator


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


_MOST_CELLS = 2**24  # of all pairs together, whose products are held in memory
_TELLING = 2.0  # largest noise of a score, relative to the usual dependence of pairs
_SCATTER = math.sqrt(math.pi / 2 - 1)  # standard deviation of |z|, relative to its mean


def look_at_products(
    curator: Curator, domain: Domain, pairs: Sequence[Clique], gains: Gains, cost: Fraction
) -> Look | None:
    """Return the expected dependences of pairs, whose noisy distances `select` pays for.

    Args:
        curator: The only way to ask about the data.
        domain: All columns.
        pairs: The pairs.
        gains: The estimated one-way tables.
        cost: Budget of all distances together, in the release's currency; spent exactly if the
            result is not None.

    Returns:
        None, and nothing is asked, if noise would hide the usual dependence of pairs, or if the
        products have too many cells for memory.
    """
    if not pairs or sum(domain.size(pair) for pair in pairs) > _MOST_CELLS:
        return None
    distances = product_distances(pairs, gains)
    stddev = curator.statistic_noise(distances, cost).stddev
    if stddev > _TELLING * usual(gains.rows) * GRID:
        return None
    noisy = curator.perturb("select", DISTANCES, distances, cost)
    added, scatter = np.array([_noise_of_columns(gains, pair) for pair in pairs]).T
    found = expected_near_products(
        noisy / GRID,
        np.hypot(stddev / GRID, scatter),
        gains.rows,
        added=added,
        most=most_dependent(domain, pairs, gains.rows),
    )
    asked = Dependences(
        tuple(pairs), tuple(noisy.tolist()), stddev, unit=GRID, added=tuple(added.tolist())
    )
    return Look(dict(zip(pairs, found.tolist(), strict=True)), asked)


def product_distances(pairs: Sequence[Clique], gains: Gains) -> TableDistance:
    """Return the distance of each pair from the product of its columns' estimated tables.

    Its unit is 1/`GRID` record. One record moves each entry by 1 record (2 if it is replaced): it
    is in one cell of each pair, and the products are public.
    """
    return TableDistance(
        cliques=tuple(pairs),
        answers=tuple(np.rint(GRID * gains.product(pair)).astype(np.int64) for pair in pairs),
        grid=GRID,
        weights=(1,) * len(pairs),
        offsets=(0,) * len(pairs),
    )


def _noise_of_columns(gains: Gains, pair: Clique) -> tuple[float, float]:
    """Return what the noise of the columns adds to an independent pair: mean and deviation.

    The noise of a column of p levels has p - 1 independent parts.
    """
    parts = [gains.apart(name) for name in pair]
    free = [max(gains.columns[name].size - 1, 1) for name in pair]
    mean = math.hypot(*parts)
    squares = math.hypot(*(part**2 / math.sqrt(its) for part, its in zip(parts, free, strict=True)))
    return mean, _SCATTER * squares / mean if mean else 0.0
