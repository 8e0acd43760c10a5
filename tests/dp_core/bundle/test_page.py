"""Counts in the report: the pooled ones, bounded in size, and a cross-tabulation to choose."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dp_core.bundle.quality.relations import pool_release
from dp_core.bundle.report import page as module
from dp_core.bundle.report.page import count_tables
from dp_core.methods.reconstruction.estimates.functional_noise import half_widths
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from tests.browser import Page
from tests.dp_core.bundle.conftest import NASTY, make_published
from tests.measured import noisy_table
from tests.schema_texts import read


@pytest.fixture(scope="module")
def measured():
    published, _ = make_published(beyond=[("height", "age")])
    schema = published.schema
    pooled = pool_release(schema, published.released)
    return pooled, schema, count_tables(pooled, schema)


def test_every_published_table_is_listed_with_its_pooled_counts_and_margin(measured):
    pooled, schema, found = measured
    listed = {table.name: table for table in found.listed}

    assert list(listed) == [
        *("sex", "age", "height", "born", "sex × age", "age × height", "sex × height × born"),
    ]
    table = listed["sex × age"]
    counts = pooled.counts(("sex", "age"))
    assert [row.labels for row in table.rows] == [
        (label,) for label in schema.column("sex").code_labels()
    ]
    assert [row.counts for row in table.rows] == [tuple(row) for row in np.rint(counts).tolist()]
    cells = Functionals(("sex", "age"), (np.eye(4), np.eye(20)))
    margins = half_widths(pooled, cells)
    assert table.margin == np.ceil(margins.max())
    assert margins.max() == pytest.approx(margins.min())


def test_the_cross_tabulations_are_those_that_are_determined(measured):
    pooled, schema, found = measured
    data = json.loads(found.crossed)
    names = [column["name"] for column in data["columns"]]

    assert names == list(schema.domain.columns)
    assert data["columns"][0]["labels"] == list(schema.column("sex").code_labels())
    held = {tuple(names[int(place)] for place in key.split()) for key in data["pairs"]}
    assert held == {
        *(("sex", "age"), ("sex", "height"), ("sex", "born"), ("age", "height")),
        ("height", "born"),
    }
    margin, counts = data["pairs"]["0 3"]
    assert counts == np.rint(pooled.counts(("sex", "born"))).ravel().tolist()
    assert margin > 0
    assert "<" not in found.crossed


def test_what_is_too_large_is_counted_and_not_listed(measured, monkeypatch):
    pooled, schema, _ = measured
    monkeypatch.setattr(module, "MOST_CELLS", 20)
    monkeypatch.setattr(module, "MOST_CROSSED", 15)
    found = count_tables(pooled, schema)

    assert [table.name for table in found.listed] == ["sex", "age", "height", "born"]
    assert found.left_out == 3
    data = json.loads(found.crossed)
    assert data["pairs"]["0 1"] == []
    assert data["pairs"]["0 2"] != []
    monkeypatch.setattr(module, "MOST_LISTED", 6)
    monkeypatch.setattr(module, "MOST_COLUMNS", 2)
    found = count_tables(pooled, schema)
    assert [table.name for table in found.listed] == ["sex"]
    assert (found.left_out, found.more_columns) == (6, 2)


def test_a_release_without_tables_shows_nothing(measured):
    _, schema, _ = measured

    assert not count_tables(pool_release(schema, []), schema).any


def test_an_impossible_combination_is_named():
    schema = read(
        """\
version: 1
title: t
columns:
  a: {type: category, levels: [x, y]}
  b: {type: category, levels: [u, v]}
impossible: [{a: x, b: v}]
"""
    )
    table = noisy_table(schema.domain, np.array([[5, 2], [9, 4]]), noise="laplace", scale=3.0)
    (listed,) = count_tables(pool_release(schema, [table]), schema).listed

    assert [row.counts for row in listed.rows] == [(5, None), (9, 4)]


CHOOSE = """(() => {
  for (const [id, place] of [["crosstab-down", %d], ["crosstab-across", %d]]) {
    const select = document.getElementById(id);
    select.value = place;
    select.dispatchEvent(new Event("change"));
  }
  const texts = path => [...document.querySelectorAll(path)].map(each => each.textContent);
  return [document.getElementById("crosstab-says").textContent,
          texts("#crosstab-table tbody td"), texts("#crosstab-table tbody th")];
})()"""


def test_a_reader_chooses_two_columns(page: Page, bundle):
    page.open(bundle / "report.html", width=1200)

    said, numbers, labels = page.ask(CHOOSE % (3, 0))
    assert "margin of error of ±" in said
    assert (len(labels), len(numbers)) == (3, 12)  # born by sex, each with missing
    _, turned, rows = page.ask(CHOOSE % (0, 3))
    assert NASTY in rows
    assert [turned[3 * row + column] for column in range(3) for row in range(4)] == numbers
    said, numbers, _ = page.ask(CHOOSE % (1, 3))
    assert "not measured together" in said
    assert numbers == []
    _, numbers, _ = page.ask(CHOOSE % (0, 0))
    assert len(numbers) == 4
    assert page.complaints() == []


def test_without_a_script_the_tables_are_there(bundle):
    text = (bundle / "report.html").read_text(encoding="utf-8")

    assert '<div id="crosstab" hidden>' in text
    assert "<noscript>" in text
    assert "sex × age (columns: age), records; margin of error" in text
