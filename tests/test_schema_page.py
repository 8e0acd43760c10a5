"""Every example of the schema's page is one that the program takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dp_core.schema.column_types import registry as column_types
from dp_core.schema.expectations.offered import OFFERED
from dp_core.schema.reading import column_reader
from dp_core.schema.reading.schema_file import load_schema, parse_schema

PAGE = (Path(__file__).parents[1] / "docs" / "schema.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def by_section() -> dict[str, str]:
    """The examples by the heading that they stand under, which is one for each."""
    found = {}
    for part in PAGE.split("\n## ")[1:]:
        for block in re.findall(r"^```yaml\n(.*?)^```", part, re.MULTILINE | re.DOTALL):
            heading = part.splitlines()[0]
            assert heading not in found
            found[heading] = block
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for block in blocks("csv"):
        name, text = block.split("\n", 1)
        (tmp_path / name.removeprefix("# ")).write_text(text)
    return tmp_path


def read(folder: Path, text: str):
    head = "" if "version:" in text else "version: 1\ntitle: An example\n"
    (folder / "example.schema.yaml").write_text(head + text)
    return load_schema(folder / "example.schema.yaml")


@pytest.mark.parametrize("heading", by_section())
def test_an_example_is_a_schema_that_reads_back(folder: Path, heading: str) -> None:
    schema = read(folder, by_section()[heading])

    assert parse_schema(schema.document) == schema


def test_the_examples_show_every_key_of_a_column() -> None:
    text = "".join(by_section().values())
    keys = {*column_reader._COMMON}
    keys |= {key for word in column_types.words() for key in column_types.column_type(word).keys}

    missing = {key for key in keys if not re.search(rf"\b{key}:", text)}
    assert missing == set(), f"docs/schema.md: show {missing} in an example"


def test_the_groups_are_those_that_the_page_names(folder: Path) -> None:
    schema = read(folder, by_section()["Code lists and groups"])

    labels = [level.label for level in schema.column("industry").levels]
    assert labels == ["Crops", "Animals", "Shops", "Books"]


def test_dependent_columns_are_those_that_the_page_names(folder: Path) -> None:
    schema = read(folder, by_section()["Columns that follow from others"])

    assert [one.column.name for one in schema.dependents] == ["sector", "stage", "school"]
    assert schema.dependents[0].codes == (0, 0, 1)


def test_the_expectations_are_those_that_a_schema_can_state() -> None:
    section = PAGE.partition("\n## Expectations\n")[2].partition("\n## ")[0]

    assert re.findall(r"^- `(expect_\w+)`$", section, re.MULTILINE) == [*OFFERED]
