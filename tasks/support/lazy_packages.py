"""Loads large packages lazily: a name is imported when it is first used.

Importing one module of a package runs the package's `__init__`, and thus imports all that the
`__init__` imports: for Great Expectations 470 modules and most of SciPy, several seconds of CPU
time, where a few dozen modules are needed. A package that is loaded lazily is created empty. When a
name is first used, it is imported from the module from which the `__init__` would import it. If
that fails, the whole `__init__` runs, so that no name is ever missing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from threading import RLock
from types import ModuleType

Origin = tuple[str, str]
"""A module, and a name in it."""

PATIENCE = 60.0
"""Seconds that a thread waits for another thread that runs an `__init__`."""


class LazyPackages(MetaPathFinder):
    """An import finder that loads some packages lazily.

    Args:
        gathering: Full names of packages whose `__init__` only imports names; each name is imported
            when it is first used.
        registering: Full names of packages whose `__init__` does more, with the names that they
            hold before it runs. It runs when any other name is first used.
    """

    def __init__(
        self, gathering: Collection[str], registering: Mapping[str, Mapping[str, object]]
    ) -> None:
        self._gathering = frozenset(gathering)
        self._registering = registering

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a package that is loaded lazily; None for any other module."""
        if fullname not in self._gathering and fullname not in self._registering:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, InspectLoader):
            return spec
        spec.loader = _Beginning(spec.loader, self._registering.get(fullname))
        return spec

    def install(self) -> None:
        """Load these packages lazily in this process, unless one is already imported."""
        here = self._gathering | self._registering.keys()
        if self not in sys.meta_path and not here & sys.modules.keys():
            sys.meta_path.insert(0, self)


class _Beginning(Loader):
    """Creates a package without running its `__init__`, which runs at the first unknown name."""

    def __init__(self, whole: InspectLoader, given: Mapping[str, object] | None) -> None:
        self._whole = whole
        self._given = given

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._whole.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        source = self._whole.get_source(module.__name__) or ""
        if self._given is None:
            origins = import_origins(source, module.__name__)
        else:
            origins = {}
            module.__dict__.update(self._given)
        module.__dict__["__getattr__"] = _LookUp(module, self._whole, origins, _own(source))


class _LookUp:
    """The `__getattr__` of a lazily loaded module; removed when the module is complete."""

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
            # If this fails, the whole `__init__` may still define the name.
            with suppress(ImportError, AttributeError):
                names[wanted] = _import_name(*self._origins[wanted])
                return names[wanted]
        elif not self._running and not wanted.startswith("__"):
            # A submodule is asked for while another one is being imported, which would be only half
            # there for the `__init__`. If the import fails, the `__init__` may define the name.
            name = f"{self._module.__name__}.{wanted}"
            with suppress(ImportError, AttributeError):
                if find_spec(name) is not None:
                    return import_module(name)
        # Import machinery looks up dunder names in every module; only `__all__`, which `import *`
        # needs, and the module's own ones require the `__init__`.
        if not wanted.startswith("__") or wanted == "__all__" or wanted in self._own:
            self._run_whole()
        if wanted in names:
            return names[wanted]
        later = names.get("__getattr__", self)
        if later is not self:
            return later(wanted)
        raise AttributeError(f"module {self._module.__name__!r} has no attribute {wanted!r}")

    def _run_whole(self) -> None:
        """Run the `__init__`, unless it has run or this thread is running it."""
        if not self._lock.acquire(timeout=PATIENCE):
            return  # a deadlock of two threads: this one continues with the names that exist
        try:
            if self._running:
                return
            self._running = True
            try:
                self._whole.exec_module(self._module)
            except BaseException:
                self._running = False  # the next use of a name raises the same error
                raise
            if self._module.__dict__.get("__getattr__") is self:
                del self._module.__dict__["__getattr__"]
        finally:
            self._lock.release()


def complete(name: str) -> None:
    """Run the whole `__init__` of a package, if it was loaded lazily.

    A package whose submodule and function share a name, such as `dask.delayed`, needs this before
    other libraries use it: importing the submodule alone would hide the function.

    Args:
        name: Full name of a package.
    """
    later = vars(import_module(name)).get("__getattr__")
    if isinstance(later, _LookUp):
        later._run_whole()


def _import_name(source: str, known_as: str) -> object:
    """Return an object or a submodule by its module and name."""
    holder = import_module(source)
    found = getattr(holder, known_as, None)
    return import_module(f"{source}.{known_as}") if found is None else found


def import_origins(source: str, package: str) -> dict[str, Origin]:
    """Return the origin of each name that a package's `__init__` imports, except by `import *`.

    Args:
        source: Text of the `__init__`.
        package: Full name of the package.
    """
    found: dict[str, Origin] = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        above = package.rsplit(".", node.level - 1)[0] if node.level else ""
        holder = ".".join(part for part in (above, node.module or "") if part)
        if holder == package:
            continue  # submodules of the package, which the import system finds itself
        found |= {each.asname or each.name: (holder, each.name) for each in node.names}
    found.pop("*", None)
    return found


def _own(source: str) -> frozenset[str]:
    """Return the dunder names that a module assigns itself."""
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
