"""Candidates for a Bayesian network: a column and its possible parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal

Candidate: TypeAlias = tuple[str, Clique]
"""Name of a child column, and the names of its parents, which may be empty."""


def check_candidates(candidates: Sequence[Candidate]) -> None:
    """Check that no candidate names a column twice.

    Raises:
        ValueError: if one does; the message names it.
    """
    for child, parents in candidates:
        if len({child, *parents}) != len(parents) + 1:
            raise ValueError(f"A column is repeated in {child!r} with parents {parents}.")


def tables_of(candidates: Sequence[Candidate]) -> tuple[Clique, ...]:
    """Return the table that each candidate is scored from: the child, then its parents."""
    return tuple((child, *parents) for child, parents in candidates)


def by_parents(counts: Mapping[Clique, Marginal], candidate: Candidate) -> NDArray[np.int64]:
    """Return exact counts, shape (levels of the child, combinations of the parents).

    Confidential.
    """
    child, parents = candidate
    table = counts[(child, *parents)].counts
    return table.reshape(table.shape[0], -1)
