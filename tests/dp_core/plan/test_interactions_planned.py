"""Interactions of a selection, from its plan to what a model is fitted to."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.analysis.planned.plan_values import stage_words
from dp_core.client.curator import Curator
from dp_core.client.interactions import cell_stddev
from dp_core.client.noise_scale import NoiseScale
from dp_core.client.released import interactions_of
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.questions.regressions.features import Number
from dp_core.methods.reconstruction.independent import Independent
from dp_core.methods.selection.fixed import Fixed
from dp_core.methods.selection.selector import Selection
from dp_core.methods.trends import Trend
from dp_core.plan.plan import PlannedTable, _check_rows, make_plan
from dp_core.plan.procedure import carry_out
from dp_core.plan.reading.method_reader import check_pair
from flows.answers.forecast_answers import plan_answer
from tasks.stages.measure_marginals import read_selections, write_selections
from tests.specs import SCHEMA, write_spec

BEYOND = (("a", "b"), ("b", "c"))
PAIRS = "select: {method: fixed, cliques: [[a, b], [b, c], [a], [b], [c]]}\n"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Beyond(Fixed):
    """The tables of a list, its pairs as interactions."""

    @property
    def gives(self):
        return frozenset({"tables", "interactions"})

    def fixed_selection(self, domain):
        found = Fixed.fixed_selection(self, domain)
        pairs = frozenset(clique for clique in found.cliques if len(clique) > 1)
        return dataclasses.replace(found, interactions=pairs)


def planned(folder, text=PAIRS, **changes):
    spec = write_spec(folder, text, **changes)
    selector = Beyond(cliques=spec.selector.cliques)
    return make_plan(dataclasses.replace(spec, selector=selector, reconstructor=Independent()))


def data_of(plan):
    domain = plan.spec.schema.domain
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, size, 900) for size in domain.sizes])
    return Dataset(domain, codes.astype(np.uint16))


@pytest.mark.parametrize("privacy", ["{epsilon: 1}", "{epsilon: 1, delta: 1e-9}"])
@pytest.mark.parametrize("mode", ["shared", "split"])
def test_they_cost_their_weight_and_are_as_exact_as_planned(tmp_path, mode, privacy):
    text = f"{PAIRS}synthesize: {{sets: 2, mode: {mode}}}\n"
    plan = planned(tmp_path, text, privacy=privacy)
    outcome = carry_out(plan, MemoryCounter(data_of(plan)))
    found = interactions_of(outcome.released)
    replicates = (1, 2) if mode == "split" else (0,)
    assert [(item.of.clique, item.replicate) for item in found] == [
        (clique, replicate) for replicate in replicates for clique in BEYOND
    ]
    session = outcome.session
    assert isinstance(session, MemorySession)
    paid = {grant.number: grant.step.cost for grant in session.charges}
    assert session.spent() == plan.currency.limit
    tables = {table.clique: table for table in plan.tables if table.stage == "measure"}
    assert {clique for clique, table in tables.items() if table.interaction} == set(BEYOND)
    for item in found:
        table = tables[item.of.clique]
        assert paid[item.grant] == table.cost
        assert (table.noise.kind, table.cells) == (item.noise, math.prod(item.of.sizes))
        assert table.noise.scale == pytest.approx(cell_stddev(item.of, item.scale))
        curator = Curator(Kernel(plan.spec.schema.domain, MemoryCounter(data_of(plan)), session))
        assert curator.statistic_noise(item.of, table.cost).scale == item.scale


def test_a_plan_says_that_they_are_none_of_its_tables(tmp_path):
    plan = planned(tmp_path)
    assert stage_words(plan, "measure", None) == "3 tables and 2 interactions, 27 cells"
    facts = plan_answer(plan, None).to_json()["tables"]
    marked = [tuple(table["columns"]) for table in facts if table.get("interaction")]
    assert marked == list(BEYOND)


def test_a_whole_table_at_the_same_price_has_more_noise(tmp_path):
    """By 1/f, f = 1/2 x 2/3: of the variance a third in the interaction, a ninth in a cell."""
    privacy, text = "{epsilon: 1, delta: 1e-9}", f"{PAIRS}measure: {{noise: gaussian}}\n"
    tables = {table.clique: table for table in planned(tmp_path, text, privacy=privacy).tables}
    spec = write_spec(tmp_path, text, privacy=privacy)
    whole = {table.clique: table for table in make_plan(spec).tables}
    ratio = tables["a", "b"].noise.scale / whole["a", "b"].noise.scale
    assert ratio == pytest.approx(1 / 3, rel=0.01)


def test_an_interaction_tells_nothing_of_the_number_of_rows(tmp_path):
    spec = write_spec(tmp_path)
    beyond, table = (
        PlannedTable("measure", ("a",), 2, Fraction(1), NoiseScale("gaussian", scale), 1, of)
        for scale, of in ((1.0, True), (1e6, False))
    )
    _check_rows(spec, [beyond])
    with pytest.raises(BadInput, match="number of rows"):
        _check_rows(spec, [beyond, table])


def test_what_has_no_interaction_is_refused_by_the_plan(tmp_path):
    one = SCHEMA.replace("levels: [x, y]", "levels: [x]")
    with pytest.raises(BadInput, match="2 codes or more"):
        planned(tmp_path, schema=one)


def test_a_reconstruction_that_does_not_take_them_is_refused():
    with pytest.raises(BadInput, match="interactions of columns, which independent cannot use"):
        check_pair(Beyond(), Independent())


def test_interactions_are_of_what_is_selected():
    halves = (Fraction(1, 2), Fraction(1, 2))
    for wrong in ((("a", "c"),), ((),), (("b", "a"),)):
        with pytest.raises(ValueError, match="Interactions"):
            Selection((("a", "b"), ()), halves, interactions=frozenset(wrong))
    assert not Selection((("a", "b"), ()), halves).interactions


def test_a_stored_selection_keeps_them(tmp_path):
    run = SimpleNamespace(folder=SimpleNamespace(public=tmp_path))
    weights = (Fraction(1, 3), Fraction(2, 3))
    chosen = Selection(BEYOND, weights, interactions=frozenset(BEYOND[1:]))
    scales = (Number.line(name=name, positions=9, centre=-1, reach=4) for name in ("a", "b"))
    halves = tuple(weight / 2 for weight in weights)
    tables = Selection(BEYOND, halves, trends=(Trend(*scales, Fraction(1, 2)),))
    write_selections(run, (chosen, tables))
    assert read_selections(run) == (chosen, tables)
    # A run that was begun before there were interactions has none.
    path = tmp_path / "selection.json"
    path.write_text(path.read_text().replace('"interactions"', '"else"'))
    assert read_selections(run)[0] == dataclasses.replace(chosen, interactions=frozenset())
