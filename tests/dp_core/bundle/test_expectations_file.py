"""`expectations.json`, and what `verify` finds if somebody changes it."""

import json
from dataclasses import replace

import pytest

from dp_core.bundle.files.expectations_file import expectations_in_words
from dp_core.bundle.verification.verify import verify
from tests.dp_core.bundle.conftest import make_published, write
from tests.dp_core.bundle.forgery import resealed, statement_of


@pytest.fixture
def bundle(tmp_path):
    published, data = make_published()
    published = replace(published, not_met=dict.fromkeys(published.numbers, ()))
    return write(tmp_path / "out", published, data, tmp_path / "scratch")


def test_the_file_is_listed_and_verified(bundle):
    found = verify(bundle)
    assert found.passed, found.failures
    (check,) = [each for each in found.checks if each.name == "expectations"]
    assert "recomputed from the sets" in check.sentence
    assert "expectations.json" in statement_of(bundle)["files"]
    assert "by which the confidential file was checked" in (bundle / "report.html").read_text()


def fewer(document):
    document["suite"]["expectations"].pop()


def looser(document):
    document["suite"]["expectations"][-1]["kwargs"] = {"column": "age"}


def one_set(document):
    document["sets"].pop()


def worse(document):
    document["sets"][0] |= {"success": False, "not_met": [0]}


def unknown(document):
    document["sets"][0] |= {"success": False, "not_met": [999]}


def contradicting(document):
    document["sets"][0]["not_met"] = [0]


def empty(document):
    document.clear()


@pytest.mark.parametrize(
    "change",
    [fewer, looser, one_set, worse, unknown, contradicting, empty],
    ids=lambda f: f.__name__,
)
def test_a_changed_file_is_found_though_every_checksum_fits(bundle, change):
    path = bundle / "expectations.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    assert resealed(bundle, statement_of(bundle)).keys() == {"expectations"}


def test_what_the_sets_do_not_meet_is_said():
    schema = make_published()[0].schema
    words = expectations_in_words(schema, {1: (), 2: (0,)})
    assert words.endswith("set 2 does not meet expect_column_values_to_be_in_set.")
