"""The answer of a regression on every set: its coefficients, its rule, and what to beware of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from dp_core.analysis.regression.interval_warnings import WIDE
from dp_core.analysis.regression.survey_answer import DesignUsed
from dp_core.inference.combining_rules import WARNED_COVERAGE
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
    """A combined coefficient: `low` to `high` is its interval."""

    estimate: float
    std_error: float
    statistic: float
    degrees_of_freedom: float | None
    p_value: float
    low: float
    high: float
    within: float
    between: float


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A coefficient: combined if there are several sets, and the naive fits.

    A regression that was answered without the sets has no naive fits: `one_set` and `stacked` are
    None, and `by_set` is empty.

    Attributes:
        expected_coverage: Smallest and largest coverage that 95 % intervals from sets of this mode
            had in tests (`dp_core.inference.combining_rules.COVERAGE`). In mode `posterior` it is
            that of coefficients with a warning if this one has one, otherwise of those without.
            None if it was not measured, or if `rule.invalid_because` says why intervals miss.
        concerns: Kinds of reasons why its interval may be wrong, in the order of the answer's
            `warnings`: `few-sets`, `clusters`, `cluster-noise`, `unmeasured`, `undrawn`,
            `inferred`, `prior`, `thin`, `noise`, `bins`, `undetermined` and `outside`
            (`dp_core.analysis.regression.interval_warnings`).
    """

    name: str
    combined: CombinedFit | None = field(metadata=INLINE)
    one_set: NaiveFit | None = field(kw_only=True)
    stacked: NaiveFit | None = field(kw_only=True, metadata=OMITTED)
    by_set: tuple[SetFit, ...] = field(kw_only=True)
    concerns: tuple[str, ...] = field(kw_only=True)
    expected_coverage: tuple[float, float] | None = field(kw_only=True)

    @property
    def warned(self) -> bool:
        """Whether a warning is that its interval may miss, not that it is wide."""
        return bool({*self.concerns} - WIDE)


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
        answered_from: `declared` if the answer is from the sums that the release measured for this
            formula, otherwise `sets`.
        design: Sample design by which variances within the sets were computed; None if rows were
            treated as independent.
        size_factor: Factor on W if the sets and the file differ in size; else 1.
        of: What a row of the sets is, `households` or `persons`, of linked tables; otherwise None.
    """

    folder: str
    release: str
    formula: str
    family: str
    modelled: str
    outcome_levels: list[object]
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
        return found.drop(columns=["within", "between"], errors="ignore")

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
        if joint := self.all_terms:
            words = (
                f"All terms together: F = {joint.statistic:.4g} on {joint.numerator_df} and"
                f" {degrees(joint.denominator_df)} degrees of freedom,"
                f" p {probability(joint.p_value, '= ')}."
            )
            blocks.append(Sentence(words))
        if words := self._coverage():
            blocks.append(Fact("Coverage", words))
        if self.sets > 1 and (words := self._narrower()):
            blocks.append(Sentence(words))
        return (*blocks, *(Fact("Note", text) for text in self.notes))

    def _coverage(self) -> str:
        """Return which coverage to expect; empty if it was not measured for such intervals."""
        found = {
            row.expected_coverage: "with a warning" if row.warned else "without a warning"
            for row in self.coefficients
            if row.expected_coverage
        }
        if not found:
            return ""
        apart = self.rule.name in WARNED_COVERAGE
        named = [
            f"{low:.2f} to {high:.2f}{f' of the coefficients {words}' if apart else ''}"
            for (low, high), words in found.items()
        ]
        return (
            f"In tests, 95 % intervals from sets of mode {self.rule.name} contained the"
            f" population's value in {' and '.join(named)}."
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

    def _narrower(self) -> str:
        """Return how much narrower the naive intervals are."""
        ratios = sorted(
            (row.combined.high - row.combined.low) / (row.stacked.high - row.stacked.low)
            for row in self.coefficients
            if row.combined and row.stacked and row.stacked.high > row.stacked.low
        )
        if not ratios:
            return ""
        middle = ratios[len(ratios) // 2]
        return (
            "Naive intervals treat synthetic rows as people, and are shown for comparison only."
            f" Those from the {self.sets} stacked sets would be {middle:.1f} times narrower"
            " (median; the JSON answer has them as `stacked`)."
        )


def _range(values: NaiveFit | CombinedFit) -> str:
    return f"{four_digits(values.low)} to {four_digits(values.high)}"
