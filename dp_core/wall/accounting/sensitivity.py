"""Sensitivities for one unit of privacy, derived from those for one row.

Every statistic proves how much *one row* can change it, for any number of rows in the file.
`of_unit` derives how much a person with at most k rows can change it. Calibration, planning and
verification all use `of_unit`.
"""

from __future__ import annotations

from collections.abc import Callable

from dp_core.schema.privacy import Neighbours, Relation

Bounds = tuple[int, int, int]
"""Largest change of one entry, L1 sensitivity and squared L2 sensitivity of all entries."""


def of_unit(relation: Relation, of_row: Callable[[Neighbours], Bounds]) -> Bounds:
    """Return the sensitivities for one unit from those for one row.

    Args:
        relation: Neighbouring relation of the release, with the largest number of rows of a unit.
        of_row: Returns the sensitivities for one row added or removed (`add-remove`) or one row
            replaced (`replace-one`), for any number of rows in the file. It raises an exception if
            it has no bound.

    Privacy:
        At most k = `max_rows` steps lead from a file to a neighbouring one, and each is one of
        `relation.steps`. By the triangle inequality the change of an entry, and the L1 and L2 norms
        of the change of all entries, are at most k times the largest of one step. The squared L2
        norm is at most k^2 times the largest. With k = 1 they are those of one row.

        A table of counts under replace-one has L1 sensitivity 2 k and L2 sensitivity sqrt(2) k.
        Both are attained if k rows of one cell are replaced by k rows of another.

        A bound for a fixed number of rows, such as that of mutual information, raises an exception
        for add-remove. So it is never used if a person may have several rows.

    >>> of_unit(Relation("replace-one", 4), lambda rows: (1, 1, 1) if rows == "add-remove" else (
    ...     1, 2, 2))
    (4, 8, 32)
    """
    found = [of_row(step) for step in relation.steps]
    # privacy: a person with k rows is k steps; the squared norm grows by k^2.
    k = relation.max_rows
    change, l1, l2_squared = (max(each) for each in zip(*found, strict=True))
    return k * change, k * l1, k**2 * l2_squared


def count_bounds(relation: Relation) -> Bounds:
    """Return the sensitivities of one table of counts, in which each row is in one cell."""
    return of_unit(relation, _count)


def count_l1(relation: Relation) -> int:
    """Return the L1 sensitivity of one table of counts, records.

    >>> [count_l1(Relation("add-remove", k)) for k in (1, 2, 5)]
    [1, 2, 5]
    >>> [count_l1(Relation("replace-one", k)) for k in (1, 2, 5)]
    [2, 4, 10]
    """
    return count_bounds(relation)[1]


def count_l2_squared(relation: Relation) -> int:
    """Return the squared L2 sensitivity of one table of counts, records squared.

    >>> [count_l2_squared(Relation("replace-one", k)) for k in (1, 2, 5)]
    [2, 8, 50]
    """
    return count_bounds(relation)[2]


def _count(rows: Neighbours) -> Bounds:
    """Return the bounds for one row: one cell changes by 1, or two cells if a row is replaced."""
    return (1, 1, 1) if rows == "add-remove" else (1, 2, 2)
