"""The tutorial notebook has the form of a notebook, and its cells run.

Calls of `dp` are bound to its functions; with `--full` the cells are executed.
"""

from __future__ import annotations

import ast
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


def bound_calls(sources: list[str]) -> int:
    """Return the number of calls `dp.name(...)` in the cells; raise unless each can be made."""
    found = 0
    for number, source in enumerate(sources):
        for node in ast.walk(compile(source, f"cell {number}", "exec", ast.PyCF_ONLY_AST)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("dp."):
                function = getattr(dp, ast.unparse(node.func).removeprefix("dp."))
                named = {str(word.arg): word.value for word in node.keywords}
                inspect.signature(function).bind(*node.args, **named)
                found += 1
    return found


def test_its_cells_compile_and_call_only_what_the_face_has():
    assert bound_calls(code()) > 3


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("dp.releases(survey)", AttributeError),
        ("dp.release(survey, schema, epsilons=1)", TypeError),
    ],
)
def test_a_call_of_what_there_is_not_is_found(source, error):
    with pytest.raises(error):
        bound_calls([source])


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
    assert "yrbss-demo is released: the best set and 5 sets" in printed("made = run(")
    assert "Publish the bundle" in printed("made = run(")
    assert printed('out=folder / "second"').startswith("2 ")
    assert printed("bundle.verify()") == "True"
    # Plots and tables: without a script, and nothing is fetched.
    pages = [html for _, html in shown.values() if html]
    assert sum("<svg" in html for html in pages) >= 2
    assert not any("<script" in html or "src=" in html for html in pages)
    left = [path.name for path in tmp_path.iterdir()]
    assert not any(name.startswith("dp-release-tutorial") for name in left)
