"""Counts of synthetic households and their members in households, from pair rows. Public."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.metrics.marginal_error import Tally
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique, Domain
from dp_core.tables.linked_columns import MEMBERS, with_members


class HouseholdTally(Tally):
    """Counts of chosen marginals of pair rows, in households.

    Every household adds 1 to each table, divided equally among its pair rows.

    Attributes:
        rows: Whole households seen so far.
        persons: Members of these households.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique]) -> None:
        """Create a tally.

        Args:
            domain: All columns, those of pair rows.
            cliques: Marginals to count.
        """
        if domain.linked is None:
            raise ValueError("Only pair rows are counted in households.")
        self._wide = {clique: with_members(clique) for clique in cliques}
        super().__init__(domain, dict.fromkeys(self._wide.values()))
        self.persons = 0
        self._weights = domain.linked.weights
        self._shares = domain.linked.shares
        size = domain.size((MEMBERS,))
        # If households may be empty, the first code stands for no member.
        self._members = np.arange(size) + domain.linked.max_members + 1 - size
        self._pairs = np.zeros(size, dtype=np.int64)

    def add(self, piece: Dataset) -> HouseholdTally:
        """Count the pair rows of a piece, and return the tally itself.

        Raises:
            ValueError: if the piece has another domain.
        """
        super().add(piece)
        self._pairs += np.bincount(piece.column(MEMBERS), minlength=self._members.size)
        # A piece may end within a household, whose other pair rows are in the next one.
        households = self._pairs * self._weights // self._shares
        self.rows, self.persons = int(households.sum()), int(households @ self._members)
        return self

    def count(self, clique: Clique) -> NDArray[Any]:
        """Return the counts of a clique in households, shape of its sizes.

        They are floats, or integers if a household has one member at most.

        Raises:
            KeyError: if the clique is not among those tallied.
        """
        wide = self._wide[clique]
        pairs = np.moveaxis(super().count(wide), wide.index(MEMBERS), -1)
        shares = pairs * self._weights
        if MEMBERS in clique:
            table = np.moveaxis(shares, -1, clique.index(MEMBERS))
        else:
            table = shares.sum(axis=-1)
        return np.asarray(table if self._shares == 1 else table / self._shares)


def tally_of(domain: Domain, cliques: Iterable[Clique]) -> Tally:
    """Return an empty tally: of records or, if the domain is one of pair rows, of households."""
    return Tally(domain, cliques) if domain.linked is None else HouseholdTally(domain, cliques)
