"""The best set: its file, what the statement says of it, and what `verify` finds."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from dp_core.bundle.best_set import BEST, BestSet
from dp_core.bundle.quality.table_fit import check_fit, comparable, mean_tvd
from dp_core.bundle.reading import read_bundle
from dp_core.bundle.verification.verify import verify
from tests.dp_core.bundle.conftest import make_published, tallied, write
from tests.dp_core.bundle.forgery import edit_table, failed, resealed, statement_of

PATH = "synthetic/best.parquet"


@pytest.fixture
def bundle(tmp_path):
    published, data = make_published(mode="posterior", sets=2, records=1003.0)
    compared = comparable(published.released, published.schema.domain)
    fits = check_fit(compared, tallied(published, data[:1]), records=1003.0)
    best = BestSet(data[0].rows, tvd=mean_tvd(fits))
    published = replace(published, best=best)
    published = replace(published, not_met=dict.fromkeys(published.numbers, ()))
    return write(tmp_path / "out", published, data, tmp_path / "scratch")


def test_it_is_a_file_of_its_own_and_verifies(bundle):
    found = verify(bundle)
    assert found.passed, found.failures
    (check,) = [each for each in found.checks if each.name == "sets"]
    assert "2 synthetic sets and the best set" in check.sentence
    stated = statement_of(bundle)
    assert PATH in stated["files"]
    assert stated["sets"]["m"] == 2 == len(stated["sets"]["rows"])
    assert stated["sets"]["best"]["rows"] == stated["sets"]["rows"][0]
    assert 0 < stated["sets"]["best"]["mean_tvd_to_noisy"] < 0.5


def test_codebook_report_and_suite_say_which_file_is_for_what(bundle):
    resources = json.loads((bundle / "datapackage.json").read_text())["resources"]
    assert [each["name"] for each in resources] == ["best", "set-1", "set-2", "marginals"]
    assert "To look at and to train on" in resources[0]["description"]
    assert "Analyse all numbered sets" in resources[1]["description"]
    report = (bundle / "report.html").read_text()
    assert f"<code>{PATH}</code>" in report
    assert "No interval follows from it" in report
    suite = json.loads((bundle / "expectations.json").read_text())
    assert [each["set"] for each in suite["sets"]] == ["best", 1, 2]


def test_it_is_read_like_a_set_and_no_answer_counts_it(bundle):
    opened = read_bundle(bundle)
    assert [*opened.claims.numbers] == [BEST, 1, 2]
    assert opened.claims.sets == 2
    assert opened.read_set(BEST, ["age"]).num_rows == opened.claims.best.rows


@pytest.mark.parametrize(
    "stated",
    [
        None,
        {"rows": 1},
        {"rows": "many"},
        {"rows": 600, "persons": 3},
        {"rows": 600, "error": 0},
        {},
    ],
)
def test_another_statement_about_it_shows(bundle, stated):
    document = statement_of(bundle)
    if stated is None:
        del document["sets"]["best"]
    else:
        document["sets"]["best"] = stated
    assert resealed(bundle, document)


def test_other_records_in_it_show(bundle):
    edit_table(bundle, PATH, lambda table: table.take([0] * table.num_rows))
    found = failed(verify(bundle))
    assert "distance of the best set" in found["checks"]


def test_another_file_in_its_place_shows(bundle):
    shutil.copyfile(bundle / "marginals.parquet", bundle / PATH)
    assert resealed(bundle, statement_of(bundle))


def test_a_statement_without_one_is_of_a_release_without_one(tmp_path):
    published, data = make_published(mode="posterior", sets=2)
    folder = write(tmp_path / "out", published, data, tmp_path / "scratch")
    assert verify(folder).passed
    assert "best" not in statement_of(folder)["sets"]
    assert not (folder / PATH).exists()
    assert read_bundle(folder).claims.best is None
