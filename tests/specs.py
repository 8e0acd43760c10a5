"""Small specs and their plans, from YAML texts as a person writes them."""

from __future__ import annotations

from pathlib import Path

from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.reading.spec_file import load_spec
from dp_core.plan.release_spec import ReleaseSpec

SCHEMA = """\
version: 1
title: Small survey
unit: row
rows_about: 1000
columns:
  a: {type: category, levels: [x, y]}
  b: {type: category, levels: [r, s, t]}
  c: {type: category, levels: [k, l, m, n]}
"""

FIXED = "select: {method: fixed, cliques: [[a, b], [b, c]]}\n"


def write_spec(
    folder: Path,
    text: str = FIXED,
    *,
    schema: str = SCHEMA,
    privacy: str = "{epsilon: 1}",
    method: str = "fixed",
    release: str = "first",
    account: str = "town",
) -> ReleaseSpec:
    """Return the spec that `text` completes, read from files in `folder`."""
    folder.mkdir(exist_ok=True)
    (folder / "schema.yaml").write_text(schema)
    path = folder / f"{release}.yaml"
    if "synthesize:" not in text:
        # Most tests are about one set, which is quick.
        text = f"{text.rstrip()}\nsynthesize: {{sets: 1}}\n"
    path.write_text(
        f"version: 1\nrelease: {release}\ndata: data.csv\nschema: schema.yaml\n"
        f"account: {account}\nprivacy: {privacy}\nmethod: {method}\n{text}"
    )
    return load_spec(path)


def plan_of(folder: Path, text: str = FIXED, **changes: str) -> Plan:
    """Return the plan of `write_spec`."""
    return make_plan(write_spec(folder, text, **changes))
