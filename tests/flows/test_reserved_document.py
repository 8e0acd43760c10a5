"""A run opens no data unless the kernel's document is the one that the ledger reserved."""

from dataclasses import replace

import pytest

from dp_core.errors import StageFailed
from dp_core.schema.definition import Schema
from tasks.confidential import confidential_run
from tests.confidential_side import raises_inside
from tests.flows.conftest import SCHEMA

pytestmark = pytest.mark.usefixtures("quick")


def opened(project):
    """Return whether the ledger allowed a look at the data."""
    return "examine" in {entry.kind for entry in project.ledger().entries(release="town")}


def test_another_document_than_was_reserved_opens_no_data(project, monkeypatch):
    compiled = confidential_run.compiled_document
    with monkeypatch.context() as changed:
        changed.setattr(
            confidential_run,
            "compiled_document",
            lambda plan: compiled(plan) | {"release": "other"},
        )
        with raises_inside(StageFailed, match="another document than the ledger reserved"):
            project.release()

    assert not opened(project)
    project.release()
    assert opened(project)


def test_a_file_coded_for_another_unit_than_the_spec_protects_is_not_opened(project, monkeypatch):
    """The plan and the run agree, but the schema by which the file is stored has another limit."""
    unit = "unit: {column: interview, max_rows: 3}"
    text = SCHEMA.replace("unit: row", unit).replace("ignore: [interview]\n", "")
    (project.folder / "town.schema.yaml").write_text(text)
    project.open_account("people", unit="person")
    project.write_spec(account="people")
    stored = Schema.stored.fget

    def with_more_rows(schema):
        found = stored(schema)
        return replace(found, unit=replace(found.unit, most=1000))

    monkeypatch.setattr(Schema, "stored", property(with_more_rows))

    with raises_inside(StageFailed, match="another document"):
        project.release()

    assert not opened(project)
