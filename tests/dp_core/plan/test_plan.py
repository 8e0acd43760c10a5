from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.client.noise_scale import noise_for
from dp_core.client.released import Records, SparseTable
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.privacy import Relation
from dp_core.methods import drawn_answers, drawn_events
from dp_core.methods.selection.budget.threshold_delta import planned_threshold
from dp_core.plan import plan as plan_module
from dp_core.plan.currency_choice import _with_noisy_scores, expected_error
from dp_core.plan.plan import make_plan
from dp_core.plan.procedure import carry_out
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.reading.schema_file import load_schema
from tests.schema_texts import read
from tests.specs import FIXED, SCHEMA, plan_of, write_spec

GAUSS = "{epsilon: 1, delta: 1e-9}"
EIGHT = Domain(tuple("abcdefgh"), (2, 3, 4, 2, 5, 3, 6, 2))

NON_ADAPTIVE = {
    "fixed": ("fixed", FIXED),
    "independent": ("independent", ""),
    "full table": ("fdh", ""),
    "odd shares": ("fixed", FIXED + "total: {share: 1/7}\none_way: {share: 0.1}\n"),
}
SPLIT = "synthesize: {{sets: {}, mode: {}}}\n"

DEMO = Path(__file__).parents[3] / "flows" / "demo"


def paid(plan):
    """Return what the planned tables cost together, each as often as it is measured."""
    return sum((table.cost * table.times for table in plan.tables), Fraction(0))


@pytest.mark.parametrize("privacy", ["{epsilon: 1/3}", GAUSS, "{epsilon: 50, delta: 1e-6}"])
@pytest.mark.parametrize(("sets", "mode"), [(1, "shared"), (7, "shared"), (7, "split")])
@pytest.mark.parametrize("which", NON_ADAPTIVE)
def test_the_planned_tables_cost_the_limit_to_the_last_fraction(
    tmp_path, which, sets, mode, privacy
):
    method, text = NON_ADAPTIVE[which]
    plan = plan_of(tmp_path, text + SPLIT.format(sets, mode), method=method, privacy=privacy)
    assert sum(plan.spec.shares.values()) == 1
    assert sum(plan.costs.values()) == plan.currency.limit
    assert paid(plan) == plan.currency.limit
    for stage in plan.costs:
        of_stage = [table for table in plan.tables if table.stage == stage]
        assert sum((t.cost * t.times for t in of_stage), Fraction(0)) == plan.costs[stage]
    assert plan.replicates == (sets if mode == "split" else 1)
    assert {table.times for table in plan.tables} == {plan.replicates}
    assert plan.fixed_beforehand


def test_interactions_alone_are_refused_before_they_are_paid_for(monkeypatch):
    delta = Fraction("1e-9")
    spec = trial_plan(EIGHT, "independent", Fraction(1), delta, seed=0).spec
    planned = spec.selector.fixed_selection(EIGHT)
    only = dataclasses.replace(planned, interactions=frozenset(planned.cliques))
    monkeypatch.setattr(type(spec.selector), "fixed_selection", lambda *_: only)
    with pytest.raises(BadInput, match=r"give one_way a part of the budget"):
        make_plan(spec)
    shares = {**spec.shares, "measure": Fraction(9, 10), "total": Fraction(1, 10)}
    assert make_plan(dataclasses.replace(spec, shares=shares)).tables


@pytest.mark.parametrize(
    ("rows", "epsilon", "kind"), [(500, "1/10", "pure"), (10**5, "1", "gaussian")]
)
def test_auto_pays_in_what_it_expects_to_err_less_by(rows, epsilon, kind):
    epsilon, delta = Fraction(epsilon), Fraction("1e-9")
    spec = trial_plan(EIGHT, "auto", epsilon, delta, seed=0).spec
    spec = dataclasses.replace(spec, schema=dataclasses.replace(spec.schema, rows_about=rows))
    assert make_plan(spec).currency.kind == kind
    errors = {}
    for each in ("pure", "gaussian"):
        currency = Currency(each, largest_limit(each, epsilon, delta))
        expected = expected_error(spec, currency)
        errors[each] = math.prod(one.two + one.three for one in expected)
    assert min(errors, key=errors.get) == kind


@pytest.mark.parametrize(
    ("declared", "epsilon", "kind"),
    [
        ("mean of n by g", "1/2", "gaussian"),
        ("mean of n by g", "4", "gaussian"),
        ("total of n", "4", "gaussian"),
        ("n ~ g", "4", "gaussian"),
        ("n ~ g + o", "1/2", "gaussian"),
        ("median of n by g", "1/2", "gaussian"),
        ("median of n by g", "4", "pure"),  # three levels with a third of the share each
        ("mean of n by g, o", "1/10", "pure"),  # groups are as small as their noise
        ("n ~ g", "1/10", "gaussian"),
    ],
)
def test_declared_analyses_choose_the_noise_by_which_their_questions_err_less(
    declared, epsilon, kind
):
    """By the tables of these few columns it would be Laplace noise."""
    schema = read(
        """\
version: 1
title: Firms
rows_about: 5000
columns:
  g: {type: category, levels: [a, b, c]}
  o: {type: category, levels: [x, y]}
  n: {type: integer, min: 0, max: 9999, edges: [0, 100, 10000]}
"""
    )
    stated = {"privacy": {"epsilon": epsilon, "delta": "1e-6"}}
    assert memory_plan(schema, stated).currency.kind == "pure"
    stated["analyses"] = [declared]
    assert memory_plan(schema, stated).currency.kind == kind
    for noise in ("laplace", "gaussian"):
        plan = memory_plan(schema, {**stated, "measure": {"noise": noise}})
        assert (plan.currency.kind == "pure") == (noise == "laplace")


def test_laplace_noise_is_not_taken_where_it_hides_which_pairs_depend():
    """For the demo's households it would choose the tables besides the wanted ones by chance."""
    schema = load_schema(DEMO / "households.schema.yaml")
    wanted = [
        ["income", "tenure"],
        ["members", "rooms"],
        ["members", "activity"],
        ["activity", "age"],
        ["age", "other.age"],
    ]
    stated = {
        "privacy": {"epsilon": "4", "delta": "1e-9"},
        "tables": [{"of": pair} for pair in wanted],
    }
    plan = memory_plan(schema, stated)
    assert plan.currency.kind == "gaussian"
    laplace = Currency("pure", largest_limit("pure", Fraction(4), Fraction("1e-9")))
    known = [expected_error(plan.spec, each) for each in (laplace, plan.currency)]
    noisy = [
        _with_noisy_scores(plan.spec, each, errors)
        for each, errors in zip((laplace, plan.currency), known, strict=True)
    ]
    for before, after in zip(known, noisy, strict=True):
        assert all(one.two < other.two for one, other in zip(before, after, strict=True))
    lost = [after[0].two / before[0].two for before, after in zip(known, noisy, strict=True)]
    assert lost[0] > lost[1]


@pytest.mark.parametrize("mode", ["shared", "split"])
def test_an_adaptive_plan_has_its_certain_part_and_the_rest_set_aside(tmp_path, mode):
    text = SPLIT.format(3, mode)
    plan = plan_of(tmp_path, text, method="privsyn", privacy=GAUSS)
    assert {table.stage for table in plan.tables} == {"one_way"}
    assert paid(plan) == plan.costs["one_way"]
    assert sum(plan.costs.values()) == plan.currency.limit
    assert plan.costs["select"] > 0
    assert plan.scores == 3
    assert not plan.fixed_beforehand
    change = InDif(()).largest_change("add-remove")
    expected = noise_for(
        plan.currency, plan.costs["select"], l1=3 * change, l2_squared=3 * change**2
    )
    assert plan.score_noise == expected


@pytest.mark.parametrize("privacy", ["{epsilon: 1}", GAUSS, "{epsilon: 0.1, delta: 1e-5}"])
def test_the_total_implies_the_guarantee_and_no_event_costs_more_than_its_part(tmp_path, privacy):
    plan = plan_of(tmp_path, privacy=privacy)
    asked, currency = plan.spec.privacy, plan.currency
    assert currency.limit == largest_limit(currency.kind, asked.epsilon, asked.delta)
    for table in plan.tables:
        event = currency.noise_event(table.cost, l1=1, l2_squared=1)
        assert currency.cost(event) <= table.cost
        assert table.noise.scale == float(event.scale)


@pytest.mark.parametrize(
    ("noise", "privacy", "grows"),
    [("laplace", "epsilon: 1", float), ("gaussian", "epsilon: 0.05, delta: 1e-6", math.sqrt)],
)
def test_replacing_a_row_and_splitting_the_budget_widen_the_noise(tmp_path, noise, privacy, grows):
    usual, replaced, split = (
        plan_of(
            tmp_path,
            FIXED + f"measure: {{noise: {noise}}}\n" + SPLIT.format(4, mode),
            privacy=f"{{{privacy}, neighbours: {neighbours}}}",
        )
        for mode, neighbours in (
            ("shared", "add-remove"),
            ("shared", "replace-one"),
            ("split", "add-remove"),
        )
    )
    for one, other, part in zip(usual.tables, replaced.tables, split.tables, strict=True):
        assert (other.cost, other.noise.kind, one.noise.kind) == (one.cost, noise, noise)
        assert other.noise.scale / one.noise.scale == pytest.approx(grows(2), rel=1e-3)
        assert part.noise.scale / one.noise.scale == pytest.approx(grows(4), rel=1e-3)


def test_the_distance_that_noise_causes_is_cells_times_noise_over_twice_the_rows(tmp_path):
    plan = plan_of(tmp_path)
    table = next(t for t in plan.tables if t.clique == ("a", "b"))
    assert table.cells == 6
    assert table.noise.kind == "laplace"
    assert table.tvd(1000) == pytest.approx(6 * float(1 / table.cost) / 2000)
    assert table.tvd(1) == 1.0
    gauss = plan_of(tmp_path, FIXED + "measure: {noise: gaussian}\n", privacy=GAUSS).tables[-1]
    expected = gauss.cells * gauss.noise.scale * math.sqrt(2 / math.pi) / 2000
    assert gauss.tvd(1000) == pytest.approx(expected)


def test_the_plan_is_the_same_each_time_it_is_made(tmp_path):
    one, two = plan_of(tmp_path / "x"), plan_of(tmp_path / "y")
    assert one.hash == two.hash
    assert one.tables == two.tables


CHANGES = {
    "epsilon": {"privacy": "{epsilon: 1.000001}"},
    "delta": {"privacy": "{epsilon: 1, delta: 1e-12}"},
    "neighbours": {"privacy": "{epsilon: 1, neighbours: replace-one}"},
    "account": {"account": "village"},
    "release": {"release": "second"},
    "cliques": {"text": "select: {method: fixed, cliques: [[a, b], [a, c]]}\n"},
    "allocation": {"text": FIXED.replace("fixed,", "fixed, allocation: equal,")},
    "share": {"text": FIXED + "one_way: {share: 0.100001}\n"},
    "noise": {"text": FIXED + "measure: {noise: laplace}\n"},
    "reconstruct": {"text": FIXED + "reconstruct: {method: independent}\n"},
    "sets": {"text": FIXED + "synthesize: {sets: 2}\n"},
    "mode": {"text": FIXED + "synthesize: {sets: 1, mode: split}\n"},
    "rows": {"text": FIXED + "synthesize: {rows: 100}\n"},
    "seed": {"text": FIXED + "synthesize: {seed: 2}\n"},
    "level": {"schema": SCHEMA.replace("[x, y]", "[x, z]")},
    "order of levels": {"schema": SCHEMA.replace("[x, y]", "[y, x]")},
    "title": {"schema": SCHEMA.replace("Small", "Smaller")},
    "impossible": {"schema": SCHEMA + "impossible:\n  - {a: x, b: r}\n"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_spec_or_schema_changes_the_hash(tmp_path, change):
    assert plan_of(tmp_path, **CHANGES[change]).hash != plan_of(tmp_path).hash


def test_the_document_is_plain_exact_and_says_nothing_of_this_machine(tmp_path):
    plan = plan_of(tmp_path, privacy="{epsilon: 1/3}")
    document = plan.document()
    assert document["currency"] == {"kind": "pure", "limit": "1/3", "own_delta": "0"}
    assert sum(map(Fraction, document["costs"].values())) == Fraction(1, 3)
    assert str(tmp_path) not in str(document)


def test_a_guarantee_that_no_noise_gives_is_refused(tmp_path):
    spec = write_spec(
        tmp_path, FIXED + "measure: {noise: gaussian}\n", privacy="{epsilon: 1e-12, delta: 1e-300}"
    )
    with pytest.raises(BadInput, match="No gaussian noise gives epsilon 1e-12"):
        make_plan(spec)


def test_a_release_whose_size_would_be_all_noise_is_refused_before_it_is_paid(tmp_path):
    with pytest.raises(BadInput, match=r"synthesize\.rows"):
        plan_of(tmp_path, privacy="{epsilon: 1e-4}")
    for allowed in (
        {"text": FIXED + "synthesize: {rows: 500}\n", "privacy": "{epsilon: 1e-4}"},
        {"privacy": "{epsilon: 1e-4, neighbours: replace-one}"},
    ):
        assert plan_of(tmp_path, **allowed).tables


@pytest.mark.parametrize("mode", ["shared", "split"])
@pytest.mark.parametrize(
    ("method", "text", "tables", "cells"),
    [
        ("sba", "", 1, 24),
        ("sba", "select: {threshold: algorithm}\n", 1, 24),
        ("sbhg", "", 3, 12),
        ("sbhg", "select: {features: 2}\n", 3, 24),
        ("sbhg", "select: {given: [[a, b], [b]]}\n", 3, 6),
    ],
)
def test_the_planned_threshold_is_the_one_of_the_release(
    tmp_path, method, text, tables, cells, mode
):
    plan = plan_of(tmp_path, text + SPLIT.format(2, mode), method=method, privacy=GAUSS)
    domain, selector = plan.spec.schema.domain, plan.spec.selector
    split = 2 if mode == "split" else 0
    planned = planned_threshold(
        selector,
        domain,
        plan.currency,
        plan.costs["measure"],
        relation=Relation("add-remove"),
        split=split,
    )
    codes = np.random.default_rng(1).integers(0, [[2], [3], [4]], (3, 20_000))
    outcome = carry_out(plan, MemoryCounter(Dataset(domain, codes.astype(np.uint16))))

    found = [item for item in outcome.released if isinstance(item, SparseTable)]
    assert len(found) == tables * plan.replicates
    assert {table.threshold for table in found} == {planned}
    assert selector.tables(domain) == (tables, cells)


PEGS = "synthesize: {{rows: 9, sets: 2, mode: split}}\nselect: {{records: {}, sweeps: 2}}\n"


@pytest.mark.parametrize("privacy", ["{epsilon: 1e-12}", "{epsilon: 1e-12, delta: 1e-40}"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_draws_that_cannot_be_paid_are_refused_before_anything_is(tmp_path, privacy, neighbours):
    privacy = f"{privacy[:-1]}, neighbours: {neighbours}}}"
    with pytest.raises(BadInput, match=r"[0-9,]+ draws .* raise privacy\.epsilon"):
        plan_of(tmp_path, PEGS.format(1_000_000), method="pegs", privacy=privacy)


@pytest.mark.parametrize("privacy", ["{epsilon: 1e-12}", "{epsilon: 1e-12, delta: 1e-40}"])
def test_noise_too_large_to_be_drawn_is_refused_before_anything_is_paid(tmp_path, privacy):
    shares = "total: {share: 0.00001}\nmeasure: {share: 0.99999}\n"
    with pytest.raises(BadInput, match=r"scale of about 10\^1[67].* Raise epsilon"):
        plan_of(tmp_path, FIXED + shares, privacy=privacy)


@pytest.mark.parametrize("privacy", ["{epsilon: 1e-12}", "{epsilon: 1000}", "{epsilon: 900}"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_draws_that_were_planned_can_be_carried_out(tmp_path, privacy, neighbours, monkeypatch):
    asked = []
    right = drawn_events.draws_event
    for module in (drawn_answers, plan_module):
        monkeypatch.setattr(
            module, "draws_event", lambda *given: asked.append(given) or right(*given)
        )
    privacy = f"{privacy[:-1]}, neighbours: {neighbours}}}"
    plan = plan_of(tmp_path, PEGS.format(1), method="pegs", privacy=privacy)
    codes = np.random.default_rng(1).integers(0, [[2], [3], [4]], (3, 100))
    outcome = carry_out(
        plan, MemoryCounter(Dataset(plan.spec.schema.domain, codes.astype(np.uint16)))
    )

    assert sum(isinstance(item, Records) for item in outcome.released) == 2
    # What the plan tried is what both replicates paid for.
    assert asked == [asked[0]] * 3


@pytest.mark.parametrize("method", ["pegs", "sbhg"])
@pytest.mark.parametrize("delta", ["1e-9", "0.1"])
def test_where_features_are_given_nothing_is_paid_for_a_choice(tmp_path, method, delta):
    plan = plan_of(
        tmp_path,
        "select: {given: [[a, b], [b, c]]}\n",
        method=method,
        privacy=f"{{epsilon: 1, delta: {delta}}}",
    )
    assert plan.costs["select"] == 0
    assert sum(plan.costs.values()) == plan.currency.limit


@pytest.mark.parametrize(
    ("method", "columns", "kind"),
    [
        ("aim", 8, "mixed"),
        ("mst", 8, "mixed"),
        ("mst", 3, "zcdp"),  # one of two choices is a tenth of the release
        ("privbayes", 8, "mixed"),
        ("privbayes", 2, "mixed"),
        ("mwem", 3, "zcdp"),  # as much for each choice as for its answer
        ("mwem-pgm", 8, "zcdp"),
        ("dualquery", 3, "zcdp"),
        ("privsyn", 8, "gaussian"),
    ],
)
def test_choices_are_paid_on_the_gaussian_curve_where_each_leaves_enough(method, columns, kind):
    domain = Domain(EIGHT.columns[:columns], (2,) * columns)
    spec = trial_plan(domain, method, Fraction(1), Fraction("1e-9"), seed=0).spec
    found = make_plan(dataclasses.replace(spec, noise="gaussian")).currency
    assert found.kind == kind
    assert found.implies(Fraction(1), Fraction("1e-9"))


def test_rules_that_together_leave_no_record_are_refused_before_anything_is_spent(tmp_path):
    rules = "impossible:\n  - {a: x, b: [r, s, t]}\n  - {a: y, c: [k, l]}\n"
    assert plan_of(tmp_path / "some", schema=SCHEMA + rules)

    rules += "  - {a: y, c: [m, n]}\n"
    with pytest.raises(BadInput, match="leave some combination possible"):
        plan_of(tmp_path / "none", schema=SCHEMA + rules)
