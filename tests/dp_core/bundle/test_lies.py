"""What someone can change in a bundle on its way, making every checksum fit, and who notices."""

from __future__ import annotations

import copy
import dataclasses
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.accounts.ledger_position import Place, Total
from dp_core.accounts.signatures import Signer, make_key, signed_message
from dp_core.bundle.published import Published
from dp_core.bundle.statement.release_json import file_record, statement_message
from dp_core.bundle.verification.verify import verify
from dp_core.kernel.canonical import digest
from dp_core.kernel.ledger.receipts import make_receipt
from tests.dp_core.bundle.conftest import write
from tests.dp_core.bundle.forgery import rehash, reseal, statement_of

LINK = "c" * 64


@pytest.fixture(scope="session")
def keys(tmp_path_factory) -> tuple[Signer, Signer]:
    """The ledger's key, and a stranger's."""
    folder = tmp_path_factory.mktemp("keys")
    return make_key(folder / "ledger"), make_key(folder / "stranger")


@pytest.fixture(scope="session")
def bundles(release, keys, tmp_path_factory) -> dict[bool, Path]:
    """Bundles of a release that two accounts paid for: a signed one, and one that is not."""
    published, data = release
    published = with_parent(published)
    ledger, folder = keys[0], tmp_path_factory.mktemp("lies")
    signature = ledger.sign(signed_message(published.head, LINK))
    place = Place(link=LINK, public_key=ledger.public, signature=signature)
    return {
        True: write(
            folder / "signed",
            dataclasses.replace(published, place=place),
            data,
            folder / "a",
            sign=lambda message: (ledger.public, ledger.sign(message)),
        ),
        False: write(folder / "plain", published, data, folder / "b"),
    }


@pytest.fixture
def written(bundles, tmp_path) -> Callable[[bool], Path]:
    """Return a function that gives a copy to change."""
    return lambda signed: Path(shutil.copytree(bundles[signed], tmp_path / "bundle"))


def with_parent(published: Published) -> Published:
    """Return the release as if its account stood within another."""
    first = published.totals[0]
    above = Total(
        account="country",
        composition="basic",
        epsilon=Fraction(3),
        delta=Fraction(1, 10**4),
        own_delta=Fraction(0),
        opened=first.opened,
        changed=tuple(
            (first.opened, kind, "basic", Fraction(3), Fraction(1, 10**4))
            for kind in ("raise", "restate")
        ),
    )
    totals = (first, above)
    end = published.receipts[-1]
    body = {**end.body, "totals": [total.to_json() for total in totals]}
    values = {**end.to_json(), "body": body}
    del values["hash"]
    receipts = (*published.receipts[:-1], make_receipt(**values))
    return dataclasses.replace(published, totals=totals, receipts=receipts)


def leave_out_the_parent(document: dict[str, Any]) -> None:
    totals = document["ledger"]["totals"]
    del totals[1]
    totals[0] |= {"epsilon": {"exact": "1", "decimal": 1.0}, "opened": "1999-01-01"}


def swap_the_schema(document: dict[str, Any]) -> None:
    method = document["method"]
    method["schema"]["title"] = document["release"]["title"] = "Another survey"
    method["schema_sha256"] = digest(method["schema"])


def small_decimals(document: dict[str, Any]) -> None:
    for part in ("enforced", "tightest"):
        document["guarantee"][part]["epsilon"]["decimal"] = 0.001


# What is lied about, how, and the words in which everyone is told, even without any key.
WORDED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "the parent account and the total": (leave_out_the_parent, "'ledger.totals'"),
    "the sum of all releases": (
        lambda d: d["guarantee"].update(over_all_releases=["epsilon at most 0.01"]),
        "'guarantee.over_all_releases'",
    ),
    "the number of refused attempts": (
        lambda d: d["refusals"].update(refused_attempts=0, in_words="None was refused."),
        "'refusals'",
    ),
    "the guarantee in words": (
        lambda d: d["guarantee"].update(in_words="at most 1.0001 times as likely"),
        "'guarantee.in_words'",
    ),
    "decimals": (small_decimals, "'guarantee.enforced'"),
    "the decimal of the currency": (
        lambda d: d["ledger"]["currency"]["limit"].update(decimal=1e-6),
        "'ledger.currency'",
    ),
    "the theorem of what was enforced": (
        lambda d: d["guarantee"]["enforced"].update(theorem="pure magic"),
        "'guarantee.enforced'",
    ),
    "the theorem to quote": (
        lambda d: d["guarantee"]["tightest"].update(theorem="pure magic"),
        "under the stated theorem",
    ),
    "what is not covered": (
        lambda d: d["guarantee"].update(not_covered=[]),
        "'guarantee.not_covered'",
    ),
    "that staff looked": (
        lambda d: d["decision"].update(looks=["2026-01-01"]),
        "another decision than its receipts",
    ),
    "that a person decided": (
        lambda d: d["decision"].update(mode="after-approval", held="2026-01-01"),
        "another decision than its receipts",
    ),
    "the ledger": (lambda d: d["ledger"].update(id="another"), "'ledger.id'"),
    "what is revised": (lambda d: d["release"].update(revises="other"), "'release.revises'"),
    "the day": (lambda d: d["release"].update(created="1999-01-01T00:00:00Z"), "'release.created'"),
    "the title": (lambda d: d["release"].update(title="Another"), "'release.title'"),
    "the schema": (swap_the_schema, "'method.schema_sha256'"),
    "the mode": (lambda d: d["sets"].update(mode="split"), "'sets.mode'"),
    "the seed": (lambda d: d["sets"].update(seed=123), "'sets.seed'"),
    "how sets are combined": (lambda d: d["inference"].update(rule="split"), "'inference'"),
    "that sets need no combining": (lambda d: d.pop("inference"), "missing 'inference'"),
    "the method": (lambda d: d["method"].update(name="mst"), "'method.name'"),
    "how records are known": (
        lambda d: d["sets"]["records"].update(value=99999, how="public"),
        "'sets.records'",
    ),
    "a note that no statement has": (
        lambda d: d["guarantee"].update(note="epsilon 0.01"),
        "'guarantee.note'",
    ),
    "what a selection noted": (
        lambda d: d["method"].update(selection={"kept": "nothing"}),
        "'method.selection'",
    ),
    "a section that no statement has": (lambda d: d.update(note=1), "states 'note'"),
}

# What only a signature tells.
SIGNED: dict[str, Callable[[dict[str, Any]], object]] = {
    "the number of records": lambda d: d["sets"]["records"].update(value=99999),
    "software": lambda d: d["software"].update(python="2.7"),
    "the signature of the receipts": lambda d: d["ledger"].update(place=None),
    "the signature of the statement": lambda d: d.update(signature=None),
}


@pytest.mark.parametrize("signed", [False, True])
def test_a_bundle_that_nobody_changed_passes(written, keys, signed):
    trusted = [keys[0].public] if signed else []
    found = verify(written(signed), trusted=trusted)
    assert found.passed, found.failures


@pytest.mark.parametrize("lie", WORDED)
def test_a_lie_about_what_plan_and_receipts_say_shows_without_any_key(written, lie):
    folder = written(False)
    change, words = WORDED[lie]
    document = statement_of(folder)
    change(document)
    rehash(folder, document)
    found = verify(folder)
    assert not found.passed
    assert words in " ".join(check.sentence for check in found.failures)


@pytest.mark.parametrize("lie", [*WORDED, *SIGNED])
def test_any_lie_shows_against_the_ledgers_key(written, keys, lie):
    folder = written(True)
    change = SIGNED.get(lie) or WORDED[lie][0]
    document = statement_of(folder)
    change(document)
    rehash(folder, document)
    found = {check.name: check for check in verify(folder, trusted=[keys[0].public]).failures}
    assert "release.json" in found["signature"].sentence


@pytest.mark.parametrize("name", ["synthetic/set-1.parquet", "report.html", "datapackage.json"])
def test_every_file_is_signed_through_its_checksum(written, keys, name):
    folder = written(True)
    path = folder / name
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
        pq.write_table(rows.take(pa.array([0] * rows.num_rows)), path)  # one record repeated
    else:
        path.write_text(path.read_text().replace("survey", "census"))
    document = statement_of(folder)
    document["files"][name] = file_record(path)
    rehash(folder, document)
    found = {check.name for check in verify(folder, trusted=[keys[0].public]).failures}
    # The codebook, which has the hashes of the sets, is compared with the statement, too.
    assert found - {"copies"} == {"signature"}


def test_a_stranger_who_signs_a_changed_statement_is_not_the_ledger(written, keys):
    folder = written(True)
    ledger, stranger = keys
    document = statement_of(folder)
    document["sets"]["records"]["value"] = 99999
    reseal(folder, document)
    signature = stranger.sign(statement_message(document))
    document["signature"] = {"public_key": stranger.public, "signature": signature}
    rehash(folder, document)
    found = verify(folder, trusted=[ledger.public])
    assert [check.name for check in found.failures] == ["signature"]
    # Without the key it is told whose signature is to be compared.
    answer = next(check for check in verify(folder).checks if check.name == "signature")
    assert f"key {stranger.fingerprint}" in answer.sentence


def test_the_answer_tells_what_is_signed(written):
    folder = written(True)
    document = statement_of(folder)

    def answer() -> str:
        return next(check.sentence for check in verify(folder).checks if check.name == "signature")

    assert answer().startswith("release.json, and through it every file, is signed by key")
    stripped = copy.deepcopy(document)
    stripped["signature"] = None
    rehash(folder, stripped)
    assert "through the commits, the noisy tables are signed by key" in answer()
    assert "the synthetic sets and the rest are not" in answer()
    stripped["ledger"]["place"] |= {"public_key": None, "signature": None}
    rehash(folder, stripped)
    assert answer().startswith("Nothing is signed")


def test_a_bundle_written_again_under_a_new_key_is_the_same_bundle(release, keys, tmp_path):
    published, data = release

    def put(signer: Signer) -> Path:
        scratch = tmp_path / signer.fingerprint
        sign = lambda message: (signer.public, signer.sign(message))  # noqa: E731
        return write(tmp_path / "out", published, data, scratch, sign=sign)

    first = (put(keys[0]) / "release.json").read_bytes()
    assert (put(keys[1]) / "release.json").read_bytes() == first
