"""Sensitivities for one unit of privacy, derived from those for one row.

Every statistic proves how much *one row* can change it, for any number of rows in the file.
`of_unit` derives how much a person with at most k rows can change it. Calibration, planning and
verification all use `of_unit`.

Where households are the units, exact counts are in shares. `of_unit` then states sensitivities in
households, as planning needs them; `in_shares` converts them to sensitivities in shares, as the
requests and verification need them.
"""

from __future__ import annotations

from collections.abc import Callable

from dp_core.kernel.privacy import Neighbours, Relation

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

        With shares, these are the bounds for one share added or replaced, in shares. If the
        statistic grows in proportion to the counts, they are also those for one household, in
        households.

    >>> of_unit(Relation("replace-one", 4), lambda rows: (1, 1, 1) if rows == "add-remove" else (
    ...     1, 2, 2))
    (4, 8, 32)
    """
    found = [of_row(step) for step in relation.steps]
    # privacy: a person with k rows is k steps; the squared norm grows by k^2.
    k = relation.max_rows
    change, l1, l2_squared = (max(each) for each in zip(*found, strict=True))
    return k * change, k * l1, k**2 * l2_squared


def in_shares(relation: Relation, found: Bounds) -> Bounds:
    """Return the sensitivities for one unit of values computed from counts in shares.

    Args:
        relation: Neighbouring relation of the release, with the number S of shares of a unit.
        found: What `of_unit` returns for this relation.

    Returns:
        S times the largest change, S times the L1 sensitivity, and S^2 times the squared L2
        sensitivity; `found` itself if a unit has one share.

    Privacy:
        To a statistic a file counted in shares is a file of rows, each of which is in one cell of
        every table: a share has the codes of its pair row. Its proof for one row therefore bounds
        the change by one share, for any number of shares in the file.

        A household has exactly S shares (`dp_core.kernel.counting.household_counter`). So S steps
        lead from a file to a neighbouring one, each of the single kind in `relation.steps`. Let
        D_1, ..., D_S be the changes of the vector of all entries in these steps. By the triangle
        inequality the change of an entry is at most the sum of its changes in the steps, at most S
        times the largest, and ||D_1 + ... + D_S|| <= ||D_1|| + ... + ||D_S|| <= S max ||D_i|| in
        the L1 and in the L2 norm. The squared L2 norm is at most S^2 times the largest. This is the
        argument of `of_unit` for a person of S rows.

        A table of counts attains the bound: the S shares of a household whose members are all alike
        are in one cell of a table over one member's columns, those of any household in one cell of
        a table over household columns.

        The kernel draws noise for these sensitivities, in shares; its client divides the values and
        the noise's scale by S afterwards. That is post-processing by a public number. So the public
        side sees values in households with the noise of `found`, as if a household were a row.

    >>> in_shares(Relation("replace-one", shares=12), (1, 2, 2))
    (12, 24, 288)
    """
    change, l1, l2_squared = found
    # privacy: a household is `shares` rows of a file of shares; the squared norm grows by S^2.
    return relation.shares * change, relation.shares * l1, relation.shares**2 * l2_squared


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
