"""The names of the library, and what importing them costs."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import dp_core
from tests.new_python import new_python

HEAVY = ("pandas", "pyarrow", "scipy", "numpy", "prefect", "dask", "numba", "rich", "statsmodels")
SOURCE = Path(dp_core.__file__)


def loaded_after(script: str) -> set[str]:
    """Return which of the heavy packages a script leaves imported."""
    ran = new_python(f"{script}\nimport sys; print(*sys.modules)")
    return set(HEAVY) & set(ran.stdout.splitlines()[-1].split())


def test_importing_the_library_imports_nothing_heavy():
    assert loaded_after("import dp_core as dp; dir(dp); dp.__all__; dp.BadInput") == set()


def test_a_name_is_imported_when_it_is_used():
    assert loaded_after("import dp_core as dp; dp.read_bundle") >= {"numpy", "pyarrow"}
    assert "pandas" not in loaded_after("import dp_core as dp; dp.read_bundle")


def test_each_name_is_what_its_module_defines():
    for name in dp_core.__all__:
        found = getattr(dp_core, name)
        assert found.__name__ == name
        assert getattr(importlib.import_module(found.__module__), name) is found
        assert found.__doc__


def test_type_checkers_and_editors_know_the_same_names():
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imported = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == alias.asname
    }
    assert imported == dp_core._HOMES
    assert sorted(imported) == sorted(dp_core.__all__)
    assert set(dp_core.__all__) <= set(dir(dp_core))
    assert SOURCE.with_name("py.typed").is_file()


def test_another_name_is_no_attribute():
    with pytest.raises(AttributeError, match="read_bundel"):
        dp_core.read_bundel  # noqa: B018
    with pytest.raises(ImportError):
        from dp_core import nothing  # noqa: F401
