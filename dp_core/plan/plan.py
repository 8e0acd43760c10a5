"""The plan: what a release will cost and how exact each table will be, before any data is read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dp_core.client.household_values import LARGEST, LARGEST_NOISE
from dp_core.client.interactions import cell_stddev
from dp_core.client.noise_scale import NoiseScale, noise_for, sensitivities
from dp_core.errors import BadInput
from dp_core.kernel.canonical import digest
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import count_l1, count_l2_squared
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.privacy import Noise, Stage
from dp_core.kernel.questions.statistic import Statistic
from dp_core.methods.drawn_events import LEAST_DRAW, draws_event
from dp_core.methods.parametric.drawn_records import Measuring
from dp_core.methods.private_domain.questions import PlannedChoice, planned_choices
from dp_core.methods.reconstruction.linked.member_targets import ruled_members
from dp_core.methods.reconstruction.reconstructor import piece_rows
from dp_core.methods.replicates.met_totals import drawn_at_once
from dp_core.methods.replicates.posterior.posterior_tables import drawn_pairs
from dp_core.methods.selection.selector import Selection, Terms
from dp_core.plan.currency_choice import (
    check_bounds,
    currency_of,
    interaction_of,
    one_way_tables,
    stage_costs,
    terms_of,
)
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.fixed_plan import fixed_beforehand
from dp_core.plan.release_spec import ReleaseSpec
from dp_core.schema.linked.possible_members import possible_household
from dp_core.schema.rules.possible_codes import possible_record
from dp_core.tables.cliques import row_bytes

PLAN_VERSION = 1
MOST_NOISY_ROWS = 10**7
"""Largest accepted error of the number of rows if the schema has no `rows_about`."""
WIDEST_CHECK = 0.25
"""Largest accepted half-width of the interval of a charged check, as TVD."""
MOST_CELLS = 2**26
"""Most cells of one measured table: drawing its noise takes ten minutes, its counts 0.5 GB."""


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """One table that is certain to be measured.

    Attributes:
        stage: Stage that pays.
        clique: Its columns; empty for the number of rows.
        cells: Number of cells.
        cost: Budget of one measurement of it.
        noise: Noise of each cell.
        times: Number of measurements: one, or one for each set.
        interaction: Whether only its interaction, the part not determined by its margins, is
            measured; `noise` is then that of each cell after `Interaction.spread`.
    """

    stage: Stage
    clique: Clique
    cells: int
    cost: Fraction
    noise: NoiseScale
    times: int
    interaction: bool = False

    def tvd(self, rows: int) -> float:
        """Return the expected total variation distance the noise alone causes, at most 1."""
        return min(1.0, self.cells * self.noise.mean_absolute / (2 * rows))


@dataclass(frozen=True, slots=True)
class PlannedTotal:
    """One sum over records that a parametric method is certain to release.

    Attributes:
        step: Name of the sum.
        of: Columns it is computed from.
        numbers: Number of entries.
        cost: Budget of one measurement of it.
        noise: Noise of each entry, in the sum's own unit.
        largest: Most that one record adds to all entries together, in that unit.
        times: Number of measurements: one, or one for each set.
    """

    step: str
    of: Clique
    numbers: int
    cost: Fraction
    noise: NoiseScale
    largest: int
    times: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A release with all costs decided.

    Attributes:
        spec: Spec of the release.
        currency: Currency of the release, with its total.
        costs: Budget of each stage; they sum to the currency's limit exactly.
        tables: Tables known beforehand.
        totals: Sums over records known beforehand, of a parametric method.
        choices: Bins and levels to be chosen privately, before all other stages.
        score_noise: Noise of each score of the selection, or None if it releases no scores.
        scores: Number of those scores.
        memory: Approximate bytes of memory for reconstruction and synthesis; None without
            `rows_about` or without sets.
        check_noise: Noise of each charged check, or None if there are none.
    """

    spec: ReleaseSpec
    currency: Currency
    costs: Mapping[Stage, Fraction]
    tables: tuple[PlannedTable, ...]
    totals: tuple[PlannedTotal, ...]
    score_noise: NoiseScale | None
    scores: int
    memory: int | None
    choices: tuple[PlannedChoice, ...] = ()
    check_noise: NoiseScale | None = None

    @property
    def replicates(self) -> int:
        """Number of independent measurements: 1, or one for each set."""
        return self.spec.replicates

    def document(self) -> dict[str, object]:
        """Return the resolved spec and the costs, which the plan's hash covers. Public."""
        return {
            "plan_version": PLAN_VERSION,
            "spec": dict(self.spec.document),
            "currency": self.currency.to_json(),
            "costs": {stage: str(cost) for stage, cost in self.costs.items()},
            "extensions": list(self.extensions),
        }

    @property
    def hash(self) -> str:
        """SHA-256 of the plan's document; any change of spec or schema changes it."""
        return digest(self.document())

    @property
    def promise(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that the ledger reserves: 0 if another release's tables are used."""
        if self.spec.measurements is not None:
            return Fraction(0), Fraction(0)
        return self.spec.privacy.epsilon, self.spec.privacy.delta

    @property
    def fixed_beforehand(self) -> bool:
        """Whether the plan alone fixes how many tables are measured and the noise of each."""
        earlier = self.spec.measurements
        return fixed_beforehand(earlier.plan if earlier else self.document())

    @property
    def extensions(self) -> tuple[str, ...]:
        """Questions outside the kernel's core that it may ask, in order."""
        asks = () if self.spec.measurements is not None else self.spec.selector.extensions
        return tuple(sorted(asks))

    @property
    def terms(self) -> Terms:
        """What a selection may know beforehand: budget, and noise of what is measured before it."""
        return terms_of(self.spec, self.currency, self.costs)

    def fixed_selection(self) -> Selection | None:
        """Return what the stage `measure` measures if no answer decides it, otherwise None."""
        found = self.spec.selector.certain(self.spec.schema.domain, self.terms)
        return found.selection if found and found.share == 1 else None

    def one_way(self) -> Selection:
        """Return the one-way tables measured before selection, and their weights."""
        return one_way_tables(self.spec.schema.domain, self.currency)


def make_plan(spec: ReleaseSpec) -> Plan:
    """Return the plan of a release; opens no data and costs nothing.

    Raises:
        BadInput: if no noise gives the requested guarantee, or the method cannot take the domain.
    """
    if spec.measurements is not None:
        return _plan_of_use(spec, spec.measurements)
    domain, privacy = spec.schema.domain, spec.privacy
    spec.reconstructor.check(domain)
    _check_rules(spec)
    times = spec.replicates
    l1, l2_squared = count_l1(privacy.relation), count_l2_squared(privacy.relation)
    currency = currency_of(spec)
    costs = stage_costs(spec, currency)
    _check_draws(spec, currency, costs["measure"] / times)

    tables: list[PlannedTable] = []

    def noise_of(statistic: Statistic, cost: Fraction) -> NoiseScale:
        own_l1, own_l2_squared = sensitivities(statistic, privacy.relation)
        return noise_for(currency, cost, l1=own_l1, l2_squared=own_l2_squared)

    def add(
        stage: Stage,
        cliques: Sequence[Clique],
        weights: Sequence[Fraction],
        interactions: Collection[Clique] = (),
    ) -> None:
        for clique, weight in zip(cliques, weights, strict=True):
            if domain.size(clique) > MOST_CELLS:
                raise BadInput(
                    f"The table {' x '.join(clique)} has {domain.size(clique):,} cells, more than"
                    f" the maximum of {MOST_CELLS:,}; remove a column from it, or give its columns"
                    " wider bins."
                )
            cost = costs[stage] * weight / times
            if clique in interactions:
                of = interaction_of(spec, clique)
                noise = noise_of(of, cost)
                noise = NoiseScale(noise.kind, noise.scale * cell_stddev(of, 1.0))
            else:
                noise = noise_for(currency, cost, l1=l1, l2_squared=l2_squared)
            cells = domain.size(clique)
            tables.append(
                PlannedTable(stage, clique, cells, cost, noise, times, clique in interactions)
            )

    if costs["total"]:
        add("total", [()], [Fraction(1)])
    if costs["one_way"]:
        first = one_way_tables(domain, currency)
        add("one_way", first.cliques, first.weights)
    certain = spec.selector.certain(domain, terms_of(spec, currency, costs))
    if certain is not None:
        selection = certain.selection
        weights = [certain.share * weight for weight in selection.weights]
        add("measure", selection.cliques, weights, selection.interactions)
        if spec.sets and tables and all(table.interaction for table in tables):
            raise BadInput(
                "The release would measure only interactions, from which no records can be made;"
                " give one_way a part of the budget, for example one_way: {share: 0.1}."
            )
    totals: list[PlannedTotal] = []
    parametric = spec.selector if isinstance(spec.selector, Measuring) else None
    for ask in parametric.method.asks(parametric.variables) if parametric else ():
        if isinstance(ask.what, tuple):
            add("measure", [ask.what], [ask.share])
            continue
        cost = costs["measure"] * ask.share / times
        noise, length = noise_of(ask.what, cost), ask.what.length
        largest = ask.what.l1("add-remove")
        totals.append(PlannedTotal(ask.step, ask.what.clique, length, cost, noise, largest, times))
    statistic, score_noise = spec.selector.statistic(domain), None
    if costs["select"] and statistic:
        score_noise = noise_of(statistic, costs["select"] * spec.selector.scores_share(domain))
    _check_in_shares(spec, [*(table.noise for table in tables), score_noise])
    _check_rows(spec, tables)
    memory = None
    if spec.schema.rows_about is not None and spec.sets:
        cliques = [table.clique for table in tables]
        # The tables of pairs within larger ones are estimated, too.
        larger = [clique for clique in cliques if len(clique) > 2]
        cliques += [pair for clique in larger for pair in itertools.combinations(clique, 2)]
        cliques = list(dict.fromkeys(cliques))
        rows = spec.rows or spec.schema.rows_about
        if spec.uses_posterior_tables:
            cliques += drawn_pairs(domain, cliques)
        memory = spec.reconstructor.memory(domain, cliques, rows)
        if drawn_at_once(spec.schema):
            # The records are drawn all at once, and their values are stored twice.
            memory += (2 * row_bytes(domain) + 40) * max(rows - piece_rows(domain), 0)
    return Plan(
        spec,
        currency,
        costs,
        tuple(tables),
        tuple(totals),
        score_noise,
        statistic.length if statistic else 0,
        memory,
        planned_choices(
            spec.schema, currency, costs.get("domain", Fraction(0)), l1=l1, l2_squared=l2_squared
        ),
        _check_noise(spec, currency, costs["checks"]),
    )


def with_gaussian_noise(plan: Plan) -> Plan | None:
    """Return the plan of the same release with Gaussian noise; None if it has that, or cannot.

    A `zcdp` account takes epsilon^2 / 2 of rho for a release with Laplace noise, which can be many
    times what the same guarantee takes with Gaussian noise. The plan depends on the spec alone, so
    `measure.noise: auto` does not choose by the account.
    """
    spec = plan.spec
    if plan.currency.kind != "pure" or not spec.privacy.delta or spec.measurements is not None:
        return None
    try:
        return make_plan(replace(spec, noise="gaussian"))
    except BadInput:
        return None


def _check_rules(spec: ReleaseSpec) -> None:
    """Refuse rules that together leave no record possible, or by which no member can be drawn.

    Raises:
        BadInput: if no record or no household obeys them all, or a rule of linked tables is about
            too many codes.
    """
    schema = spec.schema.with_members
    if schema.linked is not None:
        ruled_members(schema.domain, schema.zeros)
        if schema.member_rules:
            possible_household(schema, rng=np.random.default_rng(0))
    if schema.rules:
        possible_record(schema, rng=np.random.default_rng(0))
        return
    domain = schema.domain
    first = np.zeros(len(domain), dtype=domain.code_type)
    schema.zeros.possible_record(domain, first, rng=np.random.default_rng(0))


def _plan_of_use(spec: ReleaseSpec, earlier: EarlierRelease) -> Plan:
    """Return the plan of a release that uses an earlier one's tables: it pays for nothing."""
    paid = earlier.currency
    noise: Noise = "laplace" if paid.kind == "pure" else "gaussian"
    as_measured = make_plan(replace(spec, measurements=None, noise=noise, checks=()))
    # A later version of the program could plan other noise than the tables have.
    tables = as_measured.tables if as_measured.currency == paid else ()
    nothing, costs = Currency(paid.kind, Fraction(0)), dict.fromkeys(as_measured.costs, Fraction(0))
    return Plan(spec, nothing, costs, tables, (), None, 0, as_measured.memory)


def check_reach(spec: ReleaseSpec, noise: NoiseScale) -> float | None:
    """Return the expected half-width (TVD) of a charged check; None without `rows_about`."""
    rows = spec.schema.rows_about
    return None if not rows else noise.half_width / (2 * rows)


def _check_noise(spec: ReleaseSpec, currency: Currency, cost: Fraction) -> NoiseScale | None:
    """Return the noise of each charged check.

    Raises:
        BadInput: if the noise would be too large to be useful, or a table has too many cells.
    """
    if not cost or not spec.checks:
        return None
    domain = (spec.schema.coarse or spec.schema).domain
    for table in spec.checks:
        if domain.size(table) > MOST_CELLS:
            raise BadInput(
                f"The checked table {' x '.join(table)} has {domain.size(table):,} cells, more than"
                f" the maximum of {MOST_CELLS:,}; name another under checks.tables."
            )
    l1, l2_squared = check_bounds(spec)
    noise = noise_for(currency, cost, l1=l1, l2_squared=l2_squared)
    reach = check_reach(spec, noise)
    if reach is not None and reach > WIDEST_CHECK:
        share = float(spec.shares["checks"])
        raise BadInput(
            f"checks.share {share:.3g} would measure the TVD of each of {len(spec.checks)} tables"
            f" only to ±{reach:.2g}; the maximum is ±{WIDEST_CHECK:g}. Name fewer tables under"
            " checks.tables, or raise the share."
        )
    return noise


def _check_rows(spec: ReleaseSpec, tables: Sequence[PlannedTable]) -> None:
    """Refuse a release whose number of rows would be mostly noise, before anything is paid for."""
    public = spec.privacy.relation.rows_public
    # The cells of an interaction sum to 0.
    tables = [table for table in tables if not table.interaction]
    if spec.rows is not None or public or not tables or not spec.sets:
        return
    stddev = min(table.noise.stddev * math.sqrt(table.cells) for table in tables)
    most = 10 * spec.schema.rows_about if spec.schema.rows_about else MOST_NOISY_ROWS
    if stddev > most:
        raise BadInput(
            f"The number of rows in the synthetic sets would have a standard error of about"
            f" {stddev:.2g}; raise epsilon, or state synthesize.rows."
        )


def _check_in_shares(spec: ReleaseSpec, noises: Sequence[NoiseScale | None]) -> None:
    """Refuse noise and counts that are too large to be stored in shares of households.

    Args:
        spec: Spec of the release.
        noises: Noise of each planned question, in households.
    """
    shares = spec.privacy.relation.shares
    if shares > 1 and 10 * (spec.schema.rows_about or 0) * shares >= LARGEST:
        raise BadInput(
            f"So many households cannot be counted in units of 1/{shares:,} of a household; state"
            " fewer members under `unit` of the schema."
        )
    if shares == 1 or all(each is None or each.scale * shares < LARGEST_NOISE for each in noises):
        return
    raise BadInput(
        f"The noise would be too large for counts in units of 1/{shares:,} of a household; raise"
        " privacy.epsilon, or state fewer members under `unit` of the schema."
    )


def _check_draws(spec: ReleaseSpec, currency: Currency, cost: Fraction) -> None:
    """Refuse draws that the budget cannot pay for, before the number of rows is paid for.

    Args:
        spec: Spec of the release.
        currency: Currency of the release.
        cost: Budget of one replicate's measurements.
    """
    relation = spec.privacy.relation
    draws = spec.selector.draws(spec.schema.domain, relation)
    if not draws:
        return
    try:
        draws_event(currency, cost, draws, relation.max_rows)
    except ValueError:
        raise BadInput(
            f"Each of the {draws:,} draws of the selection would have an epsilon below"
            f" {LEAST_DRAW:g}; raise privacy.epsilon, or draw fewer records."
        ) from None
