"""What a method must have to be found, and to be called as its family's protocol says."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
from typing import Any, get_args

import pytest

from dp_core.client.released import ReleasedKind
from dp_core.methods import registry
from dp_core.methods.reconstruction.reconstructor import Reconstructor
from dp_core.methods.selection.selector import PlannedSelector, Selector
from dp_core.plan.release_spec import name_of

PROTOCOLS: dict[registry.Family, Any] = {"selection": Selector, "reconstruction": Reconstructor}
# A class of a family's folder that has all of these is a method.
MARKS = {"selection": {"select"}, "reconstruction": {"fit", "restore"}}
MODULES = [
    (family, module.name)
    for family in PROTOCOLS
    for module in pkgutil.iter_modules(
        importlib.import_module(f"dp_core.methods.{family}").__path__
    )
    if module.name not in {"selector", "reconstructor"}  # what methods inherit
]
METHODS = [(family, name) for family in PROTOCOLS for name in registry.available(family)]


def parameters(function) -> list[tuple[str, str, bool]]:
    """Return names, kinds and whether there is a default."""
    return [
        (each.name, each.kind.description, each.default is not inspect.Parameter.empty)
        for each in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize(("family", "name"), MODULES)
def test_a_module_with_a_method_says_which_class_it_is(family, name):
    module = importlib.import_module(f"dp_core.methods.{family}.{name}")
    file = f"dp_core/methods/{family}/{name}.py"
    classes = {
        each.__name__
        for each in vars(module).values()
        if inspect.isclass(each)
        and each.__module__ == module.__name__
        and all(hasattr(each, mark) for mark in MARKS[family])
    }
    method = getattr(module, "METHOD", None)
    if classes:
        assert method is not None, (
            f"{file}: end it with `METHOD = ...`, one of {classes};"
            " without it nobody finds the method, and no contract is checked"
        )
        assert method.__name__ in classes, f"METHOD of {file}: not of {classes}"
    else:
        assert method is None, f"{file}: no class of it has {MARKS[family]}, but there is a METHOD"


@pytest.mark.parametrize(("family", "name"), METHODS)
def test_a_method_is_called_as_the_protocol_says(family, name):
    method, protocol = registry.find(family, name), PROTOCOLS[family]
    place = f"{method.__name__} of dp_core/methods/{family}/{name}.py"
    members = {member for member in vars(protocol) if not member.startswith("_")}
    missing = {
        member
        for member in members | set(inspect.get_annotations(protocol))
        if not hasattr(method, member)
    }
    assert missing == set(), f"{place} has no {missing}"
    for member in members:
        promised = inspect.getattr_static(protocol, member)
        if inspect.isfunction(promised):
            wanted, found = parameters(promised), parameters(getattr(method, member))
            assert found == wanted, (
                f"{place}: the parameters of `{member}` are not those of"
                f" {protocol.__name__}.{member}; missing {set(wanted) - set(found)},"
                f" too many {set(found) - set(wanted)}"
            )
        elif isinstance(promised, property):
            # A field of a dataclass with slots serves as well, and so does a constant of the class.
            found = inspect.getattr_static(method, member)
            read = property | types.MemberDescriptorType | bool | tuple | frozenset
            assert isinstance(found, read), f"{place}: `{member}` is a property, field or constant"


@pytest.mark.parametrize("name", registry.available("reconstruction"))
def test_a_reconstruction_takes_something_there_is(name):
    takes = registry.find("reconstruction", name).takes
    assert takes, f"{name}: say in `takes` what it is fitted to"
    assert takes <= set(get_args(ReleasedKind))


@pytest.mark.parametrize("family", [*PROTOCOLS, "parametric"])
def test_a_method_knows_its_name(family):
    for name in registry.available(family):
        assert name_of(object.__new__(registry.find(family, name))) == name


def test_the_protocols_have_what_is_compared():
    assert {"select", "fixed_selection", "gives"} <= set(vars(Selector))
    assert {"fit", "restore", "check", "memory"} <= set(vars(Reconstructor))
    assert ("released", "keyword-only", True) in parameters(Reconstructor.restore)


@pytest.mark.parametrize("name", registry.available("selection"))
def test_a_planned_selection_never_asks_the_curator(name):
    # `fixed_beforehand`, which decides a cost, relies on it.
    method = registry.find("selection", name)
    if issubclass(method, PlannedSelector):
        assert method.select is PlannedSelector.select
