"""The documentation names every method there is, and none that there is not."""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

import flows
from dp_core.bundle.statement.release_json import FORMAT_VERSION
from dp_core.methods import registry
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.plan.presets import PRESETS
from dp_core.wall.accounting.curves import zcdp_epsilon, zcdp_limit
from dp_core.wall.ledger.receipts import KINDS
from dp_core.wall.statistics import InDif

DOCS = Path(__file__).parents[1] / "docs"
METHODS = (DOCS / "methods.md").read_text(encoding="utf-8")


def chapter(heading: str) -> str:
    """The text under a heading of the page."""
    parts = re.split(r"^## ", METHODS, flags=re.MULTILINE)
    return next(part for part in parts if part.startswith(heading))


def rows(heading: str) -> dict[str, str]:
    """Rows of the table under a heading, by the name in their first cell."""
    lines = chapter(heading).splitlines()
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def options_of_methods(heading: str) -> dict[str, str]:
    """Items of the list of options under a heading, by the name that they begin with."""
    listed = chapter(heading).partition("### Options")[2].partition("\n### ")[0]
    items = re.split(r"^- ", listed, flags=re.MULTILINE)[1:]
    return {item.split("`")[1]: item.partition("\n\n")[0] for item in items}


@pytest.mark.parametrize(
    ("heading", "family"),
    [
        ("Selection", "selection"),
        ("Reconstruction", "reconstruction"),
        ("Parametric", "parametric"),
    ],
)
def test_every_method_has_a_row_with_its_file_and_its_options(heading, family):
    table = rows(heading)
    methods, page = set(registry.available(family)), f"docs/methods.md, {heading}"
    assert methods - set(table) == set(), f"{page}: add a row for {methods - set(table)}"
    assert set(table) - methods == set(), f"{page}: no method has the row {set(table) - methods}"
    for name, row in table.items():
        file = f"(../dp_core/methods/{family}/{name}.py)"
        assert file in row, f"{page}, {name}: link its file, {file}"
        cells = row.strip("|").split("|")
        assert len(cells) == 6, (
            f"{page}, {name}: {len(cells)} cells, not 6;"
            " cells are divided by |, so none may stand in one"
        )
        assert all(cell.strip() for cell in cells), f"{page}, {name}: a cell is empty"
    listed = options_of_methods(heading)
    assert set(listed) == methods, f"{page}: list the options of {methods ^ set(listed)}"
    for name, item in listed.items():
        fields = dataclasses.fields(registry.find(family, name))
        options = {field.name for field in fields if field.metadata != NO_OPTION}
        missing = {option for option in options if f"`{option}`" not in item}
        assert missing == set(), f"{page}, {name}: add the options {missing}"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_every_page_says_whose_it_is(page):
    first = page.read_text(encoding="utf-8").split("\n\n")[1]

    assert page.stem == "index" or re.match(r"\*?For [a-z ]+", first), f"{page}: whose is it?"


def test_every_preset_has_a_row_with_its_stages():
    table, page = rows("Presets"), "docs/methods.md, Presets"
    missing, unknown = set(PRESETS) - set(table), set(table) - set(PRESETS)
    assert missing == set(), f"{page}: add a row for {missing}"
    assert unknown == set(), f"{page}: no preset has the row {unknown}"
    assert list(table) == list(PRESETS), f"{page}: rows in the order of dp_core/plan/presets.py"
    for name, preset in PRESETS.items():
        stages = preset.synthesize or f"{preset.select}` + `{preset.reconstruct}"
        stages = f"`{stages}`"
        assert stages in table[name], f"{page}, {name}: its stages are {stages}"


def test_the_sensitivities_in_the_table_are_those_of_the_code():
    changes = [InDif(()).largest_change(relation) for relation in ("add-remove", "replace-one")]

    assert "(add-remove {}, replace-one {} records a pair)".format(*changes) in METHODS


def test_the_ledger_s_table_is_the_one_in_the_code():
    from tasks.ledger import ledger_session

    def cases(text: str) -> list[list[str]]:
        lines = [line for line in text.splitlines() if re.match(r"\| (yes|no) \|", line)]
        return [[cell.strip() for cell in line.strip("|").split("|")][:3] for line in lines]

    assert ledger_session.__doc__ is not None
    assert cases((DOCS / "ledger.md").read_text(encoding="utf-8")) == cases(ledger_session.__doc__)
    assert len(cases(ledger_session.__doc__)) == 7


def test_the_tests_that_the_ledger_s_page_names_are_there():
    text = (DOCS / "ledger.md").read_text(encoding="utf-8")
    named = {
        name
        for bracket in re.findall(r"\[([^][]*)\](?!\()", text)
        for name in re.findall(r"[\w/]+\.py", bracket)
    }
    root = DOCS.parent
    missing = [
        name
        for name in sorted(named)
        if not (root / (name if "/" in name else f"tests/tasks/ledger/{name}")).is_file()
    ]
    assert missing == []
    assert len(named) > 20


def test_what_many_releases_cost_is_what_the_code_counts():
    counts, deltas = (10, 100, 1_000, 10_000), (Fraction(1, 10**9), Fraction(1, 10**6))
    times = []
    for delta in deltas:
        one = zcdp_limit(Fraction(1), delta)
        found = [float(zcdp_epsilon(count * one, delta)) for count in counts]
        times.append(", ".join(f"{each:.1f}" if each < 10 else f"{each:.0f}" for each in found))
        assert 11.5 < found[1] < 13.5
    said = "{} times one (Gaussian, each of epsilon 1 at delta 1e-9; at 1e-6: {})".format(*times)
    assert said in (DOCS / "ledger.md").read_text(encoding="utf-8")
    about = "a hundred equal releases cost about twelve times one, not a hundred times"
    for page in ("ledger.md", "choosing-epsilon.md"):
        assert about in " ".join((DOCS / page).read_text(encoding="utf-8").split())


def test_the_ledger_s_page_names_every_kind_of_entry_and_no_other():
    page = (DOCS / "ledger.md").read_text(encoding="utf-8")
    chapter = page.split("\n## What is recorded\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in chapter.splitlines() if line.startswith("| `")]
    named = [kind for cell in cells for kind in re.findall(r"`([\w-]+)`", cell)]
    assert sorted(named) == sorted(KINDS)


def test_the_page_of_sources_says_what_the_program_says():
    from flows.monitoring import log
    from tasks.inputs import database_connection, database_source
    from tasks.support import connection_faults

    page = (DOCS / "sources.md").read_text(encoding="utf-8")
    code = "".join(
        re.sub(r'"\s+f?"', "", Path(str(module.__file__)).read_text(encoding="utf-8"))
        for module in (database_source, database_connection, connection_faults)
    )
    messages = re.split(r"^### ", page, flags=re.MULTILINE)[-1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in messages.splitlines() if line.startswith("| ")][1:]
    columns = (
        "Table … lacks / has column …"  # of files too: tests/dp_core/confidential/test_source.py
    )
    for row in rows:
        if row.strip() == columns:
            continue
        for piece in re.split("…|/", row):
            assert piece.strip(" ,") in code, f"docs/sources.md: nothing says {piece!r} any more"
    assert len(rows) == 10
    events = re.findall(r'_write\(\s*"([a-z-]+)"', Path(log.__file__).read_text(encoding="utf-8"))
    for event in events:
        assert f"`{event}`" in page
    assert log.FILE in page
    assert log.FORMAT in page


ROOT = DOCS.parent
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COUNTED = {
    r"(\w+) Prefect flows": len([*(ROOT / "flows").glob("[!_]*.py")]),
    r"the (\w+) flows": len([*(ROOT / "flows").glob("[!_]*.py")]),
    r"`release.py` and (\w+) more": len([*(ROOT / "flows").glob("[!_]*.py")]) - 1,
    r"defines (\w+) deployments": len(
        yaml.safe_load((ROOT / "deployments/prefect.yaml").read_text())["deployments"]
    ),
    r"create (\w+) automations": len(
        yaml.safe_load((ROOT / "deployments/automations.yaml").read_text())
    ),
}
"""What pages count, and how many there are."""


@pytest.mark.parametrize("counted", COUNTED)
def test_what_pages_count_is_there_as_often_as_they_say(counted):
    texts = [page.read_text(encoding="utf-8") for page in PAGES] + [str(flows.__doc__)]
    found = [word for text in texts for word in re.findall(counted, text)]
    assert found, f"no page says {counted!r}: remove the row"
    assert {word.lower() for word in found} == {NUMBERS[COUNTED[counted]]}


def test_pages_show_the_format_that_verify_prints():
    found = [
        int(number)
        for page in PAGES
        for number in re.findall(r"complete, format (\d+)", page.read_text(encoding="utf-8"))
    ]
    assert found
    assert {*found} == {FORMAT_VERSION}


def test_the_walks_make_enough_sets_to_combine():
    for name in ("tutorial", "households", "deploy"):
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        made = [int(sets) for sets in re.findall(r"^synthesize: \{sets: (\d+)", text, re.M)]
        assert made, name
        assert min(made) >= 5, name


def test_every_page_is_in_the_menu_of_the_site():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    menu = {*re.findall(r"(\S+\.md)$", text.partition("nav:")[2].partition("\n\n")[0], re.M)}
    assert {page.name for page in DOCS.glob("*.md")} <= menu
    # A warning of the build is an error, in `make docs` as in `.ci/run`.
    assert "--strict" in (ROOT / "Makefile").read_text(encoding="utf-8")
