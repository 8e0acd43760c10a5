"""How far the rows of one unit of privacy move what is computed: decided here, and nowhere else.

What is proven of every statistic is how far *one row* moves it, for any number of rows. From that
`of_unit` makes what a person of at most k rows can do, and whoever calibrates noise, plans a
release, or verifies one, asks it.
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

        A table of counts, under replace-one: 2 k by the L1 norm and sqrt(2) k by the L2 norm, and
        no less: k rows in one cell that are replaced by k in another.

        A bound that holds for one number of rows only, as that of mutual information does, raises
        for a row more or less, and so is not used where a person may have several.

    >>> of_unit(Relation("replace-one", 4), lambda rows: (1, 1, 1) if rows == "add-remove" else (
    ...     1, 2, 2))
    (4, 8, 32)
    """
    found = [of_row(step) for step in relation.steps]
    # privacy: never fewer steps than a person has rows; with a squared norm their square.
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
    """One cell moves by 1, or two do when a row is replaced."""
    return (1, 1, 1) if rows == "add-remove" else (1, 2, 2)
