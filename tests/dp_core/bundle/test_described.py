"""Codebook, registry entry and citation, against the standards that they are written in."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
import yaml

from dp_core.bundle.statement.citation import CITATION, citation, citation_text
from dp_core.bundle.statement.deployment_registry import (
    NOT_STATED,
    REGISTRY,
    registry_entry,
    registry_text,
)
from dp_core.bundle.statement.release_json import file_record, statement
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput
from dp_core.schema.reading.schema_file import parse_schema
from tests.dp_core.bundle.conftest import make_published, make_schema, write
from tests.dp_core.bundle.forgery import failed, rehash, statement_of

STATED = {
    "publisher": "Office of Statistics",
    "publisher_type": "nonprofit",
    "contact": "data@example.org",
    "licence": "CC-BY-4.0",
    "licence_url": "https://creativecommons.example/by/4.0/",
    "url": "https://example.org/survey",
    "doi": "10.5281/zenodo.1234",
    "region": "Texas",
    "sector": "government",
    "intended_use": "Research on schools.",
    "justification": "The board chose epsilon 1 after a public consultation.",
}


def check(name: str, values: object) -> None:
    """Raise unless plain values keep to a schema of ours, of somebody else's standard."""
    path = Path(__file__).parent / "schemas" / f"{name}.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    validator = jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())
    validator.validate(values)


def with_publication(published, stated=None):
    """Return a release whose schema says who publishes it."""
    stated = STATED if stated is None else stated
    schema = parse_schema({**make_schema().document, "publication": stated})
    return dataclasses.replace(published, schema=schema)


@pytest.fixture(scope="module")
def documents(release) -> dict[str, dict[str, Any]]:
    """Statements of a few kinds of release."""
    pure, _ = make_published(pure=True)
    many = {"all": with_publication(release[0]), "bare": release[0], "pure": pure}
    return {name: statement(published, {}) for name, published in many.items()}


@pytest.mark.parametrize("name", ["all", "bare", "pure"])
def test_the_registry_entry_and_the_citation_keep_to_their_formats(documents, name):
    entry, cited = registry_entry(documents[name]), citation(documents[name])

    check("registry", entry)
    check("citation", cited)
    assert yaml.safe_load(registry_text(documents[name])) == entry
    assert yaml.safe_load(citation_text(documents[name])) == cited


def test_the_registry_entry_says_what_the_statement_says(documents):
    deployment = registry_entry(documents["all"])["deployment"]

    assert deployment["basic"]["data_curators"] == [
        {"data_curator_name": "Office of Statistics", "data_curator_type": "Nonprofit"}
    ]
    assert deployment["basic"]["data_product_sector"] == "Government"
    assert deployment["privacy_loss"]["privacy_unit"] == "Row-level"
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert (parameters["epsilon"], parameters["delta"]) == (1.0, 1e-9)
    limit = documents["all"]["ledger"]["currency"]["limit"]["decimal"]
    assert limit <= parameters["rho"] <= limit * 1.00001
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert "discrete-gaussian: 6 events" in deployment["implementation"]["mechanisms"]
    pure = registry_entry(documents["pure"])["deployment"]
    assert pure["dp_variant"]["variant_name"] == "Pure DP"
    assert pure["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0}


def test_an_epsilon_is_never_rounded_down(documents):
    document = json.loads(json.dumps(documents["bare"]))
    document["guarantee"]["tightest"]["epsilon"]["exact"] = "10000001/10000000"
    document["guarantee"]["tightest"]["delta"]["exact"] = f"1/{10**500}"
    parameters = registry_entry(document)["deployment"]["privacy_loss"]["privacy_parameters"]

    assert parameters["epsilon"] == 1.00001
    assert parameters["delta"] == f"1/{10**500}"  # no number of YAML is as small


def test_what_only_the_publisher_knows_is_marked(documents):
    bare, stated = registry_text(documents["bare"]).decode(), registry_text(documents["all"])

    assert "fill in before you submit it:\n#   publisher (" in bare
    assert registry_entry(documents["bare"])["deployment"]["basic"]["intended_use"] == NOT_STATED
    assert b"fill in" not in stated


def test_the_citation_names_publisher_version_licence_and_date(documents):
    found = citation(documents["all"])

    assert found["authors"] == [{"name": "Office of Statistics"}]
    assert found["contact"][0]["email"] == "data@example.org"
    assert (found["license"], found["doi"]) == ("CC-BY-4.0", "10.5281/zenodo.1234")
    assert (found["version"], found["date-released"]) == ("1", "2026-11-20")
    assert documents["all"]["release"]["cite_as"].startswith(
        "Office of Statistics (2026). A survey"
    )
    assert documents["all"]["release"]["cite_as"].endswith("https://doi.org/10.5281/zenodo.1234")
    assert "2026." in documents["bare"]["release"]["cite_as"]
    other = citation(
        statement(
            with_publication(make_published()[0], {"licence_url": "https://a.example/terms"}), {}
        )
    )
    assert other["license-url"] == "https://a.example/terms"
    check("citation", other)


@pytest.mark.parametrize("name", [CITATION, REGISTRY])
def test_a_citation_or_entry_that_says_something_else_is_found(broken, name):
    path = broken / name
    path.write_text(path.read_text().replace("survey", "census", 1))
    document = statement_of(broken)
    document["files"][name] = file_record(path)
    rehash(broken, document)

    assert failed(verify(broken)) == {"copies": f"{name} does not agree with release.json."}


@pytest.mark.parametrize("mode", ["bare", "all"])
def test_the_codebook_is_a_data_package(tmp_path, mode):
    published, data = make_published()
    if mode == "all":
        published = dataclasses.replace(with_publication(published), version=3, revises="first")
    folder = write(tmp_path / "out", published, data, tmp_path / "scratch")
    package = json.loads((folder / "datapackage.json").read_bytes())

    check("datapackage", package)
    assert package["sources"]
    if mode == "all":
        assert package["licenses"] == [
            {"name": "CC-BY-4.0", "path": "https://creativecommons.example/by/4.0/"}
        ]
        assert package["contributors"] == [
            {"title": "Office of Statistics", "role": "publisher", "email": "data@example.org"}
        ]
        assert (package["version"], package["homepage"]) == ("3", "https://example.org/survey")
    for resource in package["resources"]:
        assert problems(folder / resource["path"], resource["schema"]) == []


def test_a_row_that_breaks_the_table_schema_is_found(bundle, tmp_path):
    """So that the test above can fail: each rule of the table schema, broken once."""
    package = json.loads((bundle / "datapackage.json").read_bytes())
    described = package["resources"][0]["schema"]
    table = pq.read_table(bundle / package["resources"][0]["path"])
    breaks = {
        "sex": "other",
        "age": 99,
        "height": None,
        "born": datetime.date(1900, 1, 1),
    }
    for name, value in breaks.items():
        rows = table.to_pylist()
        rows[0][name] = value
        path = tmp_path / f"{name}.parquet"
        pq.write_table(type(table).from_pylist(rows, schema=table.schema), path)
        assert [name in text for text in problems(path, described)] == [True]


TYPES = {"string": str, "integer": int, "number": float, "date": datetime.date, "array": list}


def problems(path: Path, schema: dict[str, Any]) -> list[str]:
    """Return what rows of a Parquet file break of a table schema; a null is a missing value."""
    found = []
    table = pq.read_table(path)
    if table.column_names != [described["name"] for described in schema["fields"]]:
        return ["the columns are others"]
    for described in schema["fields"]:
        name, limits = described["name"], described.get("constraints", {})
        values = table.column(name).to_pylist()
        present = [value for value in values if value is not None]
        if limits.get("required") and len(present) < len(values):
            found.append(f"{name} has missing values")
        if any(type(value) is not TYPES[described["type"]] for value in present):
            found.append(f"{name} has values of another type")
            continue
        if described["type"] == "string" and name != "of":
            # A text that stands for a missing value would be read as one, as `of` wants it.
            found += [f"{name} has {text!r}" for text in schema["missingValues"] if text in present]
        if described["type"] == "date":
            present = [value.isoformat() for value in present]
        if "enum" in limits and not set(present) <= set(limits["enum"]):
            found.append(f"{name} has values that are not listed")
        if "minimum" in limits and present and min(present) < limits["minimum"]:
            found.append(f"{name} goes below its minimum")
        if "maximum" in limits and present and max(present) > limits["maximum"]:
            found.append(f"{name} goes above its maximum")
    return found


def test_what_is_stated_about_publication_is_in_the_schemas_document():
    document = with_publication(make_published()[0]).schema.document

    assert document["publication"] == STATED
    assert parse_schema(document).document == document
    assert "publication" not in make_schema().document


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("publisher_type", "agency", "government, industry, nonprofit"),
        ("licence", "mine", "CC0-1.0"),
        ("contact", "nobody", "an email address"),
        ("contact", "data@example.org, or the desk", "an email address"),
        ("url", "javascript:alert(1)", "begins with https"),
        ("licence_url", "ftp://x.example", "begins with https"),
        ("doi", "https://doi.org/10.1/x", "without its resolver"),
        ("publisher", "  ", "blank"),
        ("publishers", "x", "publisher"),
    ],
)
def test_a_mistake_in_the_publication_is_one_sentence(key, value, words):
    with pytest.raises(BadInput, match=words):
        parse_schema({**make_schema().document, "publication": {key: value}})
