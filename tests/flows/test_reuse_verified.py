"""`verify` on a bundle that uses the tables of an earlier release, and on forgeries of it."""

import shutil

import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput
from flows.cli.actions.signing_keys import make_signing_key
from tasks.run.home import SIGNING_KEY
from tests.dp_core.bundle.forgery import edit_column, failed, relink, reseal, resealed, statement_of
from tests.flows.corpus import only_read
from tests.flows.test_reuse import FIRST, Second


def release_twice(project):
    """Make a release and one that uses its tables, both signed."""
    key = project.home / SIGNING_KEY
    make_signing_key(project.ledger(), project.home, key, replaces=None, by="a", reason="b")
    project.release()
    second = Second(project)
    second.write("synthesize: {sets: 2, seed: 9}\n")
    second.make()


both = only_read(FIRST, release_twice)


@pytest.fixture
def bundles(both):
    """The bundles of a release and of one that uses its tables."""
    return both.out, Second(both).out


@pytest.fixture
def first(bundles):
    return bundles[0]


@pytest.fixture
def forged(bundles, tmp_path):
    """A copy of the second bundle, to be changed."""
    return shutil.copytree(bundles[1], tmp_path / "forged")


def add_one(bundle):
    def change(counts):
        counts[3] += 1

    edit_column(bundle / "marginals.parquet", "count", change)


def test_changed_noisy_tables_are_found_with_and_without_the_first_bundle(forged, first):
    add_one(forged)
    assert {"files", "tables"} <= set(failed(verify(forged)))

    reseal(forged, statement_of(forged))

    found = failed(verify(forged))
    assert "tables" in found
    assert "files" not in found
    assert {"tables", "measurements"} <= set(failed(verify(forged, measurements=first)))


def signed_by_nobody(document):
    document["measurements"]["place"]["signature"] = "0" * 128


def renamed(document):
    document["measurements"]["release"] = "other"


def reworded(document):
    words = document["measurements"]["in_words"]
    document["measurements"]["in_words"] = words.replace("epsilon 1,", "epsilon 1/2,")


def of_a_cheaper_charge(document):
    section = {"ledger": document["measurements"]}
    charges = [row for row in section["ledger"]["receipts"] if row["kind"] == "charge"]
    charges[0]["body"]["cost"] = "1/1000000"
    relink(section)


def of_another_account(document):
    section = {"ledger": document["measurements"]}
    for row in section["ledger"]["receipts"]:
        row["account"] = "other"
    relink(section)


def of_another_plan(document):
    document["measurements"]["plan"]["spec"]["synthesize"]["seed"] = 77


def with_a_cost(document):
    document["ledger"]["receipts"][0]["body"]["epsilon"] = "1"
    relink(document)


def with_another_document(document):
    document["ledger"]["receipts"][0]["body"]["document"] = "0" * 64
    relink(document)


def of_another_document(document):
    section = {"ledger": document["measurements"]}
    section["ledger"]["receipts"][0]["body"]["document"] = "0" * 64
    relink(section)


def on_an_unknown_term(document):
    document["ledger"]["receipts"][0]["body"]["only_women"] = True
    relink(document)


def with_a_stronger_guarantee(document):
    document["guarantee"]["tightest"]["epsilon"] = {"exact": "1/2", "decimal": 0.5}


def without_the_section(document):
    del document["measurements"]


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (signed_by_nobody, "measurements"),
        (renamed, "measurements"),
        (reworded, "wording"),
        (of_a_cheaper_charge, "measurements"),
        (of_another_account, "measurements"),
        (of_another_plan, "measurements"),
        (with_a_cost, "measurements"),
        (with_another_document, "measurements"),
        (on_an_unknown_term, "measurements"),
        (of_another_document, "guarantee"),
        (with_a_stronger_guarantee, "guarantee"),
        (without_the_section, "charges"),
    ],
)
def test_a_statement_that_was_made_to_fit_is_found(forged, forge, found):
    document = statement_of(forged)
    forge(document)
    assert found in resealed(forged, document)


def test_both_bundles_are_signed_by_the_ledger_s_key(bundles):
    first, second = bundles
    signed = statement_of(second)
    keys = [signed["signature"]["public_key"]]

    assert verify(second, trusted=keys, measurements=first).passed
    assert signed["measurements"]["place"] == statement_of(first)["ledger"]["place"]
    assert signed["measurements"]["place"]["signature"]
    assert "signature" in failed(verify(second, trusted=["0" * 64]))


def test_another_bundle_than_that_of_the_first_release_is_found(bundles, forged, tmp_path):
    first, second = bundles
    assert "'again'" in failed(verify(second, measurements=forged))["measurements"]
    assert "itself" in failed(verify(first, measurements=first))["measurements"]
    with pytest.raises(BadInput):
        verify(second, measurements=tmp_path)
    add_one(forged)
    assert "does not verify" in failed(verify(second, measurements=forged))["measurements"]
