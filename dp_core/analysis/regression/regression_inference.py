"""A regression on every set, combined by the release's rule: what `dp-release infer` computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from dp_core.analysis.query.answer_notes import MOVED
from dp_core.analysis.query.term_intervals import Ends
from dp_core.analysis.regression.analysis import Analysis, analyse, combine_fits
from dp_core.analysis.regression.declared_estimates import combined_by_precision, declared_estimates
from dp_core.analysis.regression.design import FAMILIES, Design, Family, Floats
from dp_core.analysis.regression.fitting import (
    Fit,
    coefficient_columns,
    coefficient_names,
    unequal_sizes_warning,
)
from dp_core.analysis.regression.frames import Frame, about_persons, read_frames
from dp_core.analysis.regression.interval_warnings import (
    Concern,
    few_sets,
    general_warnings,
    household_concerns,
    lost_relations,
    relation_warnings,
    source_columns,
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
from dp_core.analysis.regression.set_errors import NotGiven, corrected, hidden_by_noise
from dp_core.analysis.regression.survey_answer import (
    DesignUsed,
    cluster_concerns,
    design_used,
    households_used,
    widened,
)
from dp_core.bundle.reading import Bundle
from dp_core.bundle.report.example_code import size_factor
from dp_core.bundle.statement.sections import TOLERANCE as WEIGHTS_OFF
from dp_core.client.released import Totals
from dp_core.errors import BadInput, nearest
from dp_core.inference.combine import Combined
from dp_core.inference.combining_rules import (
    BY_DESIGN,
    BY_FILE,
    COVERAGE,
    DECLARED,
    NO_SETS,
    WORDING,
    covered_errors,
    with_known_errors,
)
from dp_core.inference.formulas.formula import Formula, read_formula
from dp_core.inference.intervals import interval
from dp_core.inference.measured_relations import list_groups
from dp_core.kernel.questions.regressions.shortened import SecondMoments

_FURTHEST = 10.0  # usual effects: a larger coefficient of a logarithm is a separated level
FROM_SUMS = (
    "This formula was declared: the answer combines the sums that were measured for it with the"
    " sets, each weighted by its precision."
)
FROM_SUMS_ALONE = (
    "This formula was declared: the answer is from the sums that were measured for it, because it"
    " cannot be fitted on every set."
)


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
        BadInput: if an argument is wrong or asks for columns that the release does not have, the
            release has no sets (or one, without `naive`), the formula can neither be fitted on each
            set nor was declared, or none of its coefficients can be given.
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
    plain = all(frame.weights is None for frame in frames)
    declared = declared_estimates(bundle, formula, frames, known) if plain else None
    not_given: tuple[NotGiven, ...] = ()
    from_sums = FROM_SUMS
    try:
        found = analyse(
            *(formula, frames, claims.schema, bundle.rule),
            family=known,
            size_factor=factor,
            by_bin=True,
        )
    except BadInput:
        if declared is None:
            raise
        found, from_sums = Analysis(formula, declared[0], (), declared[1]), FROM_SUMS_ALONE
    else:
        if declared is not None:
            found, not_given = _with_sets(bundle, found, *declared, frames)
    of_persons = about_persons(claims.schema, formula.columns)
    alike: tuple[Concern, ...] = ()
    survey: DesignUsed | None = None
    if by_design:
        found, alike, survey = _with_clusters(bundle, found, factor)
    elif of_persons:
        survey = households_used(found.design.samples)
    design, fits, combined = found.design, found.fits, found.combined
    words, covers = WORDING[bundle.rule], covered_errors(bundle.rule, bundle.origin)
    limited = combined is not None and combined.complete_df is not None
    if survey is not None:
        words = replace(words, degrees_of_freedom=BY_DESIGN)
    elif limited:
        words = replace(words, degrees_of_freedom=BY_FILE)
    answered_from: AnsweredFrom = "sets"
    general = tuple(general_warnings(bundle, combined))
    notes = list(_notes(bundle, formula, design, fits, frames, factor, used, survey))
    about: tuple[Concern, ...] = ()
    if declared is not None:
        notes.insert(0, from_sums)
        answered_from, words, covers = "declared", DECLARED, DECLARED.covers
    names = coefficient_names(design)
    if declared is None:
        about = alike
        if of_persons:
            about = (*about, *household_concerns(bundle, formula, names))
        with_errors = corrected(bundle, formula, design, frames, fits, combined)
        combined, not_given = with_errors.combined, with_errors.not_given
        if combined is not None and np.any(combined.added):
            words = with_known_errors(words, combined.by_differences)
    about = (*about, *few_sets(combined, names))
    hidden = {name for each in not_given for name in each.coefficients}
    given = [place for place, name in enumerate(names) if name not in hidden]
    possible = possible_means(formula, design, claims.schema)
    if combined is not None and possible is not None and possible.moves(combined):
        notes.append(f"{MOVED} Standard errors, t and p are those before.")
    # That the sets cannot carry the formula comes first: no mode corrects it.
    lost = [each.text for each in about if each.kind == "clusters"]
    reason = next(iter((*lost, *general)), None)
    by_sets = combined is not None and answered_from == "sets" and reason is None
    about = tuple(each for each in about if not hidden.issuperset(each.coefficients))
    if not given:
        reasons = " ".join(each.reason for each in not_given)
        raise BadInput(f"No coefficient of this formula can be given. {reasons}")
    return RegressionAnswer(
        folder=bundle.place,
        release=claims.name,
        formula=formula.text,
        family=design.outcome.family,
        modelled=design.outcome.in_words,
        outcome_levels=list(design.outcome.levels),
        references=dict(design.references),
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
                *(names, given, fits, combined, level, about, possible),
                COVERAGE.get(bundle.rule) if by_sets else None,
            )
        ),
        not_given=not_given,
        covariance=(combined.variance if combined else fits[0].covariance)[
            np.ix_(given, given)
        ].tolist(),
        all_terms=_joint(names, given, combined) if combined else None,
        warnings=[
            *general,
            *(concern.text for concern in about),
            *(relation_warnings(bundle, formula) if answered_from == "sets" else ()),
        ],
        notes=notes,
        of=None if linked is None else "persons" if of_persons else "households",
    )


def _with_sets(
    bundle: Bundle,
    sets: Analysis,
    design: Design,
    declared: Combined,
    of_file: Floats,
    frames: Sequence[Frame],
) -> tuple[Analysis, tuple[NotGiven, ...]]:
    """Return a declared analysis, combined with that of the sets, and what noise hides in both.

    Args:
        bundle: The release.
        sets: The analysis of the sets.
        design: Design of the declared analysis.
        declared: Its coefficients.
        of_file: Their variance by the sampling of the file, shape (coefficients,).
        frames: Complete rows of each set.
    """
    assert sets.combined is not None
    formula, names = sets.formula, coefficient_names(design)
    # The declared answer has used the second moments, which therefore do not count again.
    others = [
        item
        for item in bundle.measured
        if not (isinstance(item, Totals) and isinstance(item.of, SecondMoments))
    ]
    bundle = replace(bundle, measured=others)
    found = corrected(bundle, formula, sets.design, frames, sets.fits, sets.combined)
    assert found.combined is not None
    # A coefficient that the sets do not have may have any of the usual effects.
    largest = max(found.effects.values(), default=math.inf)
    effects = np.array([found.effects.get(name, largest) for name in names])

    def errors(of: Combined) -> dict[str, float]:
        """Return the standard error of each coefficient by noise, in usual effects."""
        noise = np.sqrt(np.maximum(np.diag(of.variance) - of_file, 0.0)) / effects
        if design.outcome.family != "linear":
            # Far beyond all usual effects, noise has separated a level.
            far = np.abs(of.estimate) / effects / _FURTHEST
            noise = np.maximum(noise, np.where(far > 1, far, 0.0))
        return dict(zip(names, noise.tolist(), strict=True))

    lost = {name for each in found.not_given for name in each.coefficients}
    places = {name: at for at, name in enumerate(sets.names) if name not in lost}
    of_sums = hidden_by_noise(errors(declared))
    hidden = {name for each in of_sums for name in each.coefficients}
    both = combined_by_precision(names, declared, places, found.combined, hidden, of_file)
    return Analysis(formula, design, (), both), hidden_by_noise(errors(both), "declared sums")


def _with_clusters(
    bundle: Bundle, found: Analysis, factor: float
) -> tuple[Analysis, tuple[Concern, ...], DesignUsed]:
    """Return an analysis by the design, what the sets do not reproduce of it, and what was used.

    If the schema states a design effect, it takes the place of what the sets do not reproduce.
    """
    schema, samples = bundle.claims.schema, found.design.samples
    alike = cluster_concerns(
        bundle, found.formula, coefficient_columns(found.formula, found.design)
    )
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


def _coefficients(
    names: Sequence[str],
    given: Sequence[int],
    fits: Sequence[Fit],
    combined: Combined | None,
    level: float,
    about: Sequence[Concern],
    possible: PossibleMeans | None,
    coverage: tuple[float, float] | None,
) -> Iterator[Coefficient]:
    """Yield each given coefficient: combined, and its naive fits if any; all cut if possible."""

    def cut(found: Ends) -> Ends:
        return found if possible is None else possible.cut(found)

    first = _naive(fits[0], level, cut) if fits else None
    found = _combined(combined, level, cut) if combined else None
    for place in given:
        name = names[place]
        yield Coefficient(
            name,
            found[place] if found else None,
            one_set=first[place] if first else None,
            by_set=tuple(
                SetFit(float(fit.coefficients[place]), float(np.sqrt(fit.covariance[place, place])))
                for fit in fits
            ),
            concerns=tuple(each.kind for each in about if name in each.coefficients),
            expected_coverage=coverage,
        )


def _combined(combined: Combined, level: float, cut: Callable[[Ends], Ends]) -> list[CombinedFit]:
    """Return the combined coefficients; their tests are of the estimates before they are cut."""
    estimates, low, high = cut((combined.estimate, *combined.interval(level)))
    statistic, p_value = combined.test()
    degrees = np.broadcast_to(combined.degrees_of_freedom, estimates.shape)
    columns = (
        *(estimates, combined.standard_error, statistic, degrees, p_value, low, high),
        *(np.diag(combined.within), np.diag(combined.between)),
        np.diag(combined.added + np.zeros_like(combined.within)),
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


def _joint(names: Sequence[str], given: Sequence[int], combined: Combined) -> JointTest | None:
    """Return the test that no given term but the intercept matters."""
    terms = [place for place in given if names[place].rsplit(": ", 1)[-1] != "Intercept"]
    if not terms or len(terms) == len(given):
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
    formula: Formula,
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
                " as independent. Where the weights depend on the outcome within the groups of the"
                " formula, no interval from sets is known to be valid."
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
    if words := _references(design):
        yield words
    yield from design.notes
    outcome = {*source_columns(bundle, formula.outcome_columns)}
    apart = [group for group in lost_relations(bundle, formula) if not outcome & {*group}]
    if fits and apart:
        follow = "the model's assumption, so the adjustment of each for the others may be wrong"
        if bundle.rule == "posterior":
            follow = "a prior, and the intervals count it as an error"
        yield (
            f"No measured table holds {list_groups(apart)}. The sets take the relation between"
            f" these predictors from {follow}."
        )
    if any(frame.dropped for frame in frames):
        dropped = ", ".join(f"{frame.dropped:,}" for frame in frames)
        yield f"Rows with a missing value were left out, by set: {dropped}."
    if fits and (uneven := unequal_sizes_warning(fits)):
        yield uneven
    if fits and factor != 1:
        what = "rows" if bundle.claims.schema.linked is None else "households"
        yield (
            f"The sets have {sum(bundle.claims.rows) / bundle.claims.sets:,.0f} {what} and the file"
            f" has about {bundle.records:,.0f}: W was multiplied by {factor:.3g} to match it."
        )


def _references(design: Design) -> str:
    """Return with which levels the others are compared; empty if no level has a coefficient."""
    used = {
        name: level
        for name, level in design.references.items()
        if any(column.startswith((f"{name}[T.", f"C({name})[T.")) for column in design.names)
    }
    if not used:
        return ""
    named = ", ".join(f"{name} {level!r}" for name, level in used.items())
    one = next(iter(used))
    return (
        f"Reference levels (the most frequent): {named}. C({one}, Treatment('LEVEL')) names"
        " another."
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
