"""Great Expectations judges: its verdict, and nothing else, lets a file pass validation."""

import json
import re
from urllib.parse import unquote

import pytest

from dp_core.errors import SchemaViolation
from tasks.support.run_folder import RunFolder
from tests.flows.conftest import SCHEMA

OWN = """\
expectations:
  - expect_table_row_count_to_be_between: {min_value: 300, only: file}
  - expect_column_values_to_match_regex: {column: sex, regex: "^[12]$"}
  - expect_column_mean_to_be_between: {column: age, min_value: 90}
"""


@pytest.fixture
def blind(monkeypatch):
    """Great Expectations, with a verdict that is always success."""
    from tasks.validation.suite_judge import load_great_expectations

    load_great_expectations()
    from great_expectations.datasource.fluent.interfaces import Batch

    validate = Batch.validate

    def succeeding(self, *given, **named):
        result = validate(self, *given, **named)
        result.success = True
        return result

    monkeypatch.setattr(Batch, "validate", succeeding)


def spoil(project, old, new):
    data = project.folder / "town.csv"
    text = data.read_text()
    assert old in text
    data.write_text(text.replace(old, new, 1))


def passed(project, stage):
    return RunFolder(project.home, "town").facts_of(stage) is not None


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize(
    ("old", "new"), [(",single,", ",bachelor,"), (",single,", ",married,")], ids=["level", "rule"]
)
def test_a_bad_file_passes_validation_if_the_verdict_is_forced(project, old, new):
    """No value without a code becomes a wrong one: the next stage refuses the file."""
    data = project.folder / "town.csv"
    lines = data.read_text().splitlines()
    young = next(at for at, line in enumerate(lines[1:], 1) if 0 < int(line.split(",")[1]) < 15)
    lines[young] = lines[young].replace(old, new)
    assert new in lines[young]
    data.write_text("\n".join(lines) + "\n")
    with pytest.raises(SchemaViolation) as caught:
        project.release()
    assert "marital" not in caught.value.message  # one fixed sentence
    assert passed(project, "validate")
    assert not passed(project, "discretize")
    assert not (project.run_folder / "confidential/codes/manifest.json").exists()
    assert project.ledger().attempts("town").refused == 1
    assert "charge" not in project.kinds()


def test_a_teams_expectation_refuses_like_the_schema_and_its_name_stays_inside(project):
    (project.folder / "town.schema.yaml").write_text(SCHEMA + OWN)
    with pytest.raises(SchemaViolation) as caught:
        project.release()
    assert "expect_" not in caught.value.message
    assert caught.value.exit_code == 2
    refusal = (project.internal / "message.txt").read_text()
    assert "expect_column_mean_to_be_between of 'age'" in refusal
    assert "regex" not in refusal
    assert project.ledger().attempts("town").refused == 1


def test_every_set_is_judged_by_the_same_suite_and_the_result_is_published(project, command):
    text = SCHEMA + OWN.replace("min_value: 90", "min_value: 20")
    (project.folder / "town.schema.yaml").write_text(text)
    project.write_spec("synthesize: {sets: 2}\n")
    project.release()
    document = json.loads((project.out / "expectations.json").read_text())
    types = [one["type"] for one in document["suite"]["expectations"]]
    assert "expect_column_values_to_match_regex" in types  # of the texts, not of the labels
    assert "expect_table_row_count_to_be_between" not in types  # is about the file only
    assert [one["set"] for one in document["sets"]] == ["best", 1, 2]
    assert [(one["success"], one["not_met"]) for one in document["sets"]] == [(True, [])] * 3
    assert project.faults() == {}
    assert "The best set and all 2 others meet the" in (project.out / "report.html").read_text()
    suite = json.loads((project.internal / "expectations/suite.json").read_text())
    assert len(suite["expectations"]) == len(types) + 1
    printed = command("schema", "suite", project.folder / "town.schema.yaml")
    assert json.loads(printed.out) == suite


def test_data_docs_are_made_in_the_internal_folder_and_load_nothing(project, command):
    spoil(project, ",single,", ",zq7canary,")
    with pytest.raises(SchemaViolation):
        project.release()
    done = command("release", "data-docs", "town")
    assert done.code == 0, done.err
    folder = project.internal / "expectations/data-docs"
    assert str(folder / "index.html") in done.out.replace("\n", "")
    pages = [page.read_text() for page in folder.rglob("*.html")]
    assert len(pages) >= 2
    assert all("CONFIDENTIAL" in page for page in pages)
    assert all("default-src 'none'" in page for page in pages)
    assert any("zq7canary" in page for page in pages)
    assert not any(re.search("<script|<link|@import", page) for page in pages)
    # Each page has a style of its own, and the first one leads to the others without scripts.
    assert all("border-collapse" in page for page in pages)
    index = (folder / "index.html").read_text()
    linked = [folder / unquote(link) for link in re.findall(r'href="([^"]+)"', index)]
    assert linked
    assert {*linked} == {*folder.rglob("validations/**/*.html")}
    assert re.search(r"[\d,]+ of [\d,]+ expectations met", index)
    assert {path.stat().st_mode & 0o077 for path in folder.rglob("*")} == {0}
    elsewhere = {path for path in project.folder.rglob("*") if path.is_file()}
    elsewhere |= {path for path in project.home.rglob("*") if path.is_file()}
    for path in elsewhere - {project.folder / "town.csv"}:
        if project.internal.resolve() not in path.resolve().parents:
            assert b"zq7canary" not in path.read_bytes(), path
