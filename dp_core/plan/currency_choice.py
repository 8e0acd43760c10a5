"""The noise of a release: the currency with the smaller expected error.

A plan with pure epsilon has Laplace noise, one with delta may have Gaussian noise. Which is better
depends on what will be measured, so the choice forecasts it from the spec.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from dp_core.accounts.requested import PAYING_STAGES, Privacy
from dp_core.client.interactions import cell_stddev
from dp_core.client.noise_scale import NoiseScale, noise_for, sensitivities
from dp_core.client.released import noise_variance
from dp_core.errors import BadInput
from dp_core.inference.formulas.declared_analysis import DeclaredAnalysis
from dp_core.kernel.cost.covered_choices import covered
from dp_core.kernel.cost.currency import Currency, Kind, largest_limit
from dp_core.kernel.cost.sensitivity import count_bounds
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Noise, Stage
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.kernel.questions.statistic import Sum
from dp_core.kernel.questions.table_distance import TableChecks
from dp_core.methods.declared.declared_questions import PARTS
from dp_core.methods.declared.declared_regression import DeclaredRegression
from dp_core.methods.declared_statistics.limits import probe
from dp_core.methods.declared_statistics.quantile_tree import tree_parts, tree_questions
from dp_core.methods.declared_statistics.sum_answers import PARTS as SUM_PARTS
from dp_core.methods.declared_statistics.sum_answers import (
    counts_question,
    layers_question,
    shape_question,
)
from dp_core.methods.declared_statistics.value_table import ValueTable, tables_of, trees_of
from dp_core.methods.private_domain.questions import questions
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.budget.costs import DEPENDENCES
from dp_core.methods.selection.budget.dependence import usual
from dp_core.methods.selection.budget.wanted_shares import weighted_error
from dp_core.methods.selection.budget.workload import shares as allocate
from dp_core.methods.selection.selector import Expected, Selection, Terms
from dp_core.plan.release_spec import ReleaseSpec

Planned: TypeAlias = tuple[Fraction, int, int, float]
"""Share of the budget, L1 and squared L2 sensitivity, and weight of a planned statistic."""

_LIMIT = 1000
_MOST_NOISE = 1 / 8
"""Most noise of the number of records in a group with which declared statistics are of use."""
_FEW_COLUMNS = 16
"""Most columns for which Laplace noise can be the smaller; 15 at delta 1e-9 and epsilon 1."""


def stage_costs(spec: ReleaseSpec, currency: Currency) -> Mapping[Stage, Fraction]:
    """Return the budget of each stage; they sum to the currency's limit exactly."""
    return {
        stage: spec.shares[stage] * currency.limit
        for stage in PAYING_STAGES
        if stage in spec.shares
    }


def one_way_tables(domain: Domain, currency: Currency) -> Selection:
    """Return the one-way tables that are measured before selection, and their weights."""
    cliques = tuple((column,) for column in domain.columns)
    weights = allocate(domain.sizes, "epsilon" if currency.kind == "pure" else "rho")
    return Selection(cliques, weights)


def terms_of(spec: ReleaseSpec, currency: Currency, costs: Mapping[Stage, Fraction]) -> Terms:
    """Return what a selection may know beforehand: its budget, and the noise of earlier tables."""
    relation = spec.privacy.relation
    _, l1, l2_squared = count_bounds(relation)
    first = one_way_tables(spec.schema.domain, currency)
    before: dict[Clique, Fraction] = {(): costs["total"]}
    for clique, weight in zip(first.cliques, first.weights, strict=True):
        before[clique] = costs["one_way"] * weight
    noise = {
        clique: noise_for(currency, cost / spec.replicates, l1=l1, l2_squared=l2_squared)
        for clique, cost in before.items()
        if cost
    }
    return Terms(
        currency=currency,
        relation=relation,
        measure=costs["measure"] / spec.replicates,
        known={clique: noise_variance(of.kind, of.scale) for clique, of in noise.items()},
    )


def currency_of(spec: ReleaseSpec) -> Currency:
    """Return the currency with the least noise for the planned tables.

    Raises:
        BadInput: if no noise gives the requested guarantee.
    """
    times = spec.replicates
    relation = spec.privacy.relation
    _, l1, l2_squared = count_bounds(relation)
    if spec.selector.own_delta:
        check_thresholds(spec.method, spec.noise, spec.privacy)
        return threshold_currency(spec.privacy.epsilon, spec.privacy.delta)
    domain, shares = spec.schema.domain, spec.shares
    planned: list[Planned] = []
    equal = Fraction(1, len(domain))
    for each in questions(spec.schema):
        planned.append((shares["domain"] * each.share, l1, l2_squared, float(each.what.length)))
    if shares["one_way"]:
        share = shares["one_way"] * equal / times
        planned += [(share, l1, l2_squared, float(size)) for size in domain.sizes]
    # What serves a workload depends on the currency.
    selection = None if spec.selector.workload else spec.selector.fixed_selection(domain)
    if selection is not None:
        for clique, weight in zip(selection.cliques, selection.weights, strict=True):
            share, bounds, cells = shares["measure"] * weight / times, (l1, l2_squared), 1.0
            if clique in selection.interactions:
                of = interaction_of(spec, clique)
                bounds, cells = sensitivities(of, spec.privacy.relation), cell_stddev(of, 1.0)
            planned.append((share, *bounds, cells * domain.size(clique)))
    elif shares["measure"]:
        asked = spec.selector.select_events(domain, spec.privacy.relation)
        for ask in asked:
            share = shares["measure"] * ask.share / times
            planned.append((share, ask.l1, ask.l2_squared, ask.weight))
        if not asked:
            # The tables are not known yet; usually there are about as many as columns.
            planned.append((shares["measure"] * equal / times, l1, l2_squared, 1.0))
    statistic = spec.selector.statistic(domain)
    if shares["select"] and statistic:
        bounds = sensitivities(statistic, spec.privacy.relation)
        share = shares["select"] * spec.selector.scores_share(domain)
        planned.append((share, *bounds, float(statistic.length)))
    for piece in _planned_declarations(spec):
        planned += piece
    if shares["checks"] and spec.checks:
        planned.append((shares["checks"], *check_bounds(spec), float(len(spec.checks))))
    choices = None
    number = spec.selector.choices(domain)
    if spec.selector.chooses or number:
        rounds = times if spec.selector.rounds else 1
        choices = shares["select"] / rounds, number

    def least_noise(noise: Noise | Literal["auto"]) -> Currency:
        return choose_currency(
            spec.privacy.epsilon,
            spec.privacy.delta,
            noise=noise,
            statistics=planned,
            choices=choices,
            choices_covered=_choices_leave_enough(spec),
        )

    try:
        found = least_noise(spec.noise)
    except ValueError:
        raise BadInput(
            f"No {spec.noise} noise gives epsilon {float(spec.privacy.epsilon):g} at delta"
            f" {float(spec.privacy.delta):g}; raise privacy.epsilon or privacy.delta,"
            " or set measure.noise to auto."
        ) from None
    if spec.noise != "auto":
        return found
    try:
        other = least_noise("gaussian" if found.kind == "pure" else "laplace")
    except ValueError:
        return found  # the only possible one
    if not spec.selector.workload and _declared_decide(spec, (found, other)):
        return min((found, other), key=lambda each: _declared_error(spec, each))
    if spec.selector.workload and not spec.selector.adaptive:
        return min(
            (found, other),
            key=lambda each: _wanted_error(spec, each) * _declared_error(spec, each),
        )
    return _expecting_less(spec, found, other)


def _planned_declarations(spec: ReleaseSpec) -> list[list[Planned]]:
    """Return what is planned for each declared analysis and for each table of statistics."""
    tables = tables_of(spec.statistics, spec.schema)
    trees = trees_of(spec.statistics, spec.schema)
    pieces = len(spec.analyses) + len(tables) + len(trees)
    if not pieces:
        return []
    share = spec.shares["analyses"] / pieces
    bounds = count_bounds(spec.privacy.relation)[1:]
    found = [_planned_sums(spec, analysis, share) for analysis in spec.analyses]
    found += [_planned_statistics(spec, table, share) for table in tables]
    for table in trees:
        levels = zip(tree_parts(table).values(), tree_questions(table), strict=True)
        found.append([(share * part, *bounds, float(each.length)) for part, each in levels])
    return found


def _declared_decide(spec: ReleaseSpec, currencies: Sequence[Currency]) -> bool:
    """Return whether declared analyses decide the noise, and not the tables.

    They have the smaller part of the budget and the larger relative errors. But if the noise of the
    number of records in a group is above `_MOST_NOISE` of that number, statistics by these groups
    are very uncertain with either noise, and the tables are all that can be used.
    """
    if not (spec.analyses or spec.statistics):
        return False
    rows = spec.schema.rows_about
    tables = (*tables_of(spec.statistics, spec.schema), *trees_of(spec.statistics, spec.schema))
    of_tables = _planned_declarations(spec)[len(spec.analyses) :]
    for table, ((share, l1, l2_squared, _), *_) in zip(tables, of_tables, strict=True):
        noise = min(_noise(each, share, l1, l2_squared).stddev for each in currencies)
        if rows and noise * table.groups > _MOST_NOISE * rows:
            return False
    return True


def _declared_error(spec: ReleaseSpec, currency: Currency) -> float:
    """Return the geometric mean of the noise variances of all declared questions; 1 without any.

    Every part of a declaration matters: the clipping limits of a total and the part that clipping
    removes come from counts that have small shares, on which Laplace noise is large.
    """
    logs = [
        np.mean(
            [2 * math.log(_noise(currency, share, l1, l2).stddev) for share, l1, l2, _ in piece]
        )
        for piece in _planned_declarations(spec)
    ]
    return float(np.exp(np.mean(logs))) if logs else 1.0


def _noise(currency: Currency, share: Fraction, l1: int, l2_squared: int) -> NoiseScale:
    """Return the noise of a question that has a share of the budget."""
    return noise_for(currency, share * currency.limit, l1=l1, l2_squared=l2_squared)


def _planned_sums(spec: ReleaseSpec, analysis: DeclaredAnalysis, share: Fraction) -> list[Planned]:
    """Return the sums of a declared analysis as the choice of a currency sees them.

    Their length limits are not known yet; noise is relative to a limit of `_LIMIT`.
    """
    regression = DeclaredRegression.of(analysis, spec.schema)
    width = regression.together.width
    found = []
    for name, part in PARTS.items():
        entries = width * (width + 1) // 2 if name == "moments" else regression.coefficients
        l1 = math.isqrt(_LIMIT**2 * entries - 1) + 1
        found.append((share * part, l1, _LIMIT**2, entries / _LIMIT))
    return found


def _planned_statistics(spec: ReleaseSpec, table: ValueTable, share: Fraction) -> list[Planned]:
    """Return the questions of a table of declared means as the choice of a currency sees them.

    Noise of the sums is relative to their reach.
    """
    trial = probe(table)
    asked: dict[str, tuple[Sum, float]] = {
        "counts": (counts_question(table), 1.0),
        "shape": (shape_question(table), 1.0),
        "layers": (layers_question(table), 1.0),
        "sums": (trial, 1.0 / trial.reach),
    }
    return [
        (share * part, *sensitivities(asked[name][0], spec.privacy.relation), weight)
        for name, part in SUM_PARTS.items()
        for weight in [asked[name][1] * asked[name][0].length]
    ]


def _choices_leave_enough(spec: ReleaseSpec) -> bool:
    """Return whether every private choice is certain to leave enough for the Gaussian curve.

    With a measurement for each set, either a choice serves all of them, or each set's measurements
    follow its own choices.
    """
    largest = spec.selector.largest_choice(spec.schema.domain)
    if largest is None:
        return False
    return covered(largest * spec.shares["select"], spec.shares["measure"])


def _expecting_less(spec: ReleaseSpec, found: Currency, other: Currency) -> Currency:
    """Return the currency for which the selector forecasts the smaller error, if it can forecast.

    What it measures depends on the noise. With much noise it may measure single columns only, and
    for a few columns Laplace noise is smaller although Gaussian noise is smaller for most files.
    """
    part = spec.shares["measure"] / len(spec.schema.domain)
    # Plans must be fast: the search for the largest epsilon that fits an account makes dozens.
    if not part or not spec.schema.rows_about or len(spec.schema.domain) > _FEW_COLUMNS:
        return found
    bounds = count_bounds(spec.privacy.relation)[1:]
    noise = {each.kind: _noise(each, part, *bounds).stddev for each in (found, other)}
    if min(noise, key=lambda kind: noise[kind]) != "pure":
        return found  # Laplace noise is larger even if single columns only are measured
    errors = {}
    for currency in (found, other):
        expected = expected_error(spec, currency)
        if expected is None:
            return found
        if spec.selector.workload:
            expected = _with_noisy_scores(spec, currency, expected)
        errors[currency.kind] = math.prod(each.two + each.three for each in expected)
        if spec.selector.workload:
            # The workload, with the declared analyses, counts as much as everything else together.
            errors[currency.kind] *= _wanted_error(spec, currency)
            errors[currency.kind] *= _declared_error(spec, currency)
    return min((found, other), key=lambda currency: errors[currency.kind])


def _with_noisy_scores(
    spec: ReleaseSpec, currency: Currency, expected: tuple[Expected, Expected]
) -> tuple[Expected, Expected]:
    """Return the expected errors if the dependence of pairs is known from noisy scores only.

    The forecast assumes that it is known. The noisier the scores, the nearer is the error to that
    of measuring no pairs besides the workload. A pair of dependence d, whose score has the noise
    variance s^2, keeps the part d^2/(d^2 + s^2) of the difference.
    """
    statistic, rows = spec.selector.statistic(spec.schema.domain), spec.schema.rows_about
    if not isinstance(spec.selector, Auto) or statistic is None or not rows:
        return expected
    alone = dataclasses.replace(spec, selector=dataclasses.replace(spec.selector, order=1))
    without = expected_error(alone, currency)
    assert without is not None, "The selection has a forecast, whatever its order."
    # The distance of each pair from a public product changes by one record.
    bounds = [bound * statistic.length for bound in count_bounds(spec.privacy.relation)[1:]]
    share = spec.shares["select"] * spec.selector.scores_share(spec.schema.domain)
    variance = _noise(currency, share, *bounds).stddev ** 2
    found = []
    for part, known, unknown in zip(DEPENDENCES, expected, without, strict=True):
        dependence = (part * usual(rows)) ** 2
        trust = dependence / (dependence + variance)
        two = trust * known.two + (1 - trust) * unknown.two
        three = trust * known.three + (1 - trust) * unknown.three
        found.append(Expected(two, three))
    return found[0], found[1]


def _wanted_error(spec: ReleaseSpec, currency: Currency) -> float:
    """Return the weighted error of the workload, in records squared."""
    terms = terms_of(spec, currency, stage_costs(spec, currency))
    return weighted_error(spec.selector, spec.schema.domain, terms)


def expected_error(spec: ReleaseSpec, currency: Currency) -> tuple[Expected, Expected] | None:
    """Return the error of the best single set of a typical file, by the method's own forecast.

    It is a fast approximation, for comparing currencies and plans. `error_forecast` has the error
    that a plan promises.

    Returns:
        None if the method has no forecast, or the schema no `rows_about`.
    """
    rows = spec.schema.rows_about
    if not rows or len(spec.schema.domain) < 2:
        return None
    return spec.selector.forecast(
        spec.schema.domain,
        rows,
        currency,
        spec.privacy.relation,
        one_way=spec.shares["one_way"] * currency.limit / spec.replicates,
        measure=spec.shares["measure"] * currency.limit / spec.replicates,
        roughly=True,
    )


def check_thresholds(name: str, noise: Noise | Literal["auto"], privacy: Privacy) -> None:
    """Refuse noise or a guarantee that a selection with thresholds cannot have.

    Args:
        name: Name of the selection.
        noise: Kind of count noise.
        privacy: Requested guarantee.

    Raises:
        BadInput: for Gaussian noise or delta 0.
    """
    if noise == "gaussian":
        raise BadInput(
            f"`{name}` keeps cells above a threshold, which needs Laplace noise; set measure.noise"
            " to laplace or auto."
        )
    if not privacy.delta:
        raise BadInput(
            f"`{name}` keeps cells above a threshold, which fails with a small probability; set"
            " privacy.delta above 0, for example 1.0e-9."
        )


def interaction_of(spec: ReleaseSpec, clique: Clique) -> Interaction:
    """Return the interaction of a clique.

    Raises:
        BadInput: if the clique has no interaction, or it is too large.
    """
    try:
        return Interaction(clique, spec.schema.domain.project(clique).sizes)
    except ValueError as error:
        raise BadInput(str(error)) from None


def check_bounds(spec: ReleaseSpec) -> tuple[int, int]:
    """Return the L1 and squared L2 sensitivities of all charged checks together."""
    nothing = tuple(np.zeros(1, dtype=np.int64) for _ in spec.checks)
    return sensitivities(TableChecks(spec.checks, nothing), spec.privacy.relation)


def choose_currency(
    epsilon: Fraction,
    delta: Fraction,
    *,
    noise: Noise | Literal["auto"],
    statistics: Sequence[tuple[Fraction, int, int, float]],
    choices: tuple[Fraction, int] | None = None,
    choices_covered: bool = False,
) -> Currency:
    """Return the currency with the least expected absolute noise on the planned statistics. Public.

    Args:
        epsilon: Epsilon of the whole release.
        delta: Delta of the whole release.
        noise: `laplace` or `gaussian` restricts the choice; `auto` does not.
        statistics: For each planned statistic: its fraction of the budget, L1 sensitivity, squared
            L2 sensitivity, and weight (number of cells).
        choices: Fraction of the budget for private choices, and their number; None (the default)
            without any. The noise of each choice counts as much as that of one cell.
        choices_covered: Whether every choice is certain to leave enough of the total for the
            Gaussian curve (`Currency.allows`); otherwise choices exclude it.

    Raises:
        ValueError: if no currency allows this noise, epsilon and delta.
    """
    kinds: list[Kind] = []
    if noise in ("auto", "laplace"):
        kinds.append("pure")
    if noise in ("auto", "gaussian") and delta > 0:
        curve: Kind | None = "gaussian" if not choices else "mixed" if choices_covered else None
        kinds += [curve, "zcdp"] if curve else ["zcdp"]
    best: tuple[float, Currency] | None = None
    for kind in kinds:
        currency = Currency(kind, largest_limit(kind, epsilon, delta))
        if currency.limit <= 0:
            continue
        error = sum(
            weight * _noise(currency, share, l1, l2_squared).mean_absolute
            for share, l1, l2_squared, weight in statistics
        )
        if choices and choices[1]:
            part = float(choices[0] * currency.limit) / choices[1]
            # Scales of `choose` for scores of sensitivity 1: exponential (pure), else Gumbel noise.
            # That of `mixed` is 6 % larger, which must not decide against the noise of all tables.
            error += choices[1] * (2 / part if kind == "pure" else 2 / math.sqrt(8 * part))
        if best is None or error < best[0]:
            best = (error, currency)
    if best is None:
        raise ValueError("No currency allows this epsilon and delta.")
    return best[1]


def threshold_currency(epsilon: Fraction, delta: Fraction) -> Currency:
    """Return the currency of a release with thresholds: pure, with the whole delta set aside.

    Raises:
        ValueError: if delta is not between 0 and 1.
    """
    if not 0 < delta < 1:
        raise ValueError(f"A threshold needs a delta above 0 and below 1, not {delta}.")
    return Currency("pure", epsilon, delta)
