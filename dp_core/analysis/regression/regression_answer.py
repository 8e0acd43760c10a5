"""The answer of a regression on every set: its coefficients, its rule, and what to beware of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dp_core.analysis.regression.set_errors import NotGiven
from dp_core.analysis.regression.survey_answer import DesignUsed
from dp_core.text.pages.answer import INLINE, OMITTED, Answer
from dp_core.text.pages.number_texts import degrees, four_digits, level_text, probability
from dp_core.text.pages.page import Block, Fact, Listing, Page, Sentence, numbers, texts

if TYPE_CHECKING:
    import pandas as pd

AnsweredFrom: TypeAlias = Literal["sets", "declared"]
"""What the coefficients follow from: the synthetic sets, or sums measured for the formula."""


@dataclass(frozen=True, slots=True)
class SetRows:
    """The rows of one set that were used, and those dropped for a missing value."""

    set: int
    used: int
    dropped: int


@dataclass(frozen=True, slots=True)
class CombiningRule:
    """The rule that combined the sets, and why its intervals are not valid for the formula, if so.

    Attributes:
        invalid_because: Why intervals for this formula are known to miss too often, for example
            because they leave noise out. None if no such reason is known.
    """

    name: str
    invalid_because: str | None
    variance: str
    degrees_of_freedom: str
    in_words: str
    covers: object
    source: str


@dataclass(frozen=True, slots=True)
class SetFit:
    """The fit of one set."""

    estimate: float
    std_error: float


@dataclass(frozen=True, slots=True)
class NaiveFit:
    """A fit that treats synthetic rows as people, and its interval."""

    estimate: float
    std_error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CombinedFit:
    """A combined coefficient: `low` to `high` is its interval.

    `added` is A, the variance by the noise of tables, the prior and bins, which `std_error`
    includes; 0 for a declared formula.
    """

    estimate: float
    std_error: float
    statistic: float
    degrees_of_freedom: float | None
    p_value: float
    low: float
    high: float
    within: float
    between: float
    added: float


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A coefficient: combined if there are several sets, and the naive fits.

    A declared regression has no naive fits: `one_set` is None, and `by_set` is empty.

    Attributes:
        expected_coverage: Smallest and largest coverage that 95 % intervals from sets of this mode
            had in tests (`dp_core.inference.combining_rules.COVERAGE`). None if it was not
            measured, or if `rule.invalid_because` says why intervals miss.
        concerns: Kinds of reasons why its interval may be wrong, in the order of the answer's
            `warnings`: `few-sets`, `clusters` and `cluster-noise`
            (`dp_core.analysis.regression.interval_warnings`).
    """

    name: str
    combined: CombinedFit | None = field(metadata=INLINE)
    one_set: NaiveFit | None = field(kw_only=True)
    by_set: tuple[SetFit, ...] = field(kw_only=True)
    concerns: tuple[str, ...] = field(kw_only=True)
    expected_coverage: tuple[float, float] | None = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class JointTest:
    """The test that no term but the intercept matters."""

    statistic: float
    numerator_df: float
    denominator_df: float | None
    p_value: float


@dataclass(frozen=True, slots=True, repr=False)
class RegressionAnswer(Answer):
    """A combined regression, its rule, and what to beware of.

    Attributes:
        references: Reference level of each category whose levels have coefficients.
        answered_from: `declared` if the answer is from the sums that the release measured for this
            formula, otherwise `sets`.
        design: Sample design by which variances within the sets were computed; None if rows were
            treated as independent.
        not_given: Coefficients that the published results do not determine; `coefficients` and
            `covariance` are without them.
        size_factor: Factor on W if the sets and the file differ in size; else 1.
        of: What a row of the sets is, `households` or `persons`, of linked tables; otherwise None.
    """

    folder: str
    release: str
    formula: str
    family: str
    modelled: str
    outcome_levels: list[str]
    references: dict[str, str]
    sets: int
    level: float
    weights: str | None
    design: DesignUsed | None
    rows: tuple[SetRows, ...]
    answered_from: AnsweredFrom
    rule: CombiningRule
    size_factor: float
    complete_df: float | None
    coefficients: tuple[Coefficient, ...]
    not_given: tuple[NotGiven, ...]
    covariance: list[list[float]]
    all_terms: JointTest | None
    warnings: list[str]
    notes: list[str]
    of: str | None = field(default=None, metadata=OMITTED)

    @property
    def frame(self) -> pd.DataFrame:
        """The coefficients: one row for each, by its name.

        The columns are `estimate`, `std_error`, `statistic`, `degrees_of_freedom`, `p_value`, `low`
        and `high`, and `concerns`, the kinds of reasons why the interval may be wrong. Infinite
        degrees of freedom are `inf`. A release with one set has only naive estimates, without
        `statistic`, `degrees_of_freedom` and `p_value`.
        """
        import pandas as pd

        rows = []
        for row in self.coefficients:
            first = row.combined or row.one_set
            assert first is not None
            values = asdict(first)
            if row.combined and row.combined.degrees_of_freedom is None:
                values["degrees_of_freedom"] = np.inf
            rows.append({**values, "concerns": ", ".join(row.concerns)})
        names = pd.Index([row.name for row in self.coefficients], name="coefficient")
        found = pd.DataFrame(rows, index=names)
        return found.drop(columns=["within", "between", "added"], errors="ignore")

    def page(self) -> Page:
        """Return what not to miss, the rule, the table of coefficients and the notes."""
        rule, reason = self.rule, self.rule.invalid_because
        blocks: list[Block] = [] if reason is None else [Fact("Not valid", reason, warns=True)]
        blocks.append(Sentence(f"{self.formula}   ({self.family}: {self.modelled})"))
        blocks.append(Fact("Sets", self._sets()))
        if self.sets > 1:
            words = (
                f"{rule.name}: {rule.in_words}. {rule.variance}, degrees of freedom"
                f" {rule.degrees_of_freedom}; after {rule.source}."
            )
            blocks.append(Fact("Rule", words))
        # Before the numbers, which are read only once.
        blocks += [Fact("Warning", text, warns=True) for text in self.warnings if text != reason]
        blocks.append(self._table())
        blocks += [Fact("Not given", each.reason, warns=True) for each in self.not_given]
        if joint := self.all_terms:
            words = (
                f"All these terms together: F = {joint.statistic:.4g} on {joint.numerator_df} and"
                f" {degrees(joint.denominator_df)} degrees of freedom,"
                f" p {probability(joint.p_value, '= ')}."
            )
            blocks.append(Sentence(words))
        if words := self._coverage():
            blocks.append(Fact("Coverage", words))
        return (*blocks, *(Fact("Note", text) for text in self.notes))

    def _coverage(self) -> str:
        """Return which coverage to expect; empty if it was not measured for such intervals."""
        found = next((row.expected_coverage for row in self.coefficients), None)
        if found is None:
            return ""
        return (
            f"In tests, 95 % intervals from sets of mode {self.rule.name} contained the"
            f" population's value for {100 * found[0]:.0f} to {100 * found[1]:.0f} % of the"
            " coefficients."
        )

    def _sets(self) -> str:
        used = [row.used for row in self.rows]
        rows = f"{used[0]:,}" if min(used) == max(used) else f"{min(used):,} to {max(used):,}"
        return f"{self.sets if len(used) > 1 else 1} of {rows} {self.of or 'rows'}"

    def _table(self) -> Listing:
        level, rows = level_text(self.level), []
        names = ("estimate", "std. error", "t", "df", "p", f"{level} interval")
        of_one_set = any(row.one_set for row in self.coefficients)
        headings: tuple[str, ...] = ("coefficient", *names)
        if of_one_set:
            headings = (*headings, "set 1 alone (naive)")
        if self.sets == 1:
            headings = ("coefficient", "estimate", "std. error", f"naive {level} interval")
        for row in self.coefficients:
            alone, found = row.one_set, row.combined
            first = found or alone
            assert first is not None
            cells = [row.name, four_digits(first.estimate), four_digits(first.std_error)]
            if found is not None:
                cells += [
                    f"{found.statistic:.2f}",
                    degrees(found.degrees_of_freedom),
                    probability(found.p_value),
                    _range(found),
                ]
            rows.append((*cells, *([_range(alone)] if alone else [])))
        return Listing((*texts(headings[0]), *numbers(*headings[1:])), rows)


def _range(values: NaiveFit | CombinedFit) -> str:
    return f"{four_digits(values.low)} to {four_digits(values.high)}"
