"""What the edges of a forest of pairs tell about the pairs between them.

In a graphical model whose pairs form a forest, two columns depend as far as every edge of the path
between them does. So an edge that is measured also serves the pairs whose path it is part of.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dp_core.tables.domain import Clique


def reach(forest: Mapping[Clique, float], rows: float) -> dict[Clique, float]:
    """Return how many times its own deviation each edge of a forest serves, at least 1.

    Along a path, dependences relative to the number of records multiply, as correlations of a chain
    do. Each edge of a path has an equal part in the pair at the ends of it.

    Args:
        forest: L1 distance from independence of each edge, in records, positive; no two paths lead
            from one column to another.
        rows: Number of records.

    >>> reach({("a", "b"): 50, ("b", "c"): 80}, 100)
    {('a', 'b'): 1.4, ('b', 'c'): 1.25}
    """
    columns = sorted({column for edge in forest for column in edge})
    place = {column: at for at, column in enumerate(columns)}
    ends = [(place[one], place[two]) for one, two in forest]
    dependence = np.array([*forest.values()], dtype=np.float64)
    strength = np.minimum(dependence / rows, 1.0)
    together, length = np.eye(len(columns)), np.zeros((len(columns), len(columns)))
    group = {at: [at] for at in range(len(columns))}
    for (one, two), own in zip(ends, strength.tolist(), strict=True):
        left, right = group[one], group[two]
        product = own * np.multiply.outer(together[left, one], together[two, right])
        steps = 1 + np.add.outer(length[left, one], length[two, right])
        for table, found in ((together, product), (length, steps)):
            table[np.ix_(left, right)] = found
            table[np.ix_(right, left)] = found.T
        group.update(dict.fromkeys(left + right, left + right))
    part = np.divide(together, length, out=np.zeros_like(together), where=length > 0)
    found = []
    for one, two in ends:
        # Columns of another group are equally far from both ends, by 0.
        nearer = length[one] - length[two]
        sides = part[np.ix_(nearer < 0, nearer > 0)]
        found.append(float(sides.sum()))
    times = np.maximum(np.array(found) / np.maximum(strength, 1e-12), 1.0)
    return dict(zip(forest, times.tolist(), strict=True))
