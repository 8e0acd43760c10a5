"""Candidates for a Bayesian network: a column and its possible parents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.questions.statistic import TableScores
from dp_core.kernel.questions.whole_numbers import saturated

Candidate: TypeAlias = tuple[str, Clique]
"""Name of a child column, and the names of its parents, which may be empty."""


@dataclass(frozen=True, slots=True)
class CandidateScores(TableScores):
    """A score of each candidate, computed from the table of the child and then its parents.

    Attributes:
        candidates: Children with their parents.
    """

    candidates: tuple[Candidate, ...]

    def __post_init__(self) -> None:
        for child, parents in self.candidates:
            if len({child, *parents}) != len(parents) + 1:
                raise ValueError(f"A column is repeated in {child!r} with parents {parents}.")

    @property
    def length(self) -> int:
        return len(self.candidates)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple((child, *parents) for child, parents in self.candidates)

    @abstractmethod
    def score(self, table: NDArray[np.int64]) -> int:
        """Return the exact score of a candidate. Confidential.

        Args:
            table: Records, shape (levels of the child, combinations of the parents).
        """

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        tables = (counts[clique].counts for clique in self.cliques)
        return saturated(self.score(table.reshape(table.shape[0], -1)) for table in tables)
