from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.tables.domain import Domain
from dp_core.text.canonical import digest
from dp_core.wall.accounting.events import StabilityEvent
from dp_core.wall.ledger.session import sparse_asks
from tests.dp_core.bundle.conftest import written
from tests.dp_core.bundle.forgery import failed, relinked, resealed, statement_of


def test_a_sensitivity_too_small_for_the_neighbours_shows(broken):
    """The receipts themselves forged: replace-one with the sensitivities of add-remove."""
    document = statement_of(broken)
    document["guarantee"]["neighbours"] = "replace-one"
    document["guarantee"]["in_words"] = document["guarantee"]["in_words"].replace(
        "added or removed", "replaced"
    )
    document["sets"]["records"]["how"] = "public"
    document["ledger"]["receipts"][0]["body"]["neighbours"] = "replace-one"
    found = relinked(broken, document)

    assert set(found) == {"charges", "wording"}
    assert "smaller effect of one row" in found["charges"]


def test_an_event_that_costs_more_than_its_charge_shows(tmp_path):
    folder = written(tmp_path, sensitivity=2)

    assert "charges less than its event costs" in failed(verify(folder))["charges"]


def test_charges_beyond_the_reservation_show(broken):
    document = statement_of(broken)
    receipts = document["ledger"]["receipts"]
    body = receipts[1]["body"]
    body["cost"] = str(Fraction(body["cost"]) * 5)
    found = relinked(broken, document)["charges"]

    assert "Stage 'one_way' charged more" in found
    assert "add up to more" in found


def test_an_event_the_currency_cannot_pay_shows(broken):
    document = statement_of(broken)
    for receipt in document["ledger"]["receipts"]:
        if receipt["kind"] == "reserve":
            receipt["body"]["currency"]["kind"] = "pure"
    document["ledger"]["currency"]["kind"] = "pure"
    assert "no cost in this currency" in relinked(broken, document)["charges"]


def test_a_stage_that_was_not_reserved_shows(broken):
    document = statement_of(broken)
    document["ledger"]["receipts"][1]["body"]["stage"] = "select"
    found = relinked(broken, document)

    assert "Stage 'select'" in found["charges"]
    assert "another stage" in found["tables"]


@pytest.mark.parametrize(
    ("word", "value", "sentence"),
    [("spent", "1/100", "another sum"), ("outcome", "abandoned", "finished and settled")],
)
def test_a_settlement_that_does_not_fit_the_charges_shows(broken, word, value, sentence):
    document = statement_of(broken)
    document["ledger"]["receipts"][-1]["body"][word] = value
    found = relinked(broken, document)

    assert set(found) == {"charges"}
    assert sentence in found["charges"]


def test_a_table_passed_off_as_one_of_other_columns_shows(broken):
    document = statement_of(broken)
    charge = document["ledger"]["receipts"][1]
    assert charge["body"]["step"] == "sex"
    charge["body"]["step"] = "age"
    assert "of other columns than receipt" in relinked(broken, document)["tables"]


def change_tables(folder: Path, column: str, change: object) -> None:
    path = folder / "marginals.parquet"
    rows = pq.read_table(path)
    values = rows.column(column).to_numpy().copy()
    values = change(values)  # type: ignore[operator]
    index = rows.schema.get_field_index(column)
    pq.write_table(rows.set_column(index, column, pa.array(values)), path)


@pytest.mark.parametrize(
    ("column", "change", "words"),
    [
        ("grant", lambda grants: np.where(grants == 3, 2, grants), "used twice"),
        ("grant", lambda grants: np.where(grants == 3, 999, grants), "names no receipt"),
        ("scale", lambda scales: np.nextafter(scales, 0), "other noise"),
        ("replicate", lambda numbers: numbers + 3, "does not exist"),
        ("round", lambda rounds: rounds + 1, "is of other columns"),
        ("count", lambda counts: counts + (counts == counts.max()), "not those that were commit"),
    ],
)
def test_tables_that_do_not_fit_their_receipts_show(broken, column, change, words):
    document = statement_of(broken)
    change_tables(broken, column, change)
    assert words in resealed(broken, document)["tables"]


@pytest.mark.parametrize("column", ["labels", "sizes", "columns"])
def test_what_codes_stand_for_is_what_the_schema_says(broken, column):
    # They are in no receipt: with other labels every count would mean something else.
    document = statement_of(broken)
    path = broken / "marginals.parquet"
    rows = pq.read_table(path)
    values = rows.column(column).to_pylist()
    wrong = {"labels": values[1], "sizes": [40], "columns": ["nobody"]}
    values[0] = wrong[column]
    index = rows.schema.get_field_index(column)
    pq.write_table(rows.set_column(index, column, pa.array(values, rows.field(column).type)), path)
    assert "contains columns, sizes or labels" in resealed(broken, document)["tables"]


def test_a_table_that_was_paid_for_and_held_back_shows(broken):
    document = statement_of(broken)
    path = broken / "marginals.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.filter(pa.compute.not_equal(rows.column("grant"), 3)), path)
    assert "Receipt 3 paid for a table that is not in" in resealed(broken, document)["tables"]


def test_a_release_that_protects_persons_verifies_and_says_so(tmp_path):
    folder = written(tmp_path, max_rows=4)
    document = statement_of(folder)

    assert not failed(verify(folder))
    assert (document["guarantee"]["unit"], document["guarantee"]["max_rows"]) == ("person", 4)
    assert "one person (at most 4 rows) added or removed" in document["guarantee"]["in_words"]
    assert "one person (at most 4 rows)" in (folder / "report.html").read_text("utf-8")
    assert "one person (at most 4 rows)" in (folder / "registry.yaml").read_text("utf-8")


def relabelled(folder: Path, *, statement: int, receipt: int, schema: int) -> dict[str, str]:
    """Return what fails where the rows of a person are stated otherwise, with hashes made anew."""
    document = statement_of(folder)
    guarantee, method = document["guarantee"], document["method"]
    words = f"at most {guarantee['max_rows']} rows"
    guarantee["in_words"] = guarantee["in_words"].replace(words, f"at most {statement} rows")
    guarantee["max_rows"] = statement
    document["ledger"]["receipts"][0]["body"]["max_rows"] = receipt
    method["schema"]["unit"]["max_rows"] = str(schema)
    method["schema_sha256"] = digest(method["schema"])
    method["plan"]["spec"]["schema"]["sha256"] = method["schema_sha256"]
    method["plan_sha256"] = digest(method["plan"])
    document["ledger"]["receipts"][0]["body"]["plan"] = method["plan_sha256"]
    return relinked(folder, document)


def test_a_bundle_whose_rows_of_a_person_were_relabelled_fails(tmp_path):
    folder = written(tmp_path, max_rows=4)

    same = relabelled(folder, statement=4, receipt=4, schema=4)
    assert not set(same) - {"copies"}
    found = relabelled(folder, statement=5, receipt=4, schema=4)
    assert "not those that were reserved" in found["guarantee"]
    found = relabelled(folder, statement=5, receipt=5, schema=4)
    assert "not that of the schema" in found["guarantee"]
    # With all of them forged the noise is what it was, and is too little.
    found = relabelled(folder, statement=5, receipt=5, schema=5)
    assert "guarantee" not in found
    assert "smaller effect of one person" in found["charges"]


def test_noise_for_rows_does_not_pass_for_persons(tmp_path):
    folder = written(tmp_path, max_rows=4, sensitivity=15)
    assert "smaller effect of one person" in failed(verify(folder))["charges"]


def test_a_delta_for_thresholds_is_missing_from_the_conversion_of_the_total(broken):
    document = statement_of(broken)
    reserve, charge = document["ledger"]["receipts"][:2]
    event = StabilityEvent(Fraction(1000), 1, 20_000)
    asks = sparse_asks(Domain(("sex", "age"), (2, 3)), 100)
    charge["body"].update(event=event.to_json(), asks=asks)
    own_delta = event.own_delta()
    reserve["body"]["currency"]["own_delta"] = str(own_delta)
    stated = {"exact": str(own_delta), "decimal": float(own_delta)}
    document["ledger"]["currency"]["own_delta"] = stated
    found = relinked(broken, document)

    assert "charges" not in found
    assert "does not imply" in found["guarantee"]


def test_a_delta_set_aside_by_the_statement_alone_shows(broken):
    document = statement_of(broken)
    document["ledger"]["currency"]["own_delta"] = {"exact": "1/1000", "decimal": 0.001}
    assert "is not the one that was reserved" in resealed(broken, document)["guarantee"]
