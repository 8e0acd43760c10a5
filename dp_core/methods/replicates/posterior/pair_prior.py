"""Prior and posterior distribution of the dependence of two columns.

The deviation R of a pair's exact table from independence sums to 0 over both columns. Along the
directions of the columns (`Column`: the trend first, then eigenvectors of the rest of the column's
covariance diag(p) - pp', with p its shares) its coordinates have the prior

    r_ij ~ N(c_ij, t^2 n^2 l_i l_j), with heavier tails (`_TAILS`),

with l the variances along the directions, n the number of records, t the scale of the pair's
dependence (of 2 x 2 cells: the phi coefficient), and c the centre: 0, or a prediction of the pair
from the other pairs, by factors that all columns share or along a path of pairs. The scale and the
kind of centre have a discrete prior, common to all pairs and learned from them (empirical Bayes, by
expectation maximisation). A measured pair informs it by its noisy tables and interactions. Another
pair informs it by its noisy dependence, a single number, if that was measured.

A pair that was not measured has a variance instead of being at its centre. The scale t is of the
file, so it contains the sampling variance n l_i l_j. Intervals are for the population behind the
file, and the rule for combining sets adds the sampling variance of the file (W). So the draws of
such a pair have only the rest, as far as its noisy dependence tells sampling from dependence. A
measured pair is drawn as the file has it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.methods.mixture_weights import mixture_beliefs
from dp_core.methods.replicates.posterior.known_sums import Condition, KnownSums
from dp_core.methods.replicates.posterior.truncation import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SCALES = np.array([0.0, *np.geomspace(0.002, 1.5, 12)])
"""Possible scales t of a pair's dependence; 0 is independence."""
STEEP = ((1.0, 1.0, 1.0), (1.0, 2.0, 4.0), (1.0, 4.0, 16.0), (1.0, 1.0, 10.0))
"""Possible scales, relative to t, of coordinates along no trend, one trend and two trends."""
_TAILS = np.array([0.75, 0.25]), np.array([1.0, 5.0])
"""Weights and relative widths of the normal mixture that is the prior of each coordinate. Its tails
are heavy because a few coordinates of a pair have much of its dependence."""
_UNSEEN = np.array([1.0, 1.2, 4.0])
"""Factors of the variance of pairs that were not measured, for coordinates along no trend, one
trend and two trends. A noisy dependence does not tell in which coordinates it is. The factors were
set on surveys."""
_USUAL = np.where(SCALES <= 0.3, 1.0, 0.1)  # prior weights of the scales in typical files
PUBLIC = 0.5
"""Prior weight of predictions from public records, relative to that of each other centre. It
matters if noise hides whether they fit; a wrong prior then costs less than with a weight of 1."""
_WORTH = 1.0  # weight of the typical file, as a number of pairs
_ROUNDS = 100
_MOST_EXACT = 512  # levels, or areas of a larger one, whose directions are eigenvectors


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column's shares, and the coordinates of deviations from independence along it.

    Attributes:
        shares: Estimated shares of the levels, shape (levels,), positive.
        values: Variance of each coordinate of one record's level, shape (levels - 1,).
        vectors: Directions of the coordinates, orthonormal and orthogonal to ones, shape (levels,
            levels - 1). The first is the trend along the scores; the others are eigenvectors of
            the rest of the covariance. Sparse for areas within larger ones.
        trend: Whether the first direction is a trend; False for a column of two levels.
    """

    shares: Floats
    values: Floats
    vectors: Floats | csr_array
    trend: bool

    @classmethod
    def of(cls, counts: Floats, scores: Floats) -> Column:
        """Return the column of a nonnegative one-way table; an empty level counts half a record.

        Args:
            counts: One-way table, in records, shape (levels,).
            scores: Value of each level, on any scale, shape (levels,).

        Returns:
            The column; its directions are sparse, and none is a trend, if it has very many levels.
        """
        if counts.size > _MOST_EXACT:
            return cls.of_areas(counts, [np.arange(counts.size)])
        kept = np.maximum(counts, 0.5)
        shares = kept / kept.sum()
        covariance = np.diag(shares) - np.outer(shares, shares)
        fixed = [np.ones(shares.size)]
        # How a trend along the scores moves the shares.
        along = covariance @ scores
        length = float(np.linalg.norm(along))
        trend = shares.size > 2 and length > 0
        if trend:
            fixed.append(along / length)
        rest = np.linalg.svd(np.array(fixed))[2][len(fixed) :]
        _, vectors = np.linalg.eigh(rest @ covariance @ rest.T)
        directions = np.column_stack([*fixed[1:], rest.T @ vectors])
        values = np.einsum("ki,kl,li->i", directions, covariance, directions)
        return cls(shares, np.maximum(values, 1e-12), directions, trend)

    @classmethod
    def of_areas(cls, counts: Floats, children: Sequence[NDArray[np.intp]]) -> Column:
        """Return the column of smaller areas, whose directions stay within one larger area.

        Args:
            counts: One-way table of the smaller areas, in records, shape (levels,).
            children: Codes of the smaller areas of each larger one.

        Returns:
            The column; it has one direction fewer for each larger area. The variances are those of
            the level given the larger area, times the share of the larger area.
        """
        from scipy.sparse import block_diag, csr_array

        kept = np.maximum(counts, 0.5)
        shares = kept / kept.sum()
        directions, values, order = [], [], []
        for block in children:
            if block.size < 2:
                continue
            own = shares[block]
            if block.size <= _MOST_EXACT:
                covariance = np.diag(own) - np.outer(own, own) / own.sum()
                # The vector of ones has the eigenvalue 0, which is the smallest.
                found, vectors = np.linalg.eigh(covariance)
                directions.append(vectors[:, 1:])
                values.append(found[1:])
            else:
                block = block[np.argsort(own, kind="stable")]
                vectors = _halving_directions(block.size)
                own = shares[block]
                values.append(vectors.power(2).T @ own - (vectors.T @ own) ** 2 / own.sum())
                directions.append(vectors)
            order.append(block)
        if not directions:
            return cls(shares, np.zeros(0), np.zeros((shares.size, 0)), False)
        # One block for each larger area: a dense matrix would grow with the square of the levels.
        blocks = block_diag(directions, format="coo")
        rows = np.concatenate(order)[blocks.row]
        shape = (shares.size, blocks.shape[1])
        return cls(
            shares,
            np.maximum(np.concatenate(values), 1e-12),
            csr_array((blocks.data, (rows, blocks.col)), shape=shape),
            False,
        )


def of_coordinates(variance: float | Floats, one: Column, other: Column) -> float | Floats:
    """Return the variance of each coordinate of a pair from that of each area.

    Args:
        variance: Variance of all cells, or of those of each level of one column, of shape
            (levels, 1) or (1, levels); cells of different levels are independent.
        one: The first column.
        other: The second column.

    Returns:
        A number, or an array of shape (coordinates, 1) or (1, coordinates).
    """
    if isinstance(variance, float | int) or np.ndim(variance) == 0:
        return float(variance)
    axis = int(variance.shape[0] == 1 and variance.shape[1] > 1)
    vectors = (one, other)[axis].vectors
    found = np.asarray((vectors**2).T @ variance.ravel())
    return found[None, :] if axis else found[:, None]


def _halving_directions(size: int) -> Any:
    """Return orthonormal directions that are orthogonal to ones, as a sparse matrix.

    Each direction compares the two halves of a part of the levels (unbalanced Haar basis), so that
    there are few entries other than 0: about `size` times the logarithm of `size`.

    Args:
        size: Number of levels, at least 2.

    Returns:
        A sparse matrix of shape (size, size - 1).
    """
    from scipy.sparse import csc_array

    starts, entries, places = [0], [], []
    parts = [(0, size)]
    while parts:
        low, high = parts.pop()
        middle = (low + high + 1) // 2
        left, right = middle - low, high - middle
        entries.append(np.full(left, math.sqrt(right / (left * (left + right)))))
        entries.append(np.full(right, -math.sqrt(left / (right * (left + right)))))
        places.append(np.arange(low, high))
        starts.append(starts[-1] + high - low)
        parts += [each for each in ((low, middle), (middle, high)) if each[1] - each[0] > 1]
    return csc_array(
        (np.concatenate(entries), np.concatenate(places), np.array(starts)), shape=(size, size - 1)
    )


@dataclass(frozen=True, eq=False)
class Pair:
    """What is known of the dependence of two columns.

    Attributes:
        one: The first column.
        other: The second column.
        total: Number of records, n.
        observed: Deviation of the noisy table from independence, in records, sums over both axes
            are 0; None if the pair was not measured.
        variance: Noise variance of the coordinates of `observed`, records squared: one for all, or
            an array that broadcasts to their shape.
        predicted: Predictions of the deviation, in records, sums over both axes are 0; they must
            not depend on `observed`. None (the default) where a kind of prediction has none.
        errors: Error variance of each coordinate of each prediction, records squared, as far as it
            is known; None, or no entry (the default), for 0.
        dependence: Noisy sum of the absolute deviations, in records, and the standard deviation of
            its noise; None if it was not measured.
        sums: Noisy sums of the deviation that were measured apart; None (the default) without any.
    """

    one: Column
    other: Column
    total: float
    observed: Floats | None = None
    variance: float | Floats = 0.0
    predicted: tuple[Floats | None, ...] = ()
    errors: tuple[Floats | None, ...] = ()
    dependence: tuple[float, float] | None = None
    sums: KnownSums | None = None

    def with_prediction(self, deviation: Floats | None, error: Floats | None = None) -> Pair:
        """Return the pair with a further kind of prediction.

        Args:
            deviation: The prediction, in records; None if this kind has none for the pair.
            error: Error variance of each of its coordinates, records squared; None for 0.
        """
        errors = (*self.errors, *(None for _ in range(len(self.predicted) - len(self.errors))))
        return dataclasses.replace(
            self, predicted=(*self.predicted, deviation), errors=(*errors, error)
        )

    @cached_property
    def trends(self) -> NDArray[np.int64]:
        """Number of trends along which each coordinate is: 0, 1 or 2; shape (p - 1, q - 1)."""
        one, other = (np.zeros(each.values.size, dtype=np.int64) for each in (self.one, self.other))
        one[:1] += self.one.trend
        other[:1] += self.other.trend
        return np.add.outer(one, other)

    def prior(self, component: Component) -> Floats:
        """Return the prior variance of each coordinate under a component, in records squared.

        Returns:
            An array of shape (widths of the tails, p - 1, q - 1).
        """
        usual = component.scales[self.trends] ** 2 * self.shape
        return np.minimum((_TAILS[1] ** 2)[:, None, None] * usual, self.most)

    @cached_property
    def most(self) -> Floats:
        """Largest prior variance of each coordinate for each width of the tails.

        No level can lose or gain more records than it has. So where one column determines the
        other, the squared coordinates along a direction of variance l add up to about (n l)^2. In
        the centre of the distribution they share it in proportion to their variances; in its tails,
        one may have it all.
        """
        one, other = self.one.values, self.other.values
        # A column of one level has no directions.
        whole = max(float(one.sum()), 1e-12), max(float(other.sum()), 1e-12)
        each = np.minimum.outer(one / whole[1], other / whole[0])
        return np.array([self.shape * each, (self.total * np.minimum.outer(one, other)) ** 2])

    @cached_property
    def shape(self) -> Floats:
        """Prior variance of each coordinate for a scale of 1, in records squared."""
        return np.asarray(self.total**2 * np.multiply.outer(self.one.values, self.other.values))

    @cached_property
    def tables(self) -> tuple[Floats, ...]:
        """Independence, then each prediction, in records; 0 where there is no prediction."""
        nothing = np.zeros((self.one.shares.size, self.other.shares.size))
        return (nothing, *(nothing if each is None else each for each in self.predicted))

    def has(self, use: int) -> bool:
        """Return whether the pair has the prediction of this number, from 1."""
        return use > 0 and self.predicted[use - 1] is not None

    @cached_property
    def centres(self) -> tuple[Floats, ...]:
        """Coordinates of `tables`."""
        return tuple(self.coordinates(table) for table in self.tables)

    @cached_property
    def sum_weights(self) -> Floats:
        """Weight of each coordinate in each sum that was measured apart, (sums, coordinates)."""
        tables = () if self.sums is None else self.sums.weights
        return np.array([self.coordinates(table).ravel() for table in tables])

    def error(self, use: int) -> Floats | float:
        """Return the known error variance of each coordinate of a centre, records squared."""
        found = self.errors[use - 1] if 0 < use <= len(self.errors) else None
        return 0.0 if found is None else found

    def coordinates(self, table: Floats) -> Floats:
        """Return the coordinates of a deviation, shape (p - 1, q - 1), in records."""
        return np.asarray(self.one.vectors.T @ table @ self.other.vectors)

    def table(self, coordinates: Floats) -> Floats:
        """Return the deviation with these coordinates, in records."""
        return np.asarray(self.one.vectors @ coordinates @ self.other.vectors.T)

    def cell_variances(self, variances: Floats) -> Floats:
        """Return the variance of each cell for independent coordinates of these variances."""
        return np.asarray(self.one.vectors**2 @ variances @ (self.other.vectors**2).T)


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """One component of the discrete prior.

    Attributes:
        scales: Scale of the coordinates along no trend, one trend and two trends, shape (3,).
        use: Number of the prediction at which it is centred, from 1; 0 for independence.
    """

    scales: Floats
    use: int


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """The learned prior of all pairs, and what each pair makes of it.

    Attributes:
        components: Components, in the order of the beliefs.
        beliefs: Posterior probabilities of the components, shape (components,), by pair.
    """

    components: tuple[Component, ...]
    beliefs: Mapping[Clique, Floats]


def learn(pairs: Mapping[Clique, Pair], *, public: int = 0) -> Prior:
    """Return the prior that maximises the likelihood of all pairs, and each pair's beliefs.

    Args:
        pairs: What is known of each pair.
        public: Number of the prediction that comes from public records, counted from 1; 0 (the
            default) if there is none.
    """
    kinds = {
        kind
        for pair in pairs.values()
        for kind, predicted in enumerate(pair.predicted, start=1)
        if predicted is not None
    }
    uses = (0, *sorted(kinds))
    components = tuple(
        Component(np.minimum(scale * np.array(steep), SCALES[-1]), use)
        for use in uses
        for steep in STEEP
        for scale in SCALES
    )
    parts = [PUBLIC if use == public > 0 else 1.0 for use in uses]
    usual = np.outer(parts, np.tile(_USUAL, len(STEEP))).ravel()
    usual = usual / usual.sum()
    if not pairs:
        return Prior(components, {})
    log_likelihood = np.array([_log_likelihood(pair, components) for pair in pairs.values()])
    belief = mixture_beliefs(log_likelihood, usual, worth=_WORTH, rounds=_ROUNDS)
    return Prior(components, dict(zip(pairs, belief, strict=True)))


def _log_likelihood(pair: Pair, components: Sequence[Component]) -> list[float]:
    """Return the log likelihood of what was measured of a pair under each component."""
    if pair.observed is None:
        found = _of_dependence(pair, components)
    else:
        observed = pair.coordinates(pair.observed)
        gaps = [observed - centre for centre in pair.centres]
        found = [
            float(_mixed(pair, component, gaps[component.use])[0].sum()) for component in components
        ]
    if pair.sums is None:
        return found
    given = (given_sums(pair, component, unseen=False) for component in components)
    return [own + told.log_likelihood for own, told in zip(found, given, strict=True)]


def conditional(pair: Pair, component: Component, *, unseen: bool = True) -> tuple[Floats, Floats]:
    """Return the mean and the variance of each coordinate under a component, in records.

    Args:
        pair: The pair.
        component: The component.
        unseen: Whether a pair that was not measured has a larger variance (`_UNSEEN`), as it has by
            default in draws; not in the likelihood of what was measured of it.
    """
    prior = pair.prior(component)
    centre = pair.centres[component.use]
    if pair.observed is None:
        whole = np.tensordot(_TAILS[0], prior, 1) * (_UNSEEN[pair.trends] if unseen else 1.0)
        whole = np.maximum(whole - _seen_sampling(pair), 0.0)
        return centre, np.asarray(whole + pair.error(component.use))
    gap = pair.coordinates(pair.observed) - centre
    _, belief = _mixed(pair, component, gap)
    wide = prior + pair.error(component.use)
    trust = wide / np.maximum(wide + pair.variance, 1e-300)
    mean = (belief * trust).sum(axis=0) * gap
    second = (belief * (trust * pair.variance + (trust * gap) ** 2)).sum(axis=0)
    return centre + mean, np.maximum(second - mean**2, 0.0)


def given_sums(pair: Pair, component: Component, *, unseen: bool = True) -> Condition:
    """Return the coordinates under a component, given also the sums that were measured apart.

    Args:
        pair: A pair with such sums.
        component: The component.
        unseen: As for `conditional`.
    """
    assert pair.sums is not None
    mean, variance = conditional(pair, component, unseen=unseen)
    return Condition.of(mean.ravel(), variance.ravel(), pair.sum_weights, pair.sums)


def _seen_sampling(pair: Pair) -> Floats | float:
    """Return how much sampling variance of the file to leave out of an unmeasured pair's draws.

    The noisy dependence must be able to tell sampling from dependence. With more noise it says
    little of this pair, and the scale of all pairs may be too small for it. So the part left out is
    the squared dependence expected from sampling over its sum with the noise variance. Nothing is
    left out where sums were measured apart, because these are of the file.
    """
    if pair.dependence is None or pair.sums is not None:
        return 0.0
    variances = pair.shape / max(pair.total, 1.0)
    by_chance = math.sqrt(2 / math.pi) * float(np.sqrt(pair.cell_variances(variances)).sum())
    part = by_chance**2 / max(by_chance**2 + pair.dependence[1] ** 2, 1e-300)
    return part * variances


def _mixed(pair: Pair, component: Component, gap: Floats) -> tuple[Floats, Floats]:
    """Return the log likelihood of each coordinate, and its belief in each width of the tails.

    Args:
        pair: The pair.
        component: The component.
        gap: Observed coordinates less the predicted ones, in records, shape (p - 1, q - 1).

    Returns:
        Log likelihoods, shape of `gap`; and beliefs, shape (widths, p - 1, q - 1).
    """
    variance = pair.prior(component) + (pair.variance + pair.error(component.use))
    log_density = np.log(_TAILS[0])[:, None, None] - 0.5 * (np.log(variance) + gap**2 / variance)
    most = log_density.max(axis=0)
    density = np.exp(log_density - most)
    total = density.sum(axis=0)
    return most + np.log(total), density / total


def _of_dependence(pair: Pair, components: Sequence[Component]) -> list[float]:
    """Return the log likelihood of a noisy sum of absolute deviations under each component.

    The sum is treated as normal. The mean of a cell's absolute deviation follows from the standard
    deviation of the cell around its prediction. The variance of the sum follows from the effective
    number of coordinates.
    """
    if pair.dependence is None:
        return [0.0] * len(components)
    noisy, stddev = pair.dependence
    # Components with the same scales differ only by their centre.
    done: dict[tuple[tuple[float, ...], int], float] = {}
    found = []
    for component in components:
        centred = component.use if pair.has(component.use) else 0
        key = tuple(component.scales.tolist()), centred
        if key not in done:
            variances = np.tensordot(_TAILS[0], pair.prior(component), 1)
            variances = variances + pair.error(centred)
            spread = np.maximum(np.sqrt(pair.cell_variances(variances)), 1e-9)
            free = float(variances.sum()) ** 2 / max(float((variances**2).sum()), 1e-300)
            chance = float(spread.sum()) ** 2 * (1 - 2 / math.pi) / max(free, 1.0)
            gap = noisy - _mean_absolute(pair.tables[centred], spread)
            variance = stddev**2 + chance
            done[key] = -0.5 * (math.log(variance) + gap**2 / variance)
        found.append(done[key])
    return found


def _mean_absolute(centre: Floats, spread: Floats) -> float:
    """Return the sum of the means of absolute normal variables (folded normal)."""
    if not centre.any():
        return math.sqrt(2 / math.pi) * float(spread.sum())
    from scipy.special import ndtr

    ratio = centre / spread
    mean = spread * math.sqrt(2 / math.pi) * np.exp(-0.5 * ratio**2) + centre * (
        1 - 2 * ndtr(-ratio)
    )
    return float(mean.sum())
