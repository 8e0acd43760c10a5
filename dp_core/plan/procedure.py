"""The stages of a release as functions of its plan, without files, flows or a database.

The tasks of a release call these functions one by one and store the results. `carry_out` calls all
of them in memory, for comparisons, benchmarks and notebooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.released import Measurement, Records, Released, Table, Totals
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.ledger.session import Session
from dp_core.kernel.privacy import Stage
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.private_domain.questions import ask
from dp_core.methods.reconstruction.auto import AutoReconstruction
from dp_core.methods.reconstruction.linked.household_model import HouseholdModel
from dp_core.methods.reconstruction.nested_model import NestedModel, drawn_column, inner_model
from dp_core.methods.reconstruction.reconstructor import (
    LANES,
    FittedTables,
    Model,
    in_series,
    piece_rows,
)
from dp_core.methods.reconstruction.sampling.drawing_progress import Progress, WithListener, silent
from dp_core.methods.replicates.met_totals import drawn_at_once, with_totals
from dp_core.methods.selection.selector import Selection
from dp_core.plan.chosen_domain import choose, recoding, resolved_plan, with_fitted_densities
from dp_core.plan.plan import Plan
from dp_core.plan.steps.posterior_draws import PosteriorDraws, in_codes, measure_analyses
from dp_core.schema.definition import Schema
from dp_core.schema.linked.possible_members import with_possible_members
from dp_core.schema.rules.possible_codes import with_possible_values
from dp_core.schema.structure.public_totals import decisive, parts_of
from dp_core.tables.coarse_counter import CoarseCounter
from dp_core.tables.linked_records import from_pair_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.schema.linked.linked_decoding import TwoTables


@dataclass(frozen=True, slots=True)
class Answered:
    """What a release learnt from the data, and all it paid for but the charged checks.

    Attributes:
        released: Everything that was measured, in the order of its receipts.
        selections: One for each independent measurement, or one for all.
        rows: Number of rows if it is public, otherwise None; of linked tables, of households.
        plan: The plan, with the privately chosen bins and levels and the fitted densities.
    """

    released: tuple[Released, ...]
    selections: tuple[Selection, ...]
    rows: int | None
    plan: Plan


@dataclass(frozen=True, slots=True)
class Outcome(Answered):
    """A release made in memory.

    Attributes:
        models: Fitted models by number of the set; 0 is the shared one.
        session: Session that paid, with its charges.
    """

    models: Mapping[int, Model]
    session: Session


def ask_all(plan: Plan, counter: Counter, session: Session) -> Answered:
    """Ask every question of a release before its sets are made; fit nothing that is drawn from.

    Args:
        plan: Plan of the release.
        counter: Exact counts of the confidential data, in the codes of `Schema.stored`.
        session: Session that pays.

    Raises:
        ReleaseError: if the budget or the domain does not allow it.
    """
    bought: tuple[Released, ...] = ()
    stored = Curator(Kernel(plan.spec.schema.stored.domain, counter, session))
    if plan.spec.schema.private:
        bought = choose_domain(plan, stored)
        plan = resolved_plan(plan, choose(plan.spec.schema, bought))
    if plan.spec.schema.recoded:
        counter = CoarseCounter(counter, recoding(plan.spec.schema))
    curator = Curator(Kernel(plan.spec.schema.domain, counter, session))
    basics = tuple(
        item for replicate in replicates(plan) for item in measure_basics(plan, curator, replicate)
    )
    selections = select(plan, curator, basics)
    chosen = tuple(
        item
        for replicate in replicates(plan)
        for item in measure_selected(plan, curator, selections, replicate)
    )
    measured, rows = (*bought, *basics, *chosen), curator.public_rows()
    plan = with_fitted_densities(plan, measured)
    declared = measure_analyses(plan, stored, measured, selections, rows=rows)
    return Answered((*measured, *declared), selections, rows, plan)


def carry_out(plan: Plan, counter: Counter, *, session: Session | None = None) -> Outcome:
    """Measure and fit: return everything that a release makes before it draws records.

    Args:
        plan: Plan of the release.
        counter: Exact counts of the confidential data, in the codes of `Schema.stored`.
        session: Session that pays; None for one in memory.

    Raises:
        ReleaseError: if the budget, the domain or what was measured does not allow it.
    """
    if session is None:
        privacy = plan.spec.privacy
        session = MemorySession(
            plan.currency, privacy.neighbours, max_rows=privacy.max_rows, shares=privacy.shares
        )
    found = ask_all(plan, counter, session)
    models = dict(fits(found.plan, found.released, found.selections, rows=found.rows))
    return Outcome(found.released, found.selections, found.rows, found.plan, models, session)


class SetDrawing:
    """A synthetic set to be drawn; no record violates the structural zeros or has no values.

    For every record there are values that obey the rules between columns. Public totals are met.

    A set that is too large to be drawn at once is drawn in pieces. Pieces whose positions differ by
    less than `LANES` may be drawn in parallel; otherwise the earlier one must be drawn first.

    Attributes:
        sizes: Records of each piece.
    """

    def __init__(self, plan: Plan, models: Mapping[int, Model], number: int) -> None:
        """Prepare a set.

        Args:
            plan: Plan of the release.
            models: Models by number of the set; 0 is the shared one.
            number: Number of the set, from 1; 0 is the best set.
        """
        model = _model_of(plan, models, number)
        self.sizes = piece_sizes(plan, models, number)
        lanes = min(LANES, len(self.sizes))
        # A sampler may remember the pieces that it drew. What it draws depends neither on the
        # other samplers nor on the parallelism.
        self._samplers = in_series(model, lanes, len(self.sizes)) if lanes > 1 else (model,)
        self._plan, self._number = plan, number
        schema = plan.spec.schema
        self._parts = {
            each.column: parts_of(each.counts, self.sizes)
            for each in decisive(schema.totals, schema.domain.nested)
        }

    def draw(self, position: int, progress: Progress = silent) -> Dataset:
        """Return a piece; it depends only on the seed, the number of the set and the position.

        Args:
            position: Position of the piece in the set, from 0.
            progress: Called with the part of the piece that its sampler has drawn; does nothing by
                default.
        """
        rng = self._plan.spec.rng(f"sample {position}", self._number)
        sampler = WithListener(self._samplers[position % len(self._samplers)], progress)
        piece = sampler.sample(self.sizes[position], rng=rng)
        schema = self._plan.spec.schema
        if schema.linked is not None:
            # The model draws households that break no structural zero.
            piece = with_possible_members(schema, piece, rng=rng)
        else:
            piece = with_possible_values(schema, schema.zeros.repair(piece, rng=rng), rng=rng)
        counts = {name: each[position] for name, each in self._parts.items()}
        return with_totals(schema, piece, counts, rng=rng) if counts else piece


def piece_sizes(plan: Plan, models: Mapping[int, Model], number: int) -> tuple[int, ...]:
    """Return the number of records in each piece of a set; one piece if it is drawn at once."""
    model = _model_of(plan, models, number)
    rows = plan.spec.rows or model.rows
    in_pieces = model.streams and not drawn_at_once(plan.spec.schema)
    most = piece_rows(model.domain) if in_pieces else max(rows, 1)
    return tuple(min(most, rows - start) for start in range(0, max(rows, 1), most))


def _model_of(plan: Plan, models: Mapping[int, Model], number: int) -> Model:
    return models[0 if plan.spec.mode == "shared" else number]


def sample(plan: Plan, models: Mapping[int, Model], number: int) -> Dataset:
    """Return synthetic set `number`, counted from 1; 0 is the best set."""
    drawing = SetDrawing(plan, models, number)
    pieces = [drawing.draw(position) for position in range(len(drawing.sizes))]
    if len(pieces) == 1:
        return pieces[0]
    return Dataset(pieces[0].domain, np.concatenate([piece.codes for piece in pieces], axis=1))


def decode_piece(plan: Plan, piece: Dataset, number: int, position: int) -> pa.Table | TwoTables:
    """Return a piece of a set in the schema's labels and units; repeated calls give the same.

    Args:
        plan: Plan of the release, with privately chosen bins and levels.
        piece: Codes of the piece; of linked tables the pair rows of the whole set.
        number: Number of the set, from 1.
        position: Position of the piece in its set, from 0.
    """
    from dp_core.schema.linked.linked_decoding import decode_tables
    from dp_core.schema.rules.possible_codes import decode

    schema, rng = plan.spec.schema, plan.spec.rng(f"decode {position}", number)
    if schema.linked is not None:
        return decode_tables(schema, from_pair_rows(schema.linked, piece), rng=rng)
    return decode(schema, piece, rng=rng)


def tables_of_set(records: pa.Table | TwoTables) -> tuple[pa.Table, ...]:
    """Return the tables of a set: one, or those of households and of persons."""
    two = getattr(records, "households", None) is not None
    return (records.households, records.persons) if two else (records,)


def replicates(plan: Plan) -> Sequence[int]:
    """Return 0 for the one shared measurement, or 1..m."""
    return range(1, plan.replicates + 1) if plan.spec.mode == "split" else (0,)


def model_numbers(plan: Plan) -> Sequence[int]:
    """Return 0 for the one model of all sets, or the numbers of the sets; () without sets."""
    if not plan.spec.sets:
        return ()
    return (0,) if plan.spec.mode == "shared" else plan.spec.set_numbers


def _results_of_model(released: Sequence[Released], number: int) -> tuple[Released, ...]:
    """Return the results that the model of a set is fitted to.

    Args:
        released: Everything that was measured, for all replicates.
        number: Number of the model, 0 or 1..m.
    """
    return tuple(item for item in in_codes(released) if item.replicate == number)


def choose_domain(plan: Plan, curator: Curator) -> tuple[Totals, ...]:
    """Return the noisy counts that choose bins and levels; none if all are public.

    Args:
        plan: Plan of the release.
        curator: Curator for the codes of `Schema.stored`.
    """
    return ask(curator, plan.spec.schema, plan.costs.get("domain", Fraction(0)))


def measure_basics(plan: Plan, curator: Curator, replicate: int) -> tuple[Measurement, ...]:
    """Return the noisy number of rows and one-way tables, as far as the plan pays for them."""
    found: tuple[Measurement, ...] = ()
    if plan.costs["total"]:
        found += _tables(plan, curator, "total", Selection(((),), (Fraction(1),)), replicate)
    if plan.costs["one_way"]:
        found += _tables(plan, curator, "one_way", plan.one_way(), replicate)
    return found


def select(plan: Plan, curator: Curator, basics: Sequence[Measurement]) -> tuple[Selection, ...]:
    """Return what to measure: one selection, or one for each replicate if the method has `rounds`.

    Args:
        plan: Plan of the release.
        curator: Curator for the codes of the plan's schema.
        basics: Results of `measure_basics` for all replicates; a single selection uses the first.
    """
    spec = plan.spec
    if (planned := plan.fixed_selection()) is not None:
        return (planned,)
    asked = replicates(plan) if spec.selector.rounds else replicates(plan)[:1]
    times = plan.replicates if spec.selector.rounds else 1
    return tuple(
        spec.selector.select(
            MethodInputs(
                curator=curator,
                domain=spec.schema.domain,
                known=[item for item in basics if item.replicate == replicate],
                select_cost=plan.costs["select"] / times,
                measure_cost=plan.costs["measure"] / plan.replicates,
                zeros=spec.schema.zeros,
                rng=spec.rng("select", replicate),
                replicate=replicate,
                ordered=spec.ordered,
            )
        )
        for replicate in asked
    )


def measure_selected(
    plan: Plan, curator: Curator, selections: Sequence[Selection], replicate: int
) -> tuple[Released, ...]:
    """Return the selected results of a replicate; measure those not measured while selecting.

    Args:
        plan: Plan of the release.
        curator: Curator for the codes of the plan's schema.
        selections: Result of `select`.
        replicate: Index of the independent measurement, 0 if shared.
    """
    position = list(replicates(plan)).index(replicate)
    selection = selections[position if len(selections) > 1 else 0]
    found: tuple[Released, ...] = selection.measured
    found += _tables(plan, curator, "measure", selection, replicate)
    cliques, costs = _cliques_and_costs(plan, "measure", selection, interactions=True)
    if cliques:
        found += curator.interactions("measure", cliques, costs, replicate=replicate)
    if selection.trends:
        budget = plan.costs["measure"] / plan.replicates
        found += curator.totals(
            "measure",
            [f"trend {number}" for number, _ in enumerate(selection.trends, start=1)],
            [trend.question() for trend in selection.trends],
            [budget * trend.weight for trend in selection.trends],
            replicate=replicate,
        )
    if selection.records is not None:
        found += (Records(selection.records, replicate),)
    return found


def fits(
    plan: Plan, released: Sequence[Released], selections: Sequence[Selection], *, rows: int | None
) -> Iterator[tuple[int, Model]]:
    """Yield all models of a release by number: 0 for that of all sets or the best one, or 1..m.

    Args:
        plan: Plan of the release.
        released: Everything that was measured, for all replicates.
        selections: Result of `select`.
        rows: Number of records if it is public, otherwise None.
    """
    spec, posterior = plan.spec, None
    if spec.uses_posterior_tables:
        posterior = PosteriorDraws(plan, released, selections, rows=rows)
    for number in model_numbers(plan):
        if posterior is None:
            yield number, _fitted_model(plan, released, number, rows=rows)
        elif not number:
            yield number, _central_model(plan, posterior, released)
        else:
            tables, size = posterior.tables.draw(number), posterior.size(number)
            yield number, restore(plan, released, number, tables=tables, rows=size)


def _fitted_model(
    plan: Plan, released: Sequence[Released], number: int, *, rows: int | None
) -> Model:
    """Return a model that is fitted to noisy tables."""
    spec, fitted_to = plan.spec, _results_of_model(released, number)
    model = spec.reconstructor.fit(
        spec.schema.domain,
        fitted_to,
        rows=rows,
        zeros=spec.schema.zeros,
        rng=spec.rng("fit", number),
    )
    return _as_drawn(plan, model)


def _central_model(plan: Plan, posterior: PosteriorDraws, released: Sequence[Released]) -> Model:
    """Return the model with the central tables of the posterior distribution."""
    spec = plan.spec
    tables, size = posterior.tables.central_tables(), max(1, round(posterior.tables.total))
    method = spec.drawing(0)
    if not isinstance(method, AutoReconstruction):
        return restore(plan, released, 0, tables=tables, rows=size)
    model = method.of_tables(spec.schema.domain, tables, rows=size, zeros=spec.schema.zeros)
    return _as_drawn(plan, model)


def restore(
    plan: Plan, released: Sequence[Released], number: int, *, tables: Sequence[Table], rows: int
) -> Model:
    """Return a model that `fits` made, from its stored tables, without fitting again.

    Args:
        plan: Plan of the release.
        released: Everything that was measured, for all replicates.
        number: Number of the model; see `model_numbers`.
        tables: Stored `Model.tables`.
        rows: Stored `Model.rows`.
    """
    spec, fitted_to = plan.spec, _results_of_model(released, number)
    model = spec.drawing(number).restore(
        spec.schema.domain, tables, rows=rows, zeros=spec.schema.zeros, released=fitted_to
    )
    return _as_drawn(plan, model)


def _as_drawn(plan: Plan, model: Model) -> Model:
    """Return the model that draws a release's sets.

    Of linked tables it draws households with their members, and of nested columns records in which
    each area lies in its larger one.
    """
    schema = plan.spec.schema
    if schema.domain.nested is not None:
        assert isinstance(model, FittedTables)
        drawn = drawn_column(model.domain, model.tables)
        inner = _of_households(schema, cast("Model", inner_model(model, drawn)))
        return NestedModel(model.domain, model.tables, inner, drawn, schema.zeros)
    if schema.domain.linked is not None:
        return _of_households(schema, model)
    return model


def _of_households(schema: Schema, model: Model) -> Model:
    """Return the model that draws households with their members; of a single table, the model."""
    if model.domain.linked is None:
        return model
    assert isinstance(model, FittedTables)
    return HouseholdModel(model.domain, model.tables, model.rows, model.zeros, schema.member_rules)


def _tables(
    plan: Plan, curator: Curator, stage: Stage, selection: Selection, replicate: int
) -> tuple[Measurement, ...]:
    cliques, costs = _cliques_and_costs(plan, stage, selection, interactions=False)
    return curator.measure(stage, cliques, costs, replicate=replicate) if cliques else ()


def _cliques_and_costs(
    plan: Plan, stage: Stage, selection: Selection, *, interactions: bool
) -> tuple[list[Clique], list[Fraction]]:
    """Return the cliques to measure, either whole or as interactions, and the cost of each."""
    budget = plan.costs[stage] / plan.replicates
    asked = [
        (clique, budget * weight)
        for clique, weight in zip(selection.cliques, selection.weights, strict=True)
        if (clique in selection.interactions) == interactions
    ]
    return [clique for clique, _ in asked], [cost for _, cost in asked]
