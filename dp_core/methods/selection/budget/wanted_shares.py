"""Division of a budget among measurements that minimises the weighted error of wanted tables.

Each part S of the tables (`workload`) has a worth a(S), and a measurement that gets the share x of
the budget tells it with the precision x^e / k, where e is 1 for Gaussian and 2 for Laplace noise.

With Gaussian noise under add-remove, interactions are never worse than tables (but for the rounding
of their coefficients, up to 3 % of a variance): a whole table tells its parts exactly as their
interactions would at the same total cost. Each interaction tells one part, so the sum over S of
a(S) / (b(S) + x(S) / k(S)), with b(S) known before, is least for

    x(S) = sqrt(a(S) k(S) / L) - b(S) k(S),    0 where that is negative,

with L such that the shares add up to 1 (ResidualPlanner: Xiao et al., NeurIPS 2023, Theorem 3, for
b = 0). Under replace-one and with Laplace noise, an interaction costs more than its part of a
table. There the shares of tables and interactions together are found by multiplicative steps, whose
fixed points have equal gains; with e = 1 the error is convex, with e = 2 the best of several starts
is taken.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_core.client.interactions import cell_variance
from dp_core.client.noise_scale import NoiseScale, noise_for, sensitivities
from dp_core.client.released import noise_variance
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import count_l1, count_l2_squared
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.linear_questions import MOST_ENTRIES, Interaction
from dp_core.methods.selection.budget.costs import Costs
from dp_core.methods.selection.budget.workload import (
    Told,
    WantedTable,
    mean_variance,
    normalise,
    precisions,
    worths,
)
from dp_core.methods.selection.selector import Certain, Selection, Selector, Terms

MOST_PARTS = 1500
"""Largest number of parts of all wanted tables together, each of which may be one charge."""
_ROUNDED = 10**9
_STEPS = 1000
_GAP = 1e-6  # relative; with e = 1 the error is at most this far above the least one
_LEAST = 1e-8  # a smaller share is 0
_FEW = 1e-3  # relative increase of the error for which small shares are not left out
_DROPPED = 40  # most measurements for which leaving out each is tried


class Candidate(NamedTuple):
    """Something that may be measured.

    Attributes:
        clique: Its columns; empty for the number of records.
        alone: Whether it is an interaction.
        variance: Noise variance at the whole budget, as in `Told`.
    """

    clique: Clique
    alone: bool
    variance: float


@dataclass(frozen=True, slots=True)
class Basis:
    """Which measurements a method may make for the wanted tables.

    Attributes:
        interactions: Whether parts may be measured alone.
        columns_alone: Whether a part of one column may be.
        cliques: The only tables that may be measured; None for all subsets of the wanted ones.
    """

    interactions: bool = True
    columns_alone: bool = True
    cliques: tuple[Clique, ...] | None = None


def for_tables(
    tables: Sequence[WantedTable], domain: Domain, terms: Terms, basis: Basis
) -> Selection:
    """Return what to measure for the wanted tables; its weights sum to 1.

    Args:
        tables: The workload, one entry or more.
        domain: All columns.
        terms: What is known before anything is measured; `measure` is what may be spent here.
        basis: What may be measured.
    """
    known = tuple(sorted(terms.known.items()))
    spent = terms.currency, terms.relation, terms.measure
    return _divide(tuple(tables), domain, spent, known, basis)


# A plan asks several times: for its tables, its margins and its currency.
@lru_cache(maxsize=32)
def _divide(
    tables: tuple[WantedTable, ...],
    domain: Domain,
    spent: tuple[Currency, Relation, Fraction],
    known: tuple[tuple[Clique, float], ...],
    basis: Basis,
) -> Selection:
    currency, relation, measure = spent
    terms = Terms(currency=currency, relation=relation, measure=measure, known=dict(known))
    worth = worths(tables, domain)
    if terms.relation.rows_public:
        worth.pop((), None)
    costs = Costs(terms.currency, terms.relation, terms.measure, whole=False)
    told = [Told(clique, variance) for clique, variance in terms.known.items()]
    before = precisions(worth, told, domain)
    found = candidates(list(worth), domain, costs, basis)
    plain = terms.currency.kind != "pure" and terms.relation.neighbours == "add-remove"
    apart = [each for each in found if each.alone or not each.clique]
    if plain and len(apart) == len(worth) and basis.cliques is None:
        found = apart
        shares = closed_form(
            np.array([worth[each.clique] for each in found]),
            np.array([each.variance for each in found]),
            np.array([before[each.clique] for each in found]),
        )
    else:
        shares = _Error(worth, before, found, domain, costs.exponent).least()
        # A clique is measured once, as a table or as an interaction.
        most: dict[Clique, float] = {}
        for each, share in zip(found, shares.tolist(), strict=True):
            most[each.clique] = max(most.get(each.clique, 0.0), share)
        found = [
            each
            for each, share in zip(found, shares.tolist(), strict=True)
            if share == most[each.clique] > 0
        ]
        shares = _Error(worth, before, found, domain, costs.exponent).least()
    measured = {
        each.clique: (each.alone, max(1, round(share * _ROUNDED)))
        for each, share in zip(found, shares.tolist(), strict=True)
        if share > 0
    }
    ordered = sorted(measured, key=lambda clique: (len(clique), domain.axes(clique)))
    return Selection(
        cliques=tuple(ordered),
        weights=normalise([measured[clique][1] for clique in ordered]),
        interactions=frozenset(clique for clique in ordered if measured[clique][0]),
    )


def told_by(selection: Selection, domain: Domain, terms: Terms) -> list[Told]:
    """Return what a selection measures, with the noise that `terms.measure` buys, and `known`."""
    found = [Told(clique, variance) for clique, variance in terms.known.items()]
    relation = terms.relation
    for clique, weight in zip(selection.cliques, selection.weights, strict=True):
        cost = terms.measure * weight
        if clique in selection.interactions:
            of = Interaction(clique, domain.project(clique).sizes)
            l1, l2_squared = sensitivities(of, relation)
            noise = noise_for(terms.currency, cost, l1=l1, l2_squared=l2_squared)
            variance = noise_variance(noise.kind, noise.scale)
            found.append(Told(clique, cell_variance(of, variance), alone=True))
        else:
            l1, l2_squared = count_l1(relation), count_l2_squared(relation)
            noise = noise_for(terms.currency, cost, l1=l1, l2_squared=l2_squared)
            found.append(Told(clique, noise_variance(noise.kind, noise.scale)))
    return found


def candidates(
    parts: Sequence[Clique], domain: Domain, costs: Costs, basis: Basis
) -> list[Candidate]:
    """Return everything that may be measured, with its noise at the whole budget."""
    found = [Candidate(clique, False, costs.table) for clique in basis.cliques or parts]
    left = MOST_ENTRIES // 2  # of all interactions together; the rest of the release has its half
    for part in parts if basis.interactions else ():
        sizes = domain.project(part).sizes
        left -= math.prod(size - 1 for size in sizes)
        if not part or (len(part) == 1 and not basis.columns_alone) or left < 0:
            continue
        if costs.measurable(sizes):
            own = math.prod(1 - 1 / size for size in sizes)
            found.append(Candidate(part, True, costs.own(sizes, alone=True) / own))
    return found


def closed_form(
    worth: NDArray[np.float64], price: NDArray[np.float64], before: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the shares x >= 0, of sum 1, with the least sum of worth / (before + x / price).

    Args:
        worth: Positive, shape (parts,).
        price: Variance of each part at the whole budget, in records squared, positive.
        before: Precision of each part before, in 1 / records squared; may be 0.

    >>> closed_form(np.array([1.0, 4.0]), np.array([1.0, 1.0]), np.zeros(2)).round(6).tolist()
    [0.333333, 0.666667]
    """
    root, known = np.sqrt(worth * price), before * price
    # A part is measured if root / known is above the square root of L; try the largest first.
    order = np.lexsort((-root, known / root))
    level = (1 + np.cumsum(known[order])) / np.cumsum(root[order])  # 1 / sqrt(L)
    measured = root[order] * level > known[order]
    last = int(np.flatnonzero(measured).max())
    shares = np.maximum(root * level[last] - known, 0.0)
    return np.asarray(shares / shares.sum())


class _Error:
    """Weighted error of the wanted tables as a function of the shares."""

    def __init__(
        self,
        worth: Mapping[Clique, float],
        before: Mapping[Clique, float],
        found: Sequence[Candidate],
        domain: Domain,
        exponent: float,
    ) -> None:
        self.worth = np.array([*worth.values()])
        self.before = np.array([before[part] for part in worth])
        self.exponent = exponent
        self.alone = np.array([each.alone for each in found])
        self.columns = np.array([len(each.clique) for each in found])
        # Shape (parts, candidates): precision of each part at the whole budget.
        self.tells = np.zeros((len(worth), len(found)))
        for at, each in enumerate(found):
            told = precisions(worth, [Told(each.clique, each.variance, each.alone)], domain)
            self.tells[:, at] = [*told.values()]

    def value(self, shares: NDArray[np.float64]) -> float:
        """Return the error, in records squared; infinite if a part is not told."""
        known = self.before + self.tells @ shares**self.exponent
        return float((self.worth / known).sum()) if (known > 0).all() else math.inf

    def least(self) -> NDArray[np.float64]:
        """Return the shares with the least error that was found."""
        every = np.ones(len(self.alone))
        starts = [every]
        if self.exponent > 1:
            tables = np.where(self.alone, 0.0, 1.0)
            largest = tables * self._largest()
            starts += [
                tables,
                largest,
                np.where(self.columns == 0, 1.0, largest),
                np.where(self.alone | (self.columns == 0), 1.0, 0.0),
                *(np.where(self.columns <= order, tables, 0.0) + largest for order in (1, 2)),
            ]
        starts = [start for start in starts if start.any() and math.isfinite(self.value(start))]
        ends = [self._descend(start) for start in starts]
        best = min(ends, key=self.value)
        few = np.where(best < _FEW, 0.0, best)
        if 0 < np.count_nonzero(few) < np.count_nonzero(best) and math.isfinite(self.value(few)):
            few = self._descend(few)
            best = few if self.value(few) < (1 + _FEW) * self.value(best) else best
        if self.exponent > 1 and np.count_nonzero(best) <= _DROPPED:
            best = self._without(best)
        return best

    def _largest(self) -> NDArray[np.bool_]:
        """Return which candidates are tables that no other one contains."""
        told = (self.tells > 0).astype(np.int64)
        inside = told.T @ told == told.sum(axis=0)[:, None]  # [i, j]: j tells all that i does
        apart = inside & ~inside.T & ~self.alone[None, :]
        return np.asarray(~apart.any(axis=1) & ~self.alone)

    def _without(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return shares that no single measurement can be left out of with a gain."""
        improved = True
        while improved:
            improved = False
            for at in sorted(np.flatnonzero(shares), key=lambda at: shares[at]):
                other = shares.copy()
                other[at] = 0.0
                if not other.any() or not math.isfinite(self.value(other)):
                    continue
                other = self._descend(other)
                if self.value(other) < (1 - 1e-9) * self.value(shares):
                    shares, improved = other, True
                    break
        return shares

    def _descend(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return improved shares; shares of 0 stay 0."""
        shares = shares / shares.sum()
        power = 1 / (self.exponent + 1)
        for _ in range(_STEPS):
            known = self.before + self.tells @ shares**self.exponent
            slope = (self.worth / known**2) @ self.tells
            gain = self.exponent * shares ** (self.exponent - 1) * slope
            active = shares > 0
            mean = float(shares @ gain)
            if gain[active].max() - mean < _GAP * mean:
                break
            shares = np.where(active, shares * gain**power, 0.0)
            shares = shares / shares.sum()
            shares = np.where(shares < _LEAST, 0.0, shares)
        return np.asarray(shares / shares.sum())


@dataclass(frozen=True, slots=True)
class Margin:
    """The margin of error that a wanted table will have at most.

    Attributes:
        table: The table.
        cells: Number of its cells.
        stddev: Standard deviation of the noise of a cell's pooled least-squares estimate or, with
            ranges or prefixes, the root mean square of those of all answers that are asked; in
            records.
        half_width: 95 % half width of such an answer, in records.
    """

    table: WantedTable
    cells: int
    stddev: float
    half_width: float


def margins(selector: Selector, domain: Domain, terms: Terms) -> tuple[Margin, ...]:
    """Return the margin of each wanted table; empty without a workload.

    What a method measures besides, depending on the data, can only make them smaller.

    Args:
        selector: A selection, with its workload.
        domain: All columns.
        terms: Budget and earlier noise.
    """
    certain = selector.certain(domain, terms) if selector.workload else None
    if certain is None:
        return ()
    paid = dataclasses.replace(terms, measure=terms.measure * certain.share)
    told, found = told_by(certain.selection, domain, paid), []
    one = NoiseScale("laplace" if terms.currency.kind == "pure" else "gaussian", 1.0)
    public = terms.relation.rows_public
    for table in selector.workload or ():
        stddev = math.sqrt(mean_variance(table, told, domain, rows_public=public))
        # A sum of Laplace noises is treated as one, which has a wider range.
        half_width = stddev * one.half_width / one.stddev
        found.append(Margin(table, domain.size(table.of), stddev, half_width))
    return tuple(found)


def weighted_error(selector: Selector, domain: Domain, terms: Terms) -> float:
    """Return the weighted error of the workload, in records squared; 0 without one.

    Args:
        selector: A selection, with its workload.
        domain: All columns.
        terms: Budget and earlier noise.
    """
    found = margins(selector, domain, terms)
    return math.fsum(float(each.table.weight) * each.stddev**2 for each in found)


@dataclass(frozen=True, slots=True, eq=False)
class CertainParts:
    """What the measurements for a workload tell the division of the rest.

    Attributes:
        kinds: For each of their cliques, whether it is an interaction. What the rest of the budget
            adds to one of them is measured in the same way, at once.
        told: Their noise, and that of the one-way tables.
        columns: Noise variance of a cell of each column's table, in records squared.
    """

    kinds: Mapping[Clique, bool]
    told: Sequence[Told]
    columns: NDArray[np.float64]

    @classmethod
    def of(cls, certain: Certain | None, domain: Domain, terms: Terms) -> CertainParts | None:
        """Return what is known from the certain measurements; None if there are none."""
        if certain is None:
            return None
        selection = certain.selection
        paid = dataclasses.replace(terms, measure=terms.measure * certain.share)
        told = told_by(selection, domain, paid)
        single = [WantedTable(of=(name,)) for name in domain.columns]
        return cls(
            {clique: clique in selection.interactions for clique in selection.cliques},
            told,
            np.array([mean_variance(each, told, domain, rows_public=False) for each in single]),
        )

    def precisions(self, cliques: Sequence[Clique], domain: Domain) -> NDArray[np.float64]:
        """Return the precision of each clique's own deviation; 0 for single columns."""
        known = precisions([clique for clique in cliques if len(clique) > 1], self.told, domain)
        own = {
            clique: math.prod(1 - 1 / domain.size((name,)) for name in clique) for clique in known
        }
        return np.array(
            [
                known[clique] / own[clique] if len(clique) > 1 and own[clique] else 0.0
                for clique in cliques
            ]
        )


def together(certain: Certain | None, chosen: Selection) -> Selection:
    """Return one selection of the workload's measurements and of what was chosen for the rest."""
    if certain is None:
        return chosen
    weights: dict[Clique, Fraction] = {}
    for selection, share in ((certain.selection, certain.share), (chosen, 1 - certain.share)):
        for clique, weight in zip(selection.cliques, selection.weights, strict=True):
            weights[clique] = weights.get(clique, Fraction(0)) + share * weight
    return Selection(
        cliques=tuple(weights),
        weights=tuple(weights.values()),
        interactions=certain.selection.interactions | chosen.interactions,
    )
