"""The documentation names every method there is, and none that there is not."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

import flows
from dp_core import errors
from dp_core.bundle.statement.release_json import FORMAT_VERSION
from dp_core.kernel.cost.curves import zcdp_epsilon, zcdp_limit
from dp_core.kernel.ledger.receipts import KINDS
from dp_core.methods import registry
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.methods.reconstruction.gum import Gum
from dp_core.plan.presets import PRESETS
from flows.cli.main import INTERRUPTED

DOCS = Path(__file__).parents[1] / "docs"
METHODS = (DOCS / "methods.md").read_text(encoding="utf-8")


def _site_reference():
    """The hook of the site that makes its reference; it lies beside the pages, in no package."""
    spec = importlib.util.spec_from_file_location("site_reference", DOCS / "site_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = _site_reference()


@pytest.mark.parametrize("family", REFERENCE.FAMILIES)
def test_the_reference_has_every_method_and_the_meaning_of_each_option(family):
    chapter = REFERENCE.methods_page().partition(f"## {REFERENCE.FAMILIES[family]}")[2]
    chapter = chapter.partition("\n## ")[0]
    parts = re.split(r"^### ", chapter, flags=re.MULTILINE)[1:]
    assert [part.split()[0] for part in parts] == [*registry.available(family)]
    for name, part in zip(registry.available(family), parts, strict=True):
        fields = dataclasses.fields(registry.find(family, name))
        options = [field.name for field in fields if field.metadata != NO_OPTION]
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.*) \|$", part, re.MULTILINE)
        assert [option for option, *_ in rows] == options, name
        silent = [option for option, _, meaning in rows if not meaning.strip()]
        assert silent == [], f"{name}: describe {silent} under Attributes of the class"


def test_the_meaning_of_an_option_is_its_line_in_the_docstring():
    found = {name: (default, text) for name, default, text in REFERENCE.options(Gum)}
    assert found["sweeps"][0] == f"`{Gum().sweeps}`"
    assert found["sweeps"][1].startswith("Largest number of final visits of every record")


def test_the_reference_has_every_exit_code():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.exit_code for kind in kinds if issubclass(kind, errors.ReleaseError)}
    found = re.findall(r"^\| (\d+) \|", REFERENCE.exit_codes_page(), re.MULTILINE)
    assert [int(code) for code in found] == sorted({0, INTERRUPTED, *codes})


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_every_page_says_whose_it_is(page):
    first = page.read_text(encoding="utf-8").split("\n\n")[1]

    assert page.stem == "index" or re.match(r"\*?For [a-z ]+", first), f"{page}: whose is it?"


def test_every_preset_has_a_row_with_its_paper():
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \|", METHODS, re.MULTILINE)
    assert [name for name, _ in rows] == [*PRESETS], "docs/methods.md: the presets, in their order"
    assert all(paper.strip() for _, paper in rows)
    made = re.findall(r"^\| `([\w-]+)` \| `", REFERENCE.presets_table(), re.MULTILINE)
    assert made == [*PRESETS]


def test_the_ledger_s_table_is_the_one_in_the_code():
    from tasks.ledger.charging import ledger_session

    def cases(text: str) -> list[list[str]]:
        lines = [line for line in text.splitlines() if re.match(r"\| (yes|no) \|", line)]
        return [[cell.strip() for cell in line.strip("|").split("|")][:3] for line in lines]

    assert ledger_session.__doc__ is not None
    assert cases((DOCS / "ledger.md").read_text(encoding="utf-8")) == cases(ledger_session.__doc__)
    assert len(cases(ledger_session.__doc__)) == 7


def test_the_tests_of_the_ledger_s_claims_are_there():
    page = (DOCS.parent / "tests" / "README.md").read_text(encoding="utf-8")
    text = page.partition("\n## Tests of the ledger's claims\n")[2]
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
