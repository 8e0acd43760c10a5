"""Lets every Python process of a test's installation start sooner: it is on their PYTHONPATH.

Great Expectations takes seconds of CPU to import in every run, and a plain judge applies the same
rules; a search for garbage among what is being imported takes a seventh of the time.
"""

import gc
import importlib.machinery
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

PLAIN = Path(__file__).parents[2] / "plain_judge.py"
JUDGING = {"tasks.validation.expectations", "tasks.validation.judged_sets"}


class WithoutGreatExpectations(MetaPathFinder):
    """Changes the modules that judge as soon as they are imported."""

    def __init__(self) -> None:
        self._left = set(JUDGING)

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._left:
            return None
        self._left.remove(name)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            module.SuiteJudge = plain_judge()  # type: ignore[attr-defined]

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def plain_judge() -> object:
    """Return the class of `tests/plain_judge.py`, which no installation contains."""
    spec = importlib.util.spec_from_file_location("plain_judge", PLAIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.PlainJudge


# Only as an interpreter starts: pytest imports this file too, for its doctests.
if __name__ == "sitecustomize":
    gc.set_threshold(20_000, 20, 20)
    sys.meta_path.insert(0, WithoutGreatExpectations())
