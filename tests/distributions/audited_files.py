"""What the audits share: confidential files in short, and a session that pays for everything."""

from __future__ import annotations

import numpy as np

from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.privacy import Relation


class Observed:
    """A confidential file, given by the cells of one clique that hold a record."""

    def __init__(self, cells):
        """Take cells: the codes of each, and the number of its records."""
        self.cells = np.array([cell[:-1] for cell in cells], dtype=np.uint16)
        self.counts = np.array([cell[-1] for cell in cells], dtype=np.int64)

    def observed(self, _):
        """Return the codes of the cells and their counts."""
        return self.cells, self.counts


class Tables:
    """A confidential file, given by its tables."""

    def __init__(self, tables):
        """Take the counts of each clique."""
        self.tables = tables

    def count(self, cliques):
        """Return the exact marginals."""
        return {
            clique: Marginal(
                Domain(clique, self.tables[clique].shape), self.tables[clique].astype(np.int64)
            )
            for clique in cliques
        }


class Column:
    """A confidential file of one column, given by the counts of its codes."""

    def __init__(self, counts):
        """Take the counts."""
        self.counts = np.asarray(counts, dtype=np.int64)

    def count(self, cliques):
        """Return the exact marginals."""
        return {
            clique: Marginal(Domain(clique, self.counts.shape), self.counts) for clique in cliques
        }

    def observed(self, _):
        """Return the codes that a record has, and their counts."""
        (cells,) = np.nonzero(self.counts)
        return cells.astype(np.uint16)[:, None], self.counts[cells]


class PaysAlways:
    """A session that grants whatever it is asked, as often as it is asked."""

    forgets = True

    def __init__(self, currency, relation):
        """Pay in `currency`, for files that are neighbours by `relation`."""
        self.currency = currency
        self.relation = relation if isinstance(relation, Relation) else Relation(relation)

    def perform(self, batch, steps, draw):  # noqa: ARG002
        """Return what is drawn, each with a grant."""
        grants = [Grant(1, step) for step in steps]
        return tuple(zip(grants, draw(grants), strict=True))
