"""What sets get wrong about a coefficient: the noise of the tables, and bins.

*Noise.* The variance of a coefficient from posterior sets is W (1 + 1/m) + A: the sampling error of
the file and of the sets, and the noise of the tables, which is known (`table_noise`). The
differences between the sets contain this noise too, but there are few sets, and all follow the same
prior; they count if some relation of the formula was not measured. If the noise has a standard
error of at least `UNTOLD` usual effects, the coefficient is not given.

*Bins.* Within a bin, values in the sets are unrelated to other columns. Predictors enter by their
means in a bin (`design.bin_means`), which does not change a slope (Berkson 1950). The sets lose the
part of a relation that lies within the outcome's bins, so the coefficients are divided by the part
that is left. Correcting a slope must not change the mean of the outcome, so the intercept is moved
to compensate. The distribution within a bin is inferred from the counts of the neighbouring bins;
records that these do not explain may lie anywhere in the bin.

Berkson, J. (1950). Are there two regressions? JASA 45(250), 164-180.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dp_core.analysis.regression.design import Design, Floats
from dp_core.analysis.regression.fitting import Fit
from dp_core.analysis.regression.frames import Frame
from dp_core.analysis.regression.interval_warnings import (
    coefficients_of_groups,
    listed,
    lost_relations,
    of_members,
    source_columns,
)
from dp_core.analysis.regression.table_noise import TableNoise
from dp_core.bundle.reading import Bundle
from dp_core.inference.combine import Combined
from dp_core.inference.formulas.formula import Formula
from dp_core.inference.measured_relations import list_groups
from dp_core.methods.bin_density.bin_bias import BinBias, bin_bias

UNTOLD = 0.5
"""Standard error by noise, or by bins, in usual effects, from which a coefficient is not given."""
_LEAST_KEPT = 0.05
"""Smallest part of a coefficient that bins are taken to keep: the correction is at most 20."""
_UNSURE = 0.3
"""Relative error of the correction for bins."""


@dataclass(frozen=True, slots=True)
class NotGiven:
    """Coefficients that the published results do not determine.

    Attributes:
        kind: `not-measured`: no noisy table or sum has their columns with the outcome. `noise`: the
            noise of the tables is too large. `bins`: they depend on how values are distributed
            within bins. `not-in-every-set`: some set does not determine them.
        coefficients: Their names.
        reason: Why, and what would tell them, in two sentences.
        epsilon_times: Of kind `noise`, the multiple of the release's epsilon at which a release
            like this one would tell the first of them; otherwise None.
    """

    kind: Literal["not-measured", "noise", "bins", "not-in-every-set"]
    coefficients: tuple[str, ...]
    reason: str
    epsilon_times: float | None


@dataclass(frozen=True, slots=True)
class Corrected:
    """Coefficients from the sets, with the errors of the sets.

    Attributes:
        combined: The coefficients; None for a single set.
        not_given: Those that the published results do not determine.
        effects: Usual effect of each coefficient, by name; empty where errors are not known.
    """

    combined: Combined | None
    not_given: tuple[NotGiven, ...]
    effects: Mapping[str, float]


def corrected(
    bundle: Bundle,
    formula: Formula,
    design: Design,
    frames: Sequence[Frame],
    fits: Sequence[Fit],
    combined: Combined | None,
) -> Corrected:
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
        return Corrected(combined, _undetermined(design), {})
    noise = TableNoise(bundle, formula, design, frames, fits)
    missing = [*_undetermined(design), *_not_measured(bundle, formula, noise)]
    if combined is None:
        return Corrected(None, tuple(missing), {})
    back = noise.back
    added = np.zeros_like(back)
    if bundle.rule == "posterior":
        sampling, rubin = combined.within * (1 + 1 / combined.sets), combined.variance
        known, relative = noise.covariance(np.diag(sampling))
        known = back @ known @ back.T
        errors = np.sqrt(np.maximum(np.diag(known), 0.0)) / noise.effects
        missing += _hidden(noise, np.maximum(relative, errors), missing)
        if noise.is_known:
            if not noise.is_complete:
                # What was not measured may differ more between the sets.
                ratio = np.diag(rubin) / np.maximum(np.diag(sampling + known), 1e-300)
                wider = np.sqrt(np.maximum(ratio, 1.0))
                known = (sampling + known) * np.outer(wider, wider) - sampling
            degrees = combined.design_df or combined.complete_df or np.inf
            added = known
            combined = replace(
                combined,
                variance=sampling,
                degrees_of_freedom=np.full(len(back), degrees),
                by_differences=False,
            )
    bins = _Bins(noise)
    kept = bins.kept()
    # Slopes are divided by what bins keep of them, and so are their errors.
    scale = back @ np.diag(1 / kept) @ np.linalg.inv(back)
    estimate = bins.without_effects() + scale @ (combined.estimate - bins.without_effects())
    shift = (estimate - combined.estimate) * (kept < 1)
    doubt = back @ (bins.of_outcome() + bins.of_predictors()) @ back.T
    doubt = doubt + back @ np.diag((_UNSURE * shift) ** 2) @ back.T
    added = scale @ (combined.variance + added) @ scale.T - combined.variance + doubt
    variance = combined.variance + added
    # What is added is known, so only the rest has few degrees of freedom.
    ratio = np.diag(variance) / np.maximum(np.diag(combined.variance), 1e-300)
    found = replace(
        combined,
        estimate=estimate - bins.mean_error(),
        variance=variance,
        added=added,
        degrees_of_freedom=combined.degrees_of_freedom * ratio**2,
    )
    missing += _hidden(noise, np.sqrt(np.diag(doubt)) / noise.effects, missing, by_bins=True)
    effects = dict(zip(noise.columns, noise.effects.tolist(), strict=True))
    return Corrected(found, tuple(missing), effects)


def _hidden(
    noise: TableNoise, errors: Floats, missing: Sequence[NotGiven], *, by_bins: bool = False
) -> Iterator[NotGiven]:
    """Yield the coefficients that noise or bins hide, if there are any.

    Args:
        noise: The regression with its noise.
        errors: Standard errors of the coefficients by noise or by bins, in usual effects.
        missing: What else is not given.
        by_bins: Whether the errors are those by bins; False by default.
    """
    gone = {name for each in missing for name in each.coefficients}
    pairs = zip(noise.columns, errors.tolist(), strict=True)
    found = {name: error for name, error in pairs if name not in gone}
    if not by_bins:
        yield from hidden_by_noise(found)
        return
    hidden = tuple(name for name, error in found.items() if error >= UNTOLD)
    if hidden:
        columns = listed([name for name in noise.formula.columns if name in noise.values])
        reason = (
            f"{listed(hidden)}: this depends on how the values of {columns} are distributed within"
            " bins, which the release did not measure. Narrower bins where many records share a"
            " bin would tell it."
        )
        yield NotGiven("bins", hidden, reason, None)


def hidden_by_noise(errors: Mapping[str, float], of: str = "tables") -> tuple[NotGiven, ...]:
    """Return the coefficients that noise hides, if there are any.

    Args:
        errors: Standard error of each coefficient by noise, in usual effects.
        of: What has the noise; `tables` by default.
    """
    hidden = {name: error for name, error in errors.items() if error >= UNTOLD}
    if not hidden:
        return ()
    own, times = tuple(hidden), min(hidden.values()) / UNTOLD
    stated = f"about {max(times, 1.1):.2g}" if times < 10 else "many"
    reason = (
        f"{listed(own)}: the noise of the {of} is larger than most effects. A release like this"
        f" one would need {stated} times the epsilon to estimate the least noisy of them."
    )
    return (NotGiven("noise", own, reason, times),)


def _undetermined(design: Design) -> tuple[NotGiven, ...]:
    """Return the coefficients that some set, or the bins, do not determine, if there are any."""
    found = []
    if names := design.undetermined:
        reason = (
            f"{listed(names)}: some set has no such record, or too few to tell it from the other"
            " terms. Where a set has such records, they are fitted separately, so that they do not"
            " count as the reference level."
        )
        found.append(NotGiven("not-in-every-set", names, reason, None))
    if names := tuple(name for name in design.hidden_in_bins if name in design.names):
        reason = (
            f"{listed(names)}: most of its variance lies within bins, where values of the sets are"
            " unrelated to other columns. A formula that is declared, or asked at a question desk,"
            " is answered without bins."
        )
        found.append(NotGiven("bins", names, reason, None))
    return tuple(found)


def _not_measured(bundle: Bundle, formula: Formula, noise: TableNoise) -> Iterator[NotGiven]:
    """Yield the coefficients that nothing measured tells, if there are any."""
    outcome, columns = {*source_columns(bundle, formula.outcome_columns)}, noise.columns
    lost = [
        group
        for group in lost_relations(bundle, formula)
        if outcome & {*group}
        and frozenset(group) not in noise.correlations
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


class _Bins:
    """Errors of coefficients because values within bins are drawn from a smooth density."""

    def __init__(self, noise: TableNoise) -> None:
        self.noise, self.family = noise, noise.design.outcome.family

    def kept(self) -> Floats:
        """Return the part that the outcome's bins keep of each coefficient; 1 of an intercept.

        A change of a number y changes the mean of a function f of it in proportion to Cov(f, y), of
        which the sets have the part between bins.
        """
        noise, part = self.noise, 1.0
        name, known = self._outcome()
        chosen = bool(name) and noise.schema.column(name).choice is not None
        if name and self._is_plain(name) and not chosen:
            part = 1.0 if known is None else known.outcome
        elif name and not chosen:
            cells, own = noise.codes[name], noise.values[name]
            records = np.maximum(np.bincount(cells), 1)
            within = total = 0.0
            for values in noise.outcomes.T:
                off = own - (np.bincount(cells, own) / records)[cells]
                within += abs(float(off @ values))
                total += abs(float((own - own.mean()) @ values))
            part = 1 - within / max(total, 1e-300)
        slopes = np.array([bool(each) for each in noise.columns.values()])
        return np.where(slopes, max(part, _LEAST_KEPT), 1.0)

    def mean_error(self) -> Floats:
        """Return the expected errors of the coefficients by that of the outcome's mean."""
        name, known = self._outcome()
        if known is None or not self._is_plain(name):
            return np.zeros(len(self.noise.columns))
        return self._of_constant() @ np.ones(1) * known.mean_error

    def of_outcome(self) -> Floats:
        """Return the uncertainty by the density within the outcome's bins, a covariance."""
        noise, (name, known) = self.noise, self._outcome()
        if known is None:
            return np.zeros_like(noise.back)
        plain = self._is_plain(name)
        x = self._sums(name, noise.weighted, len(known.records))
        return self._covariance(
            [
                known.errors(x) if plain else x * self._doubt(name, known, values)
                for values in noise.outcomes.T
            ]
        )

    def _outcome(self) -> tuple[str, BinBias | None]:
        """Return the number that the outcome is or follows from, and what its bins do."""
        names = self.noise.formula.outcome_columns
        if len(names) != 1 or names[0] not in self.noise.values:
            return "", None
        return names[0], self._known(names[0])

    def _is_plain(self, name: str) -> bool:
        """Return whether the outcome is the number itself."""
        return self.family == "linear" and self.noise.formula.outcome == name

    def of_predictors(self) -> Floats:
        """Return the uncertainty by the means of predictors in their bins, a covariance."""
        noise, size = self.noise, len(self.noise.columns)
        found = np.zeros((size, size))
        score = noise.x @ noise.coefficients.reshape(-1, noise.x.shape[1]).T
        for name in dict.fromkeys(name for term in noise.formula.terms for name in term):
            known = self._known(name)
            if known is None:
                continue
            count = len(known.records)
            means = self._sums(name, np.column_stack([noise.values[name], score]), count)
            records = self._sums(name, np.ones((len(score), 1)), count)[0]
            used = np.flatnonzero(records)
            if used.size < 2:
                continue
            centre, *own = means[:, used] / records[used]
            steps = np.zeros((count + 1, score.shape[1]))
            steps[used] = np.column_stack([np.gradient(each, centre) for each in own])
            change = noise.change_of_means(steps[noise.codes[name]])
            parts = [
                known.errors(self._sums(name, noise.weighted * each[:, None], count))
                for each in change.T
            ]
            found += self._covariance(parts)
        return found

    def _known(self, name: str) -> BinBias | None:
        """Return what the bins of a number do; None if nothing is known, or it has levels."""
        if name not in self.noise.values:
            return None
        counts, variance = self.noise.pooled.counts((name,)), self.noise.pooled.variance((name,))
        if counts is None or variance is None:
            return None
        return bin_bias(self.noise.schema.column(name), counts, math.sqrt(variance))

    def _doubt(self, name: str, known: BinBias, values: Floats) -> Floats:
        """Return how far the mean of a function of a number may be off in each bin.

        Args:
            name: The number.
            known: What its bins do.
            values: The function for each row of the sets.
        """
        own, code, count = self.noise.values[name], self.noise.codes[name], len(known.records)

        def means(each: Floats) -> Floats:
            sums = np.bincount(code, each, minlength=count + 1)
            return np.asarray(sums / np.maximum(np.bincount(code, minlength=count + 1), 1))

        apart, off = values - means(values)[code], own - means(own)[code]
        slope = means(apart * off) / np.maximum(means(off**2), 1e-300)
        spread = np.sqrt(means(apart**2))
        return np.hypot(slope[:count] * known.doubts(), spread[:count] * known.anywhere())

    def _sums(self, name: str, values: Floats, count: int) -> Floats:
        """Return the sums of columns in the bins of a number in a set, shape (columns, count)."""
        code, sets = self.noise.codes[name], self.noise.sets
        sums = [np.bincount(code, own, minlength=count)[:count] for own in values.T]
        return np.asarray(np.array(sums) / sets)

    def _covariance(self, parts: Sequence[Floats]) -> Floats:
        """Return the covariance of coefficients by errors of scores in bins.

        Different errors are independent.

        Args:
            parts: Errors of the scores of each level, shape (k, errors); the density is the same.
        """
        changes = self.noise.bread @ np.concatenate(parts)
        return np.asarray(changes @ changes.T)

    def without_effects(self) -> Floats:
        """Return the coefficients if all records had the mean outcome: with an intercept, that."""
        noise = self.noise
        mean = noise.outcomes.mean(axis=0)
        if self.family == "poisson":
            mean = np.log(np.maximum(mean, 1e-12))
        elif self.family != "linear":
            mean = np.log(np.maximum(mean, 1e-12) / max(1 - float(mean.sum()), 1e-12))
        return np.asarray(self._of_constant() @ mean)

    def _of_constant(self) -> Floats:
        """Return the coefficients of a linear predictor that is 1, by level, shape (p, levels)."""
        x = self.noise.x
        one = np.linalg.lstsq(x.T @ x, x.sum(axis=0), rcond=None)[0]
        levels = self.noise.outcomes.shape[1]
        return np.asarray(self.noise.back @ np.kron(np.eye(levels), one[:, None]))
