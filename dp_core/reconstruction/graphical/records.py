"""Records of a graphical model that have its tables more closely than independent draws would."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_core.dataset import Dataset
from dp_core.marginals import Table
from dp_core.reconstruction.graphical.junction_tree import JunctionTree
from dp_core.reconstruction.raking import margin


def records(
    tree: JunctionTree, tables: Sequence[Table], rows: int, *, rng: np.random.Generator
) -> Dataset:
    """Return records of a model, column by column along its tree.

    A column depends on what is drawn already only through the columns of its clique. Records that
    agree in those are a group, and the column's values are dealt to the group in the shares that
    the table says; within it records that are alike in other columns stand together, so that the
    column is spread evenly over those as well, as its independence of them demands.

    Args:
        tree: Cliques, in the order of `tables`.
        tables: Of all cliques; they agree.
        rows: How many records.
        rng: Its state decides the records.
    """
    from dp_core.reconstruction.kernels.dealing import deal

    domain = tree.domain
    codes = np.zeros((len(domain), rows), dtype=np.uint16)
    order = rng.permutation(rows)
    drawn: set[str] = set()
    for table in tables:
        for name in [name for name in table.clique if name not in drawn]:
            given = tuple(column for column in table.clique if column in drawn)
            share = margin(table, (*given, name)).reshape(-1, domain.project((name,)).sizes[0])
            group = np.zeros(rows, dtype=np.int64)
            for column in given:
                axis = domain.axes((column,))[0]
                group = group * domain.sizes[axis] + codes[axis]
            order = order[np.argsort(group[order], kind="stable")]
            axis = domain.axes((name,))[0]
            claim, owed = rng.random((2, share.shape[1]))
            codes[axis] = deal(order, group, share, claim - 0.5, owed)
            order = order[np.argsort(codes[axis, order], kind="stable")]
            drawn.add(name)
    return Dataset(domain, codes[:, rng.permutation(rows)])
