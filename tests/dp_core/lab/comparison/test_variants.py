import contextlib
from fractions import Fraction

import pytest
import yaml

from dp_core.errors import BadInput
from dp_core.lab.comparison.variants import (
    plan_of_variant,
    read_given,
    reference,
    variants,
    without_place,
)
from dp_core.plan.reading.spec_file import load_spec
from tests.specs import FIXED, SCHEMA, write_spec

WIDE = SCHEMA.replace("[x, y]", f"[{', '.join(f'v{n}' for n in range(2000))}]").replace(
    "[r, s, t]", f"[{', '.join(f'w{n}' for n in range(3000))}]"
)


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def given(folder, text="", **changes):
    with contextlib.suppress(BadInput):  # the file is written, and is the test's subject
        write_spec(folder, text, **{"method": "privsyn", "privacy": "{epsilon: 1}"} | changes)
    return read_given(folder / f"{changes.get('release', 'first')}.yaml")


def labels(found):
    return [(one.label, str(one.epsilon), one.refusal is None) for one in found]


def test_methods_and_epsilons_multiply_a_spec(tmp_path, work):
    spec = given(tmp_path / "a")
    found = variants([spec], ["independent", "privsyn"], [Fraction("0.2"), Fraction(5)], work)
    assert labels(found) == [
        ("independent", "1/5", True),
        ("independent", "5", True),
        ("privsyn", "1/5", True),
        ("privsyn", "5", True),
    ]


def test_alone_a_spec_is_compared_as_it_is(tmp_path, work):
    spec = given(tmp_path / "a", FIXED, method="fixed")
    (one,) = variants([spec], [], [], work)
    assert (one.label, one.epsilon, one.refusal) == ("fixed", 1, None)
    assert one.document["select"] == load_spec(tmp_path / "a" / "first.yaml").document["select"]


def test_what_is_run_is_written_as_a_spec_that_a_release_takes(tmp_path, work):
    spec = given(tmp_path / "a", "synthesize: {sets: 5, seed: 7}\n")
    (one,) = variants([spec], ["independent"], [Fraction("0.2")], work)
    made = load_spec(one.path)
    assert (made.method, made.privacy.epsilon, made.sets, made.seed) == (
        "independent",
        Fraction(1, 5),
        5,
        7,
    )
    assert yaml.safe_load(one.path.read_text())["data"] == str(tmp_path / "a" / "data.csv")
    assert plan_of_variant(one.path, seed=9).spec.seed == 9


def test_keys_of_a_stage_stay_with_the_method_they_were_written_for(tmp_path, work):
    spec = given(tmp_path / "a", FIXED, method="fixed")
    found = variants([spec], ["fixed", "independent"], [], work)
    assert "select" in yaml.safe_load(found[0].path.read_text())
    assert "select" not in yaml.safe_load(found[1].path.read_text())


def test_wanted_tables_stay_with_the_methods_that_use_them(tmp_path, work):
    text = "tables: [{of: [a, b], weight: 2}]\nsynthesize: {sets: 0}\n"
    spec = given(tmp_path / "a", text, method="auto")
    found = variants([spec], ["auto", "fixed", "independent"], [], work)
    assert [one.refusal for one in found] == [None] * 3
    written = [yaml.safe_load(one.path.read_text()) for one in found]
    assert ["tables" in one for one in written] == [True, True, False]
    # Sets are what is compared, as many as each method makes by default.
    assert [plan_of_variant(one.path, seed=1).spec.sets for one in found] == [5, 5, 1]


def test_every_method_pays_for_the_checks_of_the_release(tmp_path, work):
    spec = given(tmp_path / "a", "checks: {share: 0.25, tables: [[a, b]]}\n")
    found = variants([spec], ["privsyn", "independent"], [], work)
    made = [*found, *reference([spec], found[:1], work)]
    assert [one.method for one in made] == ["privsyn", "independent", "independent"]
    assert {load_spec(one.path).shares["checks"] for one in made} == {Fraction(1, 4)}


def test_a_method_that_does_not_take_the_file_is_a_row_with_its_sentence(tmp_path, work):
    spec = given(tmp_path / "a", schema=WIDE)
    found = variants([spec], ["fdh", "fixed", "privsyn"], [], work)
    assert [one.refusal is None for one in found] == [False, False, True]
    assert "cells" in found[0].refusal
    assert found[0].refusal.startswith("select: ")
    assert "cliques" in found[1].refusal


@pytest.mark.parametrize(
    "changes",
    [
        {"privacy": "{epsilon: 0}"},
        {"privacy": "{epsilom: 1}"},
        {"privacy": "1"},
        {"method": "privsin"},
        {"text": "select: {rul: greedy}\n"},
        {"text": "synthesize: {sets: -1}\n"},
        {"text": "nonsense: 1\n"},
        {"text": "checks: {share: 2}\n"},
        {"method": "fixed", "text": "select: {cliques: [[a, zz]]}\n"},
        {"schema": "version: 1\n"},
        {"schema": WIDE, "method": "fdh"},
    ],
    ids=str,
)
def test_a_mistake_in_a_spec_is_the_end(tmp_path, changes):
    with pytest.raises(BadInput):
        given(tmp_path / "a", **changes)


def test_what_two_specs_share_is_run_once(tmp_path, work):
    first = given(tmp_path / "a")
    second = given(tmp_path / "a", release="second", account="other")
    third = given(tmp_path / "a", "select: {rule: greedy}\n", release="third")
    found = variants([first, second, third], ["privsyn", "independent"], [], work)
    assert labels(found) == [
        ("privsyn (first)", "1", True),
        ("independent", "1", True),
        ("privsyn (third)", "1", True),
    ]


def test_other_guarantees_are_told_apart(tmp_path, work):
    first = given(tmp_path / "a")
    second = given(tmp_path / "a", release="second", privacy="{epsilon: 1, delta: 1e-6}")
    found = variants([first, second], [], [], work)
    assert [one.label for one in found] == [
        "privsyn, delta 0, add-remove",
        "privsyn, delta 1e-06, add-remove",
    ]


def test_independence_is_added_once_for_each_guarantee(tmp_path, work):
    spec = given(tmp_path / "a")
    found = variants([spec], ["privsyn", "fixed"], [Fraction(1), Fraction(2)], work)
    added = reference([spec], found, work)
    assert labels(added) == [("independent", "1", True), ("independent", "2", True)]
    everything = variants([spec], ["independent"], [Fraction(1), Fraction(2)], work)
    assert reference([spec], everything, work) == []


def test_seeds_and_names_do_not_define_a_result(tmp_path, work):
    first = given(tmp_path / "a", "synthesize: {seed: 3}\n")
    second = given(tmp_path / "a", "synthesize: {seed: 4}\n", release="second")
    (one,), (other,) = (variants([spec], [], [], work) for spec in (first, second))
    assert one.document == other.document
    assert (one.seed, other.seed) == (3, 4)


def test_places_in_files_that_nobody_wrote_are_left_out():
    assert without_place("a-b.yaml, line 5, select: needs cliques.") == "select: needs cliques."
    assert without_place("a-b.yaml: has too little.") == "has too little."
    assert without_place("No noise gives that: raise it.") == "No noise gives that: raise it."


def test_declared_analyses_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"first\.yaml: declares analyses.*remove analyses"):
        given(tmp_path / "a", 'analyses: ["a ~ b"]\nsynthesize: {sets: 2}\n', method="auto")
