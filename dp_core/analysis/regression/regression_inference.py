"""A regression on every set, combined by the release's rule: what `dp-release infer` computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from dp_core.analysis.query.answer_notes import MOVED
from dp_core.analysis.query.term_intervals import Ends
from dp_core.analysis.regression.analysis import Analysis, analyse, combine_fits
from dp_core.analysis.regression.column_scores import Compared, compared
from dp_core.analysis.regression.declared_estimates import (
    declared_estimates,
    estimates_without_sets,
    relative_width,
)
from dp_core.analysis.regression.design import FAMILIES, Design, Family
from dp_core.analysis.regression.fitting import check_enough, coefficient_names, fit_stacked
from dp_core.analysis.regression.frames import Frame, about_persons, read_frames
from dp_core.analysis.regression.interval_warnings import (
    WIDE,
    Concern,
    concerns,
    few_sets,
    general_warnings,
    relation_warnings,
)
from dp_core.analysis.regression.possible_means import PossibleMeans, possible_means
from dp_core.analysis.regression.regression_answer import (
    AnsweredFrom,
    Coefficient,
    CombinedFit,
    CombiningRule,
    JointTest,
    NaiveFit,
    RegressionAnswer,
    SetFit,
    SetRows,
)
from dp_core.analysis.regression.survey_answer import (
    DesignUsed,
    cluster_concerns,
    design_used,
    households_used,
    widened,
)
from dp_core.analysis.regression.weighted import Fit
from dp_core.bundle.reading import Bundle
from dp_core.bundle.report.example_code import size_factor
from dp_core.bundle.statement.sections import TOLERANCE as WEIGHTS_OFF
from dp_core.errors import BadInput, nearest
from dp_core.inference.combine import Combined
from dp_core.inference.combining_rules import (
    BY_DESIGN,
    BY_FILE,
    COVERAGE,
    DECLARED,
    NO_SETS,
    WARNED_COVERAGE,
    WORDING,
    Rule,
    covered_errors,
)
from dp_core.inference.formulas.formula import Formula, read_formula
from dp_core.inference.intervals import interval


def infer(
    bundle: Bundle,
    typed: str,
    *,
    family: str | None = None,
    level: float = 0.95,
    naive: bool = False,
    weighted: bool = False,
    by_design: bool = False,
) -> RegressionAnswer:
    """Return a regression on every set of a release, combined by its rule.

    Args:
        bundle: The release.
        typed: The formula as typed.
        family: Name of the family of the model, here or in other software; None (the default) to
            choose it by the outcome.
        level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
        naive: Whether to accept naive intervals if the release has one set; False by default.
        weighted: Whether to use the release's survey weights; False by default.
        by_design: Whether variances follow from the sample design that the schema states, with the
            survey weights if there are any; False by default.

    Raises:
        BadInput: if the release has no sets, or the formula can neither be fitted on each set nor
            was declared.
    """
    if not 0 < level < 1:
        raise BadInput(f"The level must be between 0 and 1, such as 0.95, not {level}.")
    known = family_word(family)
    claims = bundle.claims
    if bundle.rule is None:
        raise BadInput(NO_SETS)
    if claims.sets == 1 and not naive:
        raise BadInput(
            "This release has one set, so only naive intervals exist, which ignore synthesis and"
            " noise; --naive prints them."
        )
    linked = claims.schema.linked
    others = () if linked is None else linked.others
    names = tuple(name for name in claims.schema.names if name not in others)
    formula = read_formula(typed, names)
    weight = claims.schema.weight
    if weighted and weight is None:
        raise BadInput("This release has no column of survey weights; leave --weighted out.")
    if by_design and not claims.schema.states_design:
        other = " Use --weighted for its survey weights." if weight is not None else ""
        raise BadInput(
            "The schema of this release states no sample design (strata, clusters, replicates or a"
            f" design effect); leave --design out.{other}"
        )
    used = weight.name if weight is not None and (weighted or by_design) else None
    frames = read_frames(bundle, formula.columns, weight=used, design=by_design)
    factor = size_factor(claims.rows, bundle.records)
    plain = not weighted and not by_design
    alone: Analysis | None = None
    try:
        found = analyse(
            formula, frames, claims.schema, bundle.rule, family=known, size_factor=factor
        )
    except BadInput:
        alone = _from_sums_alone(bundle, formula, frames, known) if plain else None
        if alone is None:
            raise
        found = alone
    declared = None if alone else _declared(bundle, formula, found.design, frames, found.combined)
    if alone is None and declared is None and plain:
        # No set may have a level of the formula, so that the sets have no coefficient for it.
        alone = _from_sums_alone(bundle, formula, frames, known)
        found = alone or found
    sides = () if alone else compared(formula, found.design, frames, claims.schema)
    of_persons = about_persons(claims.schema, formula.columns)
    alike: tuple[Concern, ...] = ()
    survey: DesignUsed | None = None
    if by_design:
        found, alike, survey = _with_clusters(bundle, found, sides, factor)
    elif of_persons:
        survey = households_used(found.design.samples)
    design, fits, combined = found.design, found.fits, found.combined
    stacked = fit_stacked(design) if combined and fits else None
    words, covers = WORDING[bundle.rule], covered_errors(bundle.rule, bundle.origin)
    limited = combined is not None and combined.complete_df is not None
    if survey is not None:
        words = replace(words, degrees_of_freedom=BY_DESIGN)
    elif limited:
        words = replace(words, degrees_of_freedom=BY_FILE)
    answered_from: AnsweredFrom = "sets"
    general = tuple(general_warnings(bundle, combined))
    notes = list(_notes(bundle, design, fits, frames, factor, used, survey))
    about: tuple[Concern, ...] = ()
    if combined is not None and (declared is not None or alone is not None):
        # Not the narrower answer: sets can be biased, and an interval that misses is no better for
        # being narrow.
        ratio = relative_width(declared, combined, level) if declared else None
        notes.insert(0, _about_declared(ratio))
        combined = declared or combined
        answered_from, words, covers = "declared", DECLARED, DECLARED.covers
        if limited:
            words = replace(words, degrees_of_freedom=BY_FILE)
    else:
        about = (*alike, *concerns(bundle, formula, sides, combined))
    names = coefficient_names(design)
    about = (*about, *few_sets(combined, names))
    possible = possible_means(formula, design, claims.schema)
    if combined is not None and possible is not None:
        wide = possible.concern(names, combined, level)
        about = (*about, *([wide] if wide else []))
        if possible.moves(combined):
            notes.append(f"{MOVED} Standard errors, t and p are those before.")
    # That the sets cannot carry the formula comes first: no mode corrects it.
    lost = [each.text for each in about if each.kind in ("unmeasured", "undrawn", "clusters")]
    reason = next(iter((*lost, *general)), None)
    by_sets = combined is not None and answered_from == "sets" and reason is None
    return RegressionAnswer(
        folder=bundle.place,
        release=claims.name,
        formula=formula.text,
        family=design.outcome.family,
        modelled=design.outcome.in_words,
        outcome_levels=list(design.outcome.levels),
        sets=claims.sets,
        level=level,
        weights=used,
        design=survey,
        rows=tuple(SetRows(frame.number, frame.rows, frame.dropped) for frame in frames),
        answered_from=answered_from,
        rule=CombiningRule(
            name=bundle.rule,
            invalid_because=reason,
            variance=words.variance,
            degrees_of_freedom=words.degrees_of_freedom,
            in_words=words.in_words,
            covers=covers,
            source=words.source,
        ),
        size_factor=factor,
        complete_df=combined.complete_df if combined else None,
        coefficients=tuple(
            _coefficients(
                *(names, fits, combined, stacked, level, about, possible),
                bundle.rule if by_sets else None,
            )
        ),
        covariance=(combined.variance if combined else fits[0].covariance).tolist(),
        all_terms=_joint(design, combined) if combined else None,
        warnings=[
            *general,
            *(concern.text for concern in about),
            *(relation_warnings(bundle, formula) if answered_from == "sets" else ()),
        ],
        notes=notes,
        of=None if linked is None else "persons" if of_persons else "households",
    )


def _with_clusters(
    bundle: Bundle, found: Analysis, sides: Sequence[Compared], factor: float
) -> tuple[Analysis, tuple[Concern, ...], DesignUsed]:
    """Return an analysis by the design, what the sets do not reproduce of it, and what was used.

    If the schema states a design effect, it takes the place of what the sets do not reproduce.
    """
    schema, samples = bundle.claims.schema, found.design.samples
    alike = cluster_concerns(bundle, found.formula, sides)
    effect = schema.survey.design_effect
    if effect is None or not alike:
        return found, alike, design_used(schema, samples, ())
    names = {name for concern in alike for name in concern.coefficients}
    places = [place for place, name in enumerate(found.names) if name in names]
    fits = widened(found.fits, places, float(effect))
    assert bundle.rule is not None
    combined = combine_fits(fits, bundle.rule, size_factor=factor)
    more = design_used(schema, samples, [found.names[place] for place in places])
    return replace(found, fits=fits, combined=combined), (), more


def _declared(
    bundle: Bundle,
    formula: Formula,
    design: Design,
    frames: Sequence[Frame],
    combined: Combined | None,
) -> Combined | None:
    """Return the coefficients from what was measured for the formula; None if it was nothing.

    What the sums do not tell is taken from the sets, whose differences must show how uncertain it
    is: those of posterior sets do.
    """
    if combined is None or not bundle.declared or bundle.rule != "posterior":
        return None
    return declared_estimates(bundle, formula, design, frames, complete_df=combined.complete_df)


def _from_sums_alone(
    bundle: Bundle, formula: Formula, frames: Sequence[Frame], family: Family | None
) -> Analysis | None:
    """Return a declared regression without fits of the sets; None if it was not declared."""
    if not bundle.declared or bundle.rule != "posterior" or bundle.claims.sets < 2:
        return None
    found = estimates_without_sets(bundle, formula, frames, family)
    return None if found is None else Analysis(formula, found[0], (), found[1])


def _about_declared(ratio: float | None) -> str:
    """Return that a declared analysis was answered from its sums, and how the sets compare.

    Args:
        ratio: Width of the intervals from the sums, relative to those from the sets; None if the
            sets do not have all coefficients.
    """
    source = (
        "This analysis was declared: the answer is from the sums that the release measured for it."
    )
    if ratio is None:
        return (
            f"{source} The sets alone do not determine all coefficients, for example because a"
            " level is missing from one of them or separates the outcome there."
        )
    if ratio < 1:
        return f"{source} The sets alone would give intervals {1 / ratio:.3g} times as wide."
    return (
        f"{source} Intervals from the sets would be {ratio:.3g} times narrower, but their bins and"
        " their prior can bias them."
    )


def _coefficients(
    names: Sequence[str],
    fits: Sequence[Fit],
    combined: Combined | None,
    stacked: Fit | None,
    level: float,
    about: Sequence[Concern],
    possible: PossibleMeans | None,
    rule: Rule | None,
) -> Iterator[Coefficient]:
    """Yield each coefficient: combined, and its naive fits if there are any; all cut if possible.

    `rule` is that of the sets if its measured coverage holds for them, otherwise None.
    """

    def cut(found: Ends) -> Ends:
        return found if possible is None else possible.cut(found)

    first = _naive(fits[0], level, cut) if fits else None
    together = _naive(stacked, level, cut) if stacked else None
    found = _combined(combined, level, cut) if combined else None
    for place, name in enumerate(names):
        yield Coefficient(
            name,
            found[place] if found else None,
            one_set=first[place] if first else None,
            stacked=together[place] if together else None,
            by_set=tuple(
                SetFit(float(fit.coefficients[place]), float(np.sqrt(fit.covariance[place, place])))
                for fit in fits
            ),
            concerns=(kinds := tuple(each.kind for each in about if name in each.coefficients)),
            expected_coverage=(
                None
                if rule is None
                else (WARNED_COVERAGE if {*kinds} - WIDE else COVERAGE).get(rule)
            ),
        )


def _combined(combined: Combined, level: float, cut: Callable[[Ends], Ends]) -> list[CombinedFit]:
    """Return the combined coefficients; their tests are of the estimates before they are cut."""
    estimates, low, high = cut((combined.estimate, *combined.interval(level)))
    statistic, p_value = combined.test()
    degrees = np.broadcast_to(combined.degrees_of_freedom, estimates.shape)
    columns = (
        *(estimates, combined.standard_error, statistic, degrees, p_value, low, high),
        *(np.diag(combined.within), np.diag(combined.between)),
    )
    rows = [CombinedFit(*row) for row in zip(*(each.tolist() for each in columns), strict=True)]
    return [
        replace(row, degrees_of_freedom=_finite(df)) for row, df in zip(rows, degrees, strict=True)
    ]


def _naive(fit: Fit, level: float, cut: Callable[[Ends], Ends]) -> list[NaiveFit]:
    """Return estimates, errors and intervals that treat synthetic rows as people."""
    variances = np.diag(fit.covariance)
    degrees = np.inf if fit.residual_df is None else fit.residual_df
    ends = fit.coefficients, *interval(fit.coefficients, variances, degrees, level)
    estimates, low, high = cut(ends)
    columns = estimates, np.sqrt(variances), low, high
    return [NaiveFit(*map(float, row)) for row in zip(*columns, strict=True)]


def _joint(design: Design, combined: Combined) -> JointTest | None:
    """Return the test that no term but the intercept matters."""
    terms = [
        place
        for place, name in enumerate(coefficient_names(design))
        if name.rsplit(": ", 1)[-1] != "Intercept"
    ]
    if not terms or len(terms) == len(coefficient_names(design)):
        return None
    if combined.design_df is not None and combined.design_df < len(terms):
        return None
    found = combined.wald(terms)
    numerator, denominator = found.degrees_of_freedom
    return JointTest(found.statistic, numerator, _finite(denominator), found.p_value)


def _finite(value: float) -> float | None:
    """Return a number for JSON; None if it is infinite."""
    return float(value) if np.isfinite(value) else None


def _notes(
    bundle: Bundle,
    design: Design,
    fits: Sequence[Fit],
    frames: Sequence[Frame],
    factor: float,
    used: str | None,
    survey: DesignUsed | None,
) -> Iterator[str]:
    """Yield notes on the survey weights, the design, dropped rows and sizes."""
    weight = bundle.claims.schema.weight
    if survey is not None:
        clusters = "" if bundle.claims.schema.linked is None else " The clusters are households."
        yield ("" if used is None else f"Weighted by {used}. ") + survey.in_words() + clusters
        terms = len(coefficient_names(design)) - 1
        if survey.degrees_of_freedom < terms:
            yield f"The design has too few degrees of freedom for a joint test of {terms} terms."
    if weight is not None and used is None:
        yield (
            f"The survey weights ({weight.name}) were not used: the estimates describe the sample."
            " --weighted gives estimates for the population."
        )
    elif weight is not None:
        if survey is None:
            yield (
                f"Weighted by {used}, with variances by linearization (Binder 1983) that treat rows"
                " as independent."
            )
        if any(off > WEIGHTS_OFF for off in bundle.claims.off):
            yield (
                "The weights miss some of the public totals they are calibrated to; the release's"
                " statement says by how much."
            )
    if survey is None and bundle.claims.schema.states_design:
        yield (
            "The schema states a sample design, which was not used: rows are treated as independent"
            " draws. --design gives standard errors by the design."
        )
    yield from design.notes
    if any(frame.dropped for frame in frames):
        dropped = ", ".join(f"{frame.dropped:,}" for frame in frames)
        yield f"Rows with a missing value were left out, by set: {dropped}."
    if fits and (uneven := check_enough(fits)):
        yield uneven
    if fits and factor != 1:
        what = "rows" if bundle.claims.schema.linked is None else "households"
        yield (
            f"The sets have {sum(bundle.claims.rows) / bundle.claims.sets:,.0f} {what} and the file"
            f" has about {bundle.records:,.0f}: W was multiplied by {factor:.3g} to match it."
        )


def family_word(text: str | None) -> Family | None:
    """Return a family of regressions by its name here or in other software.

    Raises:
        BadInput: if there is no such family.
    """
    if text is None:
        return None
    other = {
        "ols": "linear",
        "gaussian": "linear",
        "normal": "linear",
        "logit": "logistic",
        "binomial": "logistic",
        "binary": "logistic",
        "mlogit": "multinomial",
        "mnlogit": "multinomial",
        "count": "poisson",
    }
    word = other.get(text.casefold(), text.casefold())
    if word not in FAMILIES:
        raise BadInput(f"--family {text!r:.40} is not known.{nearest(text, FAMILIES)}")
    return cast("Family", word)
