"""Multiplicative weights updates for single answers (Hardt, Ligett & McSherry 2012, Figure 1).

Let a be the noisy answer to a query q, and q(p) that of the current table p, both as proportions of
all records. Each cell of the query is multiplied by exp(a - q(p)), and the table is then
normalised to sum 1.

Public side of the wall: all inputs are released values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Answers, Measurement, Released
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.methods.reconstruction.estimates.raking import others
from dp_core.methods.reconstruction.joint.dense_answers import in_order
from dp_core.methods.reconstruction.joint.walsh import even_mass, parity_mask, scale_even

Part = slice | int


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """One answer, or one table, whose disjoint cells are updated together.

    Attributes:
        answer: Proportions of all records: an array of the table's cells, or one number.
        mask: Mask of a parity, 0 for other queries.
        inside: Index of a cell's records in the joint table; empty for other queries.
        clique: Columns of a table, in the domain's order; empty for other queries.
    """

    answer: NDArray[np.float64]
    mask: int = 0
    inside: tuple[Part, ...] = ()
    clique: tuple[str, ...] = ()


def facts(domain: Domain, released: Released, rows: float) -> Iterator[Fact]:
    """Yield the answers of one released item; a number of all records yields nothing."""
    if isinstance(released, Measurement):
        clique = in_order(domain, released.clique)
        if clique:
            values = released.values.transpose(released.domain.axes(clique)) / rows
            yield Fact(values, clique=clique)
        return
    assert isinstance(released, Answers)
    asked = released.queries
    if isinstance(asked, Cells):
        for of, codes, value in zip(asked.of, asked.codes, released.values, strict=True):
            if of:
                inside = tuple(
                    codes[of.index(name)] if name in of else slice(None) for name in domain.columns
                )
                yield Fact(np.asarray(value / rows), inside=inside)
        return
    assert isinstance(asked, Parities)
    for clique, value in zip(asked.cliques, released.values, strict=True):
        mask = parity_mask(domain, clique)
        if mask:
            yield Fact(np.asarray(value / rows), mask=mask)


@dataclass(slots=True, eq=False)
class Updates:
    """A joint table that is fitted by multiplicative updates.

    Attributes:
        domain: All columns.
        joint: The table, sums to 1, shape `domain.sizes`; contiguous, changed in place.
    """

    domain: Domain
    joint: NDArray[np.float64]

    def follow(self, fact: Fact) -> None:
        """Update the table by one step towards an answer."""
        if fact.clique:
            present = self.joint.sum(axis=others(self.domain.columns, fact.clique))
            growth = np.exp(_away(fact, present))
            shape = [
                size if name in fact.clique else 1
                for name, size in zip(self.domain.columns, self.domain.sizes, strict=True)
            ]
            self.joint *= (growth / float((present * growth).sum())).reshape(shape)
        elif fact.mask:
            flat = self.joint.reshape(-1)
            held = even_mass(flat, fact.mask)
            factor = math.exp(float(_away(fact, np.asarray(held))))
            rest = 1 / (1 + held * (factor - 1))
            scale_even(flat, fact.mask, factor * rest, rest)
        else:
            cell = self.joint[fact.inside]
            held = float(np.sum(cell))
            factor = math.exp(float(_away(fact, np.asarray(held))))
            self.joint[fact.inside] = cell * factor
            self.joint /= 1 + held * (factor - 1)


def _away(fact: Fact, present: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far an answer is from the table; a proportion lies between 0 and 1."""
    return np.asarray(np.clip(fact.answer, 0.0, 1.0) - present)
