"""How far one row moves a table of counts."""

from __future__ import annotations

from dp_core.privacy import Neighbours


def count_l1(neighbours: Neighbours) -> int:
    """L1 sensitivity of one table of counts: one cell moves by 1, or two when a row is replaced.

    >>> count_l1("add-remove"), count_l1("replace-one")
    (1, 2)
    """
    return 1 if neighbours == "add-remove" else 2


def count_l2_squared(neighbours: Neighbours) -> int:
    """Squared L2 sensitivity of one table of counts: each cell that moves does so by 1."""
    return 1 if neighbours == "add-remove" else 2
