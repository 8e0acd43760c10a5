"""Noisy answers as they are released, and inputs of a method; a test states what matters to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dp_core.accounts.memory_session import MemorySession
from dp_core.bundle.quality.table_fit import needed_counts
from dp_core.client.curator import Curator
from dp_core.client.released import Answers, Measurement, Released, Table, Totals
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency, Kind
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.counting_queries import Queries
from dp_core.kernel.questions.statistic import Sum
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.reconstruction.estimates.raking import margin
from dp_core.methods.selection.one_way import OneWay
from dp_core.methods.selection.selector import Selection, Selector
from dp_core.metrics.marginal_error import Tally, tally_of
from dp_core.schema.structure.structural_zeros import StructuralZeros

NONE = StructuralZeros()
"""No impossible cells."""
USUAL = {"noise": "gaussian", "scale": 1.0, "stage": "measure", "replicate": 0, "grant": 1}
"""About a noisy answer of which a test does not say it."""


def noisy_table(domain: Domain, values: ArrayLike, **about: Any) -> Measurement:
    """Return a noisy table of shape `domain.sizes`; `about` replaces what is in `USUAL`."""
    return Measurement(domain, np.asarray(values), **(USUAL | about))


def noisy_sums(of: Sum, values: ArrayLike, **about: Any) -> Totals:
    """Return noisy sums; `about` replaces what is in `USUAL`."""
    return Totals(of, np.asarray(values), **(USUAL | about))


def noisy_answers(queries: Queries, values: ArrayLike, **about: Any) -> Answers:
    """Return noisy answers to counting queries; `about` replaces what is in `USUAL`."""
    return Answers(queries, np.asarray(values), **(USUAL | about))


def method_inputs(curator: Curator, domain: Domain, **more: Any) -> MethodInputs:
    """Return a method's inputs: without impossible cells, and with a fixed generator."""
    usual = {"zeros": NONE, "rng": np.random.default_rng(0)}
    return MethodInputs(curator=curator, domain=domain, **(usual | more))


def curator_of(
    data: Dataset,
    limit: Fraction,
    kind: Kind = "zcdp",
    neighbours: Neighbours = "add-remove",
) -> tuple[Curator, MemorySession]:
    """Return a curator of records in memory, and the session that pays up to `limit` for it."""
    session = MemorySession(Currency(kind, limit), neighbours)
    return Curator(Kernel(data.domain, MemoryCounter(data), session)), session


def select_in_memory(
    selector: Selector,
    data: Dataset,
    limit: Fraction,
    *,
    kind: Kind = "zcdp",
    neighbours: Neighbours = "add-remove",
    one_way: Fraction = Fraction(0),
    look: Fraction = Fraction(0),
    measure: Fraction = Fraction(0),
    **more: Any,
) -> tuple[Selection, MemorySession]:
    """Return what a method selects of records in memory, and the session that paid.

    Args:
        selector: The method.
        data: The records.
        limit: The budget, in the currency `kind`.
        kind: The currency.
        neighbours: The neighbouring relation.
        one_way: Part of the limit for one-way tables that are measured before, if any.
        look: Part of the limit for the selection.
        measure: Part of the limit that is there for what is selected.
        more: Other fields of `MethodInputs`.
    """
    curator, session = curator_of(data, limit, kind, neighbours)
    if one_way:
        planned = OneWay().fixed_selection(data.domain)
        costs = [limit * one_way * weight for weight in planned.weights]
        more["known"] = curator.measure("one_way", planned.cliques, costs)
    inputs = method_inputs(
        curator, data.domain, select_cost=limit * look, measure_cost=limit * measure, **more
    )
    return selector.select(inputs), session


def discrepancy(tables: Sequence[Table]) -> float:
    """Return the largest difference between two tables' sums over shared columns, in records."""
    worst = 0.0
    for one, other in itertools.combinations(tables, 2):
        both = tuple(name for name in one.clique if name in other.clique)
        if both:
            worst = max(worst, float(np.abs(margin(one, both) - margin(other, both)).max()))
    return worst


def tally_sets(
    domain: Domain, released: Iterable[Released], sets: Iterable[Iterable[Dataset]]
) -> tuple[Tally, ...]:
    """Return a tally of each synthetic set, with the marginals of `needed_counts`.

    Args:
        domain: All columns.
        released: Everything that was measured.
        sets: For each set its pieces (a list of one dataset, or a stream of them).
    """
    cliques = needed_counts(domain, released)
    tallies = []
    for pieces in sets:
        tally = tally_of(domain, cliques)
        for piece in pieces:
            tally.add(piece)
        tallies.append(tally)
    return tuple(tallies)
