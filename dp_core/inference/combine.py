"""Combining rules: one estimate and its variance from m estimates and their variances.

How the sets were made decides the rule (`dp_core.inference.combining_rules`). The rule of `split`
is also in Bowen and Liu (2020, Statist. Sci. 35), equations 9 to 11.

| rule        | variance T      | of sets                                                |
|-------------|-----------------|--------------------------------------------------------|
| split       | W + B/m         | with own measurements: Reiter (2003)                   |
| posterior   | W + (1 + 1/m) B | drawn given the measurement and a prior: Rubin (1987)  |
| shared      | W + B/m         | from one measurement; the noise they share is missing  |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, assert_never, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from dp_core.inference.intervals import Floats, degrees_joint, degrees_of_sum, interval, t_test

Rule = Literal["split", "shared", "posterior"]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True, slots=True)
class Wald:
    """A test of several coefficients at once.

    Attributes:
        statistic: The F statistic.
        degrees_of_freedom: Degrees of freedom of numerator and denominator. With an infinite
            denominator the statistic is a chi-square divided by the first.
        p_value: Probability of a larger statistic under the null hypothesis.
    """

    statistic: float
    degrees_of_freedom: tuple[int, float]
    p_value: float


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """The result of a rule; numbers are floats where single numbers were given, else arrays.

    Attributes:
        rule: The combining rule.
        sets: Number of sets, m.
        estimate: Mean of the estimates, number or shape (p,).
        variance: T of the rule, or (1 + 1/m) W if the noise is known, and `added`; number or shape
            (p, p).
        within: W, mean of the variances, same shape.
        between: B, covariance of the estimates with divisor m - 1, same shape; 0 for one set.
        degrees_of_freedom: Degrees of freedom of every entry; infinite for the normal distribution.
        complete_df: Complete-data degrees of freedom, as given.
        design_df: Degrees of freedom of a sample design, as given; None if W does not follow from
            one.
        added: Variance of known errors of the sets, which their differences do not show; same
            shape. 0 by default.
        by_differences: Whether the variance follows from B; True by default. Otherwise it is known.
    """

    rule: Rule
    sets: int
    estimate: Any
    variance: Any
    within: Any
    between: Any
    degrees_of_freedom: Any
    complete_df: float | None = None
    design_df: float | None = None
    added: Any = 0.0
    by_differences: bool = True

    @property
    def includes_noise(self) -> bool:
        """Whether the variance includes the privacy noise; without it intervals are too narrow."""
        return self.rule != "shared"

    @property
    def variances(self) -> Any:
        """The variance of every entry."""
        return np.diag(self.variance) if np.ndim(self.variance) == 2 else self.variance

    @property
    def standard_error(self) -> Any:
        """Square root of the variance of every entry."""
        found = np.sqrt(self.variances)
        return float(found) if np.ndim(found) == 0 else found

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return the lower and the upper end of every entry's interval."""
        return interval(self.estimate, self.variances, self.degrees_of_freedom, level)

    def test(self) -> tuple[Any, Any]:
        """Return t and the two-sided p value of every entry."""
        return t_test(self.estimate, self.variances, self.degrees_of_freedom)

    def wald(self, which: ArrayLike | None = None) -> Wald:
        """Test several coefficients at once.

        T itself is a poor estimate if there are fewer sets than coefficients, so it is replaced by
        (1 + r) W: Li, Raghunathan and Rubin (1991, J. Amer. Statist. Assoc. 86) for sets that are
        imputations, r = (1 + 1/m) tr(B W^-1)/k; Reiter (2005, J. Statist. Plann. Inference 131) for
        partially synthetic sets, r = tr(B W^-1)/(m k). `added` is in r as B is. `complete_df`
        limits the denominator's degrees of freedom (`degrees_joint`). T is used as it is if it does
        not follow from differences between the sets. With a `design_df` the test is the adjusted
        Wald test (Korn & Graubard 1990, Amer. Statist. 44). For one coefficient the statistic is t
        squared.

        Args:
            which: Positions of the coefficients; all by default.

        Raises:
            ValueError: if W cannot be inverted, or if a design has fewer degrees of freedom than
                there are coefficients.
        """
        estimate = np.atleast_1d(self.estimate)
        chosen = np.arange(estimate.size) if which is None else np.atleast_1d(np.asarray(which))
        from scipy import stats

        count = chosen.size
        if not count:
            raise ValueError("A joint test needs at least one coefficient.")
        away = estimate[chosen]
        if count == 1:
            place = int(chosen[0])
            statistic, p_value = t_test(
                away[0], np.atleast_1d(self.variances)[place], self._degrees()[place]
            )
            return Wald(float(statistic) ** 2, (1, float(self._degrees()[place])), float(p_value))
        kept, complete_df = 1.0, self.complete_df
        if self.design_df is not None:
            kept = (self.design_df - count + 1) / self.design_df
            complete_df = kept * self.design_df
            if self.design_df < count:
                raise ValueError(
                    f"The design has {self.design_df:.3g} degrees of freedom, too few for a joint"
                    f" test of {count} coefficients."
                )
        square = np.ix_(chosen, chosen)
        within = np.atleast_2d(self.within)[square]
        more = np.atleast_2d(self.variance)[square] - within
        if not self.by_differences:
            within, more = within + more, np.zeros_like(more)
        try:
            solved = np.linalg.solve(within, np.column_stack([away, more]))
        except np.linalg.LinAlgError:
            raise ValueError("The variances within the sets cannot be inverted.") from None
        ratio = float(np.trace(solved[:, 1:]) / count)
        statistic = kept * float(away @ solved[:, 0]) / (count * (1 + ratio))
        degrees = degrees_joint(
            count, ratio, self.sets, np.inf if complete_df is None else complete_df
        )
        if np.isinf(degrees):
            p = float(stats.chi2.sf(count * statistic, count))
        else:
            p = float(stats.f.sf(statistic, count, degrees))
        return Wald(statistic, (count, degrees), p)

    def _degrees(self) -> Floats:
        return np.atleast_1d(np.asarray(self.degrees_of_freedom, dtype=np.float64))


def combine(
    estimates: ArrayLike,
    variances: ArrayLike,
    rule: Rule,
    *,
    complete_df: float | None = None,
    design_df: float | None = None,
) -> Combined:
    """Combine the estimates from m sets.

    Args:
        estimates: Estimate of each set, shape (m,), or (m, p) for p coefficients.
        variances: Their estimated variances, shape (m,), or covariances, shape (m, p, p).
        rule: The combining rule; the statement of a release names it.
        complete_df: Degrees of freedom of the same analysis of the real file, by the file's number
            of records and not the sets': n - p for a linear model with p coefficients, n - 1 for a
            mean, n - 2 for a correlation. Infinite (the default) for shares and for logistic,
            multinomial and Poisson models, whose complete-data reference is the normal
            distribution.
        design_df: Degrees of freedom of the sample design, if the variances follow from one: about
            clusters minus strata. It replaces `complete_df`. None (the default) without a design.

    Raises:
        ValueError: if the shapes do not fit, a number is not finite, a variance is negative, or
            there is one set and the rule needs several; if degrees of freedom are not positive.

    >>> found = combine([1, 2, 3, 4, 5], [0.5] * 5, "split")
    >>> found.estimate, found.between, found.variance, found.degrees_of_freedom
    (3.0, 2.5, 1.0, 16.0)
    """
    known_rule(rule)
    for limit in (complete_df, design_df):
        if limit is not None and not limit > 0:
            raise ValueError(f"Degrees of freedom must be positive, not {limit}.")
    q = np.asarray(estimates, dtype=np.float64)
    u = np.asarray(variances, dtype=np.float64)
    _check(q, u)
    sets, single = q.shape[0], q.ndim == 1
    if sets < 2 and rule != "shared":
        raise ValueError(f"The rule {rule} needs at least two sets, and there is one.")
    columns = q.reshape(sets, -1)
    within = u.reshape(sets, columns.shape[1], columns.shape[1]).mean(axis=0)
    away = columns - columns.mean(axis=0)
    between = away.T @ away / max(sets - 1, 1)
    inflated = inflation(rule, sets) * between
    variance = within + inflated
    limit = design_df if design_df is not None else complete_df
    degrees = degrees_of_sum(
        np.diag(within), np.diag(inflated), sets, np.inf if limit is None else limit
    )
    mean = columns.mean(axis=0)
    if single:
        numbers = (mean, variance, within, between, degrees)
        q_, t_, w_, b_, v_ = (float(each.item()) for each in numbers)
        return Combined(rule, sets, q_, t_, w_, b_, v_, complete_df, design_df)
    return Combined(rule, sets, mean, variance, within, between, degrees, complete_df, design_df)


def inflation(rule: Rule, sets: int) -> float:
    """Return the factor of B in the rule."""
    match rule:
        case "split" | "shared":
            return 1 / sets
        case "posterior":
            return 1 + 1 / sets
    # A new rule must not silently get the factor of another.
    assert_never(rule)


def _check(estimates: Floats, variances: Floats) -> None:
    if estimates.ndim not in (1, 2) or not estimates.size:
        raise ValueError("Estimates must be one number, or one row of numbers, for each set.")
    wanted = estimates.shape if estimates.ndim == 1 else (*estimates.shape, estimates.shape[1])
    if variances.shape != wanted:
        raise ValueError(
            f"Estimates of shape {estimates.shape} need variances of shape {wanted}, not"
            f" {variances.shape}."
        )
    if not (np.isfinite(estimates).all() and np.isfinite(variances).all()):
        raise ValueError("An estimate or a variance is not a finite number.")
    own = variances if variances.ndim == 1 else np.diagonal(variances, axis1=1, axis2=2)
    if (own < 0).any():
        raise ValueError("A variance is negative.")
    if variances.ndim == 3:
        size = np.sqrt(own[:, :, None] * own[:, None, :])
        if (np.abs(variances - np.swapaxes(variances, 1, 2)) > 1e-8 * size).any():
            raise ValueError("A matrix of covariances is not symmetric.")


def known_rule(text: object) -> Rule:
    """Return a rule by its name.

    Raises:
        ValueError: if there is no rule of that name.
    """
    if text not in RULES:
        raise ValueError(f"There is no rule {text!r}; there are {', '.join(RULES)}.")
    return cast("Rule", text)
