"""Which codes a sum takes its columns to have: these must be the ones that the file has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dp_core.tables.domain import Domain
from dp_core.wall.statistics.record_sum import Sum
from dp_core.wall.statistics.regressions.features import Features, Number
from dp_core.wall.statistics.regressions.gradients import ClassGradient, NumberGradient
from dp_core.wall.statistics.regressions.minimisers import ClassMinimiser
from dp_core.wall.statistics.sums.binned_counts import BinnedCounts
from dp_core.wall.statistics.sums.interactions import Interaction
from dp_core.wall.statistics.sums.moments import CellCounts, CellSums, Products

_Claim = tuple[str, int, bool]
"""A column, a number of codes, and whether these are grid positions, beside which one may mean
missing."""


def check_codes(sum: Sum, domain: Domain) -> None:
    """Refuse a sum whose columns are not those of a domain, with as many codes.

    The bounds of a sum are proven for codes below the sizes and positions that it states.

    Raises:
        TypeError: if it is of a class of which this does not know what it states.
        ValueError: if a column is not there, or has another number of codes.
    """
    sizes = dict(zip(domain.columns, domain.sizes, strict=True))
    missing = [name for name in sum.clique if name not in sizes]
    if missing:
        raise ValueError(f"{sum.NAME} is asked of {missing[0]!r}, which is no column.")
    for name, codes, numeric in _claims(sum):
        # privacy: a code that a sum does not expect would be added where no bound looked.
        if codes != sizes[name] and not (numeric and codes == sizes[name] - 1):
            what = "positions" if numeric else "codes"
            raise ValueError(
                f"{sum.NAME} takes {name!r} to have {codes} {what}; it has {sizes[name]} codes."
            )


def _claims(sum: Sum) -> Iterator[_Claim]:
    match sum:
        case BinnedCounts() | Interaction():
            yield from _each(sum.columns, sum.sizes, numeric=False)
        case CellCounts():
            yield from _each(sum.by, sum.sizes, numeric=False)
            yield from _each(sum.numbers, sum.positions, numeric=True)
        case CellSums():
            yield from _each(sum.by, sum.sizes, numeric=False)
            yield sum.column, sum.positions, True
        case Products():
            yield from _each(sum.by, sum.sizes, numeric=False)
            yield from _each(sum.columns, sum.positions, numeric=True)
        case NumberGradient():
            yield sum.target.name, sum.target.positions, True
            yield from _of_features(sum.features)
        case ClassGradient() | ClassMinimiser():
            yield sum.column, sum.missing_from or sum.classes, bool(sum.missing_from)
            yield from _of_features(sum.features)
        case _:
            raise TypeError(f"It is not known which codes {type(sum).__name__} expects.")


def _of_features(features: Features) -> Iterator[_Claim]:
    for each in features.all:
        if isinstance(each, Number):
            yield each.name, each.positions, True
        else:
            yield each.name, each.size, False


def _each(names: Sequence[str], codes: Sequence[int], *, numeric: bool) -> Iterator[_Claim]:
    return ((name, each, numeric) for name, each in zip(names, codes, strict=True))
