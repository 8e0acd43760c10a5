"""A bundle whose sentences an earlier program worded: facts are compared, and it never verifies."""

from __future__ import annotations

import dataclasses
import shutil

import pytest

from dp_core.bundle.reading import read_bundle
from dp_core.bundle.statement import release_json
from dp_core.bundle.statement.release_json import FORMAT_VERSION, SAME_FACTS_SINCE
from dp_core.bundle.verification import verify as verify_module
from dp_core.bundle.verification import wording
from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput
from dp_core.wall.ledger.signatures import make_key
from tests.dp_core.bundle.conftest import make_published, write
from tests.dp_core.bundle.forgery import reseal, statement_of

SOFTWARE = {"python": "3.11", "dp_release": "0.0.9"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A bundle of the current format, to be read by a later program."""
    folder = tmp_path_factory.mktemp("earlier")
    published, data = make_published(mode="posterior")
    published = dataclasses.replace(published, software=SOFTWARE)
    return write(folder / "out", published, data, folder / "scratch")


@pytest.fixture
def earlier(written, tmp_path):
    """A copy to change."""
    return shutil.copytree(written, tmp_path / "copy")


@pytest.fixture
def later(written, monkeypatch):  # noqa: ARG001 (written by the program of before)
    """A program that words some sentence otherwise, and so has the next format."""
    for module in (release_json, verify_module, wording):
        monkeypatch.setattr(module, "FORMAT_VERSION", FORMAT_VERSION + 1)


def undecided(found):
    return {check.name: check.sentence for check in found.failures if not check.decided}


@pytest.mark.usefixtures("later")
def test_everything_but_the_wording_is_decided(earlier):
    found = verify(earlier)

    assert (found.passed, found.undecided) == (False, True)
    assert set(undecided(found)) == {"wording"}
    assert "dp_release 0.0.9" in undecided(found)["wording"]
    assert {"files", "receipts", "guarantee", "charges", "tables", "sets"} <= {
        check.name for check in found.checks if check.passed
    }
    with pytest.raises(BadInput, match=r"cannot be read as a release here.*dp_release 0\.0\.9"):
        read_bundle(earlier)


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    "other",
    [
        lambda d: d["guarantee"].update(in_words="Worded otherwise."),
        lambda d: d["guarantee"].update(not_covered=["Fewer sentences."]),
        lambda d: d["inference"].update(covers="Less than that."),
        lambda d: d["refusals"].update(in_words="None were counted."),
    ],
)
def test_other_sentences_are_no_fault_and_never_pass(earlier, other):
    document = statement_of(earlier)
    other(document)
    reseal(earlier, document)

    found = verify(earlier)
    assert found.undecided
    assert "wording" in undecided(found)


LIES = {
    "a number": lambda d: d["guarantee"]["enforced"]["epsilon"].update(decimal=0.1),
    "a key": lambda d: d["guarantee"].update(also_covered="All of it."),
    "a word": lambda d: d["inference"].update(rule="split"),
    "a truth value": lambda d: d["inference"].update(includes_noise=False),
    "a title": lambda d: d["release"].update(title="Another survey"),
    "a day": lambda d: d["release"].update(created="2020-01-01T00:00:00Z"),
    "a sentence for a number": lambda d: d["sets"].update(seed="the usual one"),
}


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
def test_another_fact_is_a_fault(earlier, lie):
    document = statement_of(earlier)
    lie(document)
    reseal(earlier, document)

    assert "wording" in {check.name for check in verify(earlier).failures if check.decided}


def test_the_same_sentences_are_faults_in_the_current_format(earlier):
    document = statement_of(earlier)
    document["guarantee"]["in_words"] = "Worded otherwise."
    reseal(earlier, document)

    assert not verify(earlier).undecided


@pytest.mark.usefixtures("later")
def test_citation_and_registry_entry_of_an_earlier_program_are_undecided(earlier):
    document = statement_of(earlier)
    (earlier / "CITATION.cff").write_text("message: worded otherwise\n")
    document["files"] = statement_of(earlier)["files"]
    found = verify(earlier)
    assert "copies" in undecided(found)
    assert "files" in {check.name for check in found.failures if check.decided}


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, SAME_FACTS_SINCE - 1, "4", True, None])
def test_a_format_with_other_facts_is_not_a_fault(earlier, version):
    document = statement_of(earlier)
    document["format"]["version"] = version
    reseal(earlier, document)

    found = verify(earlier)
    assert (found.passed, found.undecided) == (False, True)
    assert set(undecided(found)) == {"statement"}


def test_the_signature_of_an_earlier_statement_holds(tmp_path, request):
    key = make_key(tmp_path / "key")
    published, data = make_published()
    published = dataclasses.replace(published, software=SOFTWARE)
    folder = write(
        *(tmp_path / "out", published, data, tmp_path / "scratch"),
        sign=lambda message: (key.public, key.sign(message)),
    )

    request.getfixturevalue("later")
    found = verify(folder, trusted=[key.public])
    assert {check.name: check.passed for check in found.checks}["signature"]
    assert found.undecided
