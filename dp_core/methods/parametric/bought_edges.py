"""Bin edges of numeric columns, chosen privately near quantiles of the file at a charge."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dp_core.schema.variables import Variable
from dp_core.wall.statistics import Quantile

if TYPE_CHECKING:
    from dp_core.wall.curator import Curator


def number_bought(variable: Variable, wanted: int) -> int:
    """Return how many edges are bought of a column: as many as wanted, if there are positions."""
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
    """Return positions that cut a column's records into parts of about equal numbers.

    The column is cut at its median, each side at its own and so on (Kaplan, Schnapp & Stemmer
    2022): so the edges ascend and differ, and a cut errs by no more records than the range has that
    it cuts. Where one side has too few positions for its edges, the other gets them: a value that
    many records share takes one edge and not all.

    Args:
        curator: Chooses each cut by the exponential mechanism.
        step: Name, unique within the release's stage and replicate.
        variable: Of numbers; missing ones count for no cut.
        number: Edges to buy, as of `number_bought`.
        cost: Budget of all of them together.
        replicate: As of `Curator.measure`.

    Returns:
        Positions between 1 and `positions` - 1, ascending.

    Privacy:
        `number` choices of cost/number each. (Ranges that were cut apart share no record, so their
        choices could be charged together; they are not, which costs accuracy only.)
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
        # A part has a position at least, on either side.
        left = min(max(left, parts - (high - cut)), cut - low)
        ranges += [(low, cut, left, 2 * place), (cut, high, parts - left, 2 * place + 1)]
        found.append(cut)
    return tuple(sorted(found))
