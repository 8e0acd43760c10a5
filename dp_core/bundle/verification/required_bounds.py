"""The sensitivities that a question must be charged for, from its description in a receipt alone.

Receipts of scores state only what decides their sensitivity. So a question with the stated numbers
and any others has the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dp_core.kernel.cost.sensitivity import Bounds, in_shares, of_unit
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions import DRAWN
from dp_core.kernel.privacy import Neighbours, Relation
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.kernel.questions.query_scores import QueryCounts
from dp_core.kernel.questions.statistic import Statistic, Sum, check_codes
from dp_core.kernel.questions.vetted import bounds, check_in_shares, kind_of_question

_NO_QUERIES, _NO_NUMBERS = Cells((), ()), np.zeros(0, dtype=np.int64)
_ONE_CELL = np.zeros((), dtype=np.int64)


def required(
    document: Mapping[str, Any], relation: Relation, domain: Domain | None = None
) -> Bounds:
    """Return the bounds of a statistic from its description alone, to verify a receipt.

    Args:
        document: The statistic as a receipt describes it; it is trusted only to name what was
            computed.
        relation: The release's neighbouring relation.
        domain: Columns and numbers of codes that the statistic must be about; None if unknown.

    Returns:
        The largest change of an entry, and the L1 and squared L2 sensitivity of all entries, of
        the values that were drawn: in shares, if a unit has several.

    Raises:
        ValueError: or another error of `GARBAGE`, if it describes no statistic on the list, or one
            of other columns or codes.
        BadInput: see `bounds` and `asked_in_shares`.
    """
    name = document["name"]
    kind = kind_of_question(name, document.get("about"))
    if name in DRAWN:
        raise ValueError(f"No statistic of the name {name!r} has a proven sensitivity.")
    check_in_shares(kind, relation)
    if name not in _STATED:
        question = kind.read(document)
        # Receipts of the others describe only what decides their sensitivity.
        if domain is not None and isinstance(question, Sum | QueryCounts):
            check_codes(question, domain)
        return in_shares(relation, bounds(question, relation))
    like = _STATED[name](kind, document)
    checked = name == "table-checks"
    length = len(document["tables"]) if checked else _whole(document, "length")

    def of_row(rows: Neighbours) -> Bounds:
        change = like.largest_change(rows)
        return change, change * length, change**2 * length

    return in_shares(relation, of_unit(relation, of_row))


_Like = Callable[[Any, Mapping[str, Any]], Statistic]


def _of_distance(kind: Any, stated: Mapping[str, Any]) -> Statistic:
    grid, weight = _whole(stated, "grid", least=1), _whole(stated, "weight", least=1)
    return kind(((),), (_ONE_CELL,), grid, (weight,), (0,))  # type: ignore[no-any-return]


def _of_information(kind: Any, stated: Mapping[str, Any]) -> Statistic:
    rows, grid = _whole(stated, "rows", least=1), _whole(stated, "grid", least=1)
    if type(stated["binary"]) is not bool:
        raise ValueError("The field 'binary' must be true or false.")
    return kind((), rows, grid, stated["binary"])  # type: ignore[no-any-return]


def _of_quantile(kind: Any, stated: Mapping[str, Any]) -> Statistic:
    part, of = _whole(stated, "part", least=1), _whole(stated, "of", least=2)
    return kind(column="", low=0, high=2, part=part, of=of)  # type: ignore[no-any-return]


def _of_checks(kind: Any, stated: Mapping[str, Any]) -> Statistic:
    tables = stated["tables"]
    # privacy: the sensitivity grows with the number of tables, and an empty list has none.
    if type(tables) is not list or not tables or not all(type(t) is list for t in tables):
        raise ValueError("Checked tables must be a non-empty list of lists of columns.")
    return kind(((),), (_ONE_CELL,))  # type: ignore[no-any-return]


_STATED: Mapping[str, _Like] = {
    **dict.fromkeys(("indif", "f-score", "r-score"), lambda kind, _: kind(())),
    "mutual-information": _of_information,
    "cosine-tails": lambda kind, _: kind(column="", edges=(0, 1), prices=(0,)),
    "cut-deviations": lambda kind, _: kind(column="", edges=(0, 1, 2), low=0, high=2),
    "quantile": _of_quantile,
    "query-distance": lambda kind, stated: kind(
        _NO_QUERIES, _NO_NUMBERS, _whole(stated, "grid", least=1)
    ),
    "signed-queries": lambda kind, stated: kind(
        _NO_QUERIES, _whole(stated, "factor", least=1), _NO_NUMBERS, _NO_NUMBERS
    ),
    "table-distance": _of_distance,
    "table-checks": _of_checks,
}
"""Of each score, a question that has the sensitivity of a described one."""


def _whole(document: Mapping[str, Any], key: str, *, least: int = 0) -> int:
    """Return a whole number of at least `least`."""
    value = document[key]
    # privacy: too small a grid or weight would give too small a sensitivity.
    if type(value) is not int or value < least:
        raise ValueError(f"{key!r} must be a whole number of at least {least}.")
    return value
