from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.client.released import Table
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.methods.prior import PublicPrior, as_codes
from dp_core.methods.reconstruction import auto, reconstructor
from dp_core.methods.reconstruction.estimates.implied_pairs import counted
from dp_core.methods.reconstruction.gum import GumModel
from dp_core.methods.reconstruction.pgm import GraphicalModel
from dp_core.plan.procedure import LANES, SetDrawing, carry_out, fits, piece_sizes, restore, sample
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.plan.steps.posterior_draws import PosteriorDraws
from dp_core.schema.linked.possible_members import possible_household
from dp_core.schema.structure.member_rules import broken_households
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from dp_core.tables.linked_records import from_pair_rows
from tests.member_rules import ADULT, REFERENCE, RULES, SPOUSE, schema_with

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))


def release_of(preset, *, sets=1, rows=1000, **options):
    """Return the plan and the models of a release of 900 records."""
    codes = np.random.default_rng(0).integers(0, 2, (3, 900)).astype(np.uint16)
    plan = trial_plan(
        *(DOMAIN, preset, Fraction(5), Fraction(1, 10**6)), sets=sets, rows=rows, **options
    )
    return plan, carry_out(plan, MemoryCounter(Dataset(DOMAIN, codes))).models


@pytest.fixture(scope="module", params=["privsyn", "independent", "mst"])
def made(request):
    return release_of(request.param, sets=2)


def test_a_set_that_fits_is_drawn_at_once(made):
    plan, models = made
    drawing = SetDrawing(plan, models, 2)
    assert drawing.sizes == (1000,)
    at_once = models[0].sample(1000, rng=plan.spec.rng("sample 0", 2))
    np.testing.assert_array_equal(drawing.draw(0).codes, at_once.codes)


def test_pieces_are_the_same_in_whichever_order_lanes_are_drawn(made, monkeypatch):
    plan, models = made
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", 3 * 150)
    expected = sample(plan, models, 1)
    assert expected.rows == 1000
    drawing = SetDrawing(plan, models, 1)
    assert drawing.sizes == piece_sizes(plan, models, 1) == (150,) * 6 + (100,)
    found = {}
    for lane in reversed(range(LANES)):
        for position in range(lane, len(drawing.sizes), LANES):
            found[position] = drawing.draw(position).codes
    whole = np.concatenate([found[position] for position in sorted(found)], axis=1)
    np.testing.assert_array_equal(whole, expected.codes)


def test_each_piece_has_a_generator_of_its_own(monkeypatch):
    plan, models = release_of("independent")
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", 3 * 150)
    drawing = SetDrawing(plan, models, 1)
    for position, size in enumerate(drawing.sizes):
        alone = models[0].sample(size, rng=plan.spec.rng(f"sample {position}", 1))
        np.testing.assert_array_equal(drawing.draw(position).codes, alone.codes)
    assert drawing.draw(0).codes.tolist() != drawing.draw(1).codes.tolist()


def test_chains_of_a_set_remember_what_they_drew(monkeypatch):
    """Pieces that were drawn each by itself would miss their tables by more and more records."""
    plan, models = release_of("privsyn", rows=4000)
    once = sample(plan, models, 1)
    monkeypatch.setattr(reconstructor, "_PIECE_VALUES", 3 * 40)
    drawn = sample(plan, models, 1)
    for table in models[0].tables:
        wanted = table.values * (4000 / table.values.sum())
        gaps = [np.abs(counted(data, table.clique) - wanted).max() for data in (drawn, once)]
        assert gaps[0] < LANES * (gaps[1] + 2)


def test_sets_of_two_rows_of_which_none_was_drawn_possible_obey_the_rules():
    """All columns must be equal, and the tables say that they mostly are not."""
    domain = Domain(("a", "b", "c"), (3, 3, 3))
    unequal = [(one, other) for one in range(3) for other in range(3) if one != other]
    rules = [
        Rule(clique, ((one,), (other,)), "")
        for clique in (("a", "b"), ("b", "c"))
        for one, other in unequal
    ]
    zeros, even = StructuralZeros(tuple(rules)), np.full(3, 2 / 3)
    plan = trial_plan(*(domain, "auto", Fraction(1)), sets=2, mode="posterior", rows=2, zeros=zeros)
    tables = [Table(domain.project((name,)), even) for name in domain.columns]
    for seed in range(40):
        seeded = dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, seed=seed))
        model = restore(seeded, (), 1, tables=tables, rows=2)
        made = sample(seeded, {1: model}, 1)
        assert made.rows == 2
        assert not zeros.violations(made).any()


# -- linked tables: with much noise, households obey the rules that count their members

RULED = {
    "the usual rules": RULES,
    "with the columns of the household": (
        REFERENCE,
        "if tenure == own then relation != spouse",
        "exactly two age >= 65",
        "if members >= 3 then job != full",
    ),
    "several columns": (
        "exactly one relation == reference and age >= 18",
        SPOUSE,
        "at least one job is missing",
        "if job is missing then age >= 18",
    ),
    "nobody alone": (REFERENCE, ADULT, "at least one relation == child and age < 16"),
}


@pytest.mark.parametrize("mode", ["posterior", "shared"])
@pytest.mark.parametrize("name", RULED)
def test_every_household_obeys(name, mode):
    schema = schema_with(*RULED[name])
    linked, rng = schema.linked, np.random.default_rng(1)
    found = [possible_household(schema, rng=rng) for _ in range(150)]
    file = HouseholdRows(
        *(
            np.concatenate([getattr(one, part) for one in found], axis=-1)
            for part in ("households", "sizes", "persons")
        )
    )
    pairs = to_pair_rows(linked, schema.domain, file)
    stated = {
        "privacy": {"epsilon": "0.1", "delta": "1e-9"},
        "method": "auto",
        "synthesize": {"sets": 2, "seed": 3, "mode": mode, "rows": 300},
    }
    plan = memory_plan(schema, stated)
    made = carry_out(plan, HouseholdCounter(MemoryCounter(pairs), linked))
    for number in (1, 2):
        drawn = sample(made.plan, made.models, number)
        rows = from_pair_rows(linked, drawn)

        assert rows.sizes.size == 300
        assert not broken_households(linked.rules, linked.person_columns, rows).any()
        assert not schema.zeros.violations(drawn).any()


# -- priors: which model makes the sets, and that it can be restored

WIDE_SIZES = (2, 3, 4, 2, 3, 5, 2, 4)
WIDE = Domain(tuple("abcdefgh"), WIDE_SIZES)


def records(seed, rows=4000):
    """Return codes of a chain of columns, each like the one before in half of the records."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, WIDE_SIZES[0], rows)]
    for size in WIDE_SIZES[1:]:
        like = (codes[-1] + size // 2) % size
        codes.append(np.where(rng.random(rows) < 0.5, like, rng.integers(0, size, rows)))
    return np.stack(codes)


def prior(codes):
    return PublicPrior(WIDE, (as_codes(list(codes)),), False)


@pytest.fixture(scope="module")
def asked():
    """Return what a release of mode `shared` measured; the noise is small."""
    data = Dataset(WIDE, records(1).astype(WIDE.code_type))
    plan = trial_plan(WIDE, "auto", Fraction(10), Fraction(1, 10**9), rows_about=4000)
    return carry_out(plan, MemoryCounter(data))


def fitted(asked, public):
    plan = asked.plan
    plan = dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, prior=public))
    ((_, model),) = fits(plan, asked.released, asked.selections, rows=asked.rows)
    return plan, model


@pytest.mark.parametrize("graph", [True, False])
def test_a_shared_model_has_the_central_tables_and_can_be_restored(asked, monkeypatch, graph):
    monkeypatch.setattr(auto, "MOST_CELLS", auto.MOST_CELLS if graph else 1)
    plan, model = fitted(asked, prior(records(2)))
    assert isinstance(model, GraphicalModel if graph else GumModel)
    central = PosteriorDraws(plan, asked.released, asked.selections, rows=asked.rows).tables
    for table in central.central_tables():
        if len(table.clique) == 2:
            assert model.project(table.clique) == pytest.approx(table.values, abs=4.0)

    again = restore(plan, asked.released, 0, tables=model.tables, rows=model.rows)
    assert type(again) is type(model)
    assert np.array_equal(sample(plan, {0: model}, 1).codes, sample(plan, {0: again}, 1).codes)


def test_a_prior_that_does_not_fit_hardly_changes_a_shared_model(asked):
    rng = np.random.default_rng(3)
    wrong = np.stack([rng.permutation(size)[each] for each, size in
                      zip(records(2), WIDE_SIZES, strict=True)])  # fmt: skip
    _, without = fitted(asked, None)
    _, model = fitted(asked, prior(wrong))
    assert type(model) is type(without)
    for pair in itertools.combinations(WIDE.columns, 2):
        apart = np.abs(model.project(pair) - without.project(pair)).sum()
        assert apart < 0.002 * model.rows
