import importlib
import pkgutil

from prefect import Task

import tasks.stages
from dp_core.policies.stage_grant import PAYS
from tasks.run.stage_table import CONFIDENTIAL_STAGES, STAGE_NAMES, stages_from, stages_of


def test_every_stage_has_a_row_and_every_row_a_stage():
    made = set()
    for module in pkgutil.iter_modules(tasks.stages.__path__):
        found = vars(importlib.import_module(f"tasks.stages.{module.name}")).values()
        made |= {each.name for each in found if isinstance(each, Task)}
    assert made == {*STAGE_NAMES, "identify"}


def test_a_stage_with_a_grant_looks_at_the_data():
    assert {*PAYS} < {*CONFIDENTIAL_STAGES}


def test_a_release_has_the_stages_that_it_needs():
    paid = ("total", "one_way", "select", "measure")
    assert stages_of(paid) == (
        *("validate", "discretize", "count", "basics", "select", "measure"),
        *("reconstruct", "synthesize", "check", "publish"),
    )
    assert stages_of(paid, 0)[-2:] == ("measure", "publish")
    assert {*stages_of((*paid, "domain", "analyses"))} == {*STAGE_NAMES} - {"reuse"}
    reused = ("reuse", "reconstruct", "synthesize", "check", "publish")
    assert stages_of(paid, reuses=True) == reused


def test_a_stage_is_repeated_with_those_that_use_its_result():
    assert stages_from("reconstruct") == ("reconstruct", "synthesize", "check")
    assert stages_from("synthesize") == ("synthesize", "check")
