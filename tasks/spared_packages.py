"""Packages that gather names from all over themselves, loaded name by name.

To import one module of such a package runs its `__init__`, and so all that it gathers: of Great
Expectations 470 modules and most of SciPy, several seconds of CPU, where a few dozen are needed. A
package that is spared is there at once and empty; a name is looked for where its `__init__` would
have taken it from. What is not found so runs the whole `__init__`: nothing is ever missing, only
later.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

Origin = tuple[str, str]
"""A module, and the name it knows something by."""


class SparedPackages(MetaPathFinder):
    """Finds packages as any others, and lets them begin empty.

    Args:
        gathering: Packages whose names are looked up one by one.
        registering: Packages whose `__init__` does more than gather, with what they are to hold
            before it runs. It runs when any other name is asked of them.
    """

    def __init__(
        self, gathering: Collection[str], registering: Mapping[str, Mapping[str, object]]
    ) -> None:
        self._gathering = frozenset(gathering)
        self._registering = registering

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the package is and how it begins; nothing of other modules."""
        if fullname not in self._gathering and fullname not in self._registering:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, InspectLoader):
            return spec
        spec.loader = _Beginning(spec.loader, self._registering.get(fullname))
        return spec

    def install(self) -> None:
        """Spare these packages in this process, unless one is there already."""
        here = self._gathering | self._registering.keys()
        if self not in sys.meta_path and not here & sys.modules.keys():
            sys.meta_path.insert(0, self)


class _Beginning(Loader):
    """Makes a package without running its `__init__`, which its first unknown name runs."""

    def __init__(self, whole: InspectLoader, given: Mapping[str, object] | None) -> None:
        self._whole = whole
        self._given = given

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._whole.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        origins: Mapping[str, Origin] = {}
        if self._given is None:
            origins = gathered(self._whole.get_source(name) or "", name)
        else:
            module.__dict__.update(self._given)

        def look_up(wanted: str) -> object:
            if wanted in origins:
                source, known_as = origins[wanted]
                holder = import_module(source)
                found = getattr(holder, known_as, None)
                if found is None:
                    found = import_module(f"{source}.{known_as}")
                module.__dict__[wanted] = found
                return found
            # What the machinery of imports asks of every module, but not what `import *` does.
            if wanted.startswith("__") and wanted != "__all__":
                raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
            if module.__dict__.pop("__getattr__", None) is not None:
                self._whole.exec_module(module)
            try:
                return module.__dict__[wanted]
            except KeyError:
                raise AttributeError(f"module {name!r} has no attribute {wanted!r}") from None

        module.__dict__["__getattr__"] = look_up


def gathered(source: str, package: str) -> dict[str, Origin]:
    """Return where the `__init__` of a package takes its names from; of `import *` nothing.

    Args:
        source: The text of the `__init__`.
        package: The package's full name.
    """
    found: dict[str, Origin] = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        above = package.rsplit(".", node.level - 1)[0] if node.level else ""
        holder = ".".join(part for part in (above, node.module or "") if part)
        if holder == package:
            continue  # its own modules: the machinery finds those
        found |= {each.asname or each.name: (holder, each.name) for each in node.names}
    found.pop("*", None)
    return found
