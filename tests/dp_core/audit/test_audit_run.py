"""The audit finds nothing wrong with the program as it is, and finds each fault that is planted."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dp_core.audit import audit_run, audited_session, tiny_households
from dp_core.audit.audit_run import audit
from dp_core.audit.configurations import configurations, plan_of
from dp_core.audit.report import CLOSE, HOUSEHOLDS, UNITS
from dp_core.confidential.linked import key_links
from dp_core.confidential.panel import person_records
from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.kernel import kernel as kernel_module
from dp_core.kernel import requests as requests_module
from dp_core.kernel.coding import stored_texts, unit_hashes
from dp_core.kernel.cost import sensitivity
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.extensions import cell_draws, column_draws, thresholds
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.mechanisms import additive_noise
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions import vetted
from dp_core.kernel.questions.limited_sums import LimitedSums
from dp_core.kernel.questions.linear_questions import CellSums
from dp_core.kernel.questions.regressions.gradients import ClassGradient
from dp_core.kernel.questions.regressions.shortened import SecondMoments
from dp_core.kernel.questions.table_distance import TableDistance
from dp_core.methods import drawn_answers, drawn_events, registry
from dp_core.methods.drawn_events import threshold_for
from dp_core.plan.presets import PRESETS
from tests.full import some

ROWS = UNITS[:2]
PERSONS = UNITS[2:]


def named(*names):
    found = [each for each in configurations() if each.name in names]
    assert len(found) == len(names)
    return found


def audited(names, units):
    """Return what an audit of some releases finds."""
    return audit("quick", chosen=[each for each in named(*names) for _ in units], units=units)


# One release of each kind of charge; `make test-all` audits all of them.
KINDS = ("fdh", "privsyn", "sba", "pegs", "multinomial-dirichlet", "declared analyses")


@pytest.mark.parametrize("most", some([1, 3], lambda rows: rows == 3))
def test_no_charge_is_smaller_than_what_neighbours_differ_by(most):
    findings = audited(KINDS, [each for each in UNITS if each.max_rows == most])
    assert findings.violations == []
    assert findings.passed
    assert not findings.complete
    asked = {kind.mechanism for kind in findings.closest}
    assert asked >= {"private choice", "threshold", "independent draws", "urn"}
    of_tables = [found for kind, found in findings.closest.items() if kind.question == "table"]
    assert max(found.ratio for found in of_tables) >= CLOSE


LINKED = tuple(each.name for each in configurations() if each.linked)


@pytest.mark.parametrize("times", some([1, 2], lambda times: times == 1))
def test_no_charge_of_linked_tables_is_smaller_than_what_one_household_changes(times):
    findings = audited(LINKED, HOUSEHOLDS * times)
    assert findings.violations == []
    assert findings.passed
    asked = {(kind.question, kind.bound) for kind in findings.closest}
    assert asked >= {
        *((name, bound) for name in ("table", "interaction", "indif") for bound in ("L1", "L2")),
        ("table-distance", "largest score"),
    }
    # All shares of a household in one cell, under either relation: the charge cannot be smaller.
    of_tables = [found for kind, found in findings.closest.items() if kind.question == "table"]
    assert len(of_tables) == 4
    assert min(found.ratio for found in of_tables) >= CLOSE


def test_the_same_seed_finds_the_same():
    first, again = (audited(["slomag"], ROWS[:1]) for _ in range(2))
    assert first.closest == again.closest
    assert first.charges == again.charges > 0


def test_the_samplers_are_back_after_an_audit():
    before = (additive_noise.add, additive_noise.add_noise, thresholds.release, column_draws.draw)
    audited(["fdh", "pegs"], ROWS[:1])
    after = (additive_noise.add, additive_noise.add_noise, thresholds.release, column_draws.draw)
    assert before == after


# -- the list of releases


def test_every_preset_and_every_method_has_a_release():
    methods = {method for each in configurations() for method in [each.method]}
    assert set(PRESETS) <= methods
    texts = " ".join(text for each in configurations() for text in each.keys.values())
    for family, attribute in (("selection", "select"), ("reconstruction", "reconstruct")):
        used = {getattr(preset, attribute) for preset in PRESETS.values()}
        for name in registry.available(family):
            assert name in used or f"method: {name}" in texts
    assert set(registry.available("parametric")) == {
        preset.synthesize for preset in PRESETS.values() if preset.synthesize
    }


def test_every_release_can_be_planned_for_some_unit_of_privacy():
    impossible = [
        each.name
        for each in configurations()
        if not any(plan_of(each, unit, epsilon="4", delta="1e-6") for unit in (*UNITS, *HOUSEHOLDS))
    ]
    assert impossible == []


def test_a_preset_with_another_option_is_another_release(monkeypatch):
    of_mst = [each.name for each in configurations() if each.method == "mst"]
    monkeypatch.setitem(
        PRESETS,
        "another",
        dataclasses.replace(PRESETS["mst"], options={"select": {"share": "1/4"}}),
    )
    fresh = configurations.__wrapped__()
    of_another = [each.name for each in fresh if each.method == "another"]
    assert [name.replace("mst", "another") for name in of_mst] == of_another


# -- planted faults

L1, L2_SQUARED = 1, 2


def half(kind, which):
    """Return a patch by which a statistic claims half of a bound: a place in `Bounds`."""
    right = kind.of_row

    def too_little(self, by):
        found = [*right(self, by)]
        found[which] = max(1, found[which] // 2)
        return tuple(found)

    return lambda patch: patch.setattr(kind, "of_row", too_little)


def half_of_the_change(kind):
    """Return a patch by which a score claims that its entries change by half."""
    right = kind.change

    def too_little(stated, by):
        return max(1, right(stated, by) // 2)

    return lambda patch: patch.setattr(kind, "change", too_little)


def forget_the_person(patch):
    right = sensitivity.of_unit

    def of_one_row(relation, of_row):
        return right(Relation(relation.neighbours), of_row)

    patch.setattr(sensitivity, "of_unit", of_one_row)
    patch.setattr(vetted, "of_unit", of_one_row)


def forget_the_two(patch):
    patch.setattr(sensitivity, "_count", lambda _rows: (1, 1, 1))


def forget_the_person_of_an_urn(patch):
    right, event = drawn_answers.urn_event, cell_draws.CellDraws.event

    def for_one_row(self, relation):
        found = event(self, relation)
        return dataclasses.replace(found, rows=1) if isinstance(found, PolyaUrnEvent) else found

    patch.setattr(
        drawn_answers,
        "urn_event",
        lambda currency, cost, records, _: right(currency, cost, records),
    )
    patch.setattr(cell_draws.CellDraws, "event", for_one_row)


def count_half_of_the_draws(patch):
    right = column_draws.differing_draws
    for module in (column_draws, drawn_answers):
        patch.setattr(module, "differing_draws", lambda *of: max(1, right(*of) // 2))


def too_low_a_threshold(patch):
    patch.setattr(drawn_events, "threshold_for", lambda *of: max(of[2], threshold_for(*of) - 40))
    patch.setattr(thresholds.StabilityEvent, "own_delta", lambda _self: Fraction(1, 10**6))


def half_of_the_noise(patch):
    def add(values, grant):
        return additive_noise.add_noise("laplace", values, grant.step.event.scale / 2)

    patch.setattr(additive_noise, "add", add)


def keep_all_rows(patch):
    audit_run._coded_pairs.cache_clear()
    everything = "dp_core.confidential.person_rows.kept_rows"
    patch.setattr(everything, lambda persons, _order, _most: np.ones(len(persons), np.bool_))


def look_for_free(patch):
    def public_rows(self):
        return int(self._counter.count([()])[()].counts)

    patch.setattr(Kernel, "public_rows", public_rows)


def count_a_household_as_one_share(patch):
    patch.setattr(requests_module, "in_shares", lambda _relation, found: found)


def weigh_every_pair_row_like_a_household(patch):
    class Heavier(HouseholdCounter):
        def __init__(self, counter, tables):
            super().__init__(counter, tables)
            self._weights = np.full_like(self._weights, tables.shares)

    patch.setattr(audited_session, "HouseholdCounter", Heavier)


def lose_a_pair_row(patch):
    right = tiny_households.to_pair_rows

    def without_the_last(tables, domain, rows):
        return Dataset(domain, right(tables, domain, rows).codes[:, :-1])

    audit_run._coded_pairs.cache_clear()
    patch.setattr(tiny_households, "to_pair_rows", without_the_last)


def order_members_by_the_file(patch):
    audit_run._coded_pairs.cache_clear()
    patch.setattr(key_links, "_ranks", lambda keys: np.arange(len(keys)))


def write_floats_as_arrow_does(patch):
    """Ten digits and more are then written as 1.0000000001e+10."""
    audit_run._coded_pairs.cache_clear()
    patch.setattr(stored_texts, "_float_texts", lambda values: values.cast(pa.string()))


def identify_persons_by_their_stored_text(patch):
    def stored(values, _what):
        return values.cast(pa.string())

    audit_run._coded_pairs.cache_clear()
    patch.setattr(unit_hashes, "identifier_texts", stored)


FAULTS = {
    "half of a squared L2 norm": (
        half(CellSums, L2_SQUARED),
        "modips",
        ROWS[1:] * 8,
        "cell-sums",
    ),
    "half of an L1 norm": (half(CellSums, L1), "modips", ROWS[1:] * 8, "cell-sums"),
    "half of a gradient": (
        half(ClassGradient, L2_SQUARED),
        "sequential-regression",
        ROWS,
        "class-gradient",
    ),
    "half of the length limit": (
        half(SecondMoments, L2_SQUARED),
        "declared analyses",
        ROWS,
        "second-moments",
    ),
    "half of the reach of a sum": (
        half(LimitedSums, L2_SQUARED),
        "declared statistics",
        ROWS,
        "limited-sums",
    ),
    "half of the change of a score": (half_of_the_change(InDif), "privsyn", ROWS, "indif"),
    "half of the change of a choice": (
        half_of_the_change(TableDistance),
        "aim",
        ROWS[1:],
        "table-distance",
    ),
    "a person as one row": (forget_the_person, "fdh", PERSONS, "table"),
    "a statistic of a person as of one row": (forget_the_person, "modips", PERSONS, "cell-sums"),
    "a replaced row as an added one": (forget_the_two, "fdh", ROWS[1:], "table"),
    "a person's urn as a row's": (
        forget_the_person_of_an_urn,
        "multinomial-dirichlet",
        PERSONS,
        "drawn-cells",
    ),
    "half of the draws": (count_half_of_the_draws, "pegs", ROWS, "drawn-records"),
    "too low a threshold": (too_low_a_threshold, "sba", ROWS, "sparse-table"),
    "half of the noise": (half_of_the_noise, "fdh", ROWS, "another scale"),
    "rows above the limit": (keep_all_rows, "fdh", PERSONS, "above the limit"),
    "a question without a charge": (look_for_free, "fdh", ROWS[:1], "without a charge"),
    "a household as one share": (
        count_a_household_as_one_share,
        "linked tables",
        HOUSEHOLDS,
        "table (",
    ),
    "an interaction of a household as of one share": (
        count_a_household_as_one_share,
        "linked tables, interactions",
        HOUSEHOLDS,
        "interaction (",
    ),
    "a choice of a household as of one share": (
        count_a_household_as_one_share,
        "linked tables, forest of pairs",
        HOUSEHOLDS,
        "table-distance (private choice",
    ),
    "half of the change of a score of pair rows": (
        half_of_the_change(InDif),
        "linked tables",
        HOUSEHOLDS[:1] * 4,
        "indif",
    ),
    "pair rows that weigh a household each": (
        weigh_every_pair_row_like_a_household,
        "linked tables",
        HOUSEHOLDS[:1],
        "table (",
    ),
    "a lost pair row": (lose_a_pair_row, "linked tables", HOUSEHOLDS[:1], "pair rows"),
    "codes that depend on how a column is stored": (
        write_floats_as_arrow_does,
        "fdh",
        ROWS[:1],
        "A generated row is refused: 3 rows: sex",
    ),
    "identifiers that depend on how a column is stored": (
        identify_persons_by_their_stored_text,
        "fdh",
        PERSONS,
        "rows of other units became other codes",
    ),
    "members in the order of the file": (
        order_members_by_the_file,
        "linked tables",
        HOUSEHOLDS[:1],
        "rows of other units became other codes",
    ),
    "the number of households without a charge": (
        look_for_free,
        "linked tables",
        HOUSEHOLDS[:1],
        "without a charge",
    ),
}


ALWAYS = (
    "half of a squared L2 norm",
    "half of the change of a score",
    "a person as one row",
    "a replaced row as an added one",
    "a household as one share",
    "pair rows that weigh a household each",
    "a lost pair row",
    "codes that depend on how a column is stored",
    "identifiers that depend on how a column is stored",
)


@pytest.mark.parametrize("fault", some(FAULTS, lambda fault: fault in ALWAYS))
def test_a_planted_fault_is_found(fault, monkeypatch):
    plant, method, units, told = FAULTS[fault]
    plant(monkeypatch)
    # Without the audit, the curator refuses most of them itself, by what receipts describe.
    monkeypatch.setattr(kernel_module, "require_calibrated", lambda *_: None)
    try:
        findings = audited([method], units)
    finally:
        audit_run._coded_pairs.cache_clear()
    assert [sentence for sentence in findings.violations if told in sentence]
    assert not findings.passed


def rows_chosen_by_how_they_are_stored(patch):
    kinds = []
    add, orders = PersonRecords.add, person_records.orders

    def noted(self, records, wave=None):
        kinds.append(len(str(records.column("age").type)))
        add(self, records, wave)

    patch.setattr(PersonRecords, "add", noted)
    by_type = lambda persons, codes: orders(persons + np.uint64(kinds[-1]), codes)  # noqa: E731
    patch.setattr(person_records, "orders", by_type)


def rows_chosen_by_their_place_among_all_rows(patch):
    scattered = lambda persons, _codes: np.arange(len(persons)) * 7919 % 1009  # noqa: E731
    patch.setattr(person_records, "orders", scattered)


def absent_persons_with_the_value_of_another(patch):
    """A row of another person stands where a person has no row in a wave."""
    column = PersonRecords._column

    class Filled:
        def __init__(self, values):
            self.values = values

        def __getattr__(self, name):
            return getattr(self.values, name)

        def take(self, places):
            return self.values.take(places.fill_null(0))

    patch.setattr(PersonRecords, "_column", lambda *given: Filled(column(*given)))


PANEL_FAULTS = {
    rows_chosen_by_how_they_are_stored: {"repeated: keep_one", "everyone: true"},
    rows_chosen_by_their_place_among_all_rows: {"repeated: keep_one", "everyone: true"},
    absent_persons_with_the_value_of_another: {"repeated: keep_one", "repeated: reject"},
}


def test_panels_are_sound():
    assert audit_run.broken_panels() == []


@pytest.mark.parametrize("plant", PANEL_FAULTS)
def test_a_record_that_depends_on_another_person_is_found(plant, monkeypatch):
    """By an audit of any method, because all have the same records."""
    plant(monkeypatch)
    for units in (ROWS[:1], ROWS[1:]):
        found = audited(["fdh"], units).violations
        told = [said for said in found if "rows of other units became other codes" in said]
        assert {said.partition(";")[0] for said in told} == PANEL_FAULTS[plant]


def test_half_of_the_change_of_the_distances_of_pairs_is_too_small(monkeypatch):
    half_of_the_change(TableDistance)(monkeypatch)
    monkeypatch.setattr(kernel_module, "require_calibrated", lambda *_: None)
    findings = audit("full", chosen=named("auto"), units=ROWS[:1])
    assert [sentence for sentence in findings.violations if "select: distances" in sentence]


ASKED_BY = {
    "binned-counts": "private bins and levels",
    "box-counts": "dpcube",
    "cell-counts": "modips",
    "cell-sums": "modips",
    "class-gradient": "sequential-regression",
    "class-minimiser": "sequential-regression, minimiser: output",
    "cosine-sums": "efpa",
    "cosine-tails": "efpa",
    "cut-deviations": "structure-first",
    "f-score": "privbayes, score: f",
    "indif": "privsyn",
    "interaction": "auto",
    "kernel-counts": "kde",
    "limited-sums": "declared statistics",
    "mutual-information": "privbayes, score: mi",
    "number-gradient": "sequential-regression",
    "products": "modips",
    "quantile": "laplace-sanitizer, bought: 2",
    "query-counts": "fourier",
    "query-distance": "mwem",
    "r-score": "privbayes",
    "scores": "declared analyses",
    "second-moments": "declared analyses",
    "signed-queries": "dualquery",
    "table-checks": "charged checks",
    "table-distance": "aim",
}
NEVER_NEAR = {"class-minimiser"}
"""Its bound is for the worst position of all records at once, twice what is found."""


def test_every_vetted_statistic_has_a_release_that_asks_it():
    assert set(ASKED_BY) == set(vetted.VETTED)


@pytest.mark.parametrize("name", some(sorted({*ASKED_BY} - NEVER_NEAR), lambda _name: False))
def test_half_of_the_bounds_of_any_statistic_is_too_small(name, monkeypatch):
    right = requests_module.bounds

    def halved(statistic, relation):
        found = right(statistic, relation)
        if name != statistic.NAME:
            return found
        return tuple(max(1, bound // 2) for bound in found)

    monkeypatch.setattr("dp_core.kernel.kernel.require_calibrated", lambda *_: None)
    monkeypatch.setattr(requests_module, "bounds", halved)
    units = ROWS if name == "mutual-information" else PERSONS
    findings = audit("full", chosen=named(ASKED_BY[name]), units=units)
    found = [sentence for sentence in findings.violations if sentence.startswith(f"{name} (")]
    assert found
    assert len(found) == len(findings.violations)  # and nothing else is


def test_an_audit_that_leaves_a_question_out_has_not_passed():
    findings = audited(["fdh"], ROWS[:1])
    assert "urn" in findings.unasked
    assert findings.passed
    findings.complete = True
    assert not findings.passed
