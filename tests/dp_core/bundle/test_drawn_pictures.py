"""The pictures in a real browser, measured on the screen and compared with published numbers."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_core.bundle.report.pictures.heat_map import LIMITS
from dp_core.confidential.utility import CONFIDENTIAL
from dp_core.lab.comparison.utility_page import UtilityPage
from dp_core.metrics.marginal_error import MarginalError
from tests.browser import Page

RGB = tuple[int, int, int]
WIDE = 1.96
"""Half of a 95 % interval in standard errors of normal noise, which the release has."""

SQUARES = """(() => {
  const found = [];
  for (const map of document.querySelectorAll('.heatmap')) {
    const names = [...map.querySelectorAll('.name')], squares = [];
    const rows = [...map.querySelectorAll('g')];
    rows.forEach((row, place) => {
      row.querySelectorAll('rect').forEach((rect, other) => {
        rect.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
        const box = rect.getBoundingClientRect();
        const at = document.elementFromPoint(box.x + box.width / 2, box.y + 3);
        const text = row.querySelectorAll('.in'), own = [...text].find(t => {
          const b = t.getBoundingClientRect();
          return b.x > box.x && b.right < box.right && b.y > box.y && b.bottom < box.bottom; });
        squares.push({pair: [names[other].textContent, names[place].textContent],
          // An empty square is not there to be hit.
          fill: at === rect ? getComputedStyle(at).fill
            : at && at.tagName !== 'rect' && getComputedStyle(rect).fill === 'none' ? 'none'
            : 'covered by ' + (at && at.outerHTML),
          left: box.x, width: box.width, number: own ? own.textContent : null,
          ink: own ? getComputedStyle(own).fill : null});
      });
    });
    found.push(squares);
  }
  return found;
})()"""

KEY = """Object.fromEntries([...document.querySelectorAll('.heatkey li')].map(item =>
  [item.textContent.trim(), getComputedStyle(item.querySelector('rect')).fill]))"""

DENSITY = """(() => {
  const found = {};
  for (const section of document.querySelectorAll('.column')) {
    const svg = section.querySelector('.density svg');
    if (!svg) continue;
    const box = svg.getBoundingClientRect(), height = svg.clientHeight;
    const at = mark => { const b = mark.getBoundingClientRect();
      return {left: (b.left - box.left) / box.width, right: (b.right - box.left) / box.width,
        top: 1 - (b.top - box.top) / height, bottom: 1 - (b.bottom - box.top) / height}; };
    const all = kind => [...svg.querySelectorAll(kind)].map(at);
    found[section.querySelector('h3').textContent] =
      {bars: all('.bar'), whiskers: all('.whisker'), dots: all('.dot')};
  }
  return found;
})()"""

ROWS = """(() => {
  const found = {};
  for (const section of document.querySelectorAll('.column')) {
    const rows = [...section.querySelectorAll('.rows tbody tr')];
    if (!rows.length) continue;
    found[section.querySelector('h3').textContent] = rows.map(row => {
      const box = row.querySelector('svg').getBoundingClientRect();
      const place = kind => { const b = row.querySelector(kind).getBoundingClientRect();
        return [(b.left - box.left) / box.width, (b.right - box.left) / box.width]; };
      return {bar: place('.bar'), whisker: place('.whisker')};
    });
  }
  return found;
})()"""

BUDGET = """(() => {
  const svg = document.querySelector('.budget'), box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('rect')].map(rect => {
    const b = rect.getBoundingClientRect();
    return {kind: rect.getAttribute('class'), left: (b.left - box.left) / box.width,
      width: b.width / box.width, fill: getComputedStyle(rect).fill};
  });
})()"""


@pytest.fixture(scope="module")
def tables(bundle) -> dict[tuple[str, ...], dict[str, Any]]:
    """The noisy tables, read without this project's code: counts, sizes and scale by columns."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in pq.read_table(bundle / "marginals.parquet").to_pylist():
        table = found.setdefault(
            tuple(row["columns"]),
            {"counts": np.zeros(row["sizes"]), "noise": row["noise"], "scale": row["scale"]},
        )
        table["counts"][tuple(row["cell"])] = row["count"]
    return found


@pytest.fixture(scope="module")
def stated(bundle) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((bundle / "release.json").read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def estimates(tables) -> Callable[[tuple[str, ...]], tuple[np.ndarray, np.ndarray]]:
    """Returns a table's counts by generalised least squares over all cells, and their errors."""
    columns = list(dict.fromkeys(name for clique in tables for name in clique))
    sizes = [tables[(name,)]["counts"].size for name in columns]
    cells = np.indices(sizes).reshape(len(sizes), -1)

    def sums(clique: tuple[str, ...]) -> np.ndarray:
        axes = [columns.index(name) for name in clique]
        shape = [sizes[axis] for axis in axes]
        code = np.ravel_multi_index(tuple(cells[axes]), shape)
        return (np.arange(math.prod(shape))[:, None] == code[None, :]).astype(float)

    design = np.vstack([sums(clique) / table["scale"] for clique, table in tables.items()])
    covariance = np.linalg.pinv(design.T @ design, hermitian=True)
    noisy = [table["counts"].ravel() / table["scale"] for table in tables.values()]
    cells_found = covariance @ design.T @ np.concatenate(noisy)

    def found(clique: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        of = sums(clique)
        return of @ cells_found, np.sqrt(np.einsum("ij,jk,ik->i", of, covariance, of))

    return found


@pytest.fixture(scope="module")
def expected(tables, estimates, stated) -> dict[frozenset[str], float | None]:
    """Expected TVD of each pair from the errors of its counts; None: not measured."""
    columns = list(dict.fromkeys(name for clique in tables for name in clique))
    records = stated["sets"]["records"]["value"]
    found: dict[frozenset[str], float | None] = {}
    for pair in combinations(columns, 2):
        found[frozenset(pair)] = None
        if any({*pair} <= {*clique} for clique in tables):
            tvd = math.sqrt(2 / math.pi) * estimates(pair)[1].sum() / (2 * records)
            found[frozenset(pair)] = min(float(tvd), 1.0)
    return found


def rgb(text: str) -> RGB:
    red, green, blue = (round(float(part)) for part in re.findall(r"[\d.]+", text)[:3])
    return red, green, blue


def contrast(one: str, other: str) -> float:
    def light(text: str) -> float:
        parts = [value / 255 for value in rgb(text)]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def named_class(tvd: float) -> str:
    """Text of the key for a value, from the limits alone."""
    ends = [0.0, *LIMITS, math.inf]
    (at,) = [place for place in range(len(LIMITS) + 1) if ends[place] < tvd <= ends[place + 1]]
    if at == 0:
        return f"up to {100 * LIMITS[0]:g} %"
    if at == len(LIMITS):
        return f"over {100 * LIMITS[-1]:g} %"
    return f"{100 * LIMITS[at - 1]:g} % to {100 * LIMITS[at]:g} %"


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (360, False)])
def test_every_square_has_the_colour_of_the_noise_of_its_pair(page, file, expected, width, dark):
    page.open(file, width=width, dark=dark)
    (squares,), key = page.ask(SQUARES), page.ask(KEY)

    assert {frozenset(square["pair"]) for square in squares} == set(expected)
    assert len(squares) == len(expected)
    for square in squares:
        tvd = expected[frozenset(square["pair"])]
        if tvd is None:
            assert (square["number"], square["fill"]) == (None, "none")
            continue
        assert square["fill"] == key[named_class(tvd)]
        assert float(square["number"]) == pytest.approx(100 * tvd, abs=0.5 if tvd > 0.09 else 0.05)
        assert contrast(square["ink"], square["fill"]) >= 4.5
    assert any(tvd is None for tvd in expected.values())
    assert len({square["fill"] for square in squares}) > 2


def test_a_wrong_drawing_is_seen(page: Page, file, tmp_path, expected):
    """So that the tests above and below can fail."""
    text = file.read_text(encoding="utf-8")
    wrong = re.sub(r'<rect class="heat\d" x', '<rect class="heat0" x', text)
    wrong = re.sub(r'(class="spent1" x="[\d.]+" y="0" width=")[\d.]+', r"\g<1>25", wrong)
    wrong = wrong.replace("preserveAspectRatio", "data-none")
    (tmp_path / "wrong.html").write_text(wrong, encoding="utf-8")
    page.open(tmp_path / "wrong.html", width=1200)
    (squares,), key = page.ask(SQUARES), page.ask(KEY)
    pairs = [(square["fill"], expected[frozenset(square["pair"])]) for square in squares]

    assert any(tvd is not None and fill != key[named_class(tvd)] for fill, tvd in pairs)
    assert page.ask(BUDGET)[1]["width"] != pytest.approx(0.5, abs=0.1)
    assert page.ask(DENSITY)["age"]["bars"][-1]["right"] != pytest.approx(1, abs=0.004)


@pytest.mark.parametrize("dark", [False, True])
def test_the_scale_goes_one_way_in_lightness(page: Page, file, dark):
    """So that it is read without telling colours apart, and every number in it has contrast."""
    page.open(file, width=1200, dark=dark)
    style = "getComputedStyle(document.documentElement).getPropertyValue"
    heats = [page.ask(f"{style}('--heat{kind}')").strip() for kind in range(len(LIMITS) + 1)]
    inks = [page.ask(f"{style}('--on{kind}')").strip() for kind in range(len(LIMITS) + 1)]

    def from_hex(text: str) -> str:
        return "rgb({}, {}, {})".format(*(int(text[at : at + 2], 16) for at in (1, 3, 5)))

    black = [contrast(from_hex(heat), "rgb(0, 0, 0)") for heat in heats]
    assert black == sorted(black, reverse=not dark)
    for heat, ink in zip(heats, inks, strict=True):
        assert contrast(from_hex(heat), from_hex(ink)) >= 4.5
    assert all(contrast(from_hex(one), from_hex(other)) > 1.15 for one, other in pairwise(heats))


@pytest.mark.parametrize("width", [1200, 360])
def test_densities_and_whiskers_stand_where_the_numbers_are(
    page, file, bundle, estimates, stated, width
):
    page.open(file, width=width)
    drawn = page.ask(DENSITY)
    records = stated["sets"]["records"]["value"]
    edges = {"age": np.arange(12.0, 33.0), "height": np.array([1, 1.5, 1.75, 2])}
    sets = [pq.read_table(bundle / f"synthetic/set-{number}.parquet") for number in (1, 2)]

    assert set(drawn) == set(edges)
    for name, ends in edges.items():
        wide = np.diff(ends)
        noisy, errors = estimates((name,))
        reach = WIDE * errors
        shares = np.mean(
            [np.histogram(one[name].to_numpy(), ends)[0] / one.num_rows for one in sets], axis=0
        )
        top = max((shares / wide).max(), ((noisy + reach) / records / wide).max())
        low, high, middle, bars = (
            np.clip(found / records / wide / top, 0.0, 1.0)
            for found in (noisy - reach, noisy + reach, noisy, shares * records)
        )
        places = (ends - ends[0]) / (ends[-1] - ends[0])

        def ends_of(kind: str, side: str, name: str = name) -> list[float]:
            return [mark[side] for mark in drawn[name][kind]]

        assert ends_of("bars", "left") == pytest.approx(places[:-1], abs=0.004)
        assert ends_of("bars", "right") == pytest.approx(places[1:], abs=0.004)
        assert ends_of("bars", "top") == pytest.approx(bars, abs=0.01)
        assert ends_of("whiskers", "top") == pytest.approx(high, abs=0.01)
        assert ends_of("whiskers", "bottom") == pytest.approx(low, abs=0.01)
        assert ends_of("dots", "top") == pytest.approx(middle, abs=0.01)


def test_bars_of_levels_have_the_length_of_their_shares(page, file, release, estimates, stated):
    page.open(file, width=1200)
    drawn = page.ask(ROWS)["sex"]
    records, (counts, errors) = stated["sets"]["records"]["value"], estimates(("sex",))
    reach = WIDE * errors
    low, high = (counts - reach) / records, (counts + reach) / records
    found = [np.bincount(one.column("sex"), minlength=len(low)) / one.rows for one in release[1]]
    shares, top = np.mean(found, axis=0), max(high.max(), np.max(found))

    for row, share, least, most in zip(drawn, shares, low, high, strict=True):
        assert row["whisker"] == pytest.approx(
            [min(max(least / top, 0), 1), min(max(most / top, 0), 1)], abs=0.01
        )
        assert row["bar"] == pytest.approx([0, share / top], abs=0.01)


def test_the_budget_bar_has_the_shares_of_the_receipts(page, file, stated):
    page.open(file, width=1200)
    drawn = page.ask(BUDGET)
    spent: dict[str, Fraction] = {}
    for receipt in stated["ledger"]["receipts"]:
        if receipt["kind"] == "charge":
            body = receipt["body"]
            spent[body["stage"]] = spent.get(body["stage"], Fraction(0)) + Fraction(body["cost"])
    limit = Fraction(stated["ledger"]["currency"]["limit"]["exact"])

    assert len(drawn) == len(spent)
    place = 0.0
    for part, cost in zip(drawn, spent.values(), strict=True):
        assert part["left"] == pytest.approx(place, abs=0.005)
        assert part["width"] == pytest.approx(float(cost / limit), abs=0.005)
        place += float(cost / limit)
    assert len({part["fill"] for part in drawn}) == len(drawn)


@pytest.mark.parametrize("dark", [False, True])
def test_printing_gives_pages_in_light_colours(page: Page, file, dark):
    page.open(file, width=1200, dark=dark)
    printed = base64.b64decode(page.call("Page.printToPDF", printBackground=True)["data"])
    count = len(re.findall(rb"/Type\s*/Page\b", printed))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    page.call("Emulation.setEmulatedMedia", media="print", features=[scheme])
    try:
        (squares,) = page.ask(SQUARES)
        ground = page.ask("getComputedStyle(document.querySelector('.heatmap .name')).fill")
    finally:
        page.call("Emulation.setEmulatedMedia", media="")

    assert printed.startswith(b"%PDF")
    assert 3 <= count <= 40
    assert max(rgb(ground)) < 60
    values = [square for square in squares if square["number"]]
    least = min(values, key=lambda square: float(square["number"]))
    assert contrast(least["fill"], "rgb(0, 0, 0)") > 6


def test_the_pictures_need_no_script(page: Page, file):
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(file, width=1200)
        shot = base64.b64decode(page.call("Page.captureScreenshot")["data"])
        tree = page.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
        found = page.call(
            "DOM.querySelectorAll", nodeId=tree, selector=".heatmap rect, .budget rect"
        )
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)

    assert shot.startswith(b"\x89PNG")
    assert len(found["nodeIds"]) == 6 + 2


@pytest.fixture
def internal(release, tmp_path) -> Callable[[dict[tuple[str, ...], tuple[float, ...]]], Path]:
    """Writes the page for staff, with the true errors that a test states."""
    published, _ = release

    def write(errors: dict[tuple[str, ...], tuple[float, ...]]) -> Path:
        made = UtilityPage(
            title=published.title,
            schema=published.schema,
            released=published.released,
            records=published.records,
        )
        sets = [[MarginalError(2, 0.1, 0.5, ("sex", "age"), 6, 0)]] * 2
        path = tmp_path / "utility.html"
        path.write_text(made(CONFIDENTIAL, sets, errors, {}), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("dark", [False, True])
def test_staff_see_true_errors_beside_promises(page: Page, internal, expected, dark):
    columns = ("sex", "age", "height", "born")
    errors = {
        pair: (0.004 * 3**place, 0.008 * 3**place)
        for place, pair in enumerate(combinations(columns, 2))
        if 0.008 * 3**place < 1
    }
    path = internal(errors)
    page.open(path, width=1200, dark=dark)
    true, promised = page.ask(SQUARES)
    key = page.ask(KEY)

    assert path.read_text(encoding="utf-8").split("\n")[0] == f"<!-- {CONFIDENTIAL} -->"
    assert page.requests() == [path.as_uri()]
    assert page.complaints() == []
    for square in true:
        found = errors.get(tuple(square["pair"]))
        if found is not None:
            assert square["fill"] == key[named_class(sum(found) / 2)]
    for square in promised:
        tvd = expected[frozenset(square["pair"])]
        assert square["fill"] == ("none" if tvd is None else key[named_class(tvd)])
    worst = page.ask("document.querySelector('#worst ~ .scroll tbody tr').innerText")
    last = max(errors, key=lambda pair: errors[pair])
    assert " × ".join(last) in worst
    page.open(path, width=360)
    needed, given = page.ask("[document.documentElement.scrollWidth, innerWidth]")
    assert needed <= given
