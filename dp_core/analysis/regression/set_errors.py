"""What sets get wrong about a coefficient: what was not measured, the prior's pull, and bins.

*Noise.* Let the scores of a regression be X'y, and B the inverse of its information. A term whose
columns and the outcome were measured in one noisy table has scores with the noise of that table:
with noise of variance s^2 in each count, the mean predictors x_c of the records in cell c of the
term's columns, and the mean outcome v_b of the records with code b, less that of all, the scores of
the term have the covariance

    N = s^2 (sum_b v_b^2) sum_c (x_c - x) (x_c - x)',

with the mean x of the x_c, because the outcome's own table tells the sum over the cells. So the
coefficients have B N B. A noisy sum of the pair (a trend, or moments of a declared
regression) adds its precision. What no table or sum holds may have any usual effect: a standard
deviation of the outcome, between two levels or for a standard deviation of a number.

*The prior.* Posterior sets follow a prior where this noise is large. With noise of standard error
t, a prior of standard deviation u takes the part t^2 / (u^2 + t^2) of an effect: at most t/2 of an
effect of size u, and at most t of one twice as large, whatever u is. So PULL^2 B N B is added to
the variance; and more, if the sets differ from the noisy tables by more than the noise. If t is
at least `UNTOLD` usual effects, the coefficient is not given.

*Bins.* Within a bin, values in the sets are unrelated to other columns. Predictors enter by their
means in a bin (`design.bin_means`), which does not change a slope (Berkson 1950). An outcome loses
the part of the relation that lies within its bins, and the coefficients are divided by the rest. A
change of a slope leaves the mean of the outcome as it is, so the intercept changes against it.

Berkson, J. (1950). Are there two regressions? JASA 45(250), 164-180.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from dp_core.analysis.regression.design import Design, Floats
from dp_core.analysis.regression.fitting import Fit, coefficient_columns
from dp_core.analysis.regression.frames import Codes, Frame, codes_of
from dp_core.analysis.regression.interval_warnings import (
    coefficients_of_groups,
    listed,
    lost_relations,
    of_members,
    source_columns,
)
from dp_core.bundle.quality.relations import bin_bias
from dp_core.bundle.reading import Bundle
from dp_core.client.released import Totals
from dp_core.inference.combine import Combined
from dp_core.inference.formulas.formula import Formula
from dp_core.inference.measured_relations import list_groups
from dp_core.kernel.questions.regressions.shortened import UNIT, SecondMoments
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool
from dp_core.methods.trends import NoisyTrend, trends_of

PULL = 0.7
"""Standard deviation of what the prior takes from an effect, in standard errors of the noise.

`benchmarks/regressions.py` measures what it covers."""
UNTOLD = 0.5
"""Standard error of the noise, in usual effects, from which a coefficient is not given."""
_UNSURE = 0.3
"""Relative error of the correction for bins."""
_MOST_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class NotGiven:
    """Coefficients that the published results do not determine.

    Attributes:
        kind: `not-measured`: no noisy table or sum has their columns with the outcome. `noise`: the
            noise of the tables is too large. `not-in-every-set`: some set does not determine them.
        coefficients: Their names.
        reason: Why, and what would tell them, in two sentences.
        epsilon_times: Of kind `noise`, the multiple of the release's epsilon at which a release
            like this one would tell the first of them; otherwise None.
    """

    kind: Literal["not-measured", "noise", "not-in-every-set"]
    coefficients: tuple[str, ...]
    reason: str
    epsilon_times: float | None


def corrected(
    bundle: Bundle,
    formula: Formula,
    design: Design,
    frames: Sequence[Frame],
    fits: Sequence[Fit],
    combined: Combined | None,
) -> tuple[Combined | None, tuple[NotGiven, ...]]:
    """Return the coefficients with the errors of the sets in their intervals, and those not given.

    Args:
        bundle: The release.
        formula: Formula of the regression.
        design: Its design on the sets.
        frames: Complete rows of each set.
        fits: Fit of each set.
        combined: The coefficients from the sets, by the rule of the release; None for a single set.
    """
    if bundle.origin in ("drawn", "chosen"):
        return combined, _undetermined(design)
    errors = _Errors(bundle, formula, design, frames, fits)
    size = len(errors.columns)
    covariance, relative = np.zeros((size, size)), np.zeros(size)
    if bundle.rule == "posterior" and combined is not None:
        covariance, relative = errors.of_noise(np.diag(combined.variance))
    missing = (*_undetermined(design), *_not_given(bundle, formula, errors, relative))
    if combined is None:
        return None, missing
    shift, doubt = errors.of_bins(combined.estimate)
    against = errors.against_the_mean()
    extra = covariance + (against * (doubt**2 + (_UNSURE * shift) ** 2)) @ against.T
    variance = combined.variance + extra
    # What the noise adds is known, so only the part of the sets has few degrees of freedom.
    ratio = np.diag(variance) / np.maximum(np.diag(combined.variance), 1e-300)
    found = replace(
        combined,
        estimate=combined.estimate - against @ shift,
        variance=variance,
        added=extra,
        degrees_of_freedom=combined.degrees_of_freedom * ratio**2,
    )
    return found, missing


def _hidden_by_noise(names: Sequence[str], relative: Floats) -> Iterator[NotGiven]:
    """Yield the coefficients that noise hides, if there are any.

    Args:
        names: Names of the coefficients.
        relative: Standard error of their noise, in usual effects.
    """
    hidden = [place for place in range(len(names)) if relative[place] >= UNTOLD]
    if hidden:
        own, times = tuple(names[at] for at in hidden), float(relative[hidden].min()) / UNTOLD
        yield NotGiven(
            "noise",
            own,
            f"{listed(own)}: the noise of the tables is larger than most effects. A release like"
            f" this one would need about {max(times, 1.1):.2g} times the epsilon to estimate the"
            " first of them.",
            times,
        )


def _usual_effects(design: Design) -> Floats:
    """Return the largest usual effect of each coefficient, in its unit.

    It is a standard deviation of the outcome, between two levels or for a standard deviation of a
    number; on the scale of the logarithm for other than linear regressions.
    """
    every = np.concatenate(design.x)
    levels = np.isin(every, (-1.0, 0.0, 1.0)).all(axis=0)
    units = np.where(levels, 1.0, 1 / np.maximum(every.std(axis=0), 1e-300))
    sizes = []
    for own in _outcomes(design, np.concatenate(design.y)).T:
        mean, deviation = float(own.mean()), max(float(own.std()), 1e-12)
        match design.outcome.family:
            case "linear":
                sizes.append(deviation)
            case "poisson":
                sizes.append(deviation / max(mean, 1e-12))
            case "logistic" | "multinomial":
                sizes.append(1 / deviation)
    return np.kron(np.array(sizes), units)


def _outcomes(design: Design, y: Floats) -> Floats:
    """Return the outcome of each linear predictor, shape (rows, levels - 1) or (rows, 1)."""
    levels = len(design.outcome.levels)
    return y[:, None] if not levels else (y[:, None] == np.arange(1, levels)).astype(float)


def _undetermined(design: Design) -> tuple[NotGiven, ...]:
    """Return the coefficients that some set does not determine, if there are any."""
    names = design.undetermined
    if not names:
        return ()
    reason = (
        f"{listed(names)}: some set has no such record, or too few to tell it from the other terms."
        " Where a set has such records, they are fitted separately, so that they do not count as"
        " the reference level."
    )
    return (NotGiven("not-in-every-set", names, reason, None),)


def _not_given(
    bundle: Bundle, formula: Formula, errors: _Errors, relative: Floats
) -> Iterator[NotGiven]:
    """Yield the coefficients that nothing measured tells, and those that noise hides."""
    outcome, columns = {*source_columns(bundle, formula.outcome_columns)}, errors.columns
    lost = [
        group
        for group in lost_relations(bundle, formula)
        if outcome & {*group}
        and frozenset(group) not in errors.correlations
        and not of_members(group)
    ]
    gone = coefficients_of_groups(bundle, formula, columns, lost)
    if gone:
        yield NotGiven(
            "not-measured",
            gone,
            f"{listed(gone)}: this needs a noisy table of {list_groups(lost)}, which the release"
            " does not have. A release that lists this table under `tables`, or this formula under"
            " `analyses`, can estimate it; so can a question desk.",
            None,
        )
    yield from _hidden_by_noise(
        [*columns],
        np.array([own * (name not in gone) for name, own in zip(columns, relative, strict=True)]),
    )


def _correlation_noise(bundle: Bundle, pooled: Pooled) -> dict[frozenset[str], float]:
    """Return the standard error of the correlation of each pair that noisy sums tell.

    These are trends of pairs of numbers or two levels, and second moments of declared regressions.
    Posterior sets are drawn given both.
    """
    schema, found = bundle.claims.schema, dict[frozenset[str], float]()
    records = max(bundle.records, 1.0)
    for trend in trends_of(schema.domain, bundle.measured):
        columns = [schema.column(name) for name in trend.pair]
        if all(not column.levels or len(column.levels) == 2 for column in columns):
            spread = _spread(trend, pooled)
            found[frozenset(trend.pair)] = math.sqrt(trend.variance) / (records * spread)
    for item in bundle.measured:
        if isinstance(item, Totals) and isinstance(item.of, SecondMoments):
            # Of features with unit second moments; an entry off the diagonal has half the variance.
            own = math.sqrt(item.variance / 2) / (UNIT**2 * records)
            names = [each.name for each in item.of.features.all]
            found |= {frozenset(pair): own for pair in combinations(names, 2)}
    return found


def _spread(trend: NoisyTrend, pooled: Pooled) -> float:
    """Return the product of the standard deviations of a trend's two scaled codes."""
    at = np.unravel_index(int(np.abs(trend.weights).argmax()), trend.weights.shape)
    found = 1 / max(abs(float(trend.weights[at])), 1e-300)
    for name, values in zip(
        trend.pair, (trend.weights[:, at[1]], trend.weights[at[0]]), strict=True
    ):
        counts = pooled.counts((name,))
        found *= 0.5 if counts is None else _deviation(np.maximum(counts, 0.0), values)
    return max(found, 1e-9)


class _Errors:
    """Errors of the coefficients of one release, from its noisy tables."""

    def __init__(
        self,
        bundle: Bundle,
        formula: Formula,
        design: Design,
        frames: Sequence[Frame],
        fits: Sequence[Fit],
    ) -> None:
        self.bundle, self.formula, self.design = bundle, formula, design
        self.columns = coefficient_columns(formula, design)
        self.schema = bundle.claims.schema
        # Sets of mode `split` have a measurement each; their mean has the mean of the noise.
        self.pooled = pool(self.schema.domain, bundle.measured)
        self.correlations = _correlation_noise(bundle, self.pooled)
        self.bread = np.mean([fit.bread for fit in fits], axis=0)
        self.sets = len(design.y)
        # Rows of a set, those with a missing value included, as tables count them.
        self.size = sum(frame.rows + frame.dropped for frame in frames) / self.sets
        self.x, self.y = np.concatenate(design.x), np.concatenate(design.y)
        self.outcomes = _outcomes(design, self.y)
        self.codes: dict[str, Codes] = {
            name: np.concatenate(
                [codes_of(self.schema.column(name), frame.data[name]) for frame in frames]
            )
            for name in formula.columns
            if name in self.schema.domain.columns and name in self.schema.names
        }

    def of_noise(self, variances: Floats) -> tuple[Floats, Floats]:
        """Return the covariance of what the prior may take, and the noise in usual effects.

        Args:
            variances: Variances of the coefficients from the sets.
        """
        size, effects = len(self.columns), _usual_effects(self.design)
        noise, apart = np.zeros((size, size)), self._of_all_records()
        information = np.linalg.inv(self.bread)
        width = len(self.design.names)
        for term, columns in enumerate(self.formula.terms):
            own = np.flatnonzero(np.array(self.design.terms) == term)
            if not columns or not own.size:
                continue
            places = (np.arange(0, size, width)[:, None] + own).ravel()
            square = np.ix_(places, places)
            found = self._of_term(columns, own)
            if found is None:
                # Nothing tells it, so it may have any usual effect.
                noise[square] += np.diag((effects[places] * np.diag(information)[places]) ** 2)
            else:
                noise[square] += found[0]
                apart[places] += found[1]
        whole = self.bread @ noise @ self.bread
        errors = np.sqrt(np.maximum(np.diag(whole), 0.0))
        relative = errors / np.maximum(effects, 1e-300)
        kept = PULL * np.minimum(1.0, 1 / np.maximum(relative, 1e-300))
        # What the sets differ from the noisy tables by, beyond chance, is an error of the sets.
        beyond = np.maximum((self.bread @ apart) ** 2 - errors**2 - variances, 0.0)
        told = errors > 0
        kept[told] = np.maximum(kept[told], np.sqrt(beyond[told]) / errors[told])
        return whole * np.outer(kept, kept), relative

    def _of_term(self, columns: Sequence[str], own: Codes) -> tuple[Floats, Floats] | None:
        """Return the noise of a term's scores, and by how much the tables' are larger.

        Returns:
            Covariance, shape (k, k), and differences, shape (k,), for the k coefficients of the
            term, level by level; None if nothing tells them.
        """
        outcome = self.formula.outcome_columns
        if not {*columns, *outcome} <= {*self.codes} or len(outcome) != 1:
            size = self.outcomes.shape[1] * len(own)
            return np.zeros((size, size)), np.zeros(size)
        clique = (*columns, outcome[0])
        sizes = [self.schema.column(name).size for name in clique]
        cells, code = np.zeros(len(self.y), dtype=np.intp), self.codes[outcome[0]]
        for name, each in zip(columns, sizes, strict=False):
            cells = cells * each + self.codes[name]
        count = math.prod(sizes[:-1])
        records = np.bincount(cells, minlength=count)
        means = np.array([np.bincount(cells, self.x[:, at], minlength=count) for at in own])
        means = means / np.maximum(records, 1)
        by_code, values = self._values(outcome[0])
        table = self._table(clique, count * sizes[-1])
        found = None
        apart = np.zeros(values.shape[0] * len(own))
        rows = len(self.y) / self.sets
        if table is not None:
            counts, variance = table
            # A code with few records cannot have the noise that its cells have in the table.
            values = values * np.minimum(1.0, by_code / self.sets / math.sqrt(variance))
            away = (means - means[:, records > 0].mean(axis=1)[:, None]) * (records > 0)
            found = np.kron(values @ values.T, away @ away.T) * variance
            mine = np.bincount(cells * sizes[-1] + code, minlength=count * sizes[-1])
            rest = counts.reshape(count, -1) - mine.reshape(count, -1) / self.sets
            apart = (values @ rest.T @ means.T).ravel()
        told = self.correlations.get(frozenset(clique)) if len(columns) == 1 else None
        if told is not None:
            spread = np.outer(self.outcomes.std(axis=0), self.x[:, own].std(axis=0)).ravel()
            sums = np.diag((told * rows * spread) ** 2)
            if found is None:
                return sums, apart
            part = np.trace(sums) / max(np.trace(sums) + np.trace(found), 1e-300)
            return found * part, apart * part
        return None if found is None else (found, apart)

    def _of_all_records(self) -> Floats:
        """Return by how much the scores of the intercept are larger by the outcome's own table."""
        found, names = np.zeros(len(self.columns)), self.formula.outcome_columns
        table = self._table(names, 1) if len(names) == 1 and names[0] in self.codes else None
        if table is None or "Intercept" not in self.design.names:
            return found
        records, values = self._values(names[0])
        at = self.design.names.index("Intercept")
        found[at :: len(self.design.names)] = values @ (table[0] - records / self.sets)
        return found

    def _values(self, name: str) -> tuple[Codes, Floats]:
        """Return the records of all sets by the code of the outcome's column, and its values.

        Returns:
            Records, shape (codes,), and the mean outcome of each code less that of all records,
            shape (levels - 1 or 1, codes); 0 for a code without records.
        """
        code, size = self.codes[name], self.schema.column(name).size
        records = np.bincount(code, minlength=size)
        sums = np.array([np.bincount(code, each, minlength=size) for each in self.outcomes.T])
        values = sums / np.maximum(records, 1) - self.outcomes.mean(axis=0)[:, None]
        return records, values * (records > 0)

    def _table(self, clique: Sequence[str], cells: int) -> tuple[Floats, float] | None:
        """Return noisy counts of some columns, in their order, and the variance of a count.

        Both are those of a file of the size of a set; None if no table tells them.
        """
        if cells > _MOST_CELLS:
            return None
        counts, variance = self.pooled.counts(tuple(clique)), self.pooled.variance(tuple(clique))
        if counts is None or variance is None:
            return None
        scale = self.size / max(float(np.sum(counts)), 1.0)
        return scale * np.asarray(counts, dtype=np.float64), scale**2 * float(variance)

    def of_bins(self, estimate: Floats) -> tuple[Floats, Floats]:
        """Return the expected errors of the coefficients by the outcome's bins, and their doubt.

        The intercept has the error of the outcome's mean; that of the slopes comes with them. The
        doubt is about the density within the bins.
        """
        size, none = len(self.columns), np.zeros(len(self.columns))
        names = self.formula.outcome_columns
        if len(names) != 1 or names[0] not in self.codes or self.schema.column(names[0]).levels:
            return none, none
        column, code = self.schema.column(names[0]), self.codes[names[0]]
        bins = np.arange(column.size) == code[:, None]
        slopes = np.array([bool(each) for each in self.columns.values()])
        shares = self.bread @ np.kron(np.eye(size // len(self.design.names)), self.x.T)
        linear = self.design.outcome.family == "linear"
        constant = self.without_effects()
        if linear:
            shares = shares @ bins / self.sets
        counts, variance = self.pooled.counts(names), self.pooled.variance(names)
        known, kept = None, 1.0
        if not linear or self.formula.outcome != names[0]:
            # Within bins that were chosen privately, values follow the noisy counts.
            kept = 1.0 if column.choice is not None else _kept(code, self.outcomes)
        elif counts is not None and variance:
            known = bin_bias(column, counts, math.sqrt(variance))
            kept = 1.0 if known is None else known.outcome
        shift = (estimate - constant) * (1 - 1 / max(kept, 0.05)) * slopes
        if known is None:
            return shift, none
        used = shares[:, : len(known.doubt)]
        # That the density of one bin is wrong says nothing of the others.
        doubt = np.sqrt(((used * known.doubt) ** 2).sum(axis=1))
        return shift + shares.sum(axis=1) * known.mean, doubt

    def without_effects(self) -> Floats:
        """Return the coefficients if all records had the mean outcome: with an intercept, that."""
        mean, family = self.outcomes.mean(axis=0), self.design.outcome.family
        if family == "poisson":
            mean = np.log(np.maximum(mean, 1e-12))
        elif family != "linear":
            mean = np.log(np.maximum(mean, 1e-12) / max(1 - float(mean.sum()), 1e-12))
        one = np.linalg.lstsq(self.x, np.ones(len(self.x)), rcond=None)[0]
        return np.kron(mean, one)

    def against_the_mean(self) -> Floats:
        """Return the matrix that also changes the intercept so that the mean stays."""
        size, width = len(self.columns), len(self.design.names)
        found = np.eye(size)
        if "Intercept" in self.design.names:
            at, means = self.design.names.index("Intercept"), self.x.mean(axis=0)
            means[at] = -1.0
            for first in range(0, size, width):
                found[first + at, first : first + width] = -means
        return found


def _kept(codes: Codes, values: Floats) -> float:
    """Return the part of the variance of values, shape (rows, k), that lies between codes."""
    records = np.maximum(np.bincount(codes), 1)
    within = total = 0.0
    for own in values.T:
        mean = np.bincount(codes, own) / records
        within += float(((own - mean[codes]) ** 2).sum())
        total += float(((own - own.mean()) ** 2).sum())
    return 1 - within / max(total, 1e-300)


def _deviation(counts: Floats, values: Floats) -> float:
    """Return the standard deviation of values with these counts; 0 without any."""
    total = float(counts.sum())
    if not total > 0:
        return 0.0
    mean = float(counts @ values) / total
    return math.sqrt(max(float(counts @ (values - mean) ** 2) / total, 0.0))
