from __future__ import annotations

import copy
import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_core.bundle.statement import file_record, render
from dp_core.bundle.verification import Verification, verify
from dp_core.canonical import digest
from dp_core.errors import BadInput
from dp_core.ledger.receipts import START, make_receipt
from dp_core.scores import InDif


@pytest.fixture
def broken(bundle, tmp_path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(bundle, tmp_path / "copy"))


def failed(verification: Verification) -> dict[str, str]:
    return {check.name: check.sentence for check in verification.failures}


def reseal(folder: Path, document: dict) -> None:
    """Write a statement that a forger made consistent: file hashes and its own hash fit."""
    for name in document["files"]:
        if (folder / name).is_file():
            document["files"][name] = file_record(folder / name)
    document.pop("sha256", None)
    document["sha256"] = digest(document)
    (folder / "release.json").write_bytes(render(document))


def statement_of(folder: Path) -> dict:
    return json.loads((folder / "release.json").read_bytes())


def relink(document: dict) -> None:
    """Hash changed receipts again, as someone would who forges the ledger's entries."""
    last, receipts = START, []
    for values in document["ledger"]["receipts"]:
        fields = {name: value for name, value in values.items() if name != "hash"}
        receipt = make_receipt(**{**fields, "previous": last})
        receipts.append(receipt.to_json())
        last = receipt.hash
    document["ledger"]["receipts"] = receipts
    document["ledger"]["head"] = last


@pytest.mark.parametrize("mode", ["shared", "split"])
@pytest.mark.parametrize("pure", [True, False])
def test_a_bundle_as_it_was_written_passes_every_check(make, tmp_path, mode, pure):
    build, write = make
    folder = write(tmp_path / "out", *build(mode=mode, pure=pure), tmp_path / "scratch")
    found = verify(folder)

    assert found.passed, found.failures
    assert [check.name for check in found.checks] == [
        "statement",
        "files",
        "receipts",
        "ledger",
        "signature",
        "wording",
        "guarantee",
        "charges",
        "tables",
        "sets",
    ]
    assert json.loads(json.dumps(found.to_json()))["passed"] is True


def test_one_flipped_byte_in_any_file_fails_and_names_it(broken):
    rng = np.random.default_rng(5)
    files = [path for path in sorted(broken.rglob("*")) if path.is_file()]
    assert len(files) == 6
    for path in files:
        content = path.read_bytes()
        places = {0, len(content) - 1, *rng.integers(0, len(content), 12).tolist()}
        for place in places:
            changed = bytearray(content)
            changed[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(changed))
            sentences = " ".join(failed(verify(broken)).values())
            assert path.relative_to(broken).as_posix() in sentences, (path, place)
        path.write_bytes(content)
    assert verify(broken).passed


@pytest.mark.parametrize(
    "name", ["marginals.parquet", "report.html", "datapackage.json", "synthetic/set-2.parquet"]
)
def test_a_missing_file_is_named(broken, name):
    (broken / name).unlink()
    found = failed(verify(broken))

    assert f"{name} is missing." in found["files"]


def test_a_file_cut_short_and_a_folder_in_its_place_are_named(broken):
    path = broken / "marginals.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert "marginals.parquet" in failed(verify(broken))["files"]
    path.unlink()
    path.mkdir()
    assert "marginals.parquet" in failed(verify(broken))["files"]


def test_a_file_that_does_not_belong_is_named(broken):
    (broken / "synthetic" / "notes.txt").write_text("hello")

    assert "synthetic/notes.txt does not belong" in failed(verify(broken))["files"]


def test_links_are_not_followed(broken, tmp_path):
    outside = tmp_path / "outside.html"
    shutil.move(broken / "report.html", outside)
    (broken / "report.html").symlink_to(outside)
    assert "report.html is not an ordinary file" in failed(verify(broken))["files"]
    (broken / "loop").symlink_to(broken)
    assert "loop does not belong" in failed(verify(broken))["files"]


def test_a_place_without_a_statement_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for path, words in [
        (tmp_path / "nothing", "does not exist"),
        (tmp_path / "file", "is a file"),
        (tmp_path, "holds no release.json"),
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


def test_a_newer_format_asks_for_a_newer_program(broken):
    document = statement_of(broken)
    document["format"]["version"] = 3
    reseal(broken, document)

    assert "newer dp-release" in failed(verify(broken))["statement"]


def test_a_changed_receipt_breaks_the_chain(broken):
    document = statement_of(broken)
    document["ledger"]["receipts"][2]["at"] = "2026-11-21"
    reseal(broken, document)

    assert failed(verify(broken))["receipts"].startswith("Receipt 3 (charge) was changed")


def test_a_receipt_left_out_breaks_the_chain(broken):
    document = statement_of(broken)
    del document["ledger"]["receipts"][2]
    reseal(broken, document)
    found = failed(verify(broken))

    assert "does not follow" in found["receipts"]
    assert "names no receipt" in found["tables"]


def test_a_cut_at_the_end_of_the_chain_shows(broken):
    document = statement_of(broken)
    del document["ledger"]["receipts"][-2:]
    reseal(broken, document)
    found = failed(verify(broken))

    assert "the last" in found["receipts"]
    assert "never committed" in found["tables"]
    document["ledger"]["head"] = document["ledger"]["receipts"][-1]["hash"]
    reseal(broken, document)
    assert "finished and settled" in failed(verify(broken))["charges"]


def test_another_plan_or_schema_than_was_reserved_shows(broken):
    document = statement_of(broken)
    document["method"]["plan"]["spec"]["release"] = "other"
    reseal(broken, document)
    assert "plan" in failed(verify(broken))["receipts"]
    document["method"]["plan_sha256"] = digest(document["method"]["plan"])
    reseal(broken, document)
    assert "not the one that was reserved" in failed(verify(broken))["receipts"]


@pytest.mark.parametrize("part", ["enforced", "tightest"])
@pytest.mark.parametrize("word", ["epsilon", "delta"])
def test_a_stronger_claim_than_was_paid_for_shows(broken, part, word):
    document = statement_of(broken)
    claim = document["guarantee"][part][word]
    # The noise of the tables shows a little more than the total does, not so much.
    claim["exact"] = str(Fraction(claim["exact"]) / 10)
    reseal(broken, document)

    assert "guarantee" in failed(verify(broken))


@pytest.mark.parametrize(("pure", "total"), [(False, "0.0149732"), (True, "1.01")])
def test_a_total_that_does_not_imply_the_guarantee_shows(make, tmp_path, pure, total):
    build, write = make
    published, data = build(pure=pure, reserved=Fraction(total))
    folder = write(tmp_path / "out", published, data, tmp_path / "scratch")

    assert "does not imply" in failed(verify(folder))["guarantee"]


def test_neighbours_other_than_reserved_show(broken):
    document = statement_of(broken)
    document["guarantee"]["neighbours"] = "replace-one"
    reseal(broken, document)

    assert "neighbours" in failed(verify(broken))["guarantee"]


def test_a_sensitivity_too_small_for_the_neighbours_shows(broken):
    """The receipts themselves forged: replace-one with the sensitivities of add-remove."""
    document = statement_of(broken)
    document["guarantee"]["neighbours"] = "replace-one"
    document["guarantee"]["in_words"] = document["guarantee"]["in_words"].replace(
        "added or removed", "replaced"
    )
    document["sets"]["records"]["how"] = "public"
    document["ledger"]["receipts"][0]["body"]["neighbours"] = "replace-one"
    relink(document)
    reseal(broken, document)
    found = failed(verify(broken))

    assert set(found) == {"charges"}
    assert "smaller effect of one row" in found["charges"]


def test_an_event_that_costs_more_than_its_charge_shows(make, tmp_path):
    build, write = make
    published, data = build(sensitivity=2)
    folder = write(tmp_path / "out", published, data, tmp_path / "scratch")

    assert "charges less than its event costs" in failed(verify(folder))["charges"]


def test_a_choice_among_scores_is_checked_by_the_change_of_one_score(broken):
    document = statement_of(broken)
    asks = {"name": "indif", "length": 3}

    def found(sensitivity: int) -> str:
        body = document["ledger"]["receipts"][1]["body"]
        event = {"mechanism": "noisy-max", "scale": "1000000", "noise": "gumbel"}
        body.update(event={**event, "sensitivity": sensitivity}, asks=asks)
        relink(document)
        reseal(broken, document)
        return failed(verify(broken)).get("charges", "")

    change = InDif(()).largest_change(document["guarantee"]["neighbours"])
    assert "assumes a smaller effect" in found(change - 1)
    assert "assumes a smaller effect" not in found(change)


@pytest.mark.parametrize("scores", [None, 3])
def test_scores_charged_as_if_one_row_moved_one_of_them_show(broken, scores):
    document = statement_of(broken)
    body = document["ledger"]["receipts"][1]["body"]
    body["stage"] = "select"
    if scores:
        body["asks"] = {"name": "indif", "length": scores}
    relink(document)
    reseal(broken, document)

    assert ("a smaller effect" in failed(verify(broken))["charges"]) == (scores is not None)


@pytest.mark.parametrize("asks", [{"name": "anything"}, {}, {"name": "indif"}, [], None])
def test_what_has_no_proven_sensitivity_shows(broken, asks):
    document = statement_of(broken)
    document["ledger"]["receipts"][1]["body"]["asks"] = asks
    relink(document)
    reseal(broken, document)

    assert "Receipt 2 is for a question whose" in failed(verify(broken))["charges"]


def test_charges_beyond_the_reservation_show(broken):
    document = statement_of(broken)
    receipts = document["ledger"]["receipts"]
    body = receipts[1]["body"]
    body["cost"] = str(Fraction(body["cost"]) * 5)
    relink(document)
    reseal(broken, document)
    found = failed(verify(broken))["charges"]

    assert "Stage 'one_way' charged more" in found
    assert "add up to more" in found


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
    reseal(broken, document)

    assert failed(verify(broken))["receipts"].startswith("Receipt 2 (charge) does not follow")


@pytest.mark.parametrize("number", [1, 3, 12, -2])
def test_a_number_that_is_not_the_next_shows_even_where_the_hashes_fit(broken, number):
    document = statement_of(broken)
    document["ledger"]["receipts"][1]["number"] = number
    relink(document)
    reseal(broken, document)

    assert f"Receipt {number} (charge) does not follow" in failed(verify(broken))["receipts"]


def test_receipts_that_are_numbered_on_after_one_was_left_out_show(broken):
    """The plan's last tables with their commit: the rest, hashed again, is a chain with a gap."""
    document = statement_of(broken)
    del document["ledger"]["receipts"][6:9]
    relink(document)
    reseal(broken, document)

    assert "Receipt 10 (settle) does not follow" in failed(verify(broken))["receipts"]


def test_an_event_the_currency_cannot_pay_shows(broken):
    document = statement_of(broken)
    for receipt in document["ledger"]["receipts"]:
        if receipt["kind"] == "reserve":
            receipt["body"]["currency"]["kind"] = "pure"
    document["ledger"]["currency"]["kind"] = "pure"
    relink(document)
    reseal(broken, document)

    assert "cannot pay" in failed(verify(broken))["charges"]


def test_a_stage_that_was_not_reserved_shows(broken):
    document = statement_of(broken)
    document["ledger"]["receipts"][1]["body"]["stage"] = "select"
    relink(document)
    reseal(broken, document)
    found = failed(verify(broken))

    assert "Stage 'select'" in found["charges"]
    assert "another stage" in found["tables"]


@pytest.mark.parametrize(
    ("word", "value", "sentence"),
    [("spent", "1/100", "another sum"), ("outcome", "abandoned", "finished and settled")],
)
def test_a_settlement_that_does_not_fit_the_charges_shows(broken, word, value, sentence):
    document = statement_of(broken)
    document["ledger"]["receipts"][-1]["body"][word] = value
    relink(document)
    reseal(broken, document)
    found = failed(verify(broken))

    assert set(found) == {"charges"}
    assert sentence in found["charges"]


def test_a_table_passed_off_as_one_of_other_columns_shows(broken):
    document = statement_of(broken)
    charge = document["ledger"]["receipts"][1]
    assert charge["body"]["step"] == "sex"
    charge["body"]["step"] = "age"
    relink(document)
    reseal(broken, document)

    assert "of other columns than receipt" in failed(verify(broken))["tables"]


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
    reseal(broken, document)

    assert words in failed(verify(broken))["tables"]


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
    reseal(broken, document)

    assert "names columns, sizes or labels" in failed(verify(broken))["tables"]


def test_a_table_that_was_paid_for_and_held_back_shows(broken):
    document = statement_of(broken)
    path = broken / "marginals.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.filter(pa.compute.not_equal(rows.column("grant"), 3)), path)
    reseal(broken, document)

    assert "Receipt 3 paid for a table that is not in" in failed(verify(broken))["tables"]


def test_sets_that_are_not_as_described_show(broken):
    document = statement_of(broken)
    path = broken / "synthetic" / "set-1.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.slice(1).rename_columns(["sex", "age", "height", "day"]), path)
    reseal(broken, document)
    found = failed(verify(broken))["sets"]

    assert "number of rows" in found
    assert "other columns" in found


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
    reseal(broken, document)

    assert "release.json" in failed(verify(broken))["receipts"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
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
