"""`report.html`: the release for people, in one file that loads nothing from the network.

Counts come from all noisy tables together, like the answers of `dp-release query`, and are bounded
in size: a release can have thousands of tables, or tables of millions of cells.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_core.accounts.requested import words_of
from dp_core.bundle.files.expectations_file import EXPECTATIONS, expectations_in_words
from dp_core.bundle.published import Published
from dp_core.bundle.quality.carried_relations import carried_relations
from dp_core.bundle.quality.relations import relations
from dp_core.bundle.quality.table_fit import check_fit, comparable, totals_distances
from dp_core.bundle.report.area_map import area_maps
from dp_core.bundle.report.example_code import example_code, size_factor
from dp_core.bundle.report.pictures.column_picture import Picture, picture, place_on_axis
from dp_core.bundle.report.pictures.heat_map import in_words, member_maps, pair_map, short_percent
from dp_core.bundle.report.provenance import enumeration, headline, made_from, private_choices
from dp_core.bundle.report.public_facts import public_facts
from dp_core.bundle.report.table_precision import (
    CARE,
    FINE,
    MOST_NAMED,
    VERDICTS,
    farthest,
    interactions,
    noisiest,
    pools_by_set,
    ratio_text,
    summary_sentence,
    table_rows,
)
from dp_core.bundle.statement.citation import CITATION
from dp_core.bundle.statement.deployment_registry import REGISTRY
from dp_core.bundle.statement.release_json import origin_of, statement
from dp_core.bundle.statement.sections import analyses_statement, prior_statement
from dp_core.client.released import SparseTable
from dp_core.inference.combining_rules import OFF, WORDING, rule_of
from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.functional_noise import cells
from dp_core.methods.reconstruction.estimates.pooled_functionals import is_determined
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.marginal_error import Tally
from dp_core.schema.definition import Schema
from dp_core.schema.dependencies import origin
from dp_core.text.pages.page_html import html_templates

if TYPE_CHECKING:
    from jinja2 import Template


_TABLES_SHOWN = 250
"""Most tables listed under each verdict; the file of noisy tables has them all."""
_VALUES_SHOWN = 3000
"""Most codes of all columns for which the values of wide pictures are also given as tables."""
_MARKS_DRAWN = 1200
"""Most codes in the pictures of all columns; further columns are counted instead of drawn."""
_NAMED = 20
"""Most pairs, and most levels, that are named; the others are counted."""
_BETS = (1, 10, 50, 90)
"""Prior probabilities that a unit is in the file, in percent."""
_SPARE = 0.05
"""Least part of the budget, in percent, that is shown as not spent; less is rounding."""
_STAGE_WORDS = {
    "domain": "choosing bins and levels",
    "total": "the number of rows",
    "one_way": "one-way tables",
    "select": "choosing tables",
    "measure": "the chosen tables",
    "analyses": "declared analyses",
    "checks": "quality checks",
}


def report(published: Published, tallies: Sequence[Tally]) -> str:
    """Return the report as one HTML page without outside requests.

    Its only script shows the cross-tabulation that a reader chooses; everything else works without.

    Args:
        published: The release.
        tallies: One per synthetic set, of the marginals in `table_fit.needed_counts`.
    """
    schema = published.written
    compared = comparable(published.released, schema.domain)
    fits = check_fit(compared, tallies, records=published.records)
    pools, linked = pools_by_set(published), schema.linked
    pooled = pools[0]
    counted = "records" if linked is None else "households"
    lines = table_rows(fits, records=published.records, pools=pools)
    pictures: list[Picture] = [
        picture(
            column,
            pooled,
            tallies,
            records=published.records,
            origin=None if column.name in schema.domain.columns else origin(schema, column.name),
            counted=counted,
        )
        for column in schema.released
        # Those of another member repeat those of a member.
        if linked is None or column.name not in linked.others
    ]
    if not published.sets:
        # A column of no noisy table has nothing to show.
        pictures = [drawn for drawn in pictures if drawn.source]
    drawn_marks = itertools.accumulate(len(drawn.marks) for drawn in pictures)
    most = max(sum(marks <= _MARKS_DRAWN for marks in drawn_marks), 1)
    undrawn = len(pictures) - most if len(pictures) > most else 0
    pictures = pictures[:most]
    rows = sum(published.set_rows) / max(published.sets, 1)
    rule = rule_of(published.mode, published.sets)
    stated, best, enforced = statement(published, {}), published.guarantee, published.enforced
    page = _template().render(
        published=published,
        stated=stated,
        sharper=(decimal(best.epsilon), best.delta) != (decimal(enforced.epsilon), enforced.delta),
        unit=words_of(published.privacy.protects).rstrip(","),
        lines=lines,
        shown=_TABLES_SHOWN,
        tables=len(fits),
        made=any(line.of.beyond for line in lines),
        verdicts=[
            (verdict, [line for line in lines if line.verdict == verdict]) for verdict in VERDICTS
        ],
        bets=bets(best.epsilon),
        values=sum(len(drawn.marks) for drawn in pictures) <= _VALUES_SHOWN,
        summary=summary_sentence(fits),
        pictures=pictures,
        undrawn=undrawn,
        chosen=private_choices(published),
        weights=stated["sets"].get("weights"),
        facts=public_facts(published.schema, published.sets),
        distances=totals_distances(published.schema.totals, pooled),
        code=example_code(published, pooled),
        rule=rule,
        combine=WORDING[rule],
        off=OFF.get(origin_of(published.plan)),
        carried=carried_relations(published.released, schema).in_words,
        relations=relations(published.released, published.schema, mode=published.mode),
        size_factor=size_factor(published.set_rows, round(published.records, 3)),
        spending=_spending(published),
        pairs=pair_map(published, pooled, tallies),
        noisiest=noisiest(lines),
        farthest=farthest(fits),
        named=MOST_NAMED,
        analyses=analyses_statement(published.plan),
        prior=prior_statement(published.plan),
        made_from=enumeration(made_from(published)),
        headline=headline(published),
        beyond=interactions(fits),
        thresholds=any(isinstance(item, SparseTable) for item in published.released),
        rows=rows,
        uneven=len(set(published.set_rows)) > 1,
        ruled=published.ruled,
        fine=100 * FINE,
        care=100 * CARE,
        expected=published.not_met and expectations_in_words(published.written, published.not_met),
        expectations=EXPECTATIONS,
        counts=count_tables(pooled, schema),
        largest=MOST_CELLS,
        most_listed=MOST_LISTED,
        script=script(),
        citation=CITATION,
        registry=REGISTRY,
        linked=linked,
        counted=counted,
        persons=sum(published.persons) / max(published.sets, 1),
        members=member_maps(pooled, schema),
        areas=area_maps(pooled, schema),
    )
    return page if linked is None else in_words(page, linked)


@cache
def _template() -> Template:
    """Return the compiled template; compiling takes longer than rendering."""
    environment = html_templates(Path(__file__).parent)
    environment.filters["count"] = "{:,.0f}".format
    environment.filters["decimal"] = decimal
    environment.filters["ratio"] = ratio_text
    environment.filters["place"] = place_on_axis
    environment.filters["short"] = lambda percent: short_percent(percent / 100)
    environment.filters["tenth"] = "{:z.1f}".format  # what prints as zero has no sign
    environment.filters["short_list"] = short_list
    environment.filters["fraction"] = lambda text: decimal(Fraction(text))
    return environment.get_template("report.html.jinja")


def bets(epsilon: Fraction) -> tuple[tuple[str, str], ...]:
    """Return probabilities that a unit is in the file: prior, and the largest posterior.

    By Bayes' theorem with the largest likelihood ratio that the guarantee allows, the posterior is
    p e^epsilon / (1 - p + p e^epsilon).

    >>> bets(Fraction(1))
    (('1', '2.7'), ('10', '23.2'), ('50', '73.2'), ('90', '96.1'))
    """
    shrink = math.exp(-float(epsilon))
    after = [(before, 100 * before / (before + (100 - before) * shrink)) for before in _BETS]
    # Rounded up, so that the bound holds.
    return tuple((str(before), f"{math.ceil(10 * then - 1e-9) / 10:g}") for before, then in after)


def decimal(value: object) -> str:
    """Return an exact number with six significant digits.

    >>> from fractions import Fraction
    >>> decimal(Fraction(1)), decimal(Fraction(1, 10**9)), decimal(Fraction(1, 3))
    ('1', '1e-09', '0.333333')
    """
    return f"{float(value):.6g}"  # type: ignore[arg-type]


def short_list(texts: Sequence[str]) -> str:
    """Return texts joined by commas; of many, the first ones and the number of the others.

    >>> short_list(["a", "b"]), short_list(["a"] * 22)[-15:]
    ('a, b', 'a, a and 2 more')
    """
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _spending(published: Published) -> list[tuple[str, float, str]]:
    """Return the charges of each stage in percent of the reserved total, with their style.

    What was reserved and not spent is the last.
    """
    spent, limit = published.spent, published.currency.limit
    shares = [
        (_STAGE_WORDS.get(stage, stage), 100 * float(cost / limit), f"spent{number % 7}")
        for number, (stage, cost) in enumerate(spent.items())
    ]
    left = 100 * float(1 - sum(spent.values(), Fraction(0)) / limit)
    if shares and left >= _SPARE:
        shares.append(("reserved and not spent", left, "spare"))
    return shares


MOST_CELLS = 200
"""Most cells of a table that the report lists."""
MOST_LISTED = 6000
"""Most cells of all tables that it lists."""
MOST_COLUMNS = 40
"""Most columns among which a cross-tabulation can be chosen."""
MOST_CROSSED = 1500
"""Most cells of a cross-tabulation."""
MOST_STORED = 60_000
"""Most counts that are stored in the page for all cross-tabulations."""


@dataclass(frozen=True, slots=True)
class CountRow:
    """A row of a table: the labels of its codes, and a count for each code of the last column."""

    labels: tuple[str, ...]
    counts: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class CountTable:
    """A table of counts with one margin of error.

    Attributes:
        name: Its columns.
        down: Columns that name the rows.
        across: Labels of the columns of numbers; a single one, "Records" or "Households", for a
            table of one column.
        over: Name of the column across; empty for a table of one column.
        margin: Half of the width of the 95 % interval of each count, records.
        rows: The counts, rounded; None for an impossible combination.
    """

    name: str
    down: tuple[str, ...]
    across: tuple[str, ...]
    over: str
    margin: int
    rows: tuple[CountRow, ...]


@dataclass(frozen=True, slots=True)
class CountTables:
    """The counts in the report.

    Attributes:
        listed: Published tables with their counts.
        left_out: Number of published tables that are too large to be listed.
        crossed: Counts of pairs of columns for the cross-tabulation, as JSON text that cannot end
            the element that contains it; empty if no pair is determined.
        columns: Names of the columns that can be chosen.
        more_columns: Number of columns that cannot be chosen.
    """

    listed: tuple[CountTable, ...]
    left_out: int
    crossed: str
    columns: tuple[str, ...]
    more_columns: int

    @property
    def any(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.listed or self.left_out or self.crossed)


def count_tables(pooled: Pooled, schema: Schema) -> CountTables:
    """Return the counts that the report shows.

    Args:
        pooled: All measurements of the release.
        schema: The schema as written, not on a grid.
    """
    wanted = {table.clique for table in pooled.tables if table.clique} | {*pooled.interactions}
    cliques = sorted(wanted, key=lambda each: (len(each), pooled.domain.axes(each)))
    listed: list[CountTable] = []
    room, left_out = MOST_LISTED, 0
    for clique in cliques:
        size = pooled.domain.size(clique)
        if size > min(MOST_CELLS, room):
            left_out += is_determined(pooled, clique)
        elif (found := _rounded_counts(pooled, schema, clique)) is not None:
            listed.append(_table(schema, clique, *found))
            room -= size
    names = pooled.domain.columns[:MOST_COLUMNS]
    crossed = _pair_counts(pooled, schema, names)
    return CountTables(
        listed=tuple(listed),
        left_out=left_out,
        crossed=_json_in_html(crossed) if crossed["pairs"] else "",
        columns=names,
        more_columns=len(pooled.domain.columns) - len(names),
    )


@cache
def script() -> tuple[str, str]:
    """Return the page's script, and the source by which its policy admits this script only."""
    text = (Path(__file__).parent / "crosstab.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return text, f"'sha256-{digest}'"


def _rounded_counts(
    pooled: Pooled, schema: Schema, clique: Clique
) -> tuple[list[int | None], int] | None:
    """Return the rounded counts of a table and their margin; None if they are not determined.

    All cells of a table have the same margin, because their noise differs by a permutation only.
    Areas within areas have different margins: their table has the largest of them.
    """
    found = cells(pooled, clique)
    if found is None:
        return None
    counts, margin = found[0], float(found[1].max())
    none = schema.zeros.mask(pooled.domain.project(clique)).ravel()
    rounded = [
        None if impossible else int(count)
        for impossible, count in zip(none, np.rint(counts).ravel(), strict=True)
    ]
    return rounded, math.ceil(margin - 1e-9)


def _table(schema: Schema, clique: Clique, counts: list[int | None], margin: int) -> CountTable:
    labels = [schema.column(name).code_labels() for name in clique]
    name = " × ".join(clique)
    if len(clique) == 1:
        single = tuple(
            CountRow((label,), (count,)) for label, count in zip(labels[0], counts, strict=True)
        )
        counted = "Records" if schema.linked is None else "Households"
        return CountTable(name, clique, (counted,), "", margin, single)
    width = len(labels[-1])
    rows = tuple(
        CountRow(codes, tuple(counts[place * width : (place + 1) * width]))
        for place, codes in enumerate(itertools.product(*labels[:-1]))
    )
    return CountTable(name, clique[:-1], labels[-1], clique[-1], margin, rows)


def _pair_counts(pooled: Pooled, schema: Schema, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the counts of single columns and of pairs, by places in `names`.

    Each is a margin and the rounded counts, null for an impossible combination. A pair that is too
    large has no counts; one that is not determined is not there.
    """
    room = MOST_STORED
    ones: list[list[Any] | None] = []
    pairs: dict[str, list[Any]] = {}
    for name in names:
        found = (
            _rounded_counts(pooled, schema, (name,))
            if pooled.domain.size((name,)) <= room
            else None
        )
        ones.append(None if found is None else [found[1], found[0]])
        room -= len(found[0]) if found else 0
    for (one, first), (two, second) in itertools.combinations(enumerate(names), 2):
        pair, size = (first, second), pooled.domain.size((first, second))
        if not is_determined(pooled, pair):
            continue
        found = _rounded_counts(pooled, schema, pair) if size <= min(MOST_CROSSED, room) else None
        pairs[f"{one} {two}"] = [] if found is None else [found[1], found[0]]
        room -= size if found else 0
    labels = {name: schema.column(name).code_labels() for name in names}
    columns = [{"name": name, "labels": labels[name]} for name in names]
    unit = "records" if schema.linked is None else "households"
    return {"unit": unit, "columns": columns, "ones": ones, "pairs": pairs}


def _json_in_html(value: Mapping[str, Any]) -> str:
    """Return JSON in which no text can end the element or begin another one."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
