"""`report.html`: the release for people, in one file that asks nothing of the network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.accounting.statement import Guarantee
from dp_core.bundle.chosen import chosen
from dp_core.bundle.citation import CITATION
from dp_core.bundle.example_code import example_code, size_factor
from dp_core.bundle.fit import TableFit, check_fit, comparable
from dp_core.bundle.pictures import Picture, picture
from dp_core.bundle.plain_values import plain, timestamp
from dp_core.bundle.provenance import headline, listed, made_from
from dp_core.bundle.published import Published
from dp_core.bundle.registry import REGISTRY
from dp_core.bundle.relations import relations
from dp_core.bundle.statement import (
    NOT_COVERED,
    in_words,
    origin_of,
    over_all,
    software_versions,
    statement,
)
from dp_core.bundle.weights import weights_statement
from dp_core.bundle.within import ALONE, Within, within
from dp_core.canonical import digest
from dp_core.following import origin
from dp_core.inference.rules import OFF, WORDING, rule_of
from dp_core.marginals import SparseTable, tables_of
from dp_core.metrics.marginal_error import Tally
from dp_core.privacy import unit_words

if TYPE_CHECKING:
    from jinja2 import Template

REPORT = "report.html"
"""Name of the report in the bundle."""

FINE, CARE = 0.10, 0.50
"""Noise in a typical cell, 95 times in 100 at most this part of it: fit for use, and with care.

A typical cell holds the records divided by the number of cells."""
_TABLES_SHOWN = 500
"""Of each verdict; the others are in the file of noisy tables."""
_VERDICTS = ("fit for use", "use with care", "coarse groups only")
_VALUES_SHOWN = 3000
"""Codes of all columns up to which the values of wide pictures are given as a table, too."""
_BETS = (1, 10, 50, 90)
"""Percent that somebody takes for the probability, before they read a release."""
_STAGE_WORDS = {
    "domain": "choosing bins and levels",
    "total": "the number of rows",
    "one_way": "one-way tables",
    "select": "choosing tables",
    "measure": "the chosen tables",
    "checks": "quality checks",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One table in words: one that was measured, or one made of an interaction and its margins."""

    name: str
    made: bool
    cells: int
    half_width: int
    example: str
    relative: float
    verdict: str
    mark: str
    fit: str
    outside: str


@dataclass(frozen=True, slots=True)
class Beyond:
    """What was measured of one table beyond its margins in words.

    `half_width` is of the noise in a cell of the table that it stands for, records.
    """

    name: str
    cells: int
    half_width: int
    fit: str
    outside: str


def report(published: Published, tallies: Sequence[Tally]) -> str:
    """Return the report as one HTML page without scripts and outside requests.

    Args:
        published: The release.
        tallies: One per synthetic set, of `fit.needed_counts`.
    """
    tables = tables_of(published.released)
    schema = published.schema.coarse or published.schema
    fits = check_fit(
        comparable(published.released, schema.domain),
        tallies,
        records=published.records,
        redrawn=published.mode == "noise-aware",
    )
    known = within(published)
    lines = table_lines(fits, records=published.records, known=known)
    pictures: list[Picture] = [
        picture(
            column,
            tables,
            tallies,
            records=published.records,
            origin=None if column.name in schema.domain.columns else origin(schema, column.name),
            pooled=known.pooled,
        )
        for column in schema.released
    ]
    rows = sum(published.set_rows) / published.sets
    rule = rule_of(published.mode, published.sets)
    unit = unit_words(published.privacy.unit, published.privacy.max_rows)
    stated = statement(published, {})
    return _template().render(
        published=published,
        privacy=published.privacy,
        enforced=published.enforced,
        best=published.best,
        sharper=_sharper(published.best, published.enforced),
        words=in_words(published.best, published.privacy.neighbours, unit),
        unit=unit,
        over_all=[over_all(total) for total in published.totals],
        not_covered=NOT_COVERED,
        created=timestamp(published.created),
        day=timestamp(published.created)[:10],
        lines=lines,
        shown=_TABLES_SHOWN,
        tables=len(fits),
        pooled=known.pooled is not None,
        made=any(line.made for line in lines),
        verdicts=[
            (verdict, [line for line in lines if line.verdict == verdict]) for verdict in _VERDICTS
        ],
        bets=bets(published.best.epsilon),
        values=sum(len(drawn.marks) for drawn in pictures) <= _VALUES_SHOWN,
        publication=published.schema.publication,
        cite_as=stated["release"]["cite_as"],
        decision=stated["decision"],
        charged=stated["checks"]["charged"],
        summary=summary_sentence(fits),
        pictures=pictures,
        chosen=chosen(published),
        weights=weights_statement(published.schema, published.off),
        code=example_code(published),
        rule=rule,
        combine=WORDING[rule],
        off=OFF.get(origin_of(published.plan)),
        relations=relations(published.released, published.schema, mode=published.mode),
        size_factor=size_factor(published),
        spending=_spending(published),
        made_from=listed(made_from(published)),
        headline=headline(published),
        beyond=beyond_lines(fits),
        thresholds=any(isinstance(item, SparseTable) for item in published.released),
        rows=rows,
        uneven=len(set(published.set_rows)) > 1,
        plan_hash=digest(plain(published.plan)),
        schema_hash=digest(plain(published.schema.document)),
        software=dict(sorted((published.software or software_versions()).items())),
        rules=[rule.text for rule in published.schema.zeros.rules],
        fine=100 * FINE,
        care=100 * CARE,
        citation=CITATION,
        registry=REGISTRY,
    )


@cache
def _template() -> Template:
    """Return the compiled template; to compile it takes longer than to fill it in."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent, encoding="utf-8"),
        autoescape=True,  # titles and labels are whatever the schema says
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["count"] = _count
    environment.filters["decimal"] = decimal
    environment.filters["fraction"] = lambda text: decimal(Fraction(text))
    return environment.get_template("report.html.jinja")


def table_lines(
    fits: Sequence[TableFit], *, records: float, known: Within = ALONE
) -> tuple[Line, ...]:
    """Return each table in words, most exact first.

    Those measured whole, and those that an interaction makes with its margins.

    Args:
        fits: Of all that was measured.
        records: Public or estimated number of records.
        known: What is known of cells by all that was measured.
    """
    whole = {(frozenset(fit.clique), fit.replicate) for fit in fits if not fit.beyond}
    told = [
        (width, fit)
        for fit in fits
        if not (fit.beyond and (frozenset(fit.clique), fit.replicate) in whole)
        and (width := known.half_width(fit)) is not None
    ]
    lines = []
    for width, fit in sorted(told, key=lambda each: (each[0] * each[1].cells, *_order(each[1]))):
        typical = max(records, 1.0) / fit.cells
        relative = width / typical
        level = (relative > FINE) + (relative > CARE)
        lines.append(
            Line(
                name=_name(fit),
                made=fit.beyond,
                cells=fit.cells,
                half_width=width,
                example=within_words(_round_number(typical), width),
                relative=100 * relative,
                verdict=_VERDICTS[level],
                mark=("good", "care", "poor")[level],
                fit=_ratio(fit),
                outside=f"{100 * fit.outside_share:.1f} %",
            )
        )
    return tuple(lines)


def beyond_lines(fits: Sequence[TableFit]) -> tuple[Beyond, ...]:
    """Return what was measured of tables beyond their margins in words, most exact first."""
    return tuple(
        Beyond(
            name=_name(fit),
            cells=fit.cells,
            half_width=fit.half_width,
            fit=_ratio(fit),
            outside=f"{100 * fit.outside_share:.1f} %",
        )
        for fit in sorted(fits, key=lambda fit: (fit.half_width * fit.cells, *_order(fit)))
        if fit.beyond
    )


def _order(fit: TableFit) -> tuple[object, ...]:
    return fit.clique, fit.replicate, fit.stage


def _name(fit: TableFit) -> str:
    return " × ".join(fit.clique) + (f" (for set {fit.replicate})" if fit.replicate else "")


def _ratio(fit: TableFit) -> str:
    return "–" if math.isnan(fit.ratio) else f"{fit.ratio:.2f}"


def bets(epsilon: Fraction) -> tuple[tuple[str, str], ...]:
    """Return how sure somebody can be that a unit is in the file: before, and after at most.

    Bayes' theorem, with both conclusions as far apart as the guarantee allows: p e^epsilon / (1 - p
    + p e^epsilon).

    >>> bets(Fraction(1))
    (('1', '2.7'), ('10', '23.2'), ('50', '73.2'), ('90', '96.1'))
    """
    shrink = math.exp(-float(epsilon))
    after = [(before, 100 * before / (before + (100 - before) * shrink)) for before in _BETS]
    # Rounded up: less would not be true.
    return tuple((str(before), f"{math.ceil(10 * then - 1e-9) / 10:g}") for before, then in after)


def within_words(count: int, half_width: int) -> str:
    """Return the noise of one cell in plain words.

    >>> within_words(200, 12)
    'a count of 200 is usually within 12'
    """
    return f"a count of {_count(count)} is usually within {_count(half_width)}"


def summary_sentence(fits: Sequence[TableFit]) -> str:
    """Return how well the synthetic sets follow what was measured, in one or two sentences."""
    judged = [fit for fit in fits if not math.isnan(fit.ratio)]
    if not judged:
        return "There is no noisy table to compare the synthetic sets with."
    mean = math.fsum(fit.ratio for fit in judged) / len(judged)
    far = sum(fit.ratio > 1.5 for fit in judged)
    beyond = sum(fit.beyond for fit in judged)
    found = [
        f"{count} noisy {kind}{'s' if count > 1 else ''}"
        for count, kind in ((len(judged) - beyond, "table"), (beyond, "interaction"))
        if count
    ]
    text = (
        f"Over {' and '.join(found)} the synthetic sets are on average {mean:.2f} times as far"
        " from what was measured as the noise and the drawing of rows together explain."
    )
    if far:
        text += (
            f" For {far} of them it is more than 1.5 times: there the model adds an error of its own"
            " or, where cells are few, the noise happened to be large."
        )
    return text


def decimal(value: object) -> str:
    """Return an exact number for people.

    >>> from fractions import Fraction
    >>> decimal(Fraction(1)), decimal(Fraction(1, 10**9)), decimal(Fraction(1, 3))
    ('1', '1e-09', '0.333333')
    """
    return f"{float(value):.6g}"  # type: ignore[arg-type]


def _spending(published: Published) -> list[tuple[str, float]]:
    """Return what part of the reserved total each stage was charged, in percent."""
    spent: dict[str, Fraction] = {}
    for row in published.receipts:
        if row.kind == "charge":
            stage = str(row.body["stage"])
            spent[stage] = spent.get(stage, Fraction(0)) + Fraction(str(row.body["cost"]))
    return [
        (_STAGE_WORDS.get(stage, stage), 100 * float(cost / published.currency.limit))
        for stage, cost in spent.items()
    ]


def _sharper(best: Guarantee, enforced: Guarantee) -> bool:
    return decimal(best.epsilon) != decimal(enforced.epsilon) or best.delta != enforced.delta


def _round_number(value: float) -> int:
    """Return a number near `value` that people would say: 1, 2 or 5 times a power of ten.

    >>> _round_number(137.0), _round_number(0.3)
    (100, 1)
    """
    if value < 1:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return int(max(step * power for step in (1, 2, 5) if step * power <= value))


def _count(value: object) -> str:
    number = float(value)  # type: ignore[arg-type]
    return f"{number:,.0f}"
