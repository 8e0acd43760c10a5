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
from contextlib import suppress
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType

Origin = tuple[str, str]
"""A module, and the name it knows something by."""

PATIENCE = 60.0
"""Seconds that a thread waits for another that runs an `__init__`."""


class LazyPackages(MetaPathFinder):
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
        source = self._whole.get_source(module.__name__) or ""
        if self._given is None:
            origins = gathered(source, module.__name__)
        else:
            origins = {}
            module.__dict__.update(self._given)
        module.__dict__["__getattr__"] = _LookUp(module, self._whole, origins, _own(source))


class _LookUp:
    """The `__getattr__` of a module that began empty; gone when the module is whole."""

    def __init__(
        self,
        module: ModuleType,
        whole: InspectLoader,
        origins: Mapping[str, Origin],
        own: Collection[str],
    ) -> None:
        self._module = module
        self._whole = whole
        self._origins = origins
        self._own = own
        self._lock = RLock()
        self._running = False

    def __call__(self, wanted: str) -> object:
        names = self._module.__dict__
        if wanted in self._origins:
            # What is not there is the whole module's business, which may have something else.
            with suppress(ImportError, AttributeError):
                names[wanted] = _taken(*self._origins[wanted])
                return names[wanted]
        # What the machinery of imports asks of every module, but not what `import *` does.
        if not wanted.startswith("__") or wanted == "__all__" or wanted in self._own:
            self._run_whole()
        if wanted in names:
            return names[wanted]
        later = names.get("__getattr__", self)
        if later is not self:
            return later(wanted)
        raise AttributeError(f"module {self._module.__name__!r} has no attribute {wanted!r}")

    def _run_whole(self) -> None:
        """Run the module, unless that is done or this thread is about it."""
        if not self._lock.acquire(timeout=PATIENCE):
            return  # two threads that wait for each other: this one goes on with what is there
        try:
            if self._running:
                return
            self._running = True
            try:
                self._whole.exec_module(self._module)
            except BaseException:
                self._running = False  # the next one fails as clearly
                raise
            if self._module.__dict__.get("__getattr__") is self:
                del self._module.__dict__["__getattr__"]
        finally:
            self._lock.release()


def _taken(source: str, known_as: str) -> object:
    """Return something by where it comes from."""
    holder = import_module(source)
    found = getattr(holder, known_as, None)
    return import_module(f"{source}.{known_as}") if found is None else found


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


def _own(source: str) -> frozenset[str]:
    """Return the names between double underscores that a module states itself."""
    targets = [
        target
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        for target in node.targets
    ]
    return frozenset(
        target.id
        for target in targets
        if isinstance(target, ast.Name) and target.id.startswith("__")
    )
