"""The release as functions of its plan: what its stages do, without files, flows or a database.

The tasks of a release call the parts, and keep what each returns; `carry_out` does all of them in
memory, for comparisons, benchmarks and notebooks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dp_core.methods.private_domain.questions import ask
from dp_core.methods.reconstruction.reconstructor import Model, in_series, piece_rows
from dp_core.methods.replicates.kept_moments import has_numbers, keep_moments, points_of
from dp_core.methods.replicates.noise_aware import redraw
from dp_core.methods.replicates.record_moments import ModelWithMoments
from dp_core.methods.selection.selector import Selection
from dp_core.schema.privacy import Stage
from dp_core.spec.chosen_domain import choose, recoding, resolved_plan
from dp_core.spec.plan import Plan
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique
from dp_core.tables.marginal import Counter
from dp_core.wall.coarse_counter import CoarseCounter
from dp_core.wall.curator import Curator
from dp_core.wall.ledger.session import MemorySession, Session
from dp_core.wall.released import Measurement, Records, Released, Table, Totals, tables_of

LANES = 4
"""Pieces of a large set that may be drawn side by side."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A release made in memory.

    Attributes:
        released: Everything that was measured, in the order of its receipts.
        selections: One for each independent measurement, or one for all.
        models: Fitted models by number of the set; 0 is the shared one.
        session: What was spent.
        plan: By which all this was done: with the bins and levels that were chosen privately.
    """

    released: tuple[Released, ...]
    selections: tuple[Selection, ...]
    models: Mapping[int, Model]
    session: Session
    plan: Plan


def carry_out(plan: Plan, counter: Counter, *, session: Session | None = None) -> Outcome:
    """Measure and fit: everything a release does before records are drawn.

    Args:
        plan: What is to be done and what it costs.
        counter: Exact counts of the confidential file, in the codes of `Schema.stored`.
        session: What pays; None for one that forgets.

    Raises:
        ReleaseError: if the budget, the domain or what was measured does not allow it.
    """
    if session is None:
        privacy = plan.spec.privacy
        session = MemorySession(plan.currency, privacy.neighbours, max_rows=privacy.max_rows)
    bought: tuple[Released, ...] = ()
    if plan.spec.schema.private:
        bought = choose_domain(plan, Curator(plan.spec.schema.stored.domain, counter, session))
        plan = resolved_plan(plan, choose(plan.spec.schema, bought))
        counter = CoarseCounter(counter, recoding(plan.spec.schema))
    curator = Curator(plan.spec.schema.domain, counter, session)
    basics = tuple(
        item for replicate in replicates(plan) for item in measure_basics(plan, curator, replicate)
    )
    selections = select(plan, curator, basics)
    chosen = tuple(
        item
        for replicate in replicates(plan)
        for item in measure_selected(plan, curator, selections, replicate)
    )
    released = (*bought, *basics, *chosen)
    rows = curator.public_rows()
    models = {number: fit(plan, released, number, rows=rows) for number in model_numbers(plan)}
    return Outcome(released, selections, models, session, plan)


class SetDrawing:
    """A synthetic set in the making; every record obeys the structural zeros.

    A set too large to be drawn at once is drawn in pieces. Pieces whose numbers differ by less than
    `LANES` may be drawn side by side; of others the one with the lower number has to be done first.

    Attributes:
        sizes: Records of each piece.
    """

    def __init__(self, plan: Plan, models: Mapping[int, Model], number: int) -> None:
        """Prepare a set.

        Args:
            plan: Of the release.
            models: By number of the set; 0 is the shared one.
            number: Of the set, from 1.
        """
        model = _model_of(plan, models, number)
        self.sizes = piece_sizes(plan, models, number)
        self._plan, self._number = plan, number
        lanes = min(LANES, len(self.sizes))
        # What a lane draws does not depend on the others, nor on how many are drawn at a time.
        self._lanes = in_series(model, lanes) if lanes > 1 else (model,)

    def draw(self, position: int) -> Dataset:
        """Return a piece; it depends on the seed, the set's number and its position only."""
        rng = generator(self._plan.spec.seed, f"sample {position}", self._number)
        lane = self._lanes[position % len(self._lanes)]
        piece = lane.sample(self.sizes[position], rng=rng)
        return self._plan.spec.schema.zeros.repair(piece, rng=rng)


def piece_sizes(plan: Plan, models: Mapping[int, Model], number: int) -> tuple[int, ...]:
    """Return how many records each piece of a set has; one piece, where it is drawn at once."""
    model = _model_of(plan, models, number)
    rows = plan.spec.rows or model.rows
    most = piece_rows(model.domain) if model.streams else max(rows, 1)
    return tuple(min(most, rows - start) for start in range(0, max(rows, 1), most))


def _model_of(plan: Plan, models: Mapping[int, Model], number: int) -> Model:
    return models[0 if plan.spec.mode == "shared" else number]


def sample(plan: Plan, models: Mapping[int, Model], number: int) -> Dataset:
    """Return synthetic set `number`, from 1, as a release draws it."""
    drawing = SetDrawing(plan, models, number)
    pieces = [drawing.draw(position) for position in range(len(drawing.sizes))]
    if len(pieces) == 1:
        return pieces[0]
    return Dataset(pieces[0].domain, np.concatenate([piece.codes for piece in pieces], axis=1))


def replicates(plan: Plan) -> Sequence[int]:
    """Return 0 for the one shared measurement, or 1..m."""
    return range(1, plan.replicates + 1) if plan.spec.mode == "split" else (0,)


def model_numbers(plan: Plan) -> Sequence[int]:
    """Return 0 for the one model of all sets, or 1..m where every set has its own."""
    return (0,) if plan.spec.mode == "shared" else range(1, plan.spec.sets + 1)


def behind(plan: Plan, released: Sequence[Released], number: int) -> tuple[Released, ...]:
    """Return what the model of a set is fitted to.

    Args:
        plan: Of the release.
        released: Everything that was measured, of any replicate.
        number: 0 or 1..m.
    """
    # What bins and levels were chosen by is of other codes, and no model's business.
    released = [
        item for item in released if not (isinstance(item, Totals) and item.stage == "domain")
    ]
    if plan.spec.mode == "noise-aware":
        rng = generator(plan.spec.seed, "redraw", 0)
        drawn = redraw(released, number=number, sets=plan.spec.sets, rng=rng)
        schema = plan.spec.schema
        return keep_moments(schema.domain, drawn, points_of(schema), zeros=schema.zeros)
    return tuple(item for item in released if item.replicate == number)


def generator(seed: int, purpose: str, number: int) -> np.random.Generator:
    """Return the generator of one piece of post-processing; the seed belongs to the plan."""
    return np.random.default_rng([seed, number, *purpose.encode()])


def choose_domain(plan: Plan, curator: Curator) -> tuple[Totals, ...]:
    """Return noisy counts by which bins and levels are chosen; none where all are public.

    Args:
        plan: Of the release.
        curator: Of the file as it is stored.
    """
    return ask(curator, plan.spec.schema, plan.costs.get("domain", Fraction(0)))


def measure_basics(plan: Plan, curator: Curator, replicate: int) -> tuple[Measurement, ...]:
    """Return the number of rows and the one-way tables, where the plan pays for them."""
    found: tuple[Measurement, ...] = ()
    if plan.costs["total"]:
        found += _tables(plan, curator, "total", Selection(((),), (Fraction(1),)), replicate)
    if plan.costs["one_way"]:
        found += _tables(plan, curator, "one_way", plan.one_way(), replicate)
    return found


def select(plan: Plan, curator: Curator, basics: Sequence[Measurement]) -> tuple[Selection, ...]:
    """Return what to measure: one for all sets, or, of a method of rounds, one for each.

    Args:
        plan: Of the release.
        curator: The wall.
        basics: Of all replicates; a selection for all sets looks at those of the first.
    """
    spec = plan.spec
    planned = spec.selector.planned(spec.schema.domain)
    if planned is not None:
        return (planned,)
    asked = replicates(plan) if spec.selector.rounds else replicates(plan)[:1]
    times = plan.replicates if spec.selector.rounds else 1
    return tuple(
        spec.selector.select(
            curator,
            [item for item in basics if item.replicate == replicate],
            domain=spec.schema.domain,
            cost=plan.costs["select"] / times,
            measure_cost=plan.costs["measure"] / plan.replicates,
            zeros=spec.schema.zeros,
            rng=generator(spec.seed, "select", replicate),
            replicate=replicate,
        )
        for replicate in asked
    )


def measure_selected(
    plan: Plan, curator: Curator, selections: Sequence[Selection], replicate: int
) -> tuple[Released, ...]:
    """Return what the reconstruction of a replicate gets beside the basics; measure what is left.

    Args:
        plan: Of the release.
        curator: The wall.
        selections: Of `select`.
        replicate: 0 or 1..m.
    """
    position = list(replicates(plan)).index(replicate)
    selection = selections[position if len(selections) > 1 else 0]
    found: tuple[Released, ...] = selection.measured
    found += _tables(plan, curator, "measure", selection, replicate)
    found += _interactions(plan, curator, "measure", selection, replicate)
    if selection.records is not None:
        found += (Records(selection.records, replicate),)
    return found


def fit(plan: Plan, released: Sequence[Released], number: int, *, rows: int | None) -> Model:
    """Return the model of all sets, or of one.

    Args:
        plan: Of the release.
        released: Everything that was measured, of any replicate.
        number: 0 or 1..m; see `model_numbers`.
        rows: Number of records where it is public.
    """
    spec, fitted_to = plan.spec, behind(plan, released, number)
    model = spec.reconstructor.fit(
        spec.schema.domain,
        fitted_to,
        rows=rows,
        zeros=spec.schema.zeros,
        rng=generator(spec.seed, "fit", number),
    )
    return _as_drawn(plan, model, fitted_to)


def restore(
    plan: Plan, released: Sequence[Released], number: int, *, tables: Sequence[Table], rows: int
) -> Model:
    """Return a model that `fit` made, from the tables it left, without fitting again.

    Args:
        plan: Of the release.
        released: As for `fit`.
        number: As for `fit`.
        tables: `Model.tables`.
        rows: `Model.rows`.
    """
    spec, fitted_to = plan.spec, behind(plan, released, number)
    model = spec.reconstructor.restore(
        spec.schema.domain, tables, rows=rows, zeros=spec.schema.zeros, released=fitted_to
    )
    return _as_drawn(plan, model, fitted_to)


def _as_drawn(plan: Plan, model: Model, fitted_to: Sequence[Released]) -> Model:
    """Return a model whose records are fit for the mode's intervals."""
    points = points_of(plan.spec.schema)
    if plan.spec.mode != "noise-aware" or not has_numbers(fitted_to, points):
        return model
    return ModelWithMoments(model, tables_of(fitted_to), points)


def _tables(
    plan: Plan, curator: Curator, stage: Stage, selection: Selection, replicate: int
) -> tuple[Measurement, ...]:
    wanted = [clique for clique in selection.cliques if clique not in selection.interactions]
    if not wanted:
        return ()
    costs = _costs(plan, stage, selection)
    return curator.measure(stage, wanted, [costs[each] for each in wanted], replicate=replicate)


def _interactions(
    plan: Plan, curator: Curator, stage: Stage, selection: Selection, replicate: int
) -> tuple[Totals, ...]:
    wanted = [clique for clique in selection.cliques if clique in selection.interactions]
    if not wanted:
        return ()
    costs = _costs(plan, stage, selection)
    return curator.interactions(
        stage, wanted, [costs[each] for each in wanted], replicate=replicate
    )


def _costs(plan: Plan, stage: Stage, selection: Selection) -> Mapping[Clique, Fraction]:
    """Return what one measurement of each clique costs."""
    budget = plan.costs[stage] / plan.replicates
    return {
        clique: budget * weight
        for clique, weight in zip(selection.cliques, selection.weights, strict=True)
    }
