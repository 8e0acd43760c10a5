"""Privately chosen bin edges of numeric columns, near quantiles of the file."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dp_core.schema.variables import Variable
from dp_core.wall.statistics import Quantile

if TYPE_CHECKING:
    from dp_core.wall.curator import Curator


def number_bought(variable: Variable, wanted: int) -> int:
    """Return the number of edges to choose: `wanted`, or fewer if the column has few positions."""
    return min(wanted, variable.positions - 1) if variable.numeric else 0


def buy_edges(
    curator: Curator,
    step: str,
    variable: Variable,
    number: int,
    cost: Fraction,
    *,
    replicate: int,
) -> tuple[int, ...]:
    """Return positions that divide a column's records into parts of about equal size.

    The column is cut at its median, each side at its own median and so on (Kaplan, Schnapp &
    Stemmer 2022). So the edges are distinct, and the error of a cut is at most the number of
    records of the range that it cuts. If one side has too few positions for its edges, the other
    side gets them: a value that many records share takes one edge and not all.

    Args:
        curator: Chooses each cut by the exponential mechanism.
        step: Name, unique within the release's stage and replicate.
        variable: A numeric column; missing values are ignored.
        number: Number of edges to choose, from `number_bought`.
        cost: Budget of all edges together, in the release's currency.
        replicate: Index of the independent measurement, 0 if shared.

    Returns:
        Positions between 1 and `positions` - 1, ascending.

    Privacy:
        `number` choices of cost/number each. (Disjoint ranges share no record, so their choices
        could be charged in parallel. They are charged separately, which costs accuracy only.)
    """
    found: list[int] = []
    # Ranges that are still to be cut: first position, end, number of parts, place in the tree.
    ranges = [(0, variable.positions, number + 1, 1)]
    while ranges:
        low, high, parts, place = ranges.pop()
        if parts == 1:
            continue
        left = parts // 2
        share = Fraction(left, parts)
        statistic = Quantile(
            column=variable.name, low=low, high=high, part=share.numerator, of=share.denominator
        )
        chosen = curator.choose(
            "measure", f"{step}-{place}", statistic, cost / number, replicate=replicate
        )
        cut = low + 1 + chosen
        # Every part needs at least one position, so each side gets at most as many parts as
        # positions.
        left = min(max(left, parts - (high - cut)), cut - low)
        ranges += [(low, cut, left, 2 * place), (cut, high, parts - left, 2 * place + 1)]
        found.append(cut)
    return tuple(sorted(found))
