"""The stage `domain`: what it asks, charges and chooses, and that all else follows from that."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.vetted import required
from dp_core.methods.private_domain.questions import ask, planned_choices, questions
from dp_core.plan.chosen_domain import (
    Chosen,
    choose,
    read_statement,
    recoding,
    resolved_plan,
    statement,
    with_choices,
)
from dp_core.plan.plan import make_plan
from dp_core.plan.procedure import carry_out, sample
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.documents.strict_yaml import parse, plain
from tests.measured import curator_of, noisy_sums
from tests.specs import SCHEMA, plan_of, write_spec

PRIVATE = """\
version: 1
title: Small survey
rows_about: 4000
columns:
  age: {type: integer, min: 0, max: 99, missing: level, bins: {private: 4}}
  pay: {type: number, min: 0, max: 4096, bins: {private: 8}}
  job:
    type: category
    missing: level
    levels: {private: 3}
    groups: {one: [a, b, c], two: [d, e], three: [f]}
  sex: {type: category, levels: [m, f]}
"""
ROWS = 4000


def even(*cuts):
    """Return cuts that were chosen, with nothing to tell parts of their bins apart."""
    return Chosen(cuts, ((0, 1), *((cut, 1) for cut in cuts)))


CHOSEN = {
    "age": Chosen((20, 31, 60), ((0, 5), (20, 2), (25, 0), (31, 7), (60, 1))),
    "pay": even(1, 2, 3, 4, 5, 6, 4000),
    "job": Chosen((0, 3, 5)),
}


def test_a_position_is_of_the_bin_whose_edges_hold_it(tmp_path):
    schema = with_choices(private_plan(tmp_path).spec.schema, CHOSEN)
    for name in ("age", "pay"):
        column = schema.column(name)
        positions = np.array([float(edge) for edge in column.choice.among.edges[:-1]])
        inner = [float(edge) for edge in column.edges[1:-1]]
        bins = [sum(edge <= position for edge in inner) for position in positions]
        found = recoding(schema).codes(name, np.arange(len(positions)))
        assert found.tolist() == bins


def data_of(schema, seed=1):
    rng = np.random.default_rng(seed)
    ages = np.where(rng.random(ROWS) < 0.1, 100, np.minimum(rng.gamma(4, 9, ROWS), 99))
    pay = np.where(rng.random(ROWS) < 0.3, 0, np.minimum(rng.lognormal(6, 1, ROWS), 4095))
    job = rng.choice(7, ROWS, p=[0.3, 0.05, 0.02, 0.2, 0.08, 0.25, 0.1])
    codes = np.array([ages, pay, job, rng.integers(0, 2, ROWS)]).astype(np.uint16)
    return Dataset(schema.stored.domain, codes)


def private_plan(folder, method="independent", text="", privacy="{epsilon: 1000}"):
    return plan_of(folder, text, schema=PRIVATE, method=method, privacy=privacy)


def test_without_noise_to_speak_of_what_is_chosen_is_exact(tmp_path):
    plan = private_plan(tmp_path)
    data = data_of(plan.spec.schema)
    outcome = carry_out(plan, MemoryCounter(data))
    age, pay, job, _ = outcome.plan.spec.schema.columns
    # The three most frequent levels; the others are their groups, of which "three" is empty.
    assert [level.label for level in job.levels] == [
        "a",
        "d",
        "f",
        "other one",
        "other two",
        "other three",
    ]
    assert job.stands_for == (("a",), ("d",), ("f",), ("b", "c"), ("e",), ())
    counts = np.bincount(data.codes[0], minlength=101)[:100]
    cuts = [int(edge) for edge in age.edges]
    quarters = np.add.reduceat(counts, cuts[:-1])
    assert np.abs(quarters - counts.sum() / 4).max() <= counts.max()
    # Those who earn nothing are a bin of their own, and the others are shared evenly.
    bins = recoding(outcome.plan.spec.schema).codes("pay", data.codes[1])
    shares = np.bincount(bins, minlength=8)
    assert shares[0] == (data.codes[1] == 0).sum()
    assert np.abs(shares[1:] - shares[1:].mean()).max() < 25
    assert pay.edges[1] == 1


@pytest.mark.parametrize("method", ["modips", "perturbed-histogram", "privsyn", "mst"])
def test_every_kind_of_method_takes_what_was_chosen(tmp_path, method):
    privacy = "{epsilon: 4, delta: 1e-6}"
    plan = private_plan(tmp_path, method, privacy=privacy)
    outcome = carry_out(plan, MemoryCounter(data_of(plan.spec.schema)))
    drawn = sample(outcome.plan, outcome.models, 1)
    assert drawn.domain == outcome.plan.spec.schema.domain
    assert outcome.plan.hash == plan.hash
    if method in ("modips", "perturbed-histogram"):
        pay = outcome.plan.spec.reconstructor.variables.variable("pay")
        coarse = outcome.plan.spec.schema.coarse.column("pay")
        assert pay.bins == (0, *coarse.choice.codes, 4096)


def test_a_method_that_chooses_privately_shares_the_currency(tmp_path):
    plan = private_plan(tmp_path, "aim", privacy="{epsilon: 1, delta: 1e-9}")
    assert plan.currency.kind == "mixed"
    assert private_plan(tmp_path, privacy="{epsilon: 1, delta: 1e-9}").currency.kind == "gaussian"


@pytest.mark.parametrize(
    ("relation", "l1", "l2_squared"),
    [
        (Relation("add-remove"), 1, 1),
        (Relation("replace-one"), 2, 2),
        (Relation("add-remove", 3), 3, 9),
        (Relation("replace-one", 3), 6, 18),
    ],
)
@pytest.mark.parametrize("kind", ["pure", "zcdp", "gaussian"])
def test_charges_are_those_of_histograms_and_spend_the_stage_s_cost_exactly(
    kind, relation, l1, l2_squared
):
    schema = parse_schema(plain(parse(PRIVATE, source="schema")))
    currency = Currency(kind, Fraction(1))
    session = MemorySession(currency, relation.neighbours, max_rows=relation.max_rows)
    curator = Curator(Kernel(schema.stored.domain, MemoryCounter(data_of(schema)), session))
    ask(curator, schema, Fraction(1, 7))
    asked = questions(schema)
    assert session.spent() == Fraction(1, 7)
    # Two widths of age, three of pay, one of job; each column pays a third.
    assert [grant.step.cost * 7 * 3 for grant in session.charges] == [
        *[Fraction(1, 2)] * 2,
        *[Fraction(1, 3)] * 3,
        Fraction(1),
    ]
    for grant, each in zip(session.charges, asked, strict=True):
        event = grant.step.event
        stated = event.l1_sensitivity if kind == "pure" else event.l2_sensitivity_squared
        assert stated == (l1 if kind == "pure" else l2_squared)
        assert required(grant.step.asks, relation)[1:] == (l1, l2_squared)
        assert session.currency.cost(event) <= grant.step.cost
        # No more is charged than a rounding of the scale.
        assert float(session.currency.cost(event) / grant.step.cost) == pytest.approx(1, abs=1e-6)
        assert each.what.to_json() == grant.step.asks


def test_what_was_chosen_is_stated_and_read_back():
    schema = parse_schema(plain(parse(PRIVATE, source="schema")))
    chosen = CHOSEN
    with_choice = with_choices(schema, chosen)
    assert read_statement(statement(with_choice)) == chosen
    assert statement(with_choice)[0]["edges"] == ["0", "20", "31", "60", "100"]
    assert with_choices(with_choice, chosen) == with_choice
    assert with_choice.document == schema.document
    assert with_choice.columns[0].code_labels() == (
        "0 to 19",
        "20 to 30",
        "31 to 59",
        "60 to 99",
        "(missing)",
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"age": even(20, 31)},
        {"age": even(31, 20, 60)},
        {"age": even(0, 31, 60)},
        {"age": even(20, 31, 100)},
        {"job": Chosen((0, 3, 6))},
        {"job": Chosen((0, 0, 5))},
        {"job": even(0, 3, 5)},
        {"sex": Chosen((0,))},
        {"age": Chosen((20, 31, 60))},
        {"age": Chosen((20, 31, 60), even(20, 60).pieces)},
        {"age": Chosen((20, 31, 60), ((0, 1), (20, 1), (31, 0), (60, 1)))},
        {"age": Chosen((20, 31, 60), ((0, 1), (20, 1), (31, 2), (50, -1), (60, 1)))},
        {"age": Chosen((20, 31, 60), (*even(20, 31, 60).pieces, (100, 1)))},
        {"age": Chosen((20, 31, 60), even(20, 31, 60).pieces[::-1])},
        {"age": Chosen((20, 31, 60), ((1, 1), (20, 1), (31, 1), (60, 1)))},
    ],
)
def test_a_choice_that_cannot_have_been_made_is_refused(changed):
    chosen = CHOSEN | changed
    with pytest.raises(ValueError, match=r"columns|does not allow"):
        with_choices(parse_schema(plain(parse(PRIVATE, source="schema"))), chosen)


def test_answers_to_other_questions_choose_nothing():
    schema = parse_schema(plain(parse(PRIVATE, source="schema")))
    curator, _ = curator_of(data_of(schema), Fraction(1), "pure")
    answers = ask(curator, schema, Fraction(1))
    assert choose(schema, answers) == choose(schema, [*answers])
    later = [dataclasses.replace(item, stage="measure") for item in answers]
    for other in (answers[1:], answers[::-1], later):
        with pytest.raises(ValueError, match="do not match"):
            choose(schema, other)


def test_equal_counts_keep_the_first_levels_of_the_schema():
    schema = parse_schema(plain(parse(PRIVATE, source="schema")))
    asked = questions(schema)
    answers = [
        noisy_sums(each.what, np.zeros(each.what.length, np.int64), noise="laplace", stage="domain")
        for each in asked
    ]
    assert choose(schema, answers)["job"] == Chosen((0, 1, 2))
    assert choose(schema, answers)["age"] == even(25, 50, 75)


def test_a_set_cannot_be_decoded_before_bins_and_levels_are_chosen():
    from dp_core.schema.rules.possible_codes import decode

    schema = parse_schema(plain(parse(PRIVATE, source="schema")))
    data = Dataset(schema.domain, np.zeros((4, 3), np.uint16))
    with pytest.raises(ValueError, match="not chosen yet"):
        decode(schema, data, rng=np.random.default_rng(1))


# ------------------------------------------------------------------ what the plan promises


def test_the_plan_says_how_exact_bins_and_levels_will_be(tmp_path):
    plan = private_plan(tmp_path, privacy="{epsilon: 1, delta: 1e-9}")
    age, pay, job = plan.choices
    assert plan.costs["domain"] == plan.currency.limit / 20
    assert "age: 4 bins, each holds its quarter of the rows to within about" in age.in_words()
    assert job.in_words().startswith("job: the 3 most frequent of 6 levels, by counts that are")
    assert sum((each.cost for each in plan.choices), Fraction(0)) == plan.costs["domain"]
    assert pay.within > age.within > job.within


@pytest.mark.statistical
def test_bins_hold_their_part_as_exactly_as_the_plan_says(tmp_path):
    """95 in 100 and more of them; that 60 of 160 are further off has a chance below 1e-30."""
    plan = private_plan(tmp_path, privacy="{epsilon: 2}")
    schema = plan.spec.schema
    rng = np.random.default_rng(4)
    codes = np.zeros((4, 30_000), np.uint16)
    codes[1] = np.minimum(rng.lognormal(6.5, 0.8, 30_000), 4095)
    counter = MemoryCounter(Dataset(schema.stored.domain, codes))
    within, outside = plan.choices[1].within, 0
    for _ in range(20):
        curator = Curator(
            Kernel(schema.stored.domain, counter, MemorySession(plan.currency, "add-remove"))
        )
        choices = choose(schema, ask(curator, schema, plan.costs["domain"]))
        bins = np.histogram(codes[1], [0, *choices["pay"].codes, 4096])[0]
        outside += int((np.abs(bins - 30_000 / 8) > within).sum())
    assert outside < 60
    # And not so much more exactly that the plan would be a scare.
    assert within < 10 * math.sqrt(3) * plan.choices[1].noise.stddev


def test_a_plan_whose_sensitivity_doubles_promises_less():
    schema, currency = (
        parse_schema(plain(parse(PRIVATE, source="schema"))),
        Currency("pure", Fraction(1)),
    )
    one, two = (
        planned_choices(schema, currency, Fraction(1, 10), l1=each, l2_squared=each)
        for each in (1, 2)
    )
    assert two[0].within == pytest.approx(2 * one[0].within)


# ------------------------------------------------------------------ shares, and today's specs


def test_a_plan_without_private_columns_has_no_stage_for_them(tmp_path):
    """Its hash is in ledgers and bundles; only a new option of its method may change this one."""
    plan = plan_of(tmp_path, schema=SCHEMA)
    assert "domain" not in plan.costs
    assert "domain" not in plan.spec.document
    assert plan.choices == ()


def test_the_stage_takes_a_twentieth_and_the_others_share_the_rest(tmp_path):
    shares = private_plan(tmp_path).spec.shares
    assert shares["domain"] == Fraction(1, 20)
    assert sum(shares.values()) == 1
    before = write_spec(tmp_path, "", method="independent").shares
    for stage, share in before.items():
        assert shares[stage] == share * Fraction(19, 20), stage


@pytest.mark.parametrize(
    ("schema", "text", "words"),
    [
        (PRIVATE, "domain: {share: 0}\n", "stage domain"),
        (PRIVATE, "measure: {share: 1}\n", "stage domain"),
        (SCHEMA, "domain: {share: 0.1}\n", "the schema has none"),
        (PRIVATE, "domain: {share: 1}\n", "give measure a share"),
        (PRIVATE, "domain: {part: 1}\n", "no key 'part'"),
        (PRIVATE, 'checks: {formulas: ["pay ~ job"]}\n', "levels are chosen privately"),
    ],
)
def test_a_share_or_a_formula_that_cannot_be_is_refused(tmp_path, schema, text, words):
    with pytest.raises(BadInput, match=words):
        write_spec(tmp_path, text, schema=schema, method="independent")


def test_a_share_of_nothing_is_no_share(tmp_path):
    with_it = write_spec(tmp_path, "domain: {share: 0}\n", method="independent")
    assert with_it.document == write_spec(tmp_path, "", method="independent").document


def test_a_formula_may_speak_of_a_number_whose_bins_are_private(tmp_path):
    text = 'checks: {formulas: ["pay ~ age + sex"]}\n'
    assert write_spec(tmp_path, text, schema=PRIVATE, method="independent").formulas


def test_a_resolved_plan_costs_what_was_planned(tmp_path):
    plan = private_plan(tmp_path)
    assert resolved_plan(plan, CHOSEN).hash == plan.hash
    assert make_plan(plan.spec).hash == plan.hash
