"""The answer of `dp-release plan`: the cost of a release and its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from dp_core.bundle.report.provenance import enumeration
from dp_core.errors import BadInput, BudgetRefused
from dp_core.inference.formulas.declared_statistic import DeclaredStatistic
from dp_core.methods.bin_density.outer_bins import outer_bins
from dp_core.methods.prior.public_prior import PublicPrior
from dp_core.methods.private_domain.questions import PlannedChoice
from dp_core.methods.selection.budget.threshold_delta import Thresholding, planned_threshold
from dp_core.plan.forecast.error_forecast import SetError, forecast_error
from dp_core.plan.forecast.machine_speed import REFERENCE, Machine
from dp_core.plan.forecast.many_levels import ManyLevels, many_levels
from dp_core.plan.forecast.resource_forecast import ResourceForecast, forecast_resources
from dp_core.plan.plan import (
    Plan,
    PlannedTable,
    PlannedTotal,
    check_reach,
    with_gaussian_noise,
)
from dp_core.plan.steps.statistics_measurement import margin_in_limits, margin_in_records
from dp_core.schema.definition import Schema
from dp_core.schema.privacy import PAYING_STAGES
from dp_core.tables.public_totals import records_of
from dp_core.text.pages.answer import INLINE, OMITTED, Answer
from dp_core.text.pages.number_texts import plural
from flows.answers.amounts import (
    AccountAbove,
    PrivacyAmount,
    account_above,
    amount_left,
    within,
)
from flows.answers.wanted_answers import OtherNoise, WantedMargin, other_noise, wanted_margins
from tasks.support.budget_refusals import no_account

if TYPE_CHECKING:
    from flows.answers.ledger_answers import PlanApproval
    from tasks.ledger.ledger import Ledger


_FAR = 2
"""Ratio above which public totals and `rows_about` are far from each other."""


@dataclass(frozen=True, slots=True)
class PlannedStage(Answer):
    """A paying stage: its share, its cost in the plan's currency, and what it pays for."""

    stage: str
    share: Fraction
    cost: Fraction
    what: str


@dataclass(frozen=True, slots=True)
class TableNoise(Answer):
    """The noise of a planned table; `within` is the 95 % bound for one count, in records."""

    stage: str
    columns: tuple[str, ...]
    cells: int
    noise: str
    scale: float
    within: float
    tvd: float | None
    times: int
    interaction: bool | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class TotalNoise(Answer):
    """The noise of planned sums; `within_records` is a 95 % bound in records."""

    step: str
    columns: tuple[str, ...]
    numbers: int
    noise: str
    scale: float
    within_records: float
    tvd: float | None
    times: int


@dataclass(frozen=True, slots=True)
class ChoiceNoise(Answer):
    """The noise of a private choice of bins or levels."""

    column: str
    of: str
    number: int
    among: int
    noise: str
    scale: float
    within: float
    in_words: str


@dataclass(frozen=True, slots=True)
class WideBin(Answer):
    """An outer bin that may hold few records and much of the sum of its column."""

    column: str
    bin: str
    times: float
    moves: float
    in_words: str


@dataclass(frozen=True, slots=True)
class Checks(Answer):
    """The tables that are checked against the data, and the TVD bound of a check."""

    tables: tuple[tuple[str, ...], ...]
    within_tvd: float | None


@dataclass(frozen=True, slots=True)
class PlannedAnalysis(Answer):
    """A declared analysis, and the expected width of its intervals relative to the file's own."""

    formula: str
    relative_width: float | None


@dataclass(frozen=True, slots=True)
class PlannedStatistic(Answer):
    """A declared mean, total or quantile.

    Attributes:
        statistic: The sentence as typed.
        groups: Number of groups.
        margin_in_records: 95 % margin of the rank of a group's quantile; None for other statistics.
        margin_in_limits: 95 % margin of a group's total from the noise of its sum, in multiples of
            the limit to which the values of the group are cut; None for a quantile. The limits
            depend on the data.
    """

    statistic: str
    groups: int
    margin_in_limits: float | None
    margin_in_records: float | None


@dataclass(frozen=True, slots=True)
class PlannedTime(Answer):
    """How long the release takes on this machine if it does nothing else, from public values only.

    Attributes:
        seconds: Seconds of the whole release, from command to bundle.
        stages: Seconds of each stage; `start` is the start-up of the program and of Prefect.
        processors: Processors that the release may use.
    """

    seconds: float
    stages: Mapping[str, float]
    processors: int


@dataclass(frozen=True, slots=True)
class Threshold(Answer):
    """The least noisy count that a method keeps; `rare_lost` warns if rare cells will be lost."""

    kept_from: int
    tables: int
    most_cells: int
    rare_lost: str | None


@dataclass(frozen=True, slots=True)
class Refusal(Answer):
    """Why the ledger would refuse a plan, and the heading of the runbook that says what to do."""

    error: str
    runbook: str | None


@dataclass(frozen=True, slots=True)
class AccountRoom(Answer):
    """What the account of a plan has left, and for how many releases of the plan.

    Attributes:
        more_such_releases: Number of releases of the plan that fit; 0 if the account refuses them.
        more_with_gaussian_noise: The same number if the spec stated `measure.noise: gaussian`; None
            if it is not larger.
        refused: Why the ledger would refuse the release today; None if it would not. A plan that
            only waits for approval is not refused.
        refused_attempts: Refused attempts of the account and its family since a person last allowed
            further ones; None if there are none.
    """

    account_found: bool
    account_missing: str | None
    account_closed: bool | None = None
    left: PrivacyAmount | None = None
    above: AccountAbove | None = None
    more_such_releases: int | None = None
    more_with_gaussian_noise: int | None = field(default=None, metadata=OMITTED)
    approval: PlanApproval | None = None
    refused: Refusal | None = None
    refused_attempts: int | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class PlannedPrior(Answer):
    """Public records that predict how columns depend, at no cost.

    Attributes:
        kind: `release` or `file`.
        name: Name of the release or of the file.
        sha256: Hash of the release's statement or of the file's bytes; the plan's hash covers it.
        columns: Number of columns of the schema for which it is used.
        notes: What cannot be used; one sentence each.
    """

    kind: str
    name: str
    sha256: str
    columns: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer(Answer):
    """What a release would cost, and how much noise it would have.

    Attributes:
        levels: Number of levels and bins of all columns together.
        expected_error: Error of a set; None without `rows_about`, without sets, or for a method
            whose error cannot be forecast.
        expected_by_rows: `expected_error` for several numbers of rows, if the schema has no
            `rows_about`.
        memory_bound_mb: Bound of the memory of the whole release, in MB (a million bytes), without
            Prefect's server; None without `rows_about`.
        measurements: The release whose noisy tables it would use at no cost; None if it measures.
        public_totals: The public totals that every set meets, in words; None without any.
        prior: The public records that predict how columns depend, and which columns cannot be used;
            None if there are none.
        totals_remark: A sentence if their sum is far from `rows_about`; otherwise None.
    """

    release: str
    account: str
    method: str
    privacy: PrivacyAmount = field(metadata=INLINE)
    neighbours: str
    unit: str
    max_rows: int
    max_members: int | None = field(default=None, metadata=OMITTED)
    waves: str | None = field(default=None, metadata=OMITTED)
    currency: str
    limit: Fraction
    plan_hash: str
    sets: int
    mode: str
    rows: int | str
    rows_about: int | None
    columns: int
    levels: int
    stages: tuple[PlannedStage, ...]
    tables: tuple[TableNoise, ...]
    totals: tuple[TotalNoise, ...]
    wanted: tuple[WantedMargin, ...] | None = field(default=None, metadata=OMITTED)
    wanted_by_other_noise: OtherNoise | None = field(default=None, metadata=OMITTED)
    analyses: tuple[PlannedAnalysis, ...] | None = field(default=None, metadata=OMITTED)
    statistics: tuple[PlannedStatistic, ...] | None = field(default=None, metadata=OMITTED)
    choices: tuple[ChoiceNoise, ...] | None = field(default=None, metadata=OMITTED)
    wide_bins: tuple[WideBin, ...] | None = field(default=None, metadata=OMITTED)
    many_levels: tuple[ManyLevels, ...] | None = field(default=None, metadata=OMITTED)
    checks: Checks
    evenness: float | None
    bins_unused: list[str]
    score_noise_within: float | None
    expected_error: SetError | None
    expected_by_rows: tuple[SetError, ...] | None = field(default=None, metadata=OMITTED)
    threshold: Threshold | None
    memory_bound_mb: int | None
    time: PlannedTime | None
    room: AccountRoom = field(metadata=INLINE)
    measurements: str | None = field(default=None, metadata=OMITTED)
    public_totals: tuple[str, ...] | None = field(default=None, metadata=OMITTED)
    totals_remark: str | None = field(default=None, metadata=OMITTED)
    prior: PlannedPrior | None = field(default=None, metadata=OMITTED)
    spec: Mapping[str, Any]

    @property
    def exit_code(self) -> int:
        """3 if the ledger would refuse the release, otherwise 0."""
        return BudgetRefused.exit_code if self.room.refused else 0


def plan_answer(plan: Plan, ledger: Ledger | None, machine: Machine = REFERENCE) -> PlanAnswer:
    """Return a plan's cost, noise, size and time, and how many releases of it the account can pay.

    Args:
        plan: The plan of the release.
        ledger: The ledger of this home, None if there is none yet.
        machine: The machine that makes the release; by default that of the unit costs, with one
            processor.
    """
    spec, privacy = plan.spec, plan.spec.privacy
    rows = spec.schema.rows_about
    threshold, measures = _threshold(plan), spec.measurements is None
    errors, takes = forecast_error(plan), forecast_resources(plan, machine)
    return PlanAnswer(
        release=spec.release,
        account=spec.account,
        method=spec.method,
        privacy=PrivacyAmount(privacy.epsilon, privacy.delta),
        neighbours=privacy.neighbours,
        unit=privacy.unit,
        max_rows=privacy.max_rows,
        max_members=privacy.max_members if privacy.unit == "household" else None,
        waves=privacy.waves or None,
        currency=plan.currency.kind,
        limit=plan.currency.limit,
        plan_hash=plan.hash,
        sets=spec.sets,
        mode=spec.mode,
        rows=spec.rows or "same",
        rows_about=rows,
        columns=len(spec.schema.columns),
        levels=sum(spec.schema.domain.sizes),
        stages=tuple(
            PlannedStage(
                stage, spec.shares[stage], plan.costs[stage], _what(plan, stage, threshold)
            )
            for stage in PAYING_STAGES
            if plan.costs.get(stage)
        ),
        tables=tuple(_table(table, rows) for table in plan.tables),
        totals=tuple(_total(total, rows) for total in plan.totals),
        wanted=(wanted_margins(plan) or None) if measures else None,
        wanted_by_other_noise=other_noise(plan) if measures else None,
        analyses=tuple(
            PlannedAnalysis(each.formula, width)
            for each, width in zip(spec.analyses, errors.widths, strict=True)
        )
        or None,
        statistics=tuple(_statistic(plan, each) for each in spec.statistics) or None,
        choices=tuple(_choice(choice) for choice in plan.choices) or None,
        wide_bins=tuple(
            WideBin(each.column, each.label, each.times, each.moves, each.in_words)
            for each in outer_bins(spec.schema)
        )
        or None,
        many_levels=tuple(many_levels(spec.schema, spec.selector)) or None,
        checks=Checks(
            tuple(map(tuple, spec.checks)),
            check_reach(spec, plan.check_noise) if plan.check_noise else None,
        ),
        evenness=_evenness(plan),
        bins_unused=_bins_unused(plan),
        score_noise_within=within(plan.score_noise.half_width) if plan.score_noise else None,
        expected_error=errors.sets[0] if rows and errors.sets else None,
        expected_by_rows=None if rows else errors.sets or None,
        threshold=threshold,
        memory_bound_mb=10 * math.ceil(takes.memory_mb / 10) if takes else None,
        time=_time(takes, machine) if takes else None,
        room=_account_room(plan, ledger),
        measurements=spec.measurements.release if spec.measurements else None,
        public_totals=tuple(each.in_words for each in spec.schema.totals if spec.sets) or None,
        totals_remark=_totals_remark(spec.schema) if spec.sets else None,
        prior=_prior(spec.prior) if spec.prior else None,
        spec=dict(spec.document),
    )


def _statistic(plan: Plan, statistic: DeclaredStatistic) -> PlannedStatistic:
    groups = math.prod(plan.spec.schema.column(name).size for name in statistic.by)
    return PlannedStatistic(
        statistic.text,
        groups,
        margin_in_limits(plan, statistic),
        margin_in_records(plan, statistic),
    )


def _prior(prior: PublicPrior) -> PlannedPrior:
    """Return what a plan says about public records."""
    stated = dict(prior.document)
    name = stated.get("release") or stated.get("file") or "in memory"
    return PlannedPrior(
        "release" if "release" in stated else "file",
        name,
        stated.get("sha256", ""),
        len(prior.domain),
        prior.notes,
    )


def _totals_remark(schema: Schema) -> str | None:
    """Return a sentence if public totals add up to far more or less than `rows_about`."""
    records, about = records_of(schema.totals), schema.rows_about
    if records is None or about is None or 1 / _FAR <= records / about <= _FAR:
        return None
    return (
        f"The public totals add up to {records:,}, but rows_about is {about:,}. Totals must be of"
        " the same population as the file; check both numbers."
    )


def _time(takes: ResourceForecast, machine: Machine) -> PlannedTime:
    stages = {stage: _two_digits(seconds) for stage, seconds in takes.seconds.items()}
    return PlannedTime(_two_digits(sum(takes.seconds.values())), stages, machine.processors)


def _two_digits(seconds: float) -> float:
    return float(f"{seconds:.2g}")


def _account_room(plan: Plan, ledger: Ledger | None) -> AccountRoom:
    account = ledger.find_account(plan.spec.account) if ledger else None
    if ledger is None or account is None:
        known = [one.name for one in ledger.accounts()] if ledger else []
        missing = no_account(known, plan.spec.account, plan.spec.privacy.unit)
        return AccountRoom(False, missing, refused=Refusal(missing, "no-account"))
    # These need the database's packages, without which there is no ledger.
    from dp_core.wall.ledger.account_balance import room
    from flows.answers.forecast_answers import fitting_now
    from flows.answers.ledger_answers import plan_approval, recent_refusals
    from tasks.ledger.accounts import Above

    refusal = ledger.refusal(plan)
    refused = Refusal(refusal.message, refusal.row) if refusal else None
    closed = any(one.charter.closed for one in ledger.lineage(account.name))
    if plan.spec.measurements is not None:
        return AccountRoom(
            account_found=True,
            account_missing=None,
            account_closed=closed,
            left=amount_left(account.terms, account.left),
            above=account_above(account.above),
            approval=plan_approval(ledger, plan),
            refused=refused,
        )
    attempts = recent_refusals(ledger, account.name)
    own, *others = ledger.balances(account.name)
    fits, least = fitting_now(own, plan, account.day), own
    for other in others:
        count = fitting_now(other, plan, account.day)
        if count < fits:
            fits, least = count, other
    payable = refused is None or refused.runbook == "budget-used-up"
    gaussian = with_gaussian_noise(plan) if payable else None
    more = 0
    if gaussian is not None:
        day = account.day
        more = min(fitting_now(one, gaussian, day) for one in (own, *others))
    above = None if least is own else Above(least.name, least.terms, room(least, account.day))
    return AccountRoom(
        account_found=True,
        account_missing=None,
        account_closed=closed,
        left=amount_left(account.terms, account.left),
        above=account_above(above),
        # A used name can be replaced; any other refusal holds for every such release.
        more_such_releases=fits if refused is None or isinstance(refusal, BadInput) else 0,
        more_with_gaussian_noise=more if more > fits else None,
        approval=plan_approval(ledger, plan),
        refused=refused,
        refused_attempts=attempts or None,
    )


def _threshold(plan: Plan) -> Threshold | None:
    """Return the threshold of a method; None if it has none."""
    spec, domain = plan.spec, plan.spec.schema.domain
    if not spec.selector.own_delta or spec.measurements is not None:
        return None
    method = cast(Thresholding, spec.selector)
    kept = planned_threshold(
        method,
        domain,
        plan.currency,
        plan.costs["measure"],
        relation=spec.privacy.relation,
        split=plan.replicates if spec.mode == "split" else 0,
    )
    tables, cells = method.tables(domain)
    lost, rows = None, spec.schema.rows_about
    if rows and cells > rows:
        lost = (
            f"{'The table has' if tables == 1 else 'A table has up to'} {cells:,} cells for about"
            f" {rows:,} rows: combinations that fewer than about {kept:,} records share are lost,"
            " and with many columns that can be nearly all."
        )
    return Threshold(kept, tables, cells, lost)


def _what(plan: Plan, stage: str, threshold: Threshold | None) -> str:
    tables = [table for table in plan.tables if table.stage == stage]
    times = f", {plan.replicates} times" if plan.replicates > 1 else ""
    if stage == "domain":
        return f"the bins or levels of {enumeration([choice.column for choice in plan.choices])}"
    if stage == "total":
        return f"the number of rows{times}"
    if stage == "checks" and plan.check_noise:
        reach = check_reach(plan.spec, plan.check_noise)
        within = "" if reach is None else f", TVD within ±{reach:.2g}"
        return f"how far {plural(len(plan.spec.checks), 'table')} of the sets are off{within}"
    if stage == "select":
        return f"{plan.scores} scores of dependence" if plan.scores else f"private choices{times}"
    if stage == "analyses":
        found = []
        if plan.spec.analyses:
            declared = plural(len(plan.spec.analyses), "declared regression")
            found.append(f"{declared}, three noisy sums each")
        if plan.spec.statistics:
            found.append(plural(len(plan.spec.statistics), "declared statistic"))
        return "; ".join(found)
    if plan.totals and stage == "measure":
        numbers = sum(total.numbers for total in plan.totals) + sum(t.cells for t in tables)
        return f"{numbers:,} sums and counts that the method needs{times}"
    if tables:
        beyond = sum(table.interaction for table in tables)
        counted = ((len(tables) - beyond, "table"), (beyond, "interaction"))
        named = [plural(number, noun) for number, noun in counted if number]
        return f"{enumeration(named)}, {sum(t.cells for t in tables):,} cells{times}"
    gives = plan.spec.selector.gives
    if "sparse" in gives:
        if threshold:
            each = "" if threshold.tables == 1 else f" of {threshold.tables} tables"
            return f"cells{each} of {threshold.kept_from:,} records or more are kept{times}"
        return f"combinations that enough records share{times}"
    if "answers" in gives:
        return f"single numbers that the selection asks for{times}"
    if "records" in gives:
        return f"records that the method makes itself{times}"
    if "totals" in gives:
        return f"sums and counts that the method needs{times}"
    return f"tables that the selection chooses{times}"


def _choice(choice: PlannedChoice) -> ChoiceNoise:
    return ChoiceNoise(
        column=choice.column,
        of=choice.of,
        number=choice.number,
        among=choice.among,
        noise=choice.noise.kind,
        scale=choice.noise.scale,
        within=within(choice.within),
        in_words=choice.in_words(),
    )


def _total(total: PlannedTotal, rows: int | None) -> TotalNoise:
    counts = total.largest == 1  # every record is in one entry, and adds 1 to it
    moved = total.numbers * total.noise.mean_absolute / (2 * rows) if rows else 0.0
    return TotalNoise(
        step=total.step,
        columns=tuple(total.of),
        numbers=total.numbers,
        noise=total.noise.kind,
        scale=total.noise.scale,
        # One unit for the sums of any column: records at the end of its range.
        within_records=total.noise.half_width / total.largest,
        tvd=min(1.0, moved) if rows and counts else None,
        times=total.times,
    )


def _evenness(plan: Plan) -> float | None:
    """Return the share of uniformly random records; None for methods that draw no records."""
    from dp_core.methods.parametric.adapters import Measuring
    from dp_core.methods.parametric.drawn_records import TableDraws

    spec, rows = plan.spec, plan.spec.rows or plan.spec.schema.rows_about
    half = spec.selector
    if not (isinstance(half, Measuring) and isinstance(half.method, TableDraws) and rows):
        return None
    cost = plan.costs["measure"] / plan.replicates
    return half.method.evenness(half.variables, plan.currency, cost, rows, spec.privacy.max_rows)


def _bins_unused(plan: Plan) -> list[str]:
    """Return the columns whose bins are paid for but not used by the method's model."""
    from dp_core.methods.parametric.adapters import Measuring

    half = plan.spec.selector
    if not isinstance(half, Measuring) or half.method.by_bins:
        return []
    return [choice.column for choice in plan.choices if choice.of == "bins"]


def _table(table: PlannedTable, rows: int | None) -> TableNoise:
    return TableNoise(
        stage=table.stage,
        columns=tuple(table.clique),
        cells=table.cells,
        noise=table.noise.kind,
        scale=table.noise.scale,
        within=within(table.noise.half_width),
        tvd=table.tvd(rows) if rows and table.clique else None,
        times=table.times,
        interaction=table.interaction or None,
    )
