from __future__ import annotations

import datetime
import json
from fractions import Fraction

import pyarrow.parquet as pq
import pytest

from dp_core.bundle.files.codebook import field, package_name
from dp_core.bundle.statement.release_json import file_record
from dp_core.schema.definition import Column


@pytest.fixture
def package(bundle):
    return json.loads((bundle / "datapackage.json").read_bytes())


def test_every_file_of_data_is_a_resource_with_its_checksum(bundle, package):
    assert package["profile"] == "data-package"
    assert [resource["path"] for resource in package["resources"]] == [
        "synthetic/set-1.parquet",
        "synthetic/set-2.parquet",
        "marginals.parquet",
    ]
    for resource in package["resources"]:
        record = file_record(bundle / resource["path"])
        assert resource["hash"] == f"sha256:{record['sha256']}"
        assert resource["bytes"] == record["bytes"]
        names = [item["name"] for item in resource["schema"]["fields"]]
        assert names == pq.read_schema(bundle / resource["path"]).names


def test_types_are_those_of_the_standard(package):
    fields = package["resources"][0]["schema"]["fields"]

    assert [item["type"] for item in fields] == ["string", "integer", "number", "date"]


def test_bins_and_levels_explain_the_codes_of_the_noisy_tables(bundle, package):
    described = {item["name"]: item for item in package["resources"][0]["schema"]["fields"]}
    labels = {
        name: {entry["code"]: entry["label"] for entry in item.get("levels", item.get("bins", []))}
        for name, item in described.items()
    }
    for row in pq.read_table(bundle / "marginals.parquet").to_pylist():
        for name, code, label in zip(row["columns"], row["cell"], row["labels"], strict=True):
            missing = described[name].get("missing", {}).get("code")
            assert label == ("(missing)" if code == missing else labels[name][code])


def test_edges_are_written_in_the_column_s_own_units():
    column = Column(
        name="born",
        kind="date",
        edges=(
            Fraction(datetime.date(2000, 1, 1).toordinal()),
            Fraction(datetime.date.max.toordinal() + 1),
        ),
        minimum=Fraction(datetime.date(2000, 1, 1).toordinal()),
        maximum=Fraction(datetime.date.max.toordinal()),
    )
    described = field(column)

    assert described["constraints"] == {
        "required": True,
        "minimum": "2000-01-01",
        "maximum": "9999-12-31",
    }
    assert described["bins"][0]["from"] == "2000-01-01"


@pytest.mark.parametrize(
    ("name", "expected"), [("RAND 2026/Q4", "rand-2026-q4"), ("ÄÖ", "release"), ("a.b_c", "a.b_c")]
)
def test_package_names_use_the_letters_the_standard_allows(name, expected):
    assert package_name(name) == expected
