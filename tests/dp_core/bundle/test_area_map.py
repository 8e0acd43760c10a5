"""The report shows areas within areas as tiles, from the noisy tables of all levels."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from dp_core.analysis.query.answering import ask
from dp_core.analysis.query.sources import pooled_sources
from dp_core.bundle.report import area_map
from dp_core.bundle.report.area_map import MOST_TILES, area_maps
from dp_core.client.released import Measurement
from dp_core.kernel.privacy import Relation
from dp_core.schema.reading.schema_file import parse_schema
from tests import linked_release
from tests.dp_core.bundle.test_browser import FOCUS, RULES, TEXTS, WIDTH
from tests.dp_core.bundle.test_nested_households import frames, stated


def sources(districts=None, noise="gaussian", cliques=(("county",), ("district", "work"))):
    """Noisy tables of 3 counties with the given numbers of districts, 40 to 400 records each."""
    numbers = districts or (2, 1, 4)
    inside = {f"{c}{i}": c for c, n in zip("abc", numbers, strict=True) for i in range(n)}
    schema = parse_schema(
        {
            "version": "1",
            "title": "Districts",
            "columns": {
                "district": {
                    "type": "category",
                    "levels": [*inside],
                    "within": "county",
                    "map": inside,
                },
                "county": {"type": "category", "levels": ["a", "b", "c"]},
                "work": {"type": "category", "levels": ["none", "part", "full"]},
                "age": {"type": "integer", "min": "0", "max": "79", "bins": "4"},
            },
        }
    )
    rng = np.random.default_rng(5)
    truth = rng.integers(10, 140, (len(inside), 3))
    found = []
    for clique in cliques:
        domain = schema.domain.project(clique)
        table = truth
        if "district" not in clique:
            table = np.zeros((3, 3), dtype=np.int64)
            np.add.at(table, ["abc".index(c) for c in inside.values()], truth)
        values = table if "work" in clique else table.sum(axis=1)
        drawn = np.rint(rng.normal(0, 4, values.shape)).astype(np.int64)
        found.append(
            Measurement(domain, values + drawn, noise=noise, scale=4.0, stage="a", grant=1)
        )
    return pooled_sources(schema, found, rows=None, relation=Relation("add-remove"))


def maps(told):
    return area_maps(told.pooled, told.schema)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_tiles_have_the_counts_and_margins_of_answers(noise):
    told = sources(noise=noise)
    (found,) = maps(told)
    assert (found.larger, found.smaller) == ("county", "district")
    assert [row.label for row in found.rows] == ["a", "b", "c"]
    assert [len(row.tiles) for row in found.rows] == [2, 1, 4]
    for row, cell in zip(found.rows, ask(told, "count by county").cells, strict=True):
        assert row.count == round(cell.estimate)
        assert row.margin == pytest.approx(cell.margin, abs=1)
    tiles = [tile for row in found.rows for tile in row.tiles]
    for tile, cell in zip(tiles, ask(told, "count by district").cells, strict=True):
        assert tile.texts[0][0] == f"{cell.estimate:,.0f}"
        margin = float(tile.texts[0][1].removeprefix("± "))
        assert margin == pytest.approx(cell.margin, abs=1.01)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_tiles_have_the_shares_and_margins_of_answers(noise):
    told = sources(noise=noise)
    (found,) = maps(told)
    names = ["number of records", "work: none", "work: part", "work: full"]
    assert [each.name for each in found.shadings] == names
    tiles = [tile for row in found.rows for tile in row.tiles]
    for place, name in enumerate(("none", "part", "full"), start=1):
        cells = ask(told, f"share of work = {name} by district").cells
        for tile, cell in zip(tiles, cells, strict=True):
            assert float(tile.texts[place][0].split()[0]) == pytest.approx(
                100 * cell.estimate, abs=0.51
            )
            margin = float(tile.texts[place][1].removeprefix("± "))
            # Laplace noise is taken as one draw, with up to 8 % wider intervals.
            assert 0.98 * cell.margin - 0.006 < margin / 100 < 1.09 * cell.margin + 0.006


def test_darker_tiles_have_larger_numbers():
    (found,) = maps(sources())
    tiles = [tile for row in found.rows for tile in row.tiles]
    for place in range(len(found.shadings)):
        numbers = [float(tile.texts[place][0].split()[0].replace(",", "")) for tile in tiles]
        shaded = [(n, t.kinds[place]) for n, t in zip(numbers, tiles, strict=True)]
        shaded = sorted((n, kind) for n, kind in shaded if kind is not None)
        kinds = [kind for _, kind in shaded]
        assert kinds == sorted(kinds)
        assert len({*kinds}) > 1
        assert [kind for kind, _ in found.shadings[place].classes] == sorted({*kinds})


def test_a_share_that_noise_hides_is_not_shaded(monkeypatch):
    monkeypatch.setattr(area_map, "_WIDEST", 0.0)
    (found,) = maps(sources())
    kinds = {tile.kinds for row in found.rows for tile in row.tiles}
    assert all(count is not None and {*shares} == {None} for count, *shares in kinds)


def test_large_maps_show_the_largest_areas_and_count_the_others(monkeypatch):
    told = sources(districts=(300, 20, 100))
    (found,) = maps(told)
    shown = [len(row.tiles) for row in found.rows]
    assert sum(shown) <= MOST_TILES
    assert shown[1] == 20
    assert [len(row.tiles) + row.left_out for row in found.rows] == [300, 20, 100]
    assert found.tiles_left_out == 420 - sum(shown)
    counts = told.pooled.areas(()).values[2]
    least = min(float(tile.texts[0][0]) for tile in found.rows[0].tiles)
    assert least >= math.floor(np.sort(counts[:300])[-shown[0]])
    monkeypatch.setattr(area_map, "MOST_ROWS", 2)
    (found,) = maps(told)
    assert [row.label for row in found.rows] == ["a", "c"]
    assert found.left_out == 1


def test_areas_that_no_table_determines_are_not_drawn():
    assert maps(sources(cliques=(("county", "work"),))) == ()
    (found,) = maps(sources(cliques=(("district",),)))
    assert [each.name for each in found.shadings] == ["number of records"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report on households in areas."""
    made, session = linked_release.outcome(frames(), schema=stated(), mode="shared")
    folder = tmp_path_factory.mktemp("areas") / "bundle"
    linked_release.write(folder, made, linked_release.published_of(made, session))
    return folder / "report.html"


def test_the_report_shows_the_areas_of_households(report):
    page = report.read_text(encoding="utf-8")
    areas = page[page.index('<h2 id="areas">') : page.index('<h2 id="counts">')]
    assert "district in county" in areas
    assert "number of households" in areas
    assert re.findall(r'<li class="tile[^"]*">(\w+)<', areas) == ["a1", "a2", "b1", "b2", "b3"]


@pytest.mark.parametrize("dark", [False, True])
def test_tiles_are_readable_with_every_shading(page, report, dark):
    page.open(report, width=1200, dark=dark)
    picks = page.ask("document.querySelectorAll('.areas input').length")
    assert picks > 1
    for place in range(picks):
        page.ask(f"document.querySelectorAll('.areas input')[{place}].click()")
        texts = page.ask(TEXTS)
        assert {text: ratio for text, ratio in texts.items() if ratio < 4.5} == {}
        grounds = page.ask(
            "[...new Set([...document.querySelectorAll('.tile')]"
            ".map(e => getComputedStyle(e).backgroundColor))].length"
        )
        assert grounds > 1 or place
    assert page.ask(RULES) == []
    assert page.ask(FOCUS) == []
    assert page.complaints() == []


@pytest.mark.parametrize("width", [320, 1200])
def test_tiles_fit_the_screen_and_the_paper(page, report, width):
    page.open(report, width=width)
    needed, given = page.ask(WIDTH)
    assert needed <= given
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.ask("getComputedStyle(document.querySelector('.tile')).printColorAdjust") == "exact"
    page.call("Emulation.setEmulatedMedia", media="")


def test_the_keyboard_chooses_what_the_tiles_show(page, report):
    page.open(report, width=1200)
    shown = (
        "[...document.querySelectorAll('.tile')][0].innerText.split(/\\s+/)"
        ".filter(word => word.includes('%')).length"
    )
    assert page.ask(shown) == 0
    page.ask("document.querySelector('.areas input').focus()")
    for kind in ("keyDown", "keyUp"):
        key = {"key": "ArrowDown", "code": "ArrowDown", "windowsVirtualKeyCode": 40}
        page.call("Input.dispatchKeyEvent", type=kind, **key)
    assert page.ask(shown) == 1
