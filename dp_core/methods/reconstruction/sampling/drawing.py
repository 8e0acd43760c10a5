"""Draws records that match a model's tables more closely than independent draws.

Independent draws add the error of a sample to whatever the tables say. Here the values of a column
are dealt out in the shares of its table, so a cell of a table is within about one record of what
the model expects, and the error of a set is that of its model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.reconstruction.estimates.raking import margin
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.wall.released import Table

_MANY = 512  # values; dealing more of them to all records takes its time, and few hold as much


def records(
    domain: Domain, tables: Sequence[Table], rows: int, *, rng: np.random.Generator
) -> Dataset:
    """Return records of a model, column by column.

    A column depends on what is drawn already only through the columns of the first table that
    holds it. Records that agree in those are a group, and the column's values are dealt to the
    group in the shares that the table says; within it records that are alike in other columns stand
    together, so that the column is spread evenly over those as well, as its independence of them
    demands.

    Args:
        domain: All columns.
        tables: Nonnegative weights of any total; together they hold every column. What a table
            says of columns that are drawn already is used as a condition only; a combination of
            these of which it holds nothing gets its other columns evenly.
        rows: Number of records.
        rng: Its state decides the records.
    """
    codes = np.zeros((len(domain), rows), dtype=np.uint16)
    order = rng.permutation(rows)
    drawn: set[str] = set()
    for table in tables:
        for name in [name for name in table.clique if name not in drawn]:
            given = tuple(column for column in table.clique if column in drawn)
            share = margin(table, (*given, name)).reshape(-1, domain.project((name,)).sizes[0])
            order = _deal_column(domain, codes, order, given, name, share, rng=rng)
            drawn.add(name)
    return Dataset(domain, codes[:, rng.permutation(rows)])


def _deal_column(
    domain: Domain,
    codes: NDArray[np.uint16],
    order: NDArray[np.int64],
    given: Sequence[str],
    name: str,
    share: NDArray[np.float64],
    *,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Fill one column of the records, in place; return an order in which its values stand together.

    Args:
        domain: All columns.
        codes: Shape (columns, rows).
        order: Order of the records, with equal records together.
        given: Columns that say which group a record is of.
        name: Column to fill.
        share: Shape (groups, values).
        rng: Its state decides where a value begins.
    """
    from dp_core.methods.reconstruction.kernels.dealing import deal
    from dp_core.methods.reconstruction.kernels.record_moves import whole

    group = np.zeros(order.size, dtype=np.int64)
    for column in given:
        axis = domain.axes((column,))[0]
        group *= domain.sizes[axis]
        group += codes[axis]
    if given:
        order = order[np.argsort(group[order], kind="stable")]
    axis = domain.axes((name,))[0]
    if not given and share.size > _MANY:
        counts = whole(share, order.size, rng=rng)
        codes[axis, rng.permutation(order)] = np.repeat(np.arange(counts.size), counts)
        return order
    claim, owed = rng.random((2, share.shape[1]))
    codes[axis] = deal(order, group, np.ascontiguousarray(share), claim - 0.5, owed)
    found: NDArray[np.int64] = order[np.argsort(codes[axis, order], kind="stable")]
    return found
