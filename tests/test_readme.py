"""README and pages are true: their files load, their commands exist, their tables are complete."""

from __future__ import annotations

import csv
import gzip
import re
import shlex
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import click
import pytest

from dp_core import errors
from dp_core.plan.plan import make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading import spec_file
from dp_core.plan.reading.spec_file import load_spec
from dp_core.schema.column_types import registry as column_types
from dp_core.schema.reading import column_reader, schema_file
from dp_core.schema.reading.schema_file import load_schema
from flows.cli.main import INTERRUPTED, cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL, SCHEMA, SPEC, METHODS = (
    (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for page in ("tutorial", "schema", "spec", "choosing-a-method")
)
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "deployments/README.md",
    *("docs/" + p.name for p in (ROOT / "docs").glob("*.md")),
)
SCHEMAS = ("survey.schema.yaml",)
SPECS = ("survey.release.yaml", "fixed.release.yaml")
NAMED = (*SCHEMAS, *SPECS)


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def files() -> dict[str, str]:
    """The YAML blocks that are whole files, by the name on their first line."""
    found = [block for page in (TUTORIAL, SCHEMA, SPEC) for block in blocks("yaml", page)]
    names = [block.splitlines()[0].removeprefix("# ") for block in found]
    return {name: block for name, block in zip(names, found, strict=True) if name in NAMED}


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def commands(text: str) -> list[list[str]]:
    """Every `dp-release ...`, in code blocks and in running text."""
    lines = [line.split("#")[0] for block in blocks("sh", text) for line in block.splitlines()]
    lines += re.findall(r"`(dp-release [^`]*)`", text)
    ours = [line for line in lines if line.startswith("dp-release ")]
    return [shlex.split(line.split(" > ")[0])[1:] for line in ours]


IN_PROCESS: dict[str, Any] = {"standalone_mode": False, "obj": {}}
"""Options by which a command returns to the test."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_pages_have_the_files_they_speak_of() -> None:
    assert set(files()) == {*NAMED}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_of_the_pages_loads(folder: Path, name: str) -> None:
    assert load_schema(folder / name).columns


@pytest.mark.parametrize("name", SPECS)
def test_every_spec_of_the_pages_has_a_plan(folder: Path, name: str) -> None:
    plan = make_plan(load_spec(folder / name))

    assert sum(plan.costs.values()) == plan.currency.limit


def test_the_ten_lines_write_a_spec_that_has_a_plan(folder: Path) -> None:
    (lines,) = blocks("sh", section("A release in ten lines"))
    assert len(lines.splitlines()) == 10
    (line,) = (each for each in lines.splitlines() if each.startswith("echo "))
    subprocess.run(line, shell=True, cwd=folder, check=True)
    named = shlex.split(line)[-1]
    assert ["plan", named] in commands(README)
    assert make_plan(load_spec(folder / named)).spec.account == "survey"


def test_the_schema_of_the_walk_describes_the_survey_that_ships(folder: Path) -> None:
    schema = load_schema(folder / "survey.schema.yaml")
    with gzip.open(str(resources.files("flows.demo") / "yrbss.csv.gz"), "rt") as file:
        header = next(csv.reader(file))

    assert {*schema.domain.columns, *schema.ignore} == set(header)


def test_the_check_and_the_plan_are_what_the_tutorial_prints(
    folder: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not home.exists()
    walk = TUTORIAL
    printed = blocks("text", walk)
    opening, planning = (
        next(words for words in commands(walk) if words[0] == name) for name in ("ledger", "plan")
    )
    checking = next(words for words in commands(walk) if words[:2] == ["schema", "check"])
    survey = resources.files("flows.demo") / "yrbss.csv.gz"
    (folder / checking[-1]).write_bytes(survey.read_bytes())

    cli.main([*checking[:2], *(str(folder / name) for name in checking[2:])], **IN_PROCESS)
    check = capsys.readouterr().out
    cli.main(opening, **IN_PROCESS)
    account = capsys.readouterr().out
    cli.main([*planning[:-1], str(folder / planning[-1])], **IN_PROCESS)
    plan = capsys.readouterr().out

    for shown, said in zip(printed[:3], (check, account, plan), strict=True):
        true = {line.rstrip() for line in said.splitlines()}
        assert [line for line in shown.splitlines() if line not in true and line != "..."] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists_with_its_options(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for words in commands(text):
        command: click.Command = cli
        rest = list(words)
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, words
            command = command.commands[rest.pop(0)]
        known = {option for p in command.params for option in p.opts} | {"-h", "--help"}
        assert {word for word in rest if word.startswith("-")} <= known, words


def test_the_first_commands_are_targets_of_make() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert set(re.findall(r"`?make ([a-z-]+)", README)) <= set(targets)


NOTES = ("tests/README.md", *(f"benchmarks/{p}" for p in ("README.md", "papers/README.md")))
LINKED = (*PAGES, *NOTES, *(f"benchmarks/notes/{p.name}" for p in ROOT.glob("benchmarks/notes/*")))
GENERATED = re.findall(r"reference/[\w.-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    plain = (re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", LINKED)
def test_every_link_leads_somewhere(page: str) -> None:
    path = ROOT / page
    lost = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", path.read_text("utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        if target in GENERATED:  # `make docs` makes these pages from the code
            continue
        file = path.parent / target if target else path
        if not file.exists():
            lost.append(target)
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text("utf-8")):
            lost.append(f"{target}#{anchor}")

    assert lost == []


def test_every_key_of_a_schema_is_in_its_table() -> None:
    text = SCHEMA
    keys = {*schema_file._KEYS, *column_reader._COMMON}
    keys |= {key for word in column_types.words() for key in column_types.column_type(word).keys}

    missing = {key for key in keys if not re.search(rf"^\|.*`{key}`", text, re.M)}
    assert missing == set(), f"docs/schema.md: add {missing}"


def test_every_key_of_a_spec_is_in_its_table() -> None:
    text = SPEC
    keys = {*spec_file._KEYS} - {*spec_file._SECTIONS}
    for name, (inner, _) in spec_file._SECTIONS.items():
        keys |= {f"{name}.{key}" for key in inner}
    keys |= {"select.method", "select.share", "reconstruct.method"}

    missing = {key for key in keys if f"| `{key}` |" not in text}
    assert missing == set(), f"docs/spec.md: add a row for {missing}"


def test_every_preset_is_named_where_methods_are_compared() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|", METHODS, re.M)
    missing, unknown = set(PRESETS) - set(rows), set(rows) - set(PRESETS)
    assert missing == set(), f"docs/choosing-a-method.md: add a row for {missing}"
    assert unknown == set(), f"docs/choosing-a-method.md: no preset has the row {unknown}"
    assert rows == list(PRESETS), (
        "docs/choosing-a-method.md: rows in the order of dp_core/plan/presets.py"
    )


def test_every_exit_code_is_explained() -> None:
    named = {
        int(code) for code in re.findall(r"^\| (\d+) \|", section("When something fails"), re.M)
    }
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.exit_code for kind in kinds if issubclass(kind, errors.ReleaseError)}

    missing, unknown = {0, INTERRUPTED, *codes} - named, named - {0, INTERRUPTED, *codes}
    assert missing == set(), f"README, When something fails: add a row for {missing}"
    assert unknown == set(), f"README, When something fails: nothing ends with {unknown}"
