"""Interactions in a bundle: read back as they were measured, in words, and no forgery passes."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from dp_core.bundle.files.marginals_file import read_marginals, write_marginals
from dp_core.bundle.quality.relations import measured_cliques
from dp_core.bundle.quality.table_fit import check_fit, columns_of, comparable
from dp_core.bundle.report.page import report
from dp_core.bundle.report.pictures.column_picture import picture
from dp_core.bundle.report.provenance import headline, made_from
from dp_core.bundle.report.table_precision import interactions, pools_by_set, table_rows
from dp_core.bundle.verification.examined import counts_of_sets
from dp_core.bundle.verification.verify import verify
from dp_core.client.interactions import cell_stddev
from dp_core.client.released import interactions_of
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.plan.quality_checks import public_figures
from tests.dp_core.bundle.conftest import code_of, make_published, tallied, write
from tests.dp_core.bundle.forgery import failed, relinked, resealed, statement_of
from tests.measured import noisy_sums

BEYOND = (("age", "born"), ("sex", "height"))


def fits_of(made, beyond=True):
    """How near its sets come to what was measured, counted from its files."""
    published, folder = made
    measured = comparable(published.released, published.schema.domain)
    cliques = [columns_of(item) for item in measured]
    tallies = counts_of_sets(folder, published.schema, range(1, published.sets + 1), cliques)
    found = check_fit(measured, tallies, records=round(published.records))
    return [fit for fit in found if beyond or not fit.beyond]


def figures_of(fits):
    """As the statement has them."""
    pairs = [pair for fit in fits for pair in zip(fit.set_tvd, fit.expected_tvd, strict=True)]
    return [figure.to_json() for figure in public_figures(*zip(*pairs, strict=True), len(fits))]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    published, data = make_published(beyond=BEYOND)
    folder = tmp_path_factory.mktemp("interactions")
    return published, write(folder / "out", published, data, folder / "scratch")


@pytest.fixture
def forged(made, tmp_path):
    """A copy to break."""
    return shutil.copytree(made[1], tmp_path / "copy")


def test_they_are_read_back_as_they_were_measured_and_verify(made):
    published, folder = made
    found = interactions_of(read_marginals(folder / "marginals.parquet", published.schema))
    assert [item.of.columns for item in found] == list(BEYOND)
    for item, measured in zip(found, interactions_of(published.released), strict=True):
        assert (item.of, item.noise, item.scale) == (measured.of, measured.noise, measured.scale)
        np.testing.assert_array_equal(item.values, measured.values)
    assert not failed(verify(folder))


def test_the_fit_is_verified_with_them_and_not_without(made, forged):
    document = statement_of(forged)
    document["sets"]["records"]["value"] = round(made[0].records)
    for fits, wrong in (
        (fits_of(made), set()),
        (fits_of(made, beyond=False), {"'tables'"}),
        # Of as many, as if those that were not compared were as near as the tables.
        (fits_of(made, beyond=False)[:1] * len(fits_of(made)), {"'mean_tvd_to_noisy'"}),
    ):
        document["checks"]["public"] = figures_of(fits)
        said = resealed(forged, document).get("checks", "")
        assert {word for word in said.split() if word.startswith("'")} == wrong


def test_they_are_named_in_words(made):
    published, folder = made
    lines = interactions(fits_of(made))
    assert {line.name for line in lines} == {"age × born", "sex × height"}
    for item in interactions_of(published.released):
        (line,) = [line for line in lines if line.name == " × ".join(item.of.columns)]
        width, cell = line.half_width, cell_stddev(item.of, item.scale)
        assert 1.96 * cell <= width <= 1.96 * cell + 1.01
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Measured interactions" in page
    assert "sex × height" in page
    assert "noisy tables and 2 noisy interactions" in page
    tables = len(published.released) - 2
    assert made_from(published) == (f"{tables} noisy tables", "2 noisy interactions of columns")
    assert headline(published) == (tables + 2, "noisy tables and interactions")
    assert set(BEYOND) < set(measured_cliques(published.released)[0][0])


@pytest.fixture(scope="module")
def column():
    """A release with the interaction of a column, and tallies of its sets."""
    published, data = make_published(beyond=(("sex",), ("age", "born")))
    return published, tallied(published, data)


def test_a_column_is_known_by_its_table_and_its_interaction_together(column):
    published, tallies = column
    measured = comparable(published.released, published.schema.domain)
    fits = check_fit(measured, tallies, records=published.records)
    pools = pools_by_set(published)
    pooled = pool(published.schema.domain, published.released)
    lines = {line.of.name: line for line in table_rows(fits, records=1000, pools=pools)}
    alone = {line.of.name: line for line in table_rows(fits, records=1000, pools={})}
    assert lines["sex"].half_width == math.ceil(1.96 * pooled.variance(("sex",)) ** 0.5)
    assert lines["sex"].half_width < 0.8 * alone["sex"].half_width
    assert not lines["sex"].of.beyond
    # The pair was not measured whole, but is known from its interaction and its columns.
    assert lines["age × born"].of.beyond
    assert "age × born" not in alone
    assert lines["age × born"].half_width == math.ceil(pooled.half_width(("age", "born")))
    widths = [line.half_width * line.of.cells for line in table_rows(fits, records=9, pools=pools)]
    assert widths == sorted(widths)

    page = report(published, tallies)
    worst = max(lines.values(), key=lambda line: line.half_width * line.of.cells)
    assert f"{worst.of.name}, {worst.example}." in page
    drawn = picture(published.schema.column("sex"), pools[0], tallies, records=published.records)
    half = 100 * pooled.half_width(("sex",)) / published.records
    shares = 100 * pooled.counts(("sex",)) / published.records
    assert [mark.noisy for mark in drawn.marks] == pytest.approx(shares.tolist())
    for mark in drawn.marks:
        assert mark.noisy_high - mark.noisy == pytest.approx(half)
        assert f"{mark.noisy:.1f} ± {half:.1f}" in page
    assert "an interaction and 3 noisy tables together." in page
    for code in (code_of(published).python_table, code_of(published).r_table):
        assert f"±{lines['sex'].half_width}." in code


def test_of_a_public_number_of_rows_the_total_is_known(column):
    published, _ = column
    public = replace(published, records_public=True)
    own, known = pools_by_set(published)[0], pools_by_set(public)[0]
    assert known.variance(("sex",)) < own.variance(("sex",))
    assert known.counts(("sex",)).sum() == pytest.approx(published.records)


def test_each_sets_own_measurements_are_not_anothers(column):
    published, tallies = column
    domain = published.schema.domain
    split = [replace(item, replicate=1) for item in published.released]
    other = [replace(item, replicate=2, scale=item.scale / 100) for item in published.released]
    pools = pools_by_set(replace(published, released=(*split, *other)))
    fit = check_fit(comparable(split[:1], domain), tallies, records=1000)[0]

    def width(number, pools=pools):
        (line,) = table_rows([replace(fit, replicate=number)], records=1000, pools=pools)
        return line.half_width

    assert width(1) == width(0, pools_by_set(published))
    assert width(2) <= math.ceil(width(1) / 100)
    assert pools[0].half_width(("sex",)) < 0.1 * width(1)


def test_one_of_three_columns_carries_their_relation_only_with_those_of_all_pairs():
    def found(*cliques):
        items = [
            noisy_sums(of, np.zeros(of.length, np.int64))
            for of in (Interaction(clique, (2,) * len(clique)) for clique in cliques)
        ]
        return measured_cliques(items)[0].get(0, [])

    pairs = (("a", "b"), ("a", "c"), ("b", "c"))
    assert found(("a", "b", "c"), *pairs[:2]) == list(pairs[:2])
    assert found(("a", "b", "c"), *pairs) == [*pairs, ("a", "b", "c")]


def charges(document):
    return [
        row
        for row in document["ledger"]["receipts"]
        if row["kind"] == "charge" and row["body"]["asks"]["name"] == "interaction"
    ]


@pytest.mark.parametrize("change", ["sizes", "columns", "event", "no unit", "name", "step"])
def test_a_forged_receipt_shows(forged, change):
    document = statement_of(forged)
    body = charges(document)[0]["body"]
    asks, sentence, check = dict(body["asks"]), "is of other columns than receipt", "tables"
    if change == "sizes":
        body["asks"] = {**asks, "sizes": [size - 1 for size in asks["sizes"]]}
    elif change == "columns":
        body["asks"] = {**asks, "columns": ["age", "sex"]}
    elif change == "event":
        body["event"]["l2_sensitivity_squared"] -= 1
        sentence, check = "assumes a smaller effect", "charges"
    elif change == "no unit":
        body["asks"] = {"name": "interaction", "columns": asks["columns"]}
        sentence, check = "whose sensitivity this program does not know", "charges"
    elif change == "step":
        body["step"] = "interaction of sex x height again"
    else:
        body["asks"] = {"name": "table"}
        body["event"]["l2_sensitivity_squared"] = 1
    assert sentence in relinked(forged, document)[check]


def test_numbers_of_fewer_codes_than_the_columns_have_show(made, forged):
    """The file and the receipt forged alike: other sizes are a smaller sensitivity."""
    published, _ = made
    first, other = interactions_of(published.released)
    sizes = first.of.sizes
    smaller = Interaction(first.of.columns, (sizes[1], sizes[0]))
    assert smaller.sizes != sizes
    items = [replace(item, of=smaller) if item is first else item for item in published.released]
    assert other in items
    write_marginals(forged / "marginals.parquet", items, published.schema)
    document = statement_of(forged)
    charges(document)[0]["body"]["asks"] = smaller.to_json()
    assert "not a complete noisy table" in relinked(forged, document)["tables"]
