"""Estimates that a data user made from every set with their own software, combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.regression.interval_warnings import general_warnings
from dp_core.bundle.reading import Bundle
from dp_core.bundle.report.example_code import size_factor
from dp_core.errors import BadInput
from dp_core.inference.combine import Combined, combine
from dp_core.inference.combining_rules import NO_SETS, WORDING
from dp_core.text.pages.number_texts import four_digits, level_text
from dp_core.text.pages.page import Column, Fact, Listing, Page
from dp_core.text.pages.printed import Printed

if TYPE_CHECKING:
    import pandas as pd

    Floats = NDArray[np.float64]

NOT_CORRECTED = (
    "Unlike `infer`, this does not correct what bins and the prior take from an estimate, nor does"
    " it omit estimates that no noisy table determines."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CombinedEstimates(Printed):
    """Estimates of every set, combined by the rule of the release.

    Attributes:
        names: Names of the estimates.
        combined: Estimates, variances and degrees of freedom, each of shape (p,) or (p, p).
        level: Confidence level of the intervals.
        warnings: Reasons why all intervals miss their level.
    """

    names: tuple[str, ...]
    combined: Combined
    level: float
    warnings: tuple[str, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each estimate: `estimate`, `std_error`, `degrees_of_freedom`, `low`, `high`."""
        import pandas as pd

        low, high = self.combined.interval(self.level)
        columns = {
            "estimate": self.combined.estimate,
            "std_error": self.combined.standard_error,
            "degrees_of_freedom": self.combined.degrees_of_freedom,
            "low": low,
            "high": high,
        }
        return pd.DataFrame(columns, index=pd.Index(self.names, name="estimate of"))

    def page(self) -> Page:
        """Return the rule, the warnings and the table."""
        words = WORDING[self.combined.rule]
        headings = ("estimate of", "estimate", "std. error", f"{level_text(self.level)} interval")
        rows = [
            (
                name,
                four_digits(row.estimate),
                four_digits(row.std_error),
                f"{four_digits(row.low)} to {four_digits(row.high)}",
            )
            for name, row in zip(self.names, self.frame.itertuples(), strict=True)
        ]
        return (
            Fact("Rule", f"{self.combined.rule}: {words.variance}; after {words.source}."),
            *(Fact("Warning", text, warns=True) for text in self.warnings),
            Listing(tuple(Column(each, place > 0) for place, each in enumerate(headings)), rows),
            Fact("Note", NOT_CORRECTED),
        )


def combined_estimates(
    bundle: Bundle, estimates: Sequence[Any], variances: Sequence[Any], level: float
) -> CombinedEstimates:
    """Return estimates of every set, combined.

    Args:
        bundle: The release.
        estimates: For each set, a number, p numbers, or a pandas series, which gives the names.
        variances: For each set, the variance, the p variances, or a covariance of shape (p, p).
        level: Confidence level of the intervals, between 0 and 1.

    Raises:
        BadInput: if the release has no sets, the numbers are not those of its sets, or there is no
            such level.
    """
    if not 0 < level < 1:
        raise BadInput(f"The level must be between 0 and 1, such as 0.95, not {level}.")
    if bundle.rule is None:
        raise BadInput(NO_SETS)
    if not len(estimates) == len(variances) == bundle.claims.sets:
        raise BadInput(
            f"The release has {bundle.claims.sets} sets, and these are estimates of"
            f" {len(estimates)} and variances of {len(variances)}."
        )
    import pandas as pd

    named = [list(each.index) if isinstance(each, pd.Series) else None for each in estimates]
    if any(each != named[0] for each in named):
        raise BadInput(
            "The sets have estimates of different names; give every level a term in every set."
        )
    try:
        values = np.array([np.atleast_1d(np.asarray(each, np.float64)) for each in estimates])
        spread = np.array([_covariance(each, values.shape[1]) for each in variances])
        factor = size_factor(bundle.claims.rows, bundle.records)
        found = combine(values, factor * spread, bundle.rule)
    except (TypeError, ValueError) as error:
        raise BadInput(f"The estimates cannot be combined: {error}") from None
    names = named[0] or range(1, values.shape[1] + 1)
    warnings = tuple(general_warnings(bundle, found))
    return CombinedEstimates(tuple(map(str, names)), found, level, warnings)


def estimates_of(fit: object) -> tuple[Any, Any]:
    """Return the estimates and variances of what a function returned for a set.

    Args:
        fit: A pair of both, a mapping of names to pairs, or a fitted model with `params` and
            `cov_params()`, as statsmodels has.

    Raises:
        BadInput: if it is none of these.
    """
    import pandas as pd

    if isinstance(fit, tuple) and len(fit) == 2:
        return fit
    if isinstance(fit, Mapping) and all(np.shape(each) == (2,) for each in fit.values()):
        table = pd.DataFrame(dict(fit), index=["estimate", "variance"]).T
        return table["estimate"], table["variance"]
    if hasattr(fit, "params") and hasattr(fit, "cov_params"):
        return fit.params, fit.cov_params()
    raise BadInput(
        "The function must return estimates and variances, a dictionary such as {'mean': (estimate,"
        f" variance)}}, or a fitted model of statsmodels, not {type(fit).__name__}."
    )


def _covariance(variances: object, size: int) -> Floats:
    """Return a covariance of estimates, shape (size, size).

    Raises:
        ValueError: if the shape is another one.
    """
    found = np.atleast_1d(np.asarray(variances, dtype=np.float64))
    if found.shape == (size,):
        return np.diag(found)
    if found.shape != (size, size):
        raise ValueError(f"{size} estimates have variances of shape {found.shape}.")
    return found
