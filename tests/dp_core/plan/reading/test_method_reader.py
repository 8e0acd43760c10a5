"""Which methods and options of a spec do not go with a mode or with a kind of file."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.gum import Gum
from dp_core.plan.plan import make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.procedure import carry_out, sample
from tests.specs import FIXED, plan_of, write_spec

AWARE = "synthesize: {sets: %d, mode: %s}\n"
DEFAULT_MODE = "synthesize: {seed: 1}\n"


def spec_of(tmp_path, text=FIXED, *, sets=5, mode="posterior", **changes):
    return write_spec(tmp_path, text + AWARE % (sets, mode), **changes)


def test_one_posterior_set_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"synthesize\.mode: .*sets: 5"):
        spec_of(tmp_path, sets=1)
    assert spec_of(tmp_path, sets=2).sets == 2
    assert spec_of(tmp_path, sets=1, mode="shared").sets == 1


def test_noise_of_what_a_threshold_kept_is_not_drawn_again(tmp_path):
    kept = {"method": "sba", "privacy": "{epsilon: 1, delta: 1e-6}"}
    with pytest.raises(BadInput, match=r"synthesize\.mode: posterior sets.*sba.*split"):
        spec_of(tmp_path, "", **kept)
    assert spec_of(tmp_path, "", mode="split", **kept).mode == "split"


def test_noise_aware_is_another_word_for_posterior(tmp_path):
    for method in ("auto", "fixed", "privsyn"):
        text, read = FIXED if method == "fixed" else "", []
        for mode in ("noise-aware", "posterior"):
            stated = f"{text}synthesize: {{mode: {mode}}}\n"
            read.append(write_spec(tmp_path, stated, method=method).document)
        assert read[0] == read[1]
        assert read[0]["synthesize"]["mode"] == "posterior"
    with pytest.raises(BadInput, match="'noise-aware' is not one of split, shared"):
        spec_of(tmp_path, "", mode="noise-aware", method="modips")


OF_TABLES = ("fdh", "cipher", "steps")


@pytest.mark.parametrize("method", OF_TABLES)
def test_posterior_sets_of_presets_whose_tables_inform_all_pairs(tmp_path, method):
    privacy = "{epsilon: 2, delta: 1e-6}"
    spec = spec_of(tmp_path, "", sets=2, method=method, privacy=privacy)
    made_by = "auto" if method == "steps" else "gum"
    assert spec.document["reconstruct"]["method"] == made_by
    if made_by == "gum":
        assert spec.reconstructor == Gum(implied=False)

    plan, rng = make_plan(spec), np.random.default_rng(1)
    domain = plan.spec.schema.domain
    codes = np.stack([rng.integers(0, size, 1000) for size in domain.sizes]).astype(np.uint16)
    outcome = carry_out(plan, MemoryCounter(Dataset(domain, codes)))

    assert sorted(outcome.models) == [0, 1, 2]
    one, other = (sample(plan, outcome.models, number) for number in (1, 2))
    assert one.rows == pytest.approx(1000, abs=100)
    assert not np.array_equal(one.codes, other.codes)


@pytest.mark.parametrize("method", ["independent", "mst", "aim", "mwem-pgm", "privbayes"])
def test_posterior_sets_are_refused_where_nothing_is_known_of_most_pairs(tmp_path, method):
    more = {"method": method, "privacy": "{epsilon: 2, delta: 1e-6}"}
    text = "reconstruct: {method: auto}\n"
    with pytest.raises(BadInput, match=r"synthesize\.mode: .* so there are no posterior sets"):
        spec_of(tmp_path, text, **more)
    assert write_spec(tmp_path, text, **more).mode == "shared"


def test_stated_tables_of_single_columns_make_no_posterior_sets(tmp_path):
    alone = "select: {cliques: [[a], [b]]}\n"
    with pytest.raises(BadInput, match="fixed measures no pair of columns"):
        spec_of(tmp_path, alone)
    assert write_spec(tmp_path, alone, method="fixed").mode == "shared"


def test_a_stated_reconstruction_that_makes_no_posterior_sets_is_refused(tmp_path):
    for method in ("pgm", "independent"):
        with pytest.raises(BadInput, match=rf"{method} does not make; remove reconstruct\.method"):
            spec_of(tmp_path, f"{FIXED}reconstruct: {{method: {method}}}\n")
    with pytest.raises(BadInput, match=r"mwem gives single numbers.*use mode: split"):
        spec_of(tmp_path, "", method="mwem")


@pytest.mark.parametrize("mode", ["seed: 1", "mode: posterior"])
@pytest.mark.parametrize(
    "stated",
    [
        *("method: gum, shrink: true", "rounds: 3, method: gum, shrink: false"),
    ],
)
def test_an_option_without_effect_on_posterior_sets_is_refused(tmp_path, stated, mode):
    text = f"reconstruct: {{{stated}}}\nsynthesize: {{{mode}}}\n"
    option = stated.split(", ")[-1].split(":")[0]
    with pytest.raises(BadInput, match=rf"reconstruct\.{option}: has no effect on posterior sets"):
        write_spec(tmp_path, text, method="privsyn")

    assert write_spec(tmp_path, text.replace(mode, "mode: shared"), method="privsyn").sets == 1


@pytest.mark.parametrize("method", ["gum", "pgm"])
def test_interactions_need_shrinkage(tmp_path, method):
    text = f"reconstruct: {{method: {method}, shrink: false}}\nsynthesize: {{mode: shared}}\n"
    with pytest.raises(BadInput, match=f"interactions.*{method} cannot use without .* remove shr"):
        write_spec(tmp_path, text, method="auto")


def test_options_of_drawing_records_hold_for_posterior_sets(tmp_path):
    stated = "rounds: 3, sweeps: 1"
    spec = write_spec(
        tmp_path, f"reconstruct: {{method: gum, {stated}}}\n{DEFAULT_MODE}", method="auto"
    )

    wanted = Gum(rounds=3, sweeps=1, implied=False)
    assert (spec.mode, spec.reconstructor) == ("posterior", wanted)


def test_a_trial_refuses_them_as_well():
    domain = Domain(("a", "b"), (2, 3))
    with pytest.raises(BadInput, match=r"reconstruct\.shrink: has no effect on posterior sets"):
        trial_plan(
            *(domain, "auto", Fraction(1)),
            sets=2,
            mode="posterior",
            reconstruct={"method": "gum", "shrink": True},
        )


# -- files with `within`

WITHIN = """\
version: 1
title: Small survey
unit: row
rows_about: 1000
columns:
  region: {type: category, levels: [x, y]}
  county: {type: category, levels: [r, s, t], within: region, map: {r: x, s: x, t: y}}
  age:    {type: integer, min: 0, max: 99, bins: 4}
"""


def read_nested(folder, text="synthesize: {sets: 2}\n", method="auto"):
    return write_spec(folder, text, schema=WITHIN, method=method)


def refused(folder, text="synthesize: {sets: 2}\n", method="auto"):
    with pytest.raises(BadInput) as found:
        read_nested(folder, text, method)
    message = str(found.value)
    assert "faults" not in message
    return message


@pytest.mark.parametrize("method", [name for name in PRESETS if name != "auto"])
def test_every_other_method_is_refused(tmp_path, method):
    message = refused(tmp_path, method=method)
    assert f"{method!r} cannot release files with `within` yet; write auto" in message


@pytest.mark.parametrize(
    ("stage", "other"), [("select", "densemarg"), ("reconstruct", "gum"), ("reconstruct", "pgm")]
)
def test_another_method_of_a_stage_is_refused(tmp_path, stage, other):
    message = refused(tmp_path, f"{stage}: {{method: {other}}}\n")
    assert f"{stage}.method" in message
    assert "cannot release files with `within`" in message


@pytest.mark.parametrize("mode", ["shared", "posterior"])
def test_an_option_that_no_set_of_such_a_file_uses_is_refused(tmp_path, mode):
    text = f"synthesize: {{sets: 2, mode: {mode}}}\nreconstruct: {{shrink: false}}\n"
    message = refused(tmp_path, text)
    assert "reconstruct: there is no key 'shrink' here, and auto has no option" in message


def test_split_sets_are_refused(tmp_path):
    message = refused(tmp_path, "synthesize: {sets: 2, mode: split}\n")
    assert "'split' is not a mode of files with `within`; write posterior or shared" in message


@pytest.mark.parametrize("mode", ["posterior", "noise-aware", "shared"])
def test_posterior_and_shared_sets_are_planned(tmp_path, mode):
    plan = plan_of(
        tmp_path, f"synthesize: {{sets: 2, mode: {mode}}}\n", schema=WITHIN, method="auto"
    )
    assert plan.spec.mode == ("shared" if mode == "shared" else "posterior")


def test_a_wanted_table_has_one_level_of_the_areas(tmp_path):
    message = refused(tmp_path, "tables:\n  - {of: [county, region, age]}\n")
    assert "'county' lies within 'region' and decides it; remove 'region'" in message
    assert read_nested(tmp_path, "tables:\n  - {of: [county, age]}\n").schema.nested is not None


def test_everything_that_is_not_supported_is_told_at_once(tmp_path):
    text = (
        "tables:\n  - {of: [county, region]}\n  - {of: [county, agee]}\n"
        "reconstruct: {method: pgm, shrink: false, smoothing: 1}\n"
        'analyses: ["age ~ county"]\nsynthesize: {sets: 2, mode: split, rows: 41}\n'
    )
    totals = "totals:\n  - {region: {x: 20, y: 22}, source: Census}\n"
    with pytest.raises(BadInput) as found:
        write_spec(tmp_path, text, schema=WITHIN + totals, method="privsyn")
    assert {fault.key for fault in found.value.faults} == {
        "method",
        "tables[1].of",
        "tables[2].of[2]",
        "reconstruct.method",
        "analyses",
        "synthesize.mode",
        "synthesize.rows",
    }
