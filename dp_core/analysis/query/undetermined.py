"""What the published tables do not determine, and the margin that a table of it would have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_core.errors import BadInput
from dp_core.schema.privacy import Relation
from dp_core.tables.domain import Clique, Domain
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.sensitivity import count_l1, count_l2_squared

SHARE = Fraction(1, 10)
"""Share of a release's budget for which the margin of a missing table is stated."""


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


def undetermined(
    domain: Domain,
    parts: Sequence[Clique],
    needed: Clique,
    *,
    relation: Relation,
    currency: Currency | None,
    has_sets: bool = True,
    more: str = "",
    counted: str = "records",
) -> Undetermined:
    """Return why a question is not determined.

    Args:
        domain: All measured columns.
        parts: Parts that no measurement observed, at least one.
        needed: Columns of a table that would determine the answer.
        relation: Neighbouring relation of the release.
        currency: Currency of the release with its total; None if unknown.
        has_sets: Whether the release has synthetic sets; True by default.
        more: A further sentence; empty by default.
        counted: What the question counts; `records` by default.
    """
    least = tuple(
        part for part in parts if not any({*other} < {*part} for other in parts if other != part)
    )
    table = _needed(domain, needed, relation, currency) if needed else None
    unit = "records" if counted == "records" else "households"
    words = [_absent(part, unit) for part in least[:3]]
    if len(least) > 3:
        words.append(f"and {len(least) - 3} more groups of columns are missing")
    sentence = f"Not determined: {'; '.join(words)}."
    if needed:
        named = " x ".join(needed)
        sentence += f" The question needs a table of {named}"
        if table is not None:
            margin = f"{table.margin:,.0f}" if table.margin >= 10 else f"{table.margin:.2g}"
            sentence += (
                f" ({table.cells:,} cells): with a tenth of this release's budget, each of its"
                f" counts would have a margin of ±{margin} {unit} (95 %)"
            )
        sentence += "."
        if has_sets and counted == "persons":
            sentence += (
                " The synthetic sets have what was measured of these columns; how it differs by the"
                " size of the household is the model's assumption."
            )
        elif has_sets:
            sentence += (
                " The synthetic sets do not answer it either: there they follow the model's"
                " assumption."
            )
    return Undetermined(least, table, f"{sentence} {more}".rstrip())


def _absent(part: Clique, unit: str) -> str:
    if not part:
        return f"no published table gives the number of {unit}"
    if len(part) == 1:
        return f"no published table counts {part[0]} (it was not measured)"
    return (
        f"no published table has {', '.join(part[:-1])} and {part[-1]} together (they were not"
        " measured)"
    )


def _needed(
    domain: Domain, needed: Clique, relation: Relation, currency: Currency | None
) -> NeededTable | None:
    if currency is None:
        return None
    try:
        noise = currency.noise(
            SHARE * currency.limit, l1=count_l1(relation), l2_squared=count_l2_squared(relation)
        )
    except (ValueError, BadInput):
        return None
    return NeededTable(needed, domain.size(needed), float(SHARE), noise.half_width)
