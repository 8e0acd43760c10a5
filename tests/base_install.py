"""Runs a script as if only the base of the program were installed, without the extra `pipeline`."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

_BLOCK = """
import json, sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

MISSING = frozenset(json.loads(sys.argv.pop(1)))
for name in [each for each in sys.modules if each.partition(".")[0] in MISSING]:
    del sys.modules[name]
sys.meta_path.insert(0, Missing())
"""


def with_dependencies(wanted: list[str]) -> set[str]:
    """Return the distributions that an installer adds for some requirements, all that they need."""
    found: set[str] = set()
    open_ones = [(Requirement(each), "") for each in wanted]
    while open_ones:
        asked, extra = open_ones.pop()
        if asked.marker is not None and not asked.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(asked.name)
        for wish in {"", *asked.extras}:
            if f"{name}[{wish}]" in found:
                continue
            found.add(f"{name}[{wish}]")
            try:
                needed = requires(name) or []
            except PackageNotFoundError:
                needed = []  # for another system or an older Python
            open_ones += [(Requirement(each), wish) for each in needed]
    return {each.partition("[")[0] for each in found}


@cache
def not_in_the_base() -> frozenset[str]:
    """Return every module that is installed here and not with the base alone."""
    base = with_dependencies(PROJECT["dependencies"])
    ours = {"dp_core", "tasks", "flows"}
    return frozenset(
        module
        for module, owners in packages_distributions().items()
        if module not in ours and not {canonicalize_name(owner) for owner in owners} & base
    )


def run(
    script: str,
    *words: object,
    missing: frozenset[str],
    environment: Mapping[str, str],
    folder: Path,
) -> subprocess.CompletedProcess[str]:
    """Run a Python script in a process in which some modules are not installed.

    Args:
        script: The script; its arguments are in `sys.argv[1:]`.
        words: Arguments.
        missing: Top-level names of the modules.
        environment: Environment variables of the process.
        folder: Its working folder.
    """
    named = json.dumps(sorted(missing))
    return subprocess.run(  # a command that waits would be one that began
        [sys.executable, "-c", _BLOCK + script, named, *map(str, words)],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
