"""What tests of statistics share: exact tables of small files, and all neighbours of a file."""

from __future__ import annotations

import itertools
import json

import numpy as np

from dp_core.client.noise_scale import sensitivities
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.vetted import required

RELATIONS = ("add-remove", "replace-one")


def total(sum, rows, sizes):
    """Return a sum of records: rows of codes, of columns whose numbers of codes are in `sizes`."""
    domain = Domain(tuple(sizes), tuple(sizes.values()))
    codes = np.array(rows, dtype=np.uint16).reshape(-1, len(sizes)).T
    data = Dataset(domain, np.ascontiguousarray(codes))
    return sum.total(*MemoryCounter(data).observed(sum.clique))


def random_rows(rng, rows, sizes):
    """Return records, shape (rows, columns), of evenly drawn codes."""
    return np.column_stack([rng.integers(0, size, rows) for size in sizes.values()])


def farthest(sum, pairs, sizes):
    """Return the largest L1 and squared L2 change of a sum over pairs of files."""
    far = far_squared = 0
    for one, other in pairs:
        change = np.abs(total(sum, one, sizes) - total(sum, other, sizes))
        far, far_squared = max(far, change.sum()), max(far_squared, (change**2).sum())
    return far, far_squared


def some_neighbours(neighbours, sizes):
    """Yield pairs of small neighbouring files."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        rows = random_rows(rng, 6, sizes)
        yield rows, rows[:-1] if neighbours == "add-remove" else np.vstack([rows[:-1], rows[0] * 0])


def marginals(table, columns, cliques):
    """Return the exact marginals of a file, given by its table over all columns."""
    found = {}
    for clique in cliques:
        others = tuple(axis for axis, name in enumerate(columns) if name not in clique)
        left = [name for name in columns if name in clique]
        counts = np.transpose(table.sum(axis=others), [left.index(name) for name in clique])
        counts = np.asarray(counts, dtype=np.int64)
        found[clique] = Marginal(Domain(clique, counts.shape), counts)
    return found


def values(statistic, table, columns):
    """Return a statistic's entries on a file, given by its table over all columns."""
    return statistic.compute(marginals(np.asarray(table), columns, statistic.cliques))


def neighbours_of(table, relation):
    """Yield all neighbours of a file with as many rows (replaced) or one more (added)."""
    table = np.asarray(table)
    for cell in np.ndindex(table.shape):
        added = table.copy()
        added[cell] += 1
        if relation == "add-remove":
            yield added
            continue
        for other in map(tuple, np.argwhere(table)):
            if other != cell:
                replaced = added.copy()
                replaced[other] -= 1
                yield replaced


def furthest(statistic, tables, columns, relation):
    """Return the largest change of an entry from any of some files to a neighbour of it."""
    far = 0
    for table in tables:
        before = values(statistic, table, columns)
        for other in neighbours_of(table, relation):
            far = max(far, int(np.abs(values(statistic, other, columns) - before).max()))
    return far


def all_tables(shape, rows):
    """Yield every file of so many rows over a domain, as a table."""
    cells = list(np.ndindex(*shape))
    for chosen in itertools.combinations_with_replacement(cells, rows):
        table = np.zeros(shape, dtype=np.int64)
        for cell in chosen:
            table[cell] += 1
        yield table


def says_what_it_needs(statistic, relations=RELATIONS):
    """Assert that a receipt's words lead to the sensitivities that the statistic has."""
    document = json.loads(json.dumps(statistic.to_json()))
    for relation in relations:
        assert required(document, Relation(relation)) == (
            statistic.largest_change(relation),
            *sensitivities(statistic, Relation(relation)),
        )
