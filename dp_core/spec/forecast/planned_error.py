"""The error that known noisy tables leave in a typical file, by theory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dp_core.methods.selection.budget.chance import Chance
from dp_core.methods.selection.budget.dependence import usual
from dp_core.methods.selection.budget.residual_balance import Parts, expected
from dp_core.methods.selection.budget.typical_file import typical_columns
from dp_core.methods.selection.selector import Expected
from dp_core.tables.domain import Clique, Domain

_TRIPLE_PART = 0.05  # a triple's own deviation, relative to that of its pairs
_UNKNOWN = 1e30  # noise variance of what no table tells, in records squared


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A noisy table that a release will have.

    Attributes:
        clique: Its columns.
        variance: Noise variance of each cell, in records squared.
        interaction: Whether it gives only the part that its margins do not determine.
    """

    clique: Clique
    variance: float
    interaction: bool = False


def planned_error(
    domain: Domain, rows: int, tables: Sequence[KnownTable], dependence: float
) -> Expected:
    """Return the expected error of a set made from these tables.

    A table determines its columns and pairs, with noise: the sum of k cells of variance v has the
    variance k v. What no table shows of a pair is left as error, and so is the part of a pair that
    shrinkage removes together with its noise (see `residual_balance`).

    Args:
        domain: All columns.
        rows: Approximate number of records.
        tables: Tables, of which each column must be in one that is no interaction.
        dependence: Mean dependence of pairs relative to that of a typical file.

    >>> two = Domain(("a", "b"), (2, 2))
    >>> one_way = [KnownTable(("a",), 1e-6), KnownTable(("b",), 1e-6)]
    >>> alone = planned_error(two, 1000, one_way, 1.0)
    >>> both = planned_error(two, 1000, [*one_way, KnownTable(("a", "b"), 1e-6)], 1.0)
    >>> round(alone.two, 2), round(both.two, 4)
    (0.04, 0.0)
    """
    columns = typical_columns(domain.sizes, rows)
    chance = Chance.of(domain, columns, rows)
    typical = dependence * usual(rows)
    of_column = dict.fromkeys(domain.columns, 0.0)
    of_pair: dict[Clique, float] = {}
    for table in tables:
        cells = domain.size(table.clique)
        for name in () if table.interaction else table.clique:
            of_column[name] += domain.size((name,)) / (cells * table.variance)
        if table.interaction and len(table.clique) > 2:
            continue
        for pair in itertools.combinations(table.clique, 2):
            own = table.variance * cells / domain.size(pair)
            if not table.interaction:
                own *= math.prod(1 - 1 / size for size in domain.project(pair).sizes if size > 1)
            of_pair[pair] = of_pair.get(pair, 0.0) + 1 / own
    others = [pair for pair in domain.cliques(2) if pair not in of_pair]
    triples = math.comb(len(domain), 3) * math.hypot(_TRIPLE_PART * typical, chance.mean_triple)
    cliques = [*((name,) for name in domain.columns), *of_pair]
    parts = Parts(
        columns=columns,
        known=np.array([1 / max(of_column[name], 1 / _UNKNOWN) for name in domain.columns]),
        cliques=[domain.axes(clique) for clique in cliques],
        dependence=np.array([0.0] * len(domain) + [typical] * len(of_pair)),
        noise=np.array([_UNKNOWN] * len(domain) + [1 / each for each in of_pair.values()]),
        margin=np.full((len(cliques), 2), np.inf),
        exponent=1.0,
        unlisted=(sum(math.hypot(typical, chance.pair(pair)) for pair in others), triples),
        drawn=chance.mean_triple,
    )
    return expected(parts, np.ones(len(cliques)))
