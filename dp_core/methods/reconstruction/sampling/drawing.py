"""Draws records that match a model's tables more closely than independent draws.

Independent draws add sampling error to the model. Here the values of a column are assigned in the
proportions of its table, so each cell of a table is within about one record of the model's
expectation, and the error of a set is that of its model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.raking import margin

_MANY = 512  # values; unconditional columns with more are rounded at once, which is faster


def records(
    domain: Domain, tables: Sequence[Table], rows: int, *, rng: np.random.Generator
) -> Dataset:
    """Return records of a model, column by column.

    A column depends on the drawn columns only through the first table that contains it. Records
    with equal values in that table's drawn columns are a group, and values are assigned to the
    group in the proportions of the table. Within a group, records with equal values in other
    columns are adjacent, so that the values are spread evenly over these as well, as conditional
    independence requires.

    Args:
        domain: All columns.
        tables: Nonnegative weights of any total; together they cover every column. A table is used
            as the conditional distribution of its new columns given the drawn ones; for a
            combination of these without mass, the distribution is uniform.
        rows: Number of records.
        rng: Generator; same state, same records.
    """
    codes = np.zeros((len(domain), rows), dtype=domain.code_type)
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
    codes: Codes,
    order: NDArray[np.int64],
    given: Sequence[str],
    name: str,
    share: NDArray[np.float64],
    *,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Fill one column of the records, in place; return an order in which its values are adjacent.

    Args:
        domain: All columns.
        codes: Codes of the records, shape (columns, rows); one row is changed.
        order: Order of the records, with equal records adjacent.
        given: Columns that define the group of a record.
        name: Column to fill.
        share: Proportions of the values in each group, shape (groups, values).
        rng: Generator of the start claims of the values.
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
    deal(order, group, np.ascontiguousarray(share), claim - 0.5, owed, codes[axis])
    found: NDArray[np.int64] = order[np.argsort(codes[axis, order], kind="stable")]
    return found


def equally_often(records: int, rows: int, *, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the positions of `rows` released records, each as often as any other to within one.

    A method whose release is itself a list of records (a private draw) has paid for their noise. A
    second draw with replacement would add its variance once more, about that of the first, without
    any benefit for privacy.

    Args:
        records: Number of released records, at least 1.
        rows: Number of positions.
        rng: Generator for post-processing.

    >>> sorted(equally_often(3, 3, rng=np.random.default_rng(1)).tolist())
    [0, 1, 2]
    """
    return np.resize(rng.permutation(records), rows)
