"""Draws of all tables of a file given its noisy tables. A posterior set is made from one draw.

A table is the sum of orthogonal parts, which are observed with independent noise
(`estimates.pooled_parts`). Tables are drawn in three steps:

1. one-way tables, given their noisy counts and that counts are not negative (`column_draws`);
2. tables of pairs, also of pairs that were not measured, given the one-way tables (`pair_prior`,
   `pair_draws`);
3. measured tables of more columns, given the pairs (`larger_draws`).

If columns lie within one another, tables of the smaller areas are drawn given those of the larger
ones (`nested_draws`).

The draws of the m sets are centred (`centred_draws`), so Rubin's rule (1987) holds for them:
T = W + (1 + 1/m) B.

The prior is learned from all pairs. So the draws are nearer to the file than with a flat prior, and
a pair that was not measured has a variance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from dp_core.client.released import Released, Table, kind_of
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.prior import PublicPrior
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool
from dp_core.methods.reconstruction.estimates.raking import without_dependence
from dp_core.methods.reconstruction.estimates.table_parts import beyond
from dp_core.methods.replicates.posterior.agreement import clear_scores
from dp_core.methods.replicates.posterior.column_draws import (
    ColumnDraws,
    Told,
    draw_column,
    draw_total,
)
from dp_core.methods.replicates.posterior.joint_draws import JointDraws, is_alone
from dp_core.methods.replicates.posterior.known_sums import KnownSums
from dp_core.methods.replicates.posterior.larger_draws import LargerDraws
from dp_core.methods.replicates.posterior.nested_draws import (
    Children,
    above,
    areas_table,
    counts_of,
    draw_areas,
    expected_within,
    in_order,
    is_drawn,
    lower_of,
    observed_pair,
    with_pairs_above,
)
from dp_core.methods.replicates.posterior.pair_draws import PairPosterior, pair_table
from dp_core.methods.replicates.posterior.pair_prior import Column, Pair, learn, of_coordinates
from dp_core.methods.replicates.posterior.path_predictions import with_path_predictions
from dp_core.methods.replicates.posterior.public_predictions import with_public_predictions
from dp_core.methods.replicates.posterior.shared_predictions import predictions
from dp_core.methods.replicates.posterior.truncation import Floats
from dp_core.methods.trends import trends_of
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import cliques_of, levels_within

SETS = 5
"""Default number of sets."""
MOST_CELLS = 1 << 22
"""Largest number of cells of all drawn pairs together."""
MOST_PAIRS = 2000
"""Largest number of drawn pairs (all pairs of 63 columns). Measured pairs are always drawn, then
the smallest others within both limits. The remaining pairs follow from the records."""

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def _in_one_thread(function: Callable[_Given, _Found]) -> Callable[_Given, _Found]:
    """Return a function whose matrices are multiplied in one thread.

    They are small, so further threads only wait for one another. Sets may be drawn in parallel.
    """

    @wraps(function)
    def limited(*given: _Given.args, **named: _Given.kwargs) -> _Found:
        import scipy.linalg  # noqa: F401  only a library that is loaded is limited

        with threadpool_limits(limits=1, user_api="blas"):
            return function(*given, **named)

    return limited


@dataclass(frozen=True, slots=True, eq=False)
class PosteriorTables:
    """The posterior distribution of a file's tables, prepared for the draws of m sets.

    Attributes:
        domain: All columns.
        zeros: Impossible cells; they are 0 in every draw.
        total: Estimated number of records.
        totals: Number of records of each set, shape (sets,).
        larger: Posteriors of the measured tables of three columns and more.
        seed: Seed of the draws, which are the same for every call.
        columns: Draws of the one-way tables, by column.
        scores: Values of the levels of numeric and ordinal columns, by column.
        pairs: Posteriors of the pairs of columns, in the order of the domain; of columns within one
            another, those of larger areas first.
        middles: Central table of each pair, by pair, if columns lie within one another;
            otherwise empty.
        children: For each column that lies within another, its codes within each code of the other.
        joint: Draws of the table of all columns, if nothing else was measured (`is_alone`);
            otherwise None. All tables are its margins; `columns`, `pairs`, `larger` are empty.
    """

    domain: Domain
    zeros: StructuralZeros
    total: float
    totals: Floats
    larger: LargerDraws
    seed: int
    columns: Mapping[str, ColumnDraws] = field(default_factory=dict)
    scores: Mapping[str, Floats] = field(default_factory=dict)
    pairs: Mapping[Clique, PairPosterior] = field(default_factory=dict)
    middles: Mapping[Clique, Floats] = field(default_factory=dict)
    children: Mapping[str, Children] = field(default_factory=dict)
    joint: JointDraws | None = None

    @classmethod
    @_in_one_thread
    def of(
        cls,
        domain: Domain,
        released: Sequence[Released],
        *,
        sets: int,
        rows: int | None,
        zeros: StructuralZeros,
        dependences: Mapping[Clique, float] | None = None,
        dependence_stddev: float = 0.0,
        scores: Mapping[str, Floats] | None = None,
        sums: Mapping[Clique, KnownSums] | None = None,
        counts: Mapping[str, Floats] | None = None,
        public: PublicPrior | None = None,
        unmeasured: bool = True,
        rng: np.random.Generator,
    ) -> PosteriorTables:
        """Return the posterior given everything that was measured.

        Args:
            domain: All columns.
            released: Noisy tables and interactions of one measurement, at least one table.
            sets: Number of sets, at least 2.
            rows: Number of records if it is public, otherwise None.
            zeros: Impossible cells.
            dependences: Noisy sum of absolute deviations from independence, in records, by pair;
                None (the default) if it was not measured.
            dependence_stddev: Standard deviation of the noise of these sums, in records; 0 (the
                default) without them.
            scores: Value of each level of numeric and ordinal columns, NaN for missing: they tell
                which levels are at the ends, and products of two columns are kept. None by default.
            sums: Noisy sums that were measured apart from tables, by column or pair in the order of
                the domain; None (the default) without any.
            counts: Public one-way tables, by column, each with `rows` records; they are those of
                every draw. None (the default) without any.
            public: Public records that predict the dependence of pairs; None (the default) if there
                are none.
            unmeasured: Whether pairs that were not measured have a table, too; they do by default.
            rng: Generator; same state, same draws.
        """
        if sets < 2:
            raise ValueError(
                "Posterior sets must be at least 2, because their differences show the noise."
            )
        pooled = pool(domain, released, rows=rows)
        zeros = zeros.with_empty_levels(domain, most_cells=MOST_CELLS).with_implied_pairs(domain)
        total, totals = draw_total(pooled, sets, rng)
        valued = scores or {}
        told, fixed = sums or {}, counts or {}
        trends = trends_of(domain, released)
        if is_alone(pooled) and not (told or fixed or public or trends):
            return cls(
                domain=domain,
                zeros=zeros,
                total=total,
                totals=totals,
                larger=LargerDraws(domain, pooled, zeros, ()),
                seed=0,
                joint=JointDraws.of(pooled, zeros, total=total, totals=totals, rng=rng),
            )
        known = _known_scores(pooled, valued)
        nested, columns = domain.nested, dict[str, ColumnDraws]()
        children = (
            {}
            if nested is None
            else {name: levels_within(nested, name) for name in nested.columns[1:]}
        )
        for name in in_order(nested, domain.columns):
            upper = None if nested is None else nested.above(name)
            if name in fixed:
                columns[name] = ColumnDraws(fixed[name], np.tile(fixed[name], (sets, 1)))
            elif upper is None:
                columns[name] = draw_column(
                    domain.project((name,)),
                    counts_of(pooled, name),
                    total=total,
                    totals=totals,
                    zeros=zeros,
                    values=valued.get(name),
                    sums=told.get((name,)),
                    rng=rng,
                )
            else:
                columns[name] = draw_areas(
                    pooled,
                    name,
                    larger=columns[upper],
                    children=children[name],
                    possible=~zeros.mask(domain.project((name,))),
                    rng=rng,
                )
        known_pairs = [
            *_observed_pairs(domain, pooled),
            *(pair for pair in told if len(pair) == 2),
            *(trend.pair for trend in trends),
        ]
        every = drawn_pairs(domain, known_pairs, unmeasured=unmeasured)
        cliques = tuple(pair for pair in every if lower_of(nested, pair) is None)
        expected = {
            clique: without_dependence(
                domain, clique, *(columns[name].middle for name in clique), zeros=zeros
            )
            for clique in cliques
        }
        told = {**told}
        for trend in trends:
            own = trend.beyond(expected[trend.pair])
            told[trend.pair] = own.joined(told.get(trend.pair))
        observed: dict[Clique, Told] = {}
        for clique in cliques:
            part = observed_pair(pooled, clique)
            if part is not None:
                observed[clique] = part[0] - beyond(expected[clique]), part[1]
        predicted = predictions(domain, observed, expected, total=total, rng=rng)
        coded = {
            name: Column.of(
                columns[name].middle, known.get(name, np.arange(size, dtype=np.float64))
            )
            for name, size in zip(domain.columns, domain.sizes, strict=True)
            if name not in children
        }
        asked = {
            clique: (value, dependence_stddev) for clique, value in (dependences or {}).items()
        }
        pairs = {
            clique: replace(
                _known_pair(clique, coded, total, observed.get(clique), asked),
                predicted=(predicted.get(clique),),
                sums=told.get(clique),
            )
            for clique in cliques
        }
        pairs = with_path_predictions(domain, pairs, expected)
        if public is not None:
            middles = {name: each.middle for name, each in columns.items()}
            possible = {clique: ~zeros.mask(domain.project(clique)) for clique in pairs}
            pairs = with_public_predictions(public, pairs, middles, expected, possible)
        last = 0 if public is None else max((len(p.predicted) for p in pairs.values()), default=0)
        posteriors = _posteriors(domain, zeros, pairs, expected, public=last)
        found = cls(
            domain=domain,
            zeros=zeros,
            total=total,
            totals=totals,
            columns=columns,
            scores=known,
            pairs=posteriors,
            children=children,
            larger=LargerDraws.of(domain, pooled, zeros),
            seed=int(rng.integers(1 << 62)),
        )
        return found.with_areas(pooled, every, coded, asked)

    def with_areas(
        self,
        pooled: Pooled,
        every: Sequence[Clique],
        coded: Mapping[str, Column],
        asked: Mapping[Clique, tuple[float, float]],
    ) -> PosteriorTables:
        """Return the posterior with the pairs of columns that lie within others, level by level.

        Args:
            pooled: All measurements.
            every: All pairs to draw.
            coded: Directions of the columns that do not lie within others, by name.
            asked: Noisy sum of absolute deviations from independence, in records, and the standard
                deviation of its noise, by pair.
        """
        nested, domain = self.domain.nested, self.domain
        if nested is None:
            return self
        ones = {name: each.middle for name, each in self.columns.items()}
        found, middles = dict(self.pairs), self._middles(ones)
        for name in nested.columns[1:]:
            of_areas = [clique for clique in every if lower_of(nested, clique) == name]
            if not of_areas:
                continue
            known = {**coded, name: Column.of_areas(ones[name], self.children[name])}
            pairs, expected = {}, {}
            for clique in of_areas:
                expected[clique] = self._expected(clique, ones, middles)
                seen = observed_pair(pooled, clique)
                part = None if seen is None else (seen[0] - beyond(expected[clique]), seen[1])
                # The whole dependence, not what it adds to that on the larger area: a difference of
                # two noisy values is too small where the larger area was measured for its value.
                pairs[clique] = _known_pair(clique, known, self.total, part, asked)
            for clique, posterior in _posteriors(domain, self.zeros, pairs, expected).items():
                found[clique] = posterior
                middles[clique] = self._table(clique, posterior, None, ones, middles)
        return replace(self, pairs=found, middles=middles)

    def _larger_areas(self, clique: Clique, lower: str, found: Mapping[Clique, Floats]) -> Floats:
        """Return a set's table of the larger areas, with the areas on its first axis."""
        pair = above(self.domain, clique, lower)
        other = next(name for name in clique if name != lower)
        return found[pair] if pair.index(other) else found[pair].T

    def _expected(
        self, clique: Clique, ones: Mapping[str, Floats], found: Mapping[Clique, Floats]
    ) -> Floats:
        """Return a set's counts without dependence, or without dependence within larger areas.

        Args:
            clique: A pair.
            ones: The set's one-way tables, by column.
            found: The set's tables of pairs so far.
        """
        lower = lower_of(self.domain.nested, clique)
        if lower is None:
            return without_dependence(
                self.domain, clique, *(ones[name] for name in clique), zeros=self.zeros
            )
        axis = clique.index(lower)
        possible = np.moveaxis(~self.zeros.mask(self.domain.project(clique)), axis, 0)
        table = self._larger_areas(clique, lower, found)
        counts = expected_within(ones[lower], table, self.children[lower], possible)
        return np.moveaxis(counts, 0, axis)

    def _table(
        self,
        clique: Clique,
        posterior: PairPosterior,
        deviation: Floats | None,
        ones: Mapping[str, Floats],
        found: Mapping[Clique, Floats],
    ) -> Floats:
        """Return a set's table of a pair.

        Args:
            clique: The pair.
            posterior: Its posterior distribution.
            deviation: The set's draw from it, shape (p, q), in records; None for the centre.
            ones: The set's one-way tables, by column.
            found: The set's tables of pairs so far; those of the larger areas are needed.
        """
        expected, (a, b) = self._expected(clique, ones, found), clique
        lower = lower_of(self.domain.nested, clique)
        if lower is not None:
            return areas_table(
                posterior,
                deviation,
                expected=expected,
                rows=ones[lower],
                table=self._larger_areas(clique, lower, found),
                children=self.children[lower],
                axis=clique.index(lower),
            )
        return pair_table(
            posterior,
            deviation,
            expected=expected,
            rows=ones[a],
            columns=ones[b],
            scores=(self.scores.get(a), self.scores.get(b)),
        )

    @_in_one_thread
    def central_tables(self) -> tuple[Table, ...]:
        """Return the most accurate tables, of the same cliques as `draw` does.

        They are those of a set to look at. No interval follows from it.
        """
        if self.joint is not None:
            return self.joint.tables(0)
        ones = {name: each.middle for name, each in self.columns.items()}
        found: dict[Clique, Floats] = {(name,): ones[name] for name in self.domain.columns}
        found |= self.middles or self._middles(ones)
        found |= self.larger.middle(found)
        return tuple(Table(self.domain.project(clique), values) for clique, values in found.items())

    def _middles(self, ones: Mapping[str, Floats]) -> dict[Clique, Floats]:
        """Return the central table of each pair of `pairs`, given the one-way tables."""
        found = dict[Clique, Floats]()
        for clique, posterior in self.pairs.items():
            found[clique] = self._table(clique, posterior, None, ones, found)
        return found

    @_in_one_thread
    def draw(self, number: int) -> tuple[Table, ...]:
        """Return the tables of a set: of all columns, of the pairs, and of larger cliques.

        They are nonnegative, have the set's number of records, and agree with its one-way tables.

        Args:
            number: Number of the set, from 1.
        """
        sets, at = len(self.totals), number - 1
        if not 1 <= number <= sets:
            raise ValueError(f"There is no set {number}: sets are numbered from 1 to {sets}.")
        if self.joint is not None:
            return self.joint.tables(number)
        ones = {name: self.columns[name].draws[at] for name in self.domain.columns}
        found: dict[Clique, Floats] = {(name,): values for name, values in ones.items()}
        for place, (clique, posterior) in enumerate(self.pairs.items()):
            # The draws of a pair belong together, so each set draws those of all sets.
            rng = np.random.default_rng([self.seed, place])
            deviation = posterior.deviations(sets, rng)[at]
            found[clique] = self._table(clique, posterior, deviation, ones, found)
        rng = np.random.default_rng([self.seed, len(self.pairs)])
        found |= self.larger.draw(number, sets, found, rng=rng)
        return tuple(Table(self.domain.project(clique), values) for clique, values in found.items())


def _known_pair(
    clique: Clique,
    columns: Mapping[str, Column],
    total: float,
    observed: Told | None,
    asked: Mapping[Clique, tuple[float, float]],
) -> Pair:
    """Return what is known of a pair without predictions and sums.

    Args:
        clique: The pair.
        columns: Directions of its columns, by name.
        total: Number of records.
        observed: Observed deviation from independence, and its variance; None if not measured.
        asked: Noisy dependences, and the standard deviation of their noise, by pair.
    """
    one, other = (columns[name] for name in clique)
    return Pair(
        one=one,
        other=other,
        total=total,
        observed=observed[0] if observed else None,
        variance=of_coordinates(observed[1], one, other) if observed else 0.0,
        dependence=asked.get(clique),
    )


def _posteriors(
    domain: Domain,
    zeros: StructuralZeros,
    pairs: Mapping[Clique, Pair],
    expected: Mapping[Clique, Floats],
    *,
    public: int = 0,
) -> dict[Clique, PairPosterior]:
    """Return the posterior of each pair under the prior that all of them tell (`learn`)."""
    prior = learn(pairs, public=public)
    return {
        clique: PairPosterior.of(
            pair,
            prior.components,
            prior.beliefs[clique],
            expected=expected[clique],
            possible=~zeros.mask(domain.project(clique)),
        )
        for clique, pair in pairs.items()
    }


def _known_scores(pooled: Pooled, scores: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the scores of columns, as far as noisy counts tell their moments (`clear_scores`).

    The missing level has the mean score of the other levels. Columns without known moments are left
    out.
    """
    found = {}
    for name, values in scores.items():
        known = ~np.isnan(values)
        measured = counts_of(pooled, name)
        weights = np.ones(values.size) if measured is None else np.maximum(measured[0], 0.5)
        mean = float(np.average(values[known], weights=weights[known])) if known.any() else 0.0
        filled = np.where(known, values, mean)
        if measured is not None:
            noise = np.broadcast_to(measured[1], filled.shape)
            own = clear_scores(values[known], measured[0][known], noise[known])
            if own is None:
                continue
            filled[known] = own
        found[name] = filled
    return found


def measured_tables(inputs: FitInputs) -> tuple[tuple[Table, ...], int]:
    """Return the central tables of all columns, of the measured cliques and of pairs within these.

    Args:
        inputs: Noisy tables and interactions of one measurement, at least one table, and what is
            known besides.

    Returns:
        Nonnegative tables that nearly agree: those of all columns in the domain's order, then those
        of larger cliques, except of more than `larger_draws.MOST_CELLS` cells; and the number of
        records, which every table sums to.
    """
    told = [item for item in inputs.released if kind_of(item) in ("tables", "interactions")]
    found = PosteriorTables.of(
        inputs.domain,
        told,
        sets=2,
        rows=inputs.rows,
        zeros=inputs.zeros,
        unmeasured=False,
        rng=inputs.rng,
    )
    tables, total = found.central_tables(), round(found.total)
    if found.joint is None:
        tables = tuple(Table(one.domain, one.values * (total / found.total)) for one in tables)
    return tables, total


def drawn_pairs(
    domain: Domain, measured: Sequence[Clique], *, unmeasured: bool = True
) -> tuple[Clique, ...]:
    """Return the pairs to draw: the measured ones, and others from the smallest up to the limits.

    Pairs of small areas are drawn if one of them was measured, or if they have few cells. Otherwise
    these areas follow from the larger ones.

    Args:
        domain: All columns.
        measured: Measured pairs, and possibly other cliques, which are ignored.
        unmeasured: Whether to draw other pairs at all; True by default.
    """
    every = [pair for pair in cliques_of(domain, 2) if is_drawn(domain, pair, measured)]
    given = [pair for pair in measured if len(pair) == 2]
    kept: set[Clique] = {*with_pairs_above(domain, given)}
    room = MOST_CELLS - sum(domain.size(pair) for pair in kept)
    # Of pairs of equal size the first in the domain, in every process: sets have no order.
    others = [pair for pair in every if pair not in kept] if unmeasured else []
    for pair in sorted(others, key=domain.size):
        room -= domain.size(pair)
        if room < 0 or len(kept) >= MOST_PAIRS:
            break
        kept.add(pair)
    return tuple(pair for pair in every if pair in kept)


def undrawn_pairs(domain: Domain, released: Sequence[Released]) -> tuple[Clique, ...]:
    """Return the pairs that posterior sets do not draw; no interval covers the error of these.

    Args:
        domain: All columns.
        released: Noisy tables and interactions of one measurement.
    """
    every = cliques_of(domain, 2)
    drawn = {*drawn_pairs(domain, _observed_pairs(domain, pool(domain, released)))}
    return tuple(pair for pair in every if pair not in drawn)


def _observed_pairs(domain: Domain, pooled: Pooled) -> list[Clique]:
    """Return the pairs about whose dependence some measurement says something."""
    return [pair for pair in cliques_of(domain, 2) if pooled.precision(pair)]
