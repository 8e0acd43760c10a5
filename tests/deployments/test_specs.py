"""What an operator copies is tested: it means the same as the demo's own files."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from dp_core.plan.reading.spec_file import load_spec
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.reading.schema_file import load_schema

SPECS = Path(__file__).parents[2] / "deployments" / "specs"
DEMO = Path(str(resources.files("flows.demo")))


def test_the_commented_schema_means_what_the_demo_s_schema_means() -> None:
    ours = load_schema(SPECS / "yrbss.schema.yaml")
    shipped = load_schema(DEMO / "yrbss.schema.yaml")

    assert schema_hash(ours) == schema_hash(shipped)
    assert ours == shipped


def test_the_commented_spec_asks_for_the_demo_s_release_of_the_same_file() -> None:
    ours = load_spec(SPECS / "yrbss.release.yaml")
    shipped = load_spec(DEMO / "yrbss.release.yaml")

    assert {**ours.document, "data": ""} == {**shipped.document, "data": ""}
    assert (ours.folder / ours.data).resolve() == (shipped.folder / shipped.data).resolve()


def test_every_example_loads() -> None:
    schemas = sorted(SPECS.glob("*.schema.yaml"))
    specs = sorted(SPECS.glob("*.release.yaml"))

    assert [load_schema(path).title for path in schemas]
    assert [load_spec(path).release for path in specs]
