from __future__ import annotations

import copy
import json
import shutil
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_core.bundle.statement.release_json import FORMAT_VERSION, render
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput
from dp_core.text.canonical import digest
from dp_core.wall.ledger.receipts import make_receipt
from tests.dp_core.bundle.conftest import written
from tests.dp_core.bundle.forgery import failed, relinked, reseal, resealed, statement_of
from tests.full import examples


@pytest.mark.parametrize("mode", ["shared", "split"])
@pytest.mark.parametrize("pure", [True, False])
def test_a_bundle_as_it_was_written_passes_every_check(tmp_path, mode, pure):
    folder = written(tmp_path, mode=mode, pure=pure)
    found = verify(folder)

    assert found.passed, found.failures
    assert [check.name for check in found.checks] == [
        "statement",
        "files",
        "receipts",
        "ledger",
        "signature",
        "wording",
        "copies",
        "guarantee",
        "charges",
        "tables",
        "densities",
        "checks",
        "decision",
        "sets",
        "expectations",
    ]
    assert json.loads(json.dumps(found.to_json()))["passed"] is True


def test_a_place_without_a_statement_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for path, words in [
        (tmp_path / "nothing", "does not exist"),
        (tmp_path / "file", "is a file"),
        (tmp_path, "contains no release.json"),
    ]:
        with pytest.raises(BadInput, match=words):
            verify(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b"9" * 10_000,
        b'{"format": 3}',
        b'{"format": {"name": "dp-release bundle", "version": 2}}',
        b'{"format": {"name": "dp-release bundle", "version": 2}, "sha256": NaN}',
    ],
)
def test_a_statement_that_is_garbage_fails_by_name(broken, content):
    (broken / "release.json").write_bytes(content)

    assert "release.json" in failed(verify(broken))["statement"]


@pytest.mark.parametrize(
    ("version", "program"),
    [
        (FORMAT_VERSION + 1, "newer dp-release"),
        (FORMAT_VERSION - 1, "that made it"),
        ("4", "newer dp-release"),
        (True, "that made it"),
        (None, "newer dp-release"),
    ],
)
def test_another_format_is_no_fault_and_never_verifies(broken, version, program):
    document = statement_of(broken)
    document["format"]["version"] = version
    reseal(broken, document)
    found = verify(broken)
    assert (found.passed, found.undecided) == (False, True)
    assert program in failed(found)["statement"]


def test_a_changed_receipt_breaks_the_chain(broken):
    document = statement_of(broken)
    document["ledger"]["receipts"][2]["at"] = "2026-11-21"
    assert resealed(broken, document)["receipts"].startswith("Receipt 3 (charge) was changed")


def test_a_receipt_left_out_breaks_the_chain(broken):
    document = statement_of(broken)
    del document["ledger"]["receipts"][2]
    found = resealed(broken, document)

    assert "does not follow" in found["receipts"]
    assert "names no receipt" in found["tables"]


def test_a_cut_at_the_end_of_the_chain_shows(broken):
    document = statement_of(broken)
    del document["ledger"]["receipts"][-2:]
    found = resealed(broken, document)

    assert "last receipt" in found["receipts"]
    assert "never committed" in found["tables"]
    document["ledger"]["head"] = document["ledger"]["receipts"][-1]["hash"]
    assert "finished and settled" in resealed(broken, document)["charges"]


def test_another_plan_or_schema_than_was_reserved_shows(broken):
    document = statement_of(broken)
    document["method"]["plan"]["spec"]["release"] = "other"
    assert "plan" in resealed(broken, document)["receipts"]
    document["method"]["plan_sha256"] = digest(document["method"]["plan"])
    assert "not the one that was reserved" in resealed(broken, document)["receipts"]


@pytest.mark.parametrize("part", ["enforced", "tightest"])
@pytest.mark.parametrize("word", ["epsilon", "delta"])
def test_a_stronger_claim_than_was_paid_for_shows(broken, part, word):
    document = statement_of(broken)
    claim = document["guarantee"][part][word]
    # The noise of the tables shows a little more than the total does, not so much.
    claim["exact"] = str(Fraction(claim["exact"]) / 10)
    assert "guarantee" in resealed(broken, document)


@pytest.mark.parametrize(("pure", "total"), [(False, "0.0149732"), (True, "1.01")])
def test_a_total_that_does_not_imply_the_guarantee_shows(tmp_path, pure, total):
    folder = written(tmp_path, pure=pure, reserved=Fraction(total))

    assert "does not imply" in failed(verify(folder))["guarantee"]


def test_neighbours_other_than_reserved_show(broken):
    document = statement_of(broken)
    document["guarantee"]["neighbours"] = "replace-one"
    assert "neighbours" in resealed(broken, document)["guarantee"]


def test_a_charge_of_another_reservation_shows(broken):
    """Each reservation counts its receipts 1, 2, 3, ...; one of another has no place in it."""
    document = statement_of(broken)
    receipts = document["ledger"]["receipts"]
    stranger = make_receipt(
        number=2,
        kind="charge",
        account=receipts[0]["account"],
        release=receipts[0]["release"],
        at="2026-11-19",
        body=receipts[1]["body"],
        previous="a" * 64,
    )
    receipts[1] = stranger.to_json()
    assert resealed(broken, document)["receipts"].startswith("Receipt 2 (charge) does not follow")


@pytest.mark.parametrize("number", [1, 3, 12, -2])
def test_a_number_that_is_not_the_next_shows_even_where_the_hashes_fit(broken, number):
    document = statement_of(broken)
    document["ledger"]["receipts"][1]["number"] = number
    assert f"Receipt {number} (charge) does not follow" in relinked(broken, document)["receipts"]


def test_receipts_that_are_numbered_on_after_one_was_left_out_show(broken):
    """The plan's last tables with their commit: the rest, hashed again, is a chain with a gap."""
    document = statement_of(broken)
    del document["ledger"]["receipts"][6:9]
    assert "Receipt 10 (settle) does not follow" in relinked(broken, document)["receipts"]


@pytest.mark.parametrize("text", ["1e999999999", "1/0", "9" * 5000, "nan"])
@pytest.mark.parametrize("where", ["guarantee", "event", "limit"])
def test_numbers_that_would_take_for_ever_are_refused_at_once(broken, text, where):
    document = statement_of(broken)
    if where == "guarantee":
        document["guarantee"]["enforced"]["epsilon"]["exact"] = text
    elif where == "event":
        document["ledger"]["receipts"][1]["body"]["event"]["scale"] = text
    else:
        document["ledger"]["currency"]["limit"]["exact"] = text
    assert "release.json" in resealed(broken, document)["receipts"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_of_the_statement_is_answered_without_a_crash(bundle, tmp_path_factory, data):
    """A forger may put anything anywhere, and may make the statement's own hash fit again."""
    folder = tmp_path_factory.mktemp("forged") / "out"
    shutil.copytree(bundle, folder)
    document = copy.deepcopy(statement_of(folder))
    place: object = document
    while isinstance(place, dict | list) and place:
        key = data.draw(
            st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place)))
        )
        if (
            not isinstance(place[key], dict | list)
            or not place[key]
            or data.draw(st.integers(0, 3)) == 0
        ):
            if isinstance(place, dict) and data.draw(st.booleans()):
                del place[key]
            else:
                place[key] = data.draw(JSON)
            break
        place = place[key]
    document.pop("sha256", None)
    try:
        document["sha256"] = digest(document)
        content = render(document)
    except (ValueError, UnicodeError):
        return  # not a JSON document at all
    (folder / "release.json").write_bytes(content)
    result = verify(folder)

    assert all(check.sentence for check in result.checks)
