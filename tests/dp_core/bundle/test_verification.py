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
from dp_core.kernel.canonical import digest
from tests.dp_core.bundle.conftest import written
from tests.dp_core.bundle.forgery import failed, reseal, resealed, statement_of
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


@pytest.mark.parametrize(("pure", "total"), [(False, "0.0149732"), (True, "1.01")])
def test_a_total_that_does_not_imply_the_guarantee_shows(tmp_path, pure, total):
    folder = written(tmp_path, pure=pure, reserved=Fraction(total))

    assert "does not imply" in failed(verify(folder))["guarantee"]


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
