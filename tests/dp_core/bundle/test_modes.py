"""How the sets were made, and so how they are combined: what shows another claim of it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.accounts.ledger_position import Place
from dp_core.accounts.signatures import make_key, signed_message
from dp_core.bundle.statement.release_json import origin_of, statement
from dp_core.bundle.verification.charges_check import mode_contradictions, set_of
from dp_core.bundle.verification.verify import verify
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.combining_rules import OFF, inference_statement
from dp_core.kernel.canonical import digest
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.step_names import step_name, table_step
from dp_core.plan.presets import PRESETS
from dp_core.plan.procedure import carry_out
from tests.dp_core.bundle.conftest import make_published, write
from tests.dp_core.bundle.forgery import relinked, statement_of
from tests.specs import write_spec

MODES = ("shared", "split", "posterior")
BINARY = Domain(("a", "b", "c"), (2, 2, 2))

ORIGINS = {
    # Of a preset that is not named, the sets are drawn from a model of noisy numbers.
    # An even table counts in their fits; and what is negative becomes zero.
    "mwem": "pulled",
    "fourier": "pulled",
    "perturbed-histogram": "pulled",
    # Draws by counts to which virtual records were added.
    "pegs": "drawn",
    "smoothed-histogram": "drawn",
    "multinomial-dirichlet": "drawn",
    "beta-binomial": "drawn",
    # Answers to questions that the exponential mechanism drew.
    "dualquery": "chosen",
    # Cells below a threshold are lost.
    "sba": "cut",
    "sbhg": "cut",
}


def plan_of(name, mode="split"):
    options = {"fixed": {"select": {"cliques": (("a", "b"), ("b", "c"))}}}
    options["average"] = {"synthesize": {"models": ("modips", "sequential_regression")}}
    return trial_plan(
        BINARY,
        name,
        Fraction(2),
        Fraction("1e-6"),
        sets=3,
        mode=mode,
        **options.get(name, {}),
    )


def as_read(plan):
    """Return a plan as a bundle has it."""
    return json.loads(json.dumps(plan))


def document_of(name):
    return as_read({"spec": {"synthesize": {}, **plan_of(name).spec.document}})


# -- what is honest


@pytest.mark.parametrize("name", PRESETS)
def test_only_sets_of_a_model_of_noisy_numbers_are_honest(name):
    origin = origin_of(document_of(name))
    assert origin == ORIGINS.get(name, "modelled")
    stated, honest = inference_statement("split", 3, origin=origin), name not in ORIGINS
    assert stated["includes_noise"] == honest
    assert stated["covers"] == (
        inference_statement("split", 3)["covers"] if honest else f"Nothing: {OFF[origin]}"
    )


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("synthesize: {mode: split, sets: 3}\n", "pulled"),
        ("synthesize: {mode: split, sets: 3}\nreconstruct: {prior: 1}\n", "modelled"),
        ("synthesize: {mode: split, sets: 3}\nreconstruct: {updates: steps, prior: 1}\n", "pulled"),
        ("synthesize: {mode: split, sets: 3}\nreconstruct: {method: absent}\n", "unknown"),
    ],
)
def test_without_its_pull_weighting_is_honest(tmp_path, text, origin):
    known = text.replace("absent", "linear_program")
    document = as_read({"spec": write_spec(tmp_path, known, method="mwem").document})
    if known != text:
        document["spec"]["reconstruct"]["method"] = "absent"
    assert origin_of(document) == origin


def test_a_method_that_is_not_known_is_not_called_honest():
    for spec in ({"synthesize": {"method": "x"}}, {"synthesize": {}, "select": {"method": "x"}}):
        assert origin_of({"spec": spec}) == "unknown"


@pytest.mark.parametrize(
    ("select", "origin"), [("dualquery", "chosen"), ("pegs", "drawn"), ("sba", "cut")]
)
def test_statement_and_report_say_why_no_interval_is_honest(tmp_path, select, origin):
    published, data = make_published(mode="split", select=select)
    assert statement(published, {})["inference"]["includes_noise"] is False
    page = write(tmp_path / "out", published, data, tmp_path / "files") / "report.html"
    assert OFF[origin] in " ".join(page.read_text().split())
    honest, _ = make_published(mode="split")
    assert statement(honest, {})["inference"]["includes_noise"] is True


# -- what the receipts show


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Bundles of three sets, one of each mode, whose last receipt is signed."""
    folder = tmp_path_factory.mktemp("modes")
    key = make_key(folder / "ledger")
    made = {}
    for mode in MODES:
        published, data = make_published(mode=mode, sets=3)
        signature = key.sign(signed_message(published.head, "c" * 64))
        place = Place(link="c" * 64, public_key=key.public, signature=signature)
        published = dataclasses.replace(published, place=place)
        made[mode] = write(folder / mode, published, data, folder / f"of {mode}")
    return made


def relabel(folder: Path, mode: str, *, reserved: bool) -> dict[str, str]:
    """Say that sets were made in another mode, all hashes made to fit, and return what fails."""
    document = statement_of(folder)
    plan = document["method"]["plan"]
    plan["spec"]["synthesize"]["mode"] = document["sets"]["mode"] = mode
    document["method"]["plan_sha256"] = digest(plan)
    body = document["ledger"]["receipts"][0]["body"]
    body["plan"] = digest(plan)
    if reserved:
        body["mode"] = mode
    document["inference"] = inference_statement(mode, 3)
    return relinked(folder, document)


@pytest.mark.parametrize("mode", MODES)
def test_a_bundle_of_each_mode_verifies(bundles, mode):
    assert verify(bundles[mode]).passed


@pytest.mark.parametrize("reserved", [False, True])
@pytest.mark.parametrize(
    ("made", "told"), [(made, told) for made in MODES for told in MODES if told != made]
)
def test_sets_made_otherwise_than_is_told_show(bundles, tmp_path, made, told, reserved):
    folder = Path(shutil.copytree(bundles[made], tmp_path / "copy"))
    found = relabel(folder, told, reserved=reserved)
    # What the ledger signed, in any case: the reservation has the mode.
    assert "signature" in found
    if not reserved:
        assert "in another mode than was reserved" in found["charges"]
    if "split" in (made, told):
        own = "lacks measurements of its own" if told == "split" else "has measurements of"
        assert own in found["charges"]


def test_a_reservation_that_does_not_say_how_sets_are_made_is_none(bundles, tmp_path):
    folder = Path(shutil.copytree(bundles["split"], tmp_path / "copy"))
    document = statement_of(folder)
    del document["ledger"]["receipts"][0]["body"]["mode"]
    assert "missing 'mode'" in relinked(folder, document)["charges"]


def steps(*places):
    return [(stage, table_step(("a",), number)) for stage, number in places]


@pytest.mark.parametrize(
    ("mode", "charged", "words"),
    [
        ("split", steps(("measure", 1), ("measure", 2)), None),
        ("split", steps(("select", 0), ("measure", 1), ("measure", 2)), None),
        # A choice for all sets is made once, and bears the first one's number.
        ("split", steps(("select", 1), ("measure", 1), ("measure", 2)), None),
        ("split", steps(("select", 1), ("select", 2)), None),
        ("split", steps(("select", 1), ("measure", 1)), "Set 2 lacks"),
        ("split", steps(("select", 1), ("select", 2), ("measure", 1)), "Set 2 lacks"),
        ("split", steps(("one_way", 1), ("measure", 1), ("measure", 2)), "Set 2 lacks"),
        ("split", steps(("measure", 0)), "serves all sets"),
        ("split", steps(("total", 0), ("measure", 1), ("measure", 2)), "serves all sets"),
        ("split", steps(("select", 0)), "Set 1 lacks"),
        ("split", steps(("measure", 1), ("measure", 2), ("measure", 3)), "Set 3 was measured"),
        ("split", [], "Set 1 lacks"),
        ("shared", steps(("one_way", 0), ("select", 0), ("measure", 0)), None),
        ("shared", steps(("one_way", 0), ("measure", 1)), "Set 1 has measurements of its own"),
        ("posterior", steps(("measure", 0)), None),
        ("posterior", steps(("measure", 2)), "Set 2 has measurements of its own"),
    ],
)
def test_charges_tell_how_sets_were_made(mode, charged, words):
    found = " ".join(mode_contradictions(mode, 2, charged))
    assert (words in found) if words else not found


@pytest.mark.parametrize("mode", ["shared", "split"])
@pytest.mark.parametrize("name", PRESETS)
def test_what_every_preset_is_charged_for_shows_its_mode(name, mode):
    rng = np.random.default_rng(3)
    data = Dataset(BINARY, rng.integers(0, 2, (3, 800)).astype(np.uint16))
    outcome = carry_out(plan_of(name, mode), MemoryCounter(data))
    charged = [(grant.step.stage, grant.step.name) for grant in outcome.session.charges]
    assert mode_contradictions(mode, 3, charged) == []
    other = "split" if mode == "shared" else "posterior"
    assert mode_contradictions(other, 3, charged)


@pytest.mark.parametrize("number", [0, 1, 12])
@pytest.mark.parametrize("name", ["age", "set 3: age", "rows", "round 2: age", "a x b"])
def test_the_set_of_a_step_is_read_from_its_name(name, number):
    assert set_of(table_step((name,), number, 2)) == number
    assert set_of(step_name("indif", number, 0)) == number
