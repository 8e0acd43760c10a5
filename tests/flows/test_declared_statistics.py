"""Releases that measure declared means and quantiles, from the spec to the answer of `query`."""

import html
import json
import shutil
from fractions import Fraction

import pytest

from dp_core.bundle.reading import read_bundle
from dp_core.bundle.verification.verify import verify
from dp_core.methods.declared_statistics.sum_answers import PARTS
from tests.dp_core.bundle.forgery import edit_column, resealed, statement_of
from tests.flows.test_declared_analyses import charged
from tests.flows.test_reuse import Second
from tests.full import some

pytestmark = pytest.mark.usefixtures("quick")

SENTENCES = ["mean of income by sex", "total of income by sex", "median of income by sex"]
TEXT = f"analyses: {json.dumps(SENTENCES)}\nsynthesize: {{sets: 0}}\n"


@pytest.fixture
def project(gaussian_project):
    gaussian_project.write_spec(TEXT)
    return gaussian_project


@pytest.fixture(params=some(["gaussian", "laplace"], lambda noise: noise == "gaussian"))
def made(request, corpus, monkeypatch):
    """The project of a finished release, to be read only."""
    return corpus(TEXT, measure=f"{{noise: {request.param}}}").read(monkeypatch)


def test_a_mean_and_a_total_are_measured_once_and_share_the_budget_with_the_quantile(made):
    total = made.ledger().reservation("town").currency.limit * Fraction(3, 10)
    found = charged(made)
    sums = {f"statistic-1-{part}": total / 2 * own for part, own in PARTS.items()}
    assert {step: found[step] for step in sums} == sums
    trees = [step for step in found if step.startswith("quantiles-1-")]
    assert len(trees) == len(found) - len(sums) > 0
    assert sum(found.values()) == total
    assert verify(made.out).passed


def test_statement_and_report_name_the_statistics(made):
    stated = statement_of(made.out)["method"]["analyses"]
    assert stated["formulas"] == SENTENCES
    assert all(sentence in stated["in_words"] for sentence in SENTENCES)
    report = html.unescape((made.out / "report.html").read_text(encoding="utf-8"))
    assert stated["in_words"] in report


@pytest.mark.parametrize("question", [*SENTENCES, "mean of income", "quantile 0.9 of income"])
def test_query_answers_from_them_and_says_so(made, command, question):
    found = command("query", made.out, question, "--json").json
    assert found["answered_from"] == "declared"
    text = " ".join(command("query", made.out, question).out.split())
    assert "were measured for the declared" in text


def test_a_sum_that_was_not_paid_for_is_found(made, tmp_path):
    copy = shutil.copytree(made.out, tmp_path / "copy")

    def change(of):
        for place, text in enumerate(of):
            if text and '"limited-sums"' in text:
                assert '"factors":[' in text
                of[place] = text.replace('"factors":[', '"factors":[1')

    edit_column(copy / "marginals.parquet", "of", change)
    assert resealed(copy, statement_of(copy))


def test_a_release_that_uses_the_tables_answers_from_the_sums_too(made, monkeypatch):
    monkeypatch.setenv("DP_RELEASE_HOME", str(made.home))
    second = Second(made)
    second.write("synthesize: {sets: 1, seed: 9}\n")
    second.make()
    assert verify(second.out).passed
    (sums, tree) = _sources(second.out).declared
    assert (sums.quantiles, tree.quantiles) == (False, True)


def _sources(out):
    from dp_core.analysis.query.sources import sources_of

    return sources_of(read_bundle(out))
