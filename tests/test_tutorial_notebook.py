"""The tutorial notebook has the form of a notebook, and its cells run.

What the cells ask for is compared with what there is; with `--full` they are executed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dp_core as dp

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
CELL_KEYS = {
    "markdown": {"cell_type", "id", "metadata", "source"},
    "code": {"cell_type", "execution_count", "id", "metadata", "outputs", "source"},
}
KERNEL = """
import ast, asyncio, io, json, sys

async def main():
    # As in a kernel, the loop runs while a cell is carried out.
    names, shown = {"__name__": "__main__"}, []
    for number, source in enumerate(json.load(sys.stdin)):
        tree = ast.parse(source, f"cell {number}")
        last = None
        if isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        kept, sys.stdout = sys.stdout, io.StringIO()
        try:
            exec(compile(tree, f"cell {number}", "exec"), names)
            value = None if last is None else eval(compile(last, f"cell {number}", "eval"), names)
            printed = sys.stdout.getvalue()
        finally:
            sys.stdout = kept
        html = getattr(value, "_repr_html_", lambda: "")() or ""
        shown.append([printed + ("" if value is None else repr(value)), html])
    print(json.dumps(shown))

asyncio.run(main())
"""


def cells() -> list[dict[str, Any]]:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


def code() -> list[str]:
    return ["".join(cell["source"]) for cell in cells() if cell["cell_type"] == "code"]


def test_it_is_a_notebook_without_output():
    """The form of nbformat 4.5, https://nbformat.readthedocs.io/en/latest/format_description.html"""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))

    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook["metadata"]["kernelspec"]) == {"display_name", "language", "name"}
    assert len({cell["id"] for cell in cells()}) == len(cells())
    for cell in cells():
        assert set(cell) == CELL_KEYS[cell["cell_type"]]
        assert cell["metadata"] == {}
        assert all(isinstance(line, str) for line in cell["source"])
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        if cell["cell_type"] == "code":
            assert (cell["execution_count"], cell["outputs"]) == (None, [])


def test_its_links_lead_to_pages():
    text = "".join("".join(cell["source"]) for cell in cells() if cell["cell_type"] == "markdown")
    linked = [piece.partition(")")[0] for piece in text.split("](")[1:]]

    assert len(linked) > 5
    assert [name for name in linked if not (NOTEBOOK.parent / name).is_file()] == []


class Calls(ast.NodeVisitor):
    """Follows the classes of our names through the cells, and notes what is not there.

    Only our own classes and functions are followed, by what they say that they return; all else,
    such as a frame of pandas, is left alone.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"dp": dp}
        self.wrong: list[str] = []
        self.looked_up = self.called = 0

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if str(node.module).split(".")[0] in ("dp_core", "flows", "tasks"):
            module = importlib.import_module(str(node.module))
            for each in node.names:
                self.names[each.asname or each.name] = self.attribute(module, each.name)

    def visit_Assign(self, node: ast.Assign) -> None:
        kind = self.kind(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names[target.id] = kind

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.kind(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.kind(node)

    def kind(self, node: ast.expr) -> Any:
        """Return the class of a value, or the function or module itself; None for all else."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.kind(node.value)
            return None if owner is None else self.attribute(owner, node.attr)
        if isinstance(node, ast.Call):
            for given in (*node.args, *(word.value for word in node.keywords)):
                self.visit(given)
            return self.result(self.kind(node.func), node)
        self.generic_visit(node)
        return None

    def attribute(self, owner: Any, name: str) -> Any:
        self.looked_up += 1
        made = isinstance(owner, type) and any(
            re.search(rf"\bself\.{name}\b", inspect.getsource(each)) for each in owner.__mro__[:-1]
        )
        if not hasattr(owner, name) and not made:
            self.wrong.append(f"{owner.__name__} has no {name}")
            return None
        found = getattr(owner, name, None)
        found = getattr(found, "func", None) or getattr(found, "fget", None) or found
        if found is not getattr(owner, name, None):  # a property: its value
            return ours(found)
        return found if inspect.isroutine(found) or inspect.isclass(found) else None

    def result(self, called: Any, node: ast.Call) -> Any:
        if called is None or inspect.isclass(called):
            return None
        self.called += 1
        words: list[object] = [*node.args]
        if isinstance(node.func, ast.Attribute) and inspect.isclass(self.kind(node.func.value)):
            words.insert(0, "self")
        try:
            named = {str(word.arg): word.value for word in node.keywords}
            inspect.signature(called).bind(*words, **named)
        except TypeError as error:
            self.wrong.append(f"{ast.unparse(node)}: {error}")
        return ours(called)


def ours(function: Any) -> type | None:
    """Return our class that a function says it returns."""
    named = str(function.__annotations__.get("return"))
    modules = [
        each for name, each in sys.modules.items() if name.startswith(("dp_core.", "flows."))
    ]
    # Its own module first: two classes may have one name.
    found = (names.get(named) for names in (function.__globals__, *map(vars, modules)))
    return next((each for each in found if isinstance(each, type)), None)


def not_there(sources: list[str]) -> Calls:
    """Return what the cells ask of us that is not there, and how much they ask."""
    for name in dp.__all__:
        getattr(dp, name)
    calls = Calls()
    for number, source in enumerate(sources):
        tree = ast.parse(source, f"cell {number}")
        compile(tree, f"cell {number}", "exec")
        calls.visit(tree)
    return calls


def test_its_cells_compile_and_ask_only_for_what_there_is():
    found = not_there(code())

    assert found.wrong == []
    assert found.looked_up > 20
    assert found.called > 10


@pytest.mark.parametrize(
    "source",
    [
        "dp.releases(survey)",
        "dp.release(survey, schema, epsilons=1)",
        "bundle = dp.read_bundle(folder)\nbundle.queries('mean of weight')",
        "bundle = dp.read_bundle(folder)\nbundle.verify().pased",
        "from flows import run\nmade = run(folder)",
    ],
)
def test_a_cell_that_asks_for_what_there_is_not_is_found(source):
    assert len(not_there([source]).wrong) == 1


def test_its_commands_exist_with_their_options():
    from flows.cli.main import cli

    found = [words for source in code() for words in re.findall(r'^command = "(.*)"', source, re.M)]
    assert found
    for text in found:
        command, words = cli, text.split()
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert not hasattr(command, "commands"), text
        with command.make_context(text, words):
            pass  # its arguments and options are parsed, and nothing is done


@pytest.mark.slow
@pytest.mark.full
def test_every_cell_runs_while_an_event_loop_is_running(tmp_path: Path):
    made = subprocess.run(
        [sys.executable, "-c", KERNEL],
        input=json.dumps(code()),
        cwd=tmp_path,
        env={
            **{name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ},
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(tmp_path / "prefect"),
            "DP_RELEASE_STATE": str(tmp_path / "state"),
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert made.returncode == 0, made.stderr
    shown = dict(zip(code(), json.loads(made.stdout.splitlines()[-1]), strict=True))

    def printed(beginning: str) -> str:
        (found,) = (text for source, (text, _) in shown.items() if beginning in source)
        return found

    assert "protects nobody" in printed("trial = dp.release(")
    assert "FEMALE" in printed("wrong = survey.assign")
    assert "gender x race" in printed("trial.plan")
    assert "in-memory.json" in printed("trial.save")
    assert "yrbss-demo is released: 5 sets" in printed("made = run(")
    assert "Publish the bundle" in printed("made = run(")
    assert printed('out=folder / "second"').startswith("2 ")
    assert printed("bundle.verify()") == "True"
    # Plots and tables: without a script, and nothing is fetched.
    pages = [html for _, html in shown.values() if html]
    assert sum("<svg" in html for html in pages) >= 2
    assert not any("<script" in html or "src=" in html for html in pages)
    left = [path.name for path in tmp_path.iterdir()]
    assert not any(name.startswith("dp-release-tutorial") for name in left)
