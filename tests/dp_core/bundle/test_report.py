from __future__ import annotations

import base64
import hashlib
import html
import itertools
import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dp_core.bundle.quality.pair_errors import set_distances
from dp_core.bundle.quality.table_fit import TableFit, check_fit, needed_counts
from dp_core.bundle.report.page import bets, report
from dp_core.bundle.report.pictures.column_picture import density, picture, place_on_axis, source_of
from dp_core.bundle.report.pictures.heat_map import short_percent, shown_columns
from dp_core.bundle.report.table_precision import farthest, noisiest, pools_by_set, table_rows
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.metrics.marginal_error import Tally, tvd
from dp_core.schema.definition import Choice, Column, Margin
from dp_core.schema.reading.schema_file import parse_schema
from tests.dp_core.bundle.conftest import Survey, code_of, make_published, tallied
from tests.html_elements import Elements
from tests.measured import noisy_table, tally_sets


@pytest.fixture(scope="module")
def page(bundle):
    return Elements((bundle / "report.html").read_text(encoding="utf-8"))


def test_the_page_is_well_formed_and_has_what_readers_need(page):
    tags = [tag for tag, _ in page.tags]

    assert tags.count("h1") == 1
    assert tags.count("main") == 1
    attributes = dict(page.tags)
    assert attributes["html"]["lang"] == "en"
    assert any(values.get("name") == "viewport" for tag, values in page.tags if tag == "meta")


def test_links_lead_to_parts_of_the_page(page):
    targets = {values["id"] for _, values in page.tags if "id" in values}
    links = [values["href"] for tag, values in page.tags if tag == "a"]

    assert links
    assert {link.removeprefix("#") for link in links} <= targets


def test_the_page_asks_nothing_of_the_network_and_runs_its_own_script_only(bundle, page):
    text = (bundle / "report.html").read_text(encoding="utf-8")
    assert {tag for tag, _ in page.tags}.isdisjoint({"link", "img", "iframe", "object"})
    scripts = [values for tag, values in page.tags if tag == "script"]
    assert [values["id"] for values in scripts] == ["crosstab-counts", "crosstab-script"]
    assert scripts[0]["type"] == "application/json"
    # The policy admits the one script by its hash.
    code = text.partition('<script id="crosstab-script">')[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\"" in html.unescape(text)
    for _, values in page.tags:
        assert not {"src", "srcset", "action", "data"} & set(values)
        assert not any(name.startswith("on") for name in values)
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_what_the_schema_says_is_text_and_never_markup(bundle):
    text = (bundle / "report.html").read_text(encoding="utf-8")

    assert "<script>" not in text
    assert "&lt;script&gt;alert(" in text


def test_the_page_says_what_was_protected_and_what_was_not(page):
    for words in (
        "ε = 1",
        "one row added or removed",
        "Not covered by this guarantee",
        "one-way tables 50 %",
        "the chosen tables 50 %",
        "usually has an error of at most",
        "Never stack the sets into one file",
        "These intervals are too narrow",
        "dp-release verify",
    ):
        assert words in page.text


def test_a_split_release_is_not_warned_about_shared_noise():
    published, data = make_published(mode="split")
    text = report(published, tallied(published, data))

    assert "These intervals are too narrow" not in text
    assert "Every set has its own noisy measurement" in text
    assert "W is multiplied by 0.299" in text  # 300 rows for about 1003 records


def test_a_release_without_tables_still_has_a_page():
    published, data = make_published(sets=1)
    tallies = tally_sets(published.schema.domain, (), [[data[0]]])
    page = Elements(report(replace(published, released=()), tallies))

    assert "No noisy table contains this column." in page.text


def test_the_code_on_the_page_is_the_code_that_runs(bundle, release):
    text = (bundle / "report.html").read_text(encoding="utf-8")
    code = code_of(release[0])

    shown = [
        html.unescape(block)
        for block in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", text, re.S)
    ]
    assert shown == [
        *(code.python_regression, code.r_regression, code.stata_regression),
        *(code.python, code.r, code.stata, code.python_table, code.r_table),
    ]


def table(clique: tuple[str, ...], scale: float, replicate: int = 0, stage: str = "measure"):
    sizes = {"a": 3, "b": 4}
    domain = Domain(clique, tuple(sizes[column] for column in clique))
    return noisy_table(
        domain,
        np.arange(domain.size()).reshape(domain.sizes) + 10 * replicate,
        scale=scale,
        stage=stage,
        replicate=replicate,
    )


def pooled(*tables):
    return pool(Domain(("a", "b", "c"), (3, 4, 2)), tables)


def test_a_column_is_told_by_all_its_tables():
    own, joint = table(("a",), 10.0, stage="one_way"), table(("a", "b"), 4.0)
    assert source_of(pooled(own, joint), "a") == "2 noisy tables together"
    assert source_of(pooled(own), "a") == "a noisy table"
    assert source_of(pooled(own), "c") == ""


def test_marks_stay_on_the_picture(release):
    published, data = release
    tallies = tallied(published, data)
    pools = pools_by_set(published)
    for column in published.schema.columns:
        drawn = picture(column, pools[0], tallies, records=published.records)
        assert len(drawn.marks) == column.size
        assert sum(mark.synthetic for mark in drawn.marks) == pytest.approx(100)
        for mark in drawn.marks:
            shares = (mark.synthetic, mark.noisy_low, mark.noisy_high, *mark.sets)
            assert all(0 <= place_on_axis(share, drawn.top) <= 100 for share in shares)
            assert max(mark.sets) <= drawn.top
            assert min(mark.sets) <= mark.synthetic <= max(mark.sets)
        assert (drawn.density is not None) == (column.name in {"age", "height"})
        assert not drawn.wide
        assert len(drawn.ticks) <= 4


@pytest.mark.parametrize("sets", [0, 1, 9])
def test_of_many_levels_the_most_frequent_have_rows_and_a_summary_counts_the_others(sets):
    """As computed level by level, in plain Python."""
    names = [f"v{code}" for code in range(40)]
    columns = {"v": {"type": "category", "levels": names}}
    schema = parse_schema({"version": 1, "title": "Many", "rows_about": 200, "columns": columns})
    rng = np.random.default_rng(2)
    noisy = noisy_table(schema.domain, rng.integers(-3, 12, 40), scale=2.0, stage="one_way")
    tallies = [
        Tally(schema.domain, [("v",)]).add(
            Dataset(schema.domain, rng.integers(0, 40, (1, 200)).astype(np.uint16))
        )
        for _ in range(sets)
    ]
    drawn = picture(schema.column("v"), pool(schema.domain, [noisy]), tallies, records=200)
    bare = picture(schema.column("v"), pool(schema.domain, []), tallies, records=200)

    half = 100 * pool(schema.domain, [noisy]).half_width(("v",)) / 200
    shares = [
        tuple(float(100 * t.count(("v",))[code] / 200) for t in tallies) for code in range(40)
    ]
    means = [float(np.mean(each)) if each else 0.0 for each in shares]
    measured = (noisy.values / 2).tolist()
    assert [mark.sets for mark in drawn.marks] == shares
    assert [mark.synthetic for mark in drawn.marks] == means
    assert [mark.noisy for mark in drawn.marks] == measured
    assert [mark.noisy_low for mark in drawn.marks] == [value - half for value in measured]
    assert {mark.noisy for mark in bare.marks} == {None}
    for shown, size in ((drawn, measured), (bare, means)):
        most = sorted(range(40), key=lambda code: (-size[code], code))[:15]
        assert [mark.label for mark in shown.rows] == [f"v{code}" for code in most]
    near = sum(
        abs(value - mean) <= half + 0.25 for value, mean in zip(measured, means, strict=True)
    )
    top = max(range(40), key=lambda code: (means if sets else measured)[code])
    assert f" is v{top} with " in drawn.summary
    assert (f"For {near} of 40 codes" in drawn.summary) == (sets > 0)


def test_a_table_is_judged_by_the_noise_in_its_typical_cell():
    """600 records in 3 cells: a typical cell of 200, of which 10 % are 20 and half are 100."""
    fits = [TableFit(("a",), "measure", 0, 3, width, (), (), ()) for width in (20, 21, 100, 101)]
    found = [(line.relative, line.verdict) for line in table_rows(fits, records=600.0, pools={})]

    assert found == [
        (pytest.approx(10), "fit for use"),
        (pytest.approx(10.5), "use with care"),
        (pytest.approx(50), "use with care"),
        (pytest.approx(50.5), "coarse groups only"),
    ]


def test_no_bet_is_rounded_down():
    for before, after in bets(Fraction(1, 3)):
        factor = math.exp(1 / 3)
        exact = 100 * int(before) * factor / (100 - int(before) + int(before) * factor)
        assert exact <= float(after) <= exact + 0.1
    assert bets(Fraction(1000))[0] == ("1", "100")


def test_charged_checks_and_thresholds_are_told(release):
    published, data = release
    plan = {**published.plan, "spec": {**published.plan["spec"]}}
    plan["spec"]["checks"] = {
        "tables": [["sex", "age"]],
        "thresholds": [{"figure": "fit", "hold": "1/20", "fail": None}],
    }
    charged = {"table": ["sex", "age"], "tvd": 0.031, "interval": [0.021, 0.041], "receipt": 9}
    checks = {"public": [{"figure": "fit", "value": 0.0123}], "charged": [charged]}
    tallies = tallied(published, data)
    page = Elements(report(replace(published, plan=plan, checks=checks), tallies))

    assert re.search(r"fit was 0\.0123; above 0\.05 ", page.text)
    assert "sex × age" in page.text
    assert "3.1 %" in page.text
    assert "2.1 to 4.1 %" in page.text
    assert "All other figures" in page.text


def said(published, data) -> str:
    return Elements(report(published, tallied(published, data))).text


def test_weights_are_told_with_what_they_add_up_to(release):
    published, data = release
    sex, age, height, born = published.schema.columns
    weighted = replace(published.schema, columns=(sex, age, replace(height, role="weight"), born))
    totals = replace(weighted, calibration=(Margin((), (((), Fraction(2_500)),)),))
    free = said(replace(published, schema=weighted), data)
    met = said(replace(published, schema=totals, off=(0.0, 0.0)), data)
    missed = said(replace(published, schema=totals, off=(0.0, 0.0123)), data)

    assert "Survey weights" not in said(published, data)
    assert "not calibrated" in free
    for page in (met, missed):
        assert "the total of all weights, 2500." in page
        assert "not calibrated" not in page
    assert "Every set meets them." in met
    assert "at most 1.3 %" in missed


def test_bins_and_levels_from_the_file_are_told_with_their_cost(release):
    published, data = release
    sex, age, *others = published.schema.columns
    bins = Choice(among=age, codes=tuple(range(1, age.bins)), pieces=((0, 1000),))
    levels = Choice(among=sex, groups=("all",), group_of=(0, 0, 0), codes=(0, 1))
    columns = (replace(sex, choice=levels), replace(age, choice=bins), *others)
    first, *rest = (receipt for receipt in published.receipts if receipt.kind == "charge")
    paid = replace(first, body={**first.body, "stage": "domain", "cost": "1/1000"})
    made = replace(
        published,
        schema=replace(published.schema, columns=columns),
        receipts=(paid, *rest),
        currency=replace(published.currency, limit=Fraction(1, 40)),
    )
    page = said(made, data)

    assert "Bins chosen from the file: age." in page
    assert "Values within a bin follow the same counts." in page
    assert "It keeps the 2 levels of 3 with the largest noisy counts" in page
    assert "Choosing them cost 4 % of the budget" in page
    assert "Private bins have densities from their own counts." in page
    assert "chosen from the file" not in said(published, data)


def wide_release(columns: int):
    """Return the report of a release with many columns and all pairs of neighbouring ones."""
    schema = parse_schema(
        {
            "version": "1",
            "title": "Wide",
            "columns": {
                f"q{number}": {"type": "category", "levels": [str(level) for level in range(10)]}
                for number in range(columns)
            },
        }
    )
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 10, (columns, 200)).astype(np.uint16)
    pairs = tuple(itertools.pairwise(schema.domain.columns))
    published, data = make_published(survey=Survey(schema, Dataset(schema.domain, codes), pairs))
    tallies = tally_sets(schema.domain, published.released, [[one] for one in data])
    return report(published, tallies)


def squares(text: str) -> int:
    return text.split('class="heatmap')[1].partition("</svg>")[0].count("<rect")


def test_the_page_of_a_wide_file_is_limited_and_says_what_it_leaves_out():
    narrow, wide = wide_release(20), wide_release(150)

    assert "left out" not in Elements(narrow).text
    assert squares(narrow) == 20 * 19 // 2
    assert squares(wide) == 60 * 59 // 2
    said = Elements(wide).text
    assert "90 further columns are left out" in said  # of the pairs
    assert "30 further columns are left out" in said  # of the pictures: 1200 codes are 120 columns
    assert len(wide.encode()) < 1_500_000


def test_pairs_of_a_wide_map_are_those_of_the_most_measured_columns():
    columns = [f"c{number}" for number in range(70)]
    states = {pair: "unmeasured" for pair in itertools.combinations(columns, 2)}
    states["c3", "c69"] = states["c5", "c69"] = "measured"
    shown = shown_columns(columns, states)

    assert len(shown) == 60
    assert {"c3", "c5", "c69"} <= {*shown}
    assert list(shown) == sorted(shown, key=columns.index)


@pytest.mark.parametrize(
    ("kind", "edges", "shown"),
    [
        ("date", (0, 91, 182, 274), "of the records per day"),  # 130 % per year
        ("date", (0, 366, 731), ""),
        ("number", (0, 1, 2, 3), "100 % of the records per 1"),
    ],
)
def test_the_height_of_a_density_is_no_more_than_all_records(kind, edges, shown):
    column = Column(name="x", kind=kind, edges=tuple(map(Fraction, edges)))
    found = density(column, [99.7, 0.2, 0.1], None, 0.0)
    assert (found is None) == (not shown)
    if found is not None:
        assert shown in found.top
        assert float(found.top.split(" %")[0]) <= 100
        assert "e+" not in found.top


def test_a_column_is_a_density_only_where_every_bin_can_be_seen():
    def column(*edges: int) -> Column:
        return Column(name="x", kind="integer", edges=tuple(map(Fraction, edges)))

    even = density(column(0, 10, 20, 40), [25.0, 25.0, 50.0], [20.0, 30.0, 50.0], 5.0)
    assert even is not None
    assert [bar.width for bar in even.bars] == [25.0, 25.0, 50.0]
    # Equal densities are equally high, whatever the width; the top is 35 percent in a bin of 10.
    assert [bar.height for bar in even.bars] == pytest.approx([100 * 25 / 35] * 3, abs=0.01)
    assert [bar.high for bar in even.bars] == pytest.approx(
        [100 * height / 35 for height in (25, 35, 27.5)], abs=0.01
    )
    assert even.ticks == ((1.25, "0"), (26.25, "10"), (51.25, "20"), (98.75, "39"))
    single = density(column(*range(9)), [12.5] * 8, None, 0.0)
    assert single is not None
    # Each label stands in the middle of the bin of its value, the last one too.
    middles = {str(value): bar.middle for value, bar in enumerate(single.bars)}
    assert {"0", "7"} < {text for _, text in single.ticks}
    assert all(place == pytest.approx(middles[text], abs=0.01) for place, text in single.ticks)
    assert density(column(0, 1, 1000, 2000), [1.0, 50.0, 49.0], None, 0.0) is None
    assert density(column(0, 1, 50, 100), [90.0, 5.0, 5.0], None, 0.0) is None


def test_the_worst_tables_are_named(release):
    published, data = release
    tallies = tallied(published, data)
    fits = check_fit(published.released, tallies, records=published.records)
    lines = table_rows(fits, records=published.records, pools=pools_by_set(published))

    assert noisiest(lines)[0].relative == max(line.relative for line in lines)
    excess = {
        fit.name: np.mean(fit.set_tvd) - np.mean(fit.expected_tvd)
        for fit in fits
        if np.mean(fit.set_tvd) > np.mean(fit.expected_tvd) + 0.0005
    }
    found = [fit.name for fit in farthest(fits)]
    assert found == sorted(excess, key=excess.__getitem__, reverse=True)
    assert found


def _visible(text: str) -> str:
    return re.sub(r"<(script|style|pre|code)\b.*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)


@pytest.mark.parametrize("mode", ["shared", "split"])
def test_sentences_show_code_as_code_and_no_backticks(mode):
    published, data = make_published(mode=mode)
    text = report(published, tallied(published, data))
    assert "`" not in _visible(text)
    assert "<code>refusals</code>" in text


def test_the_map_shows_the_error_of_sets_whose_differences_show_the_noise():
    published, data = make_published(mode="split")
    tallies = tallied(published, data)
    text = report(published, tallies)
    assert "Expected error of the sets in each pair of columns" in text
    counted = needed_counts(published.schema.domain, published.released)
    pairs = [clique for clique in counted if len(clique) == 2]
    found = set_distances(tallies, counted, pairs, "split")
    assert found is not None
    for pair, value in found.items():
        tables = [np.asarray(one.count(pair), dtype=float) / one.rows for one in tallies]
        between = [abs(a - b).sum() / 2 for a, b in itertools.combinations(tables, 2)]
        assert value == pytest.approx(np.mean(between) / 2**0.5)
        assert short_percent(value) in text

    shared, data = make_published(mode="shared")
    text = report(shared, tallied(shared, data))
    assert "Noise in the table of each pair of columns" in text
    assert "It is not the error of the sets" in text


@pytest.mark.parametrize("mode", ["posterior", "split", "shared"])
def test_the_differences_between_sets_estimate_their_distance_from_the_file(mode):
    """The noise of the table is large; the sets, drawn from a posterior, are nearer to the file."""
    rng = np.random.default_rng(3)
    domain = Domain(("a", "b"), (6, 6))
    estimated, true = [], []
    for _ in range(40):
        file = rng.dirichlet(np.full(36, 2.0))
        if mode == "split":
            weights = [np.clip(file + rng.normal(0, 0.005, 36), 0, None) for _ in range(5)]
        else:  # the file and the sets are draws from one posterior
            centre = rng.dirichlet(np.full(36, 2.0))
            file, *weights = rng.dirichlet(200 * centre + 0.01, 6)
        tallies = []
        for one in weights:
            counts = rng.multinomial(20_000, one / one.sum())
            codes = np.array(np.unravel_index(np.repeat(np.arange(36), counts), (6, 6)))
            tallies.append(
                Tally(domain, [("a", "b")]).add(Dataset(domain, codes.astype(domain.code_type)))
            )
        found = set_distances(tallies, [("a", "b")], [("a", "b")], mode)
        if mode == "shared":
            assert found is None
            return
        assert found is not None
        estimated.append(found["a", "b"])
        true += [tvd(one.count(("a", "b")).ravel(), file) for one in tallies]
    assert np.mean(estimated) == pytest.approx(np.mean(true), rel=0.1)
