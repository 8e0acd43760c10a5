"""What a release of files with `within` may not ask is refused with one sentence."""

from __future__ import annotations

import pytest

from dp_core.errors import BadInput
from dp_core.plan.presets import PRESETS
from tests.specs import plan_of, write_spec

SCHEMA = """\
version: 1
title: Small survey
unit: row
rows_about: 1000
columns:
  region: {type: category, levels: [x, y]}
  county: {type: category, levels: [r, s, t], within: region, map: {r: x, s: x, t: y}}
  age:    {type: integer, min: 0, max: 99, bins: 4}
"""


def read(folder, text="synthesize: {sets: 2}\n", method="auto"):
    return write_spec(folder, text, schema=SCHEMA, method=method)


def refused(folder, text="synthesize: {sets: 2}\n", method="auto"):
    with pytest.raises(BadInput) as found:
        read(folder, text, method)
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
@pytest.mark.parametrize("option", ["shrink: false", "together: false", "most_cells: 100"])
def test_an_option_that_no_set_of_such_a_file_uses_is_refused(tmp_path, mode, option):
    text = f"synthesize: {{sets: 2, mode: {mode}}}\nreconstruct: {{{option}}}\n"
    message = refused(tmp_path, text)
    assert f"reconstruct.{option.split(':')[0]}: has no effect on these sets" in message
    assert "mode" not in message.split("has no effect")[1]


@pytest.mark.parametrize("mode", ["split", "noise-aware"])
def test_other_modes_are_refused(tmp_path, mode):
    message = refused(tmp_path, f"synthesize: {{sets: 2, mode: {mode}}}\n")
    assert f"{mode!r} is not a mode of files with `within`; write posterior or shared" in message


@pytest.mark.parametrize("mode", ["posterior", "shared"])
def test_posterior_and_shared_sets_are_planned(tmp_path, mode):
    plan = plan_of(
        tmp_path, f"synthesize: {{sets: 2, mode: {mode}}}\n", schema=SCHEMA, method="auto"
    )
    assert plan.spec.mode == mode


def test_a_wanted_table_has_one_level_of_the_areas(tmp_path):
    message = refused(tmp_path, "tables:\n  - {of: [county, region, age]}\n")
    assert "'county' lies within 'region' and decides it; remove 'region'" in message
    assert read(tmp_path, "tables:\n  - {of: [county, age]}\n").schema.nested is not None


def test_everything_that_is_not_supported_is_told_at_once(tmp_path):
    text = (
        "tables:\n  - {of: [county, region]}\n  - {of: [county, agee]}\n"
        "reconstruct: {method: pgm, shrink: false, smoothing: 1, cleared: no}\n"
        'analyses: ["age ~ county"]\nsynthesize: {sets: 2, mode: split, rows: 41}\n'
    )
    totals = "totals:\n  - {region: {x: 20, y: 22}, source: Census}\n"
    with pytest.raises(BadInput) as found:
        write_spec(tmp_path, text, schema=SCHEMA + totals, method="privsyn")
    assert {fault.key for fault in found.value.faults} == {
        "method",
        "tables[1].of",
        "tables[2].of[2]",
        "reconstruct.method",
        "reconstruct.shrink",
        "reconstruct.smoothing",
        "analyses",
        "synthesize.mode",
        "synthesize.rows",
    }
