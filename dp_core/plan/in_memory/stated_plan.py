"""The plan of a release in memory, from the keys of a spec with plain values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dp_core.plan.plan import Plan
from dp_core.plan.reading.prior_reader import FindPrior, no_prior
from dp_core.plan.reading.spec_file import read_plan
from dp_core.schema.definition import Schema
from dp_core.text.documents.node import from_plain

NAME = "in-memory"
"""Name of a release in memory: of the release, its data and its account in the plan's document."""
_FIXED = {"version": 1, "release": NAME, "data": NAME, "schema": NAME, "account": NAME}


def memory_plan(schema: Schema, stated: Mapping[str, Any], *, prior: FindPrior = no_prior) -> Plan:
    """Return the plan of a release in memory; it is that of a spec file with the same keys.

    Args:
        schema: Schema of the release.
        stated: Keys of a spec with plain values, without those that name files and an account.

        prior: Reads the public records if `stated` has the key `prior`; by default the key is
            refused.

    Raises:
        BadInput: for any mistake, with its key, and what is expected there.
    """
    fixed: dict[str, Any] = dict(_FIXED)
    if schema.linked is not None:
        names = (schema.linked.households, schema.linked.persons)
        fixed["data"] = {name: f"{NAME}, {name}" for name in names}
    if schema.panel is not None and schema.panel.wave is None:
        fixed["data"] = {wave: f"{NAME}, {wave}" for wave in schema.panel.waves}
    root = from_plain({**fixed, **stated}, source="release")
    return read_plan(root, Path(), schema=schema, find_prior=prior)
