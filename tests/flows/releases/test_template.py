"""The spec of a date, from a template."""

from datetime import datetime
from pathlib import Path

import pytest

from dp_core.errors import BadInput
from dp_core.plan.reading.spec_file import load_spec
from flows.releases.template import keep_copy, read_template, write_spec
from tests.flows.conftest import SCHEMA

NOVEMBER = datetime(2026, 11, 7, 2, 3, 4)
TEMPLATE = """\
version: 1
# release: not-{date:this}; a comment is left alone
release: town-{date:%Y-%m}   # each month
data: town.csv
schema: town.schema.yaml
account: town
privacy: {epsilon: 1, delta: 1e-6}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "town.schema.yaml").write_text(SCHEMA)
    made = tmp_path / "town.template.yaml"
    made.write_text(TEMPLATE)
    return made


def written(path: Path, name: str) -> Path:
    path.write_text(TEMPLATE.replace("town-{date:%Y-%m}", name))
    return path


def test_the_spec_is_the_template_with_the_name_of_the_date(path):
    spec = write_spec(read_template(path), NOVEMBER, keep=False)
    assert spec == path.parent / "town-2026-11.release.yaml"
    lines = spec.read_text().splitlines()
    expected = TEMPLATE.replace("town-{date:%Y-%m}", "town-2026-11").splitlines()
    assert lines[:-1] == expected
    assert lines[-1] == "# Written by dp-release from town.template.yaml."
    # It names data and schema as the template does, from the same folder.
    assert load_spec(spec).release == "town-2026-11"
    assert load_spec(spec).data == "town.csv"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-{date:%Yq%q}", "a-2026q4"),
        ("a-{date:%G-W%V}.{date:%d}", "a-2026-W45.07"),
        ('"a-{date:%Y%m%dT%H%M%S-%j}"', "a-20261107T020304-311"),
    ],
)
def test_a_date_has_the_usual_forms_and_the_quarter(path, name, expected):
    template = read_template(written(path, name))
    assert template.release(NOVEMBER) == expected
    assert load_spec(write_spec(template, NOVEMBER, keep=False)).release == expected


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("town", "line 3, release: 'town' "),
        ("town-{date:2026}", "line 3, release: {date:2026} "),
        ("town-{date}", "line 3, release: {date} "),
        ("town-{day:%d}", "line 3, release: {day:%d} "),
        ("town-{date:%Y%B}", "line 3, release: %B "),
        ("town-{date:%}", "line 3, release: % "),
        ("town {date:%Y}", "line 3, release: 'town 2026'"),
        ("town-{date:%Y/%m}", "line 3, release: 'town-2026/12'"),
        (">\n  town-{date:%Y}", "release: write the key and its name on one line"),
    ],
)
def test_a_mistake_in_the_name_is_one_sentence(path, name, sentence):
    with pytest.raises(BadInput) as error:
        read_template(written(path, name))
    assert error.value.message.startswith("town.template.yaml, ")
    assert sentence in error.value.message


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("data: town.csv", "data: town-{date:%Y}.csv"),
        ("privacy: {epsilon: 1,", "privacy: {epsilon: '{date:%d}',"),
        ("version: 1", "version: 1\nchecks: {formulas: ['{date:%Y} ~ age']}"),
    ],
)
def test_only_the_name_may_hold_a_date(path, line, changed):
    path.write_text(TEMPLATE.replace(line, changed))
    with pytest.raises(BadInput, match=r"line \d.*only 'release' "):
        read_template(path)


def test_a_spec_that_a_release_was_begun_by_stays_as_it_was(path):
    first = write_spec(read_template(path), NOVEMBER, keep=False)
    text = first.read_text()
    path.write_text(TEMPLATE.replace("epsilon: 1", "epsilon: 2"))
    assert write_spec(read_template(path), NOVEMBER, keep=True).read_text() == text
    # Nothing was begun by it: a corrected template is what the date is made by.
    assert "epsilon: 2" in write_spec(read_template(path), NOVEMBER, keep=False).read_text()


@pytest.mark.runbook("spec-not-written")
def test_a_folder_that_cannot_be_written_is_named(path, says):
    spec = write_spec(read_template(path), NOVEMBER, keep=False)
    with pytest.raises(BadInput) as error:
        keep_copy(spec, path / "bundles")
    says(error.value)


@pytest.mark.runbook("spec-in-the-way")
def test_a_file_of_somebody_is_not_overwritten(path, says):
    theirs = path.parent / "town-2026-11.release.yaml"
    theirs.write_text("mine")
    with pytest.raises(BadInput) as error:
        write_spec(read_template(path), NOVEMBER, keep=False)
    says(error.value)
    assert theirs.read_text() == "mine"
