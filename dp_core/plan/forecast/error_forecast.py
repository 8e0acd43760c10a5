"""Forecasts the errors of a release's sets and declared analyses, before data are read.

Theory (`ends_of`) gives the error that the planned tables, or the selection's own forecast, leave
in a typical file. `error_calibration` has what theory leaves out, by method and mode, as measured
by `benchmarks/promises.py`. `forecast_error` combines both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from dp_core.client.noise_scale import noise_for, sensitivities
from dp_core.inference.formulas.declared_analysis import DeclaredAnalysis
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import count_l1, count_l2_squared
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.regressions.shortened import Scores, SecondMoments
from dp_core.methods.declared.declared_questions import PARTS, SCORES, USUAL_LIMITS
from dp_core.methods.declared.declared_regression import DeclaredRegression
from dp_core.methods.declared.whitening import whole
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.budget.chance import Chance
from dp_core.methods.selection.budget.costs import DEPENDENCES, typical_columns
from dp_core.methods.selection.budget.dependence import usual
from dp_core.methods.selection.budget.residual_balance import Parts, expected_error
from dp_core.methods.selection.selector import Expected
from dp_core.plan.forecast.error_calibration import TWO_WAY, Range
from dp_core.plan.plan import Plan, PlannedTable
from dp_core.plan.release_spec import Mode
from dp_core.plan.steps.statistics_measurement import declared_pieces
from dp_core.tables.cliques import cliques_of

SUPPOSED_ROWS = (1_000, 10_000, 100_000)
"""Numbers of rows for which the error is forecast if the schema has no `rows_about`."""
MOST_COLUMNS = 32
"""Most columns for such forecasts: each number of rows takes some tenths of a second."""
MOSTLY_NOISE = 0.2
"""Expected average two-way TVD above which sets are mostly noise. Pairs of columns of a typical
file are nearer to independence than that."""
Ends = tuple[Expected, Expected]
"""Error at the least and at the largest dependence of `DEPENDENCES`."""
_RECORDS_OF = {"privbayes": {"bayes_network"}, "one_way": {"independent", "auto", "gum", "pgm"}}
_RECORDS = {"auto", "gum", "pgm"}
"""Reconstructions that the calibration holds for: by selection, or of the others."""
_TRIPLE_PART = 0.05  # a triple's own deviation, relative to that of its pairs
_UNKNOWN = 1e30  # noise variance of what no table tells, in records squared
_LIMIT = 1000
_MEAN_RESIDUAL = 0.8  # mean size of a normal residual in standard deviations


@dataclass(frozen=True, slots=True)
class SetError:
    """The expected error of a set: average TVD between its tables and those of the file.

    In nine of ten files like those of `benchmarks/promises.py` the error is in the range.

    Attributes:
        rows: Number of rows that the range is for.
        two_way: Smallest and largest likely average over all pairs of columns.
        mostly_noise: Whether noise is likely to hide most relations between columns: the middle of
            the range `two_way` is above `MOSTLY_NOISE`.
    """

    rows: int
    two_way: Range
    mostly_noise: bool


@dataclass(frozen=True, slots=True)
class ErrorForecast:
    """The expected errors of a release.

    Attributes:
        sets: That of a set for the schema's `rows_about`, or without it for each of
            `SUPPOSED_ROWS`. Empty without sets, for fewer than two columns, for a method or mode
            whose error cannot be forecast, or without `rows_about` for more than `MOST_COLUMNS`
            columns.
        widths: For each declared analysis the expected width of its intervals relative to that from
            the file without noise; None without `rows_about`, or if the stage has no budget.
    """

    sets: tuple[SetError, ...]
    widths: tuple[float | None, ...]


def forecast_error(plan: Plan) -> ErrorForecast:
    """Return the expected errors of a release; opens no data.

    The error of a set has three parts: noise, which the plan knows; the dependence of columns that
    the method cannot see, of which a range over typical files is assumed; and what the mode adds,
    which is calibrated.
    """
    about = plan.spec.schema.rows_about
    supposed = SUPPOSED_ROWS if len(plan.spec.schema.domain) <= MOST_COLUMNS else ()
    found = [_set_error(plan, rows) for rows in ((about,) if about else supposed)]
    return ErrorForecast(
        tuple(each for each in found if each is not None),
        tuple(_expected_width(plan, analysis) for analysis in plan.spec.analyses),
    )


# -- the error of a set


def _set_error(plan: Plan, rows: int) -> SetError | None:
    spec, domain, kind = plan.spec, plan.spec.schema.domain, _kind(plan)
    if kind is None or kind not in TWO_WAY or not spec.sets or len(domain) < 2:
        return None
    ends = ends_of(plan, kind[0], rows)
    if ends is None:
        return None
    least, most = ends
    two = TWO_WAY[kind].range((least.two, most.two), len(domain))
    if spec.rows and spec.rows < rows:
        # A small set also has sampling errors, of which the calibration knows those of `rows`.
        two = two[0], min(1.0, math.hypot(two[1], _drawing_error(domain, spec.rows)))
    return SetError(rows, two, math.sqrt(two[0] * two[1]) > MOSTLY_NOISE)


def _kind(plan: Plan) -> tuple[str, Mode] | None:
    """Return the selection method and the mode; None if the calibration does not hold for them."""
    document = plan.spec.document
    if "select" not in document:
        return None
    select = cast(Mapping[str, object], document["select"])
    reconstruct = cast(Mapping[str, object], document["reconstruct"])
    name = str(select["method"])
    if reconstruct["method"] not in _RECORDS_OF.get(name, _RECORDS):
        return None
    if select.get("at_once") == "joint":
        name = "full"
    return (name, plan.spec.mode) if reconstruct.get("shrink", True) else None


def ends_of(plan: Plan, selection: str, rows: int) -> Ends | None:
    """Return the expected error of a set due to the measurements of a plan.

    Modes other than `shared` and `split` add to it, and so does what a model leaves out. The
    calibration includes both, so only benchmarks call this by itself.

    Args:
        plan: Plan of the release, of two columns or more.
        selection: Name of the selection method.
        rows: Approximate number of rows of the file.

    Returns:
        The error at the least and at the largest dependence; None if the theory does not cover the
        method.
    """
    found = _THEORY.get(selection)
    return found(plan, rows) if found else None


def _drawing_error(domain: Domain, rows: int) -> float:
    """Return the mean TVD of the pairs of records drawn at random from a typical file.

    Args:
        domain: All columns, two or more.
        rows: Number of records drawn.
    """
    chance = Chance.of(domain, typical_columns(domain.sizes, rows), rows)
    pairs = list(cliques_of(domain, 2))
    return sum(chance.pair(pair) for pair in pairs) / len(pairs) / (2 * rows)


def _as_auto(plan: Plan, rows: int) -> Ends | None:
    """Return the error if the budget is divided among columns and pairs to minimise the error."""
    spec, domain = plan.spec, plan.spec.schema.domain
    selector = spec.selector
    if not isinstance(selector, Auto):
        selector = Auto(order=2, basis="tables")
    currency, parts = _currency(plan), spec.shares
    one_way, measure = parts["one_way"], parts["measure"]
    if not one_way:
        # The method measures columns when it needs them.
        one_way, measure = measure / 10, measure * Fraction(9, 10)
    return selector.forecast(
        domain,
        rows,
        currency,
        spec.privacy.relation,
        one_way=one_way * currency.limit / plan.replicates,
        measure=measure * currency.limit / plan.replicates,
        roughly=True,
    )


def _of_joint(plan: Plan, rows: int) -> Ends | None:
    """Return the error if the whole measuring budget measures the table of all columns."""
    spec, currency = plan.spec, _currency(plan)
    return Auto(at_once="joint").forecast(
        spec.schema.domain,
        rows,
        currency,
        spec.privacy.relation,
        one_way=Fraction(0),
        measure=spec.shares["measure"] * currency.limit / plan.replicates,
    )


def _of_planned(plan: Plan, rows: int) -> Ends | None:
    """Return the error that the planned tables leave; None if some column is in none of them."""
    return _error_of_tables(plan, rows, [table for table in plan.tables if table.clique])


def _of_tree(plan: Plan, rows: int) -> Ends | None:
    """Return the error if the measuring budget is divided equally among the pairs of a tree."""
    spec, domain = plan.spec, plan.spec.schema.domain
    currency, relation = _currency(plan), plan.spec.privacy.relation
    edges = list(itertools.pairwise(domain.columns))
    cost = spec.shares["measure"] * currency.limit / (plan.replicates * len(edges))
    noise = noise_for(currency, cost, l1=count_l1(relation), l2_squared=count_l2_squared(relation))
    tables = [table for table in plan.tables if table.clique]
    tables += [
        PlannedTable("measure", edge, domain.size(edge), cost, noise, plan.replicates)
        for edge in edges
    ]
    return _error_of_tables(plan, rows, tables)


def _error_of_tables(plan: Plan, rows: int, tables: Sequence[PlannedTable]) -> Ends | None:
    """Return the error that tables leave; None if some column is in none of them."""
    domain = plan.spec.schema.domain
    known = {name for table in tables if not table.interaction for name in table.clique}
    if known != set(domain.columns):
        return None
    least, most = (planned_error(domain, rows, tables, each) for each in DEPENDENCES)
    return least, most


def _currency(plan: Plan) -> Currency:
    """Return the currency in which the tables of a plan are or were paid."""
    earlier = plan.spec.measurements
    return plan.currency if earlier is None else earlier.currency


_THEORY: Mapping[str, Callable[[Plan, int], Ends | None]] = {
    "auto": _as_auto,
    "densemarg": _as_auto,
    "aim": _as_auto,
    "mst": _of_tree,
    "privbayes": _of_tree,
    "one_way": _of_planned,
    "fixed": _of_planned,
    "full": _of_joint,
}
"""Theory of a selection by its name in the spec."""


def planned_error(
    domain: Domain, rows: int, tables: Sequence[PlannedTable], dependence: float
) -> Expected:
    """Return the expected error of a set made from these tables.

    A table determines its columns and pairs, with noise: the sum of k cells of variance v has the
    variance k v. What no table shows of a pair is left as error, and so is the part of a pair that
    shrinkage removes together with its noise (see `residual_balance`).

    Args:
        domain: All columns.
        rows: Approximate number of records.
        tables: Tables, of which each column must be in one that is no interaction.
        dependence: Mean dependence of pairs relative to that of a typical file.
    """
    columns = typical_columns(domain.sizes, rows)
    chance = Chance.of(domain, columns, rows)
    typical = dependence * usual(rows)
    of_column = dict.fromkeys(domain.columns, 0.0)
    of_pair: dict[Clique, float] = {}
    for table in tables:
        cells, variance = table.cells, table.noise.stddev**2
        for name in () if table.interaction else table.clique:
            of_column[name] += domain.size((name,)) / (cells * variance)
        if table.interaction and len(table.clique) > 2:
            continue
        for pair in itertools.combinations(table.clique, 2):
            own = variance * cells / domain.size(pair)
            if not table.interaction:
                own *= math.prod(1 - 1 / size for size in domain.project(pair).sizes if size > 1)
            of_pair[pair] = of_pair.get(pair, 0.0) + 1 / own
    others = [pair for pair in cliques_of(domain, 2) if pair not in of_pair]
    triples = math.comb(len(domain), 3) * math.hypot(_TRIPLE_PART * typical, chance.mean_triple)
    cliques = [*((name,) for name in domain.columns), *of_pair]
    parts = Parts(
        columns=columns,
        known=np.array([1 / max(of_column[name], 1 / _UNKNOWN) for name in domain.columns]),
        cliques=[domain.axes(clique) for clique in cliques],
        dependence=np.array([0.0] * len(domain) + [typical] * len(of_pair)),
        noise=np.array([_UNKNOWN] * len(domain) + [1 / each for each in of_pair.values()]),
        margin=np.full((len(cliques), 2), np.inf),
        exponent=1.0,
        unlisted=(sum(math.hypot(typical, chance.pair(pair)) for pair in others), triples),
        drawn=chance.mean_triple,
    )
    return expected_error(parts, np.ones(len(cliques)))


# -- the width of a declared analysis's intervals


def _expected_width(plan: Plan, analysis: DeclaredAnalysis) -> float | None:
    """Return the expected width of a declared analysis's intervals relative to the file's own.

    The forecast follows the sums. The error of the second moments gives that of the public
    coefficients of the first scores, which give those of the next. Besides its noise, an estimate
    from scores has the error of the second moments, which grows with its distance from the public
    coefficients. Estimates are weighted by their precision, and the file has its sampling error.

    The forecast is for a typical file and depends on the budget, the schema and `rows_about` only.
    It is None without `rows_about`, or if the stage has no budget.
    """
    rows, spec = plan.spec.schema.rows_about, plan.spec
    if not rows or not plan.costs.get("analyses"):
        return None
    regression = DeclaredRegression.of(analysis, spec.schema)
    predictors, coefficients = regression.features.width, regression.coefficients
    noise = {part: each / rows for part, each in _noise(plan, regression).items()}
    # Of a number, in standard deviations of the residual; of levels, in log odds.
    size, sampling = _size(regression)
    limit = USUAL_LIMITS["linear" if regression.linear else "levels"]
    length = limit * size * math.sqrt(predictors)
    # Of an entry; the moments of the model records are taken to err as much as the noise.
    moments = (noise["moments"] * USUAL_LIMITS["moments"] * regression.together.width) ** 2 / 4
    # Squared error of the public coefficients, as a sum over the coefficients.
    error = coefficients * sampling * moments
    precision = 0.0
    for part in SCORES:
        of_scores = (noise[part] * length) ** 2 * _longer(regression, error)
        precision += 1 / (of_scores + moments * (error + coefficients * of_scores))
        error = coefficients / precision
    return math.sqrt(1 + rows / (precision * sampling))


def _noise(plan: Plan, regression: DeclaredRegression) -> dict[str, float]:
    """Return the standard deviation of the noise of each sum, relative to its length limit."""
    spec = plan.spec
    scores = Scores(
        outcome=regression.outcome,
        features=regression.features,
        transform=whole(np.eye(regression.features.width)),
        at=(0,) * regression.coefficients,
        length_limit=_LIMIT,
    )
    moments = SecondMoments(
        features=regression.together,
        transform=whole(np.eye(regression.together.width)),
        length_limit=_LIMIT,
    )
    found = {}
    for part, share in PARTS.items():
        question = scores if part in SCORES else moments
        l1, l2_squared = sensitivities(question, spec.privacy.relation)
        cost = plan.costs["analyses"] / declared_pieces(spec) * share
        noise = noise_for(plan.currency, cost, l1=l1, l2_squared=l2_squared)
        found[part] = noise.stddev / _LIMIT
    return found


def _size(regression: DeclaredRegression) -> tuple[float, float]:
    """Return the size of a residual, and the file's sampling variance of a coefficient.

    For features with unit second moments. Levels are taken to be equally frequent.

    Returns:
        The mean length of a record's residuals, times the factor by which an error of the mean
        score enters a coefficient; and the variance of a coefficient times the number of records.
    """
    if regression.linear:
        return _MEAN_RESIDUAL, 1.0
    others = regression.residuals
    part = 1 / (others + 1)
    # If the first level occurs, all residuals are `part`; otherwise one is `part` - 1.
    first = math.sqrt(others) * part
    other = math.sqrt((1 - part) ** 2 + (others - 1) * part**2)
    mean = part * first + (1 - part) * other
    # The inverse information is (others + 1) (I + 11'), for a reference level as frequent.
    return mean * (others + 1) * math.sqrt(others + 3), 2.0 * (others + 1)


def _longer(regression: DeclaredRegression, error: float) -> float:
    """Return the factor by which an error of coefficients lengthens squared residuals.

    Those of levels are bounded.
    """
    return 1 + error if regression.linear else 1.0
