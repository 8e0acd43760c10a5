"""Sensitivities for one unit of privacy, derived from those for one row.

Every statistic proves how far *one row* moves it, for any number of rows. `of_unit` derives how far
a person with at most k rows moves it. Calibration, planning and verification all use `of_unit`.
"""

from __future__ import annotations

from collections.abc import Callable

from dp_core.schema.privacy import Neighbours, Relation

Bounds = tuple[int, int, int]
"""Largest change of an entry, L1 and squared L2 sensitivity of all entries."""


def of_unit(relation: Relation, of_row: Callable[[Neighbours], Bounds]) -> Bounds:
    """Return the sensitivities for one unit from those for one row.

    Args:
        relation: Of the release.
        of_row: Sensitivities for one row more or less, or one row replaced, whatever the number of
            rows is. It raises where it has no bound.

    Privacy:
        Two neighbours are joined by a chain of at most k = `max_rows` files, each of which differs
        from the one before by one step of `relation.steps`. By the triangle inequality the change
        of an entry, and the L1 and L2 norms of the change of all, are at most k times the largest
        of a step: k^2 times the largest squared L2 norm. With k = 1 they are those of the row.

        For a table of counts under replace-one: 2 k in the L1 norm and sqrt(2) k in the L2 norm.
        Both are reached if k rows of one cell are replaced by k rows of another.

        A bound for a fixed number of rows, such as that of mutual information, refuses add-remove.
        So it is never used if a person may have several rows.

    >>> of_unit(Relation("replace-one", 4), lambda rows: (1, 1, 1) if rows == "add-remove" else (
    ...     1, 2, 2))
    (4, 8, 32)
    """
    found = [of_row(step) for step in relation.steps]
    # privacy: as many steps as a person has rows; a squared norm takes their square.
    k = relation.max_rows
    change, l1, l2_squared = (max(each) for each in zip(*found, strict=True))
    return k * change, k * l1, k**2 * l2_squared


def count_bounds(relation: Relation) -> Bounds:
    """Return the sensitivities of one table of counts: each row is in one cell of it."""
    return of_unit(relation, _count)


def count_l1(relation: Relation) -> int:
    """L1 sensitivity of one table of counts.

    >>> [count_l1(Relation("add-remove", k)) for k in (1, 2, 5)]
    [1, 2, 5]
    >>> [count_l1(Relation("replace-one", k)) for k in (1, 2, 5)]
    [2, 4, 10]
    """
    return count_bounds(relation)[1]


def count_l2_squared(relation: Relation) -> int:
    """Squared L2 sensitivity of one table of counts.

    >>> [count_l2_squared(Relation("replace-one", k)) for k in (1, 2, 5)]
    [2, 8, 50]
    """
    return count_bounds(relation)[2]


def _count(rows: Neighbours) -> Bounds:
    """Return the bounds for one row: one cell moves by 1, or two if a row is replaced."""
    return (1, 1, 1) if rows == "add-remove" else (1, 2, 2)
