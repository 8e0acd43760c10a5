"""Receipts and noisy tables forged so that every hash fits again: what they then contradict."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.kernel.canonical import digest
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.extensions.thresholds import StabilityEvent, ThresholdTable
from dp_core.kernel.ledger.receipts import make_receipt
from tests.dp_core.bundle.conftest import written
from tests.dp_core.bundle.forgery import (
    edit_table,
    failed,
    put,
    relink,
    relinked,
    resealed,
    statement_of,
)


def receipts(document):
    return document["ledger"]["receipts"]


def body(document, number):
    return receipts(document)[number - 1]["body"]


def cut_at_the_end(document):
    del receipts(document)[-2:]


def cut_with_its_head(document):
    cut_at_the_end(document)
    document["ledger"]["head"] = receipts(document)[-1]["hash"]


def another_plan(document):
    document["method"]["plan"]["spec"]["release"] = "other"


def another_plan_with_its_hash(document):
    another_plan(document)
    document["method"]["plan_sha256"] = digest(document["method"]["plan"])


def charge_of_another_reservation(document):
    """Each reservation counts its receipts 1, 2, 3, ...; one of another has no place in it."""
    own = receipts(document)[1]
    fields = {name: own[name] for name in ("kind", "number", "account", "release", "body")}
    receipts(document)[1] = make_receipt(**fields, at="2026-11-19", previous="a" * 64).to_json()


def tenth_of(part, word):
    """State a claim that is stronger than the noise of the tables shows."""

    def change(document):
        claim = document["guarantee"][part][word]
        claim["exact"] = str(Fraction(claim["exact"]) / 10)

    return change


def gap(document):
    """The plan's last tables with their commit: the rest, hashed again, is a chain with a gap."""
    del receipts(document)[6:9]


def other_relation(document):
    """The sensitivities remain those of add-remove."""
    guarantee = document["guarantee"]
    guarantee["in_words"] = guarantee["in_words"].replace("added or removed", "replaced")
    document["sets"]["records"]["how"] = "public"
    body(document, 1)["neighbours"] = guarantee["neighbours"] = "replace-one"


def five_times_the_cost(document):
    body(document, 2)["cost"] = str(Fraction(body(document, 2)["cost"]) * 5)


def pure_currency(document):
    body(document, 1)["currency"]["kind"] = document["ledger"]["currency"]["kind"] = "pure"


def threshold(document):
    """A threshold for which a delta was reserved, at which the total is no longer converted."""
    event = StabilityEvent(Fraction(1000), 1, 20_000)
    domain = Domain(("sex", "age"), (2, 3))
    asks = ThresholdTable(domain.columns, 100, event.scale, event.threshold).asks(domain)
    body(document, 2).update(event=event.to_json(), asks=asks)
    own = event.own_delta()
    body(document, 1)["currency"]["own_delta"] = str(own)
    document["ledger"]["currency"]["own_delta"] = {"exact": str(own), "decimal": float(own)}


# How the statement is forged, and what each check says of it.
STATED = {
    "a day": (
        lambda d: receipts(d)[2].update(at="2026-11-21"),
        {"receipts": "Receipt 3 (charge) was changed"},
    ),
    "a receipt left out": (
        lambda d: receipts(d).pop(2),
        {"receipts": "does not follow", "tables": "names no receipt"},
    ),
    "cut": (cut_at_the_end, {"receipts": "last receipt", "tables": "never committed"}),
    "cut with its head": (cut_with_its_head, {"charges": "finished and settled"}),
    "plan": (another_plan, {"receipts": "plan"}),
    "plan and hash": (another_plan_with_its_hash, {"receipts": "not the one that was reserved"}),
    "stranger": (
        charge_of_another_reservation,
        {"receipts": "Receipt 2 (charge) does not follow"},
    ),
    "neighbours": (
        lambda d: d["guarantee"].update(neighbours="replace-one"),
        {"guarantee": "neighbours"},
    ),
    "own delta": (
        lambda d: d["ledger"]["currency"].update(own_delta={"exact": "1/9", "decimal": 1 / 9}),
        {"guarantee": "is not the one that was reserved"},
    ),
    **{
        f"{part} {word}": (tenth_of(part, word), {"guarantee": ""})
        for part in ("enforced", "tightest")
        for word in ("epsilon", "delta")
    },
}
# The same with receipts that are hashed again.
RELINKED = {
    **{
        f"number {number}": (
            lambda d, number=number: receipts(d)[1].update(number=number),
            {"receipts": f"Receipt {number} (charge) does not follow"},
        )
        for number in (1, 3, 12, -2)
    },
    "gap": (gap, {"receipts": "Receipt 10 (settle) does not follow"}),
    "relation": (other_relation, {"charges": "smaller effect of one row"}),
    "cost": (five_times_the_cost, {"charges": "Stage 'one_way' charged more"}),
    "sum": (five_times_the_cost, {"charges": "add up to more"}),
    "currency": (pure_currency, {"charges": "no cost in this currency"}),
    "stage": (
        lambda d: body(d, 2).update(stage="select"),
        {"charges": "Stage 'select'", "tables": "another stage"},
    ),
    "spent": (lambda d: receipts(d)[-1]["body"].update(spent="1/100"), {"charges": "another sum"}),
    "outcome": (
        lambda d: receipts(d)[-1]["body"].update(outcome="abandoned"),
        {"charges": "finished and settled"},
    ),
    "columns": (
        lambda d: body(d, 2).update(step="age"),
        {"tables": "of other columns than receipt"},
    ),
    "threshold": (threshold, {"guarantee": "does not imply"}),
    "term": (
        lambda d: body(d, 1).update(only_women=True),
        {"guarantee": "terms that this program does not know: 'only_women'"},
    ),
}


@pytest.mark.parametrize("name", [*STATED, *RELINKED])
def test_a_forged_receipt_shows(broken, name):
    change, expected = STATED.get(name) or RELINKED[name]
    document = statement_of(broken)
    change(document)
    if name in RELINKED:
        relink(document)
    found = resealed(broken, document)
    assert {check for check, words in expected.items() if words not in found.get(check, "-")} == (
        set()
    )
    if name in ("spent", "outcome", "relation"):
        document = {"guarantee"} if name == "relation" else set()  # the kernel's is another, too
        assert set(found) - {"wording"} == {"charges"} | document
    assert "charges" not in found or name != "threshold"


def edited(column, change):
    """Return an edit of a column of the noisy tables, whose values are numbers."""
    return lambda table: put(table, column, change(table[column].to_numpy().copy()))


def replaced(column, value):
    """Return an edit of the first row of a column."""
    return lambda table: put(table, column, [value, *table[column].to_pylist()[1:]])


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (edited("grant", lambda grants: np.where(grants == 3, 2, grants)), "used twice"),
        (edited("grant", lambda grants: np.where(grants == 3, 999, grants)), "names no receipt"),
        (edited("scale", lambda scales: np.nextafter(scales, 0)), "other noise"),
        (edited("replicate", lambda numbers: numbers + 3), "does not exist"),
        (edited("round", lambda rounds: rounds + 1), "is of other columns"),
        (edited("count", lambda n: n + (n == n.max())), "not those that were committed"),
        (
            lambda table: table.filter(pc.not_equal(table["grant"], 3)),
            "Receipt 3 paid for a table that is not in",
        ),
        # They are in no receipt: with other labels every count would mean something else.
        (replaced("labels", ["male"]), "contains columns, sizes or labels"),
        (replaced("sizes", [40]), "contains columns, sizes or labels"),
        (replaced("columns", ["nobody"]), "contains columns, sizes or labels"),
    ],
)
def test_tables_that_do_not_fit_their_receipts_show(broken, edit, words):
    edit_table(broken, "marginals.parquet", edit)
    assert words in failed(verify(broken))["tables"]


def test_an_event_that_costs_more_than_its_charge_shows(tmp_path):
    folder = written(tmp_path, sensitivity=2)
    assert "charges less than its event costs" in failed(verify(folder))["charges"]


def test_a_release_that_protects_persons_verifies_and_says_so(tmp_path):
    folder = written(tmp_path, max_rows=4)
    document = statement_of(folder)

    assert not failed(verify(folder))
    assert (document["guarantee"]["unit"], document["guarantee"]["max_rows"]) == ("person", 4)
    assert document["guarantee"]["identified_by"] == "person_id"
    protects = "one person (identified by person_id; at most 4 rows)"
    assert f"{protects} added or removed" in document["guarantee"]["in_words"]
    assert protects in (folder / "report.html").read_text("utf-8")
    assert protects in (folder / "registry.yaml").read_text("utf-8")


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
    assert found["guarantee"].startswith("The document that was reserved is not that of the schema")
    assert "smaller effect of one person" in found["charges"]


def test_noise_for_rows_does_not_pass_for_persons(tmp_path):
    folder = written(tmp_path, max_rows=4, sensitivity=15)
    assert "smaller effect of one person" in failed(verify(folder))["charges"]
