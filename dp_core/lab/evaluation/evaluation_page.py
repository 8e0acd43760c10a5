"""What each score means, and the page that staff ask for: scores, classifiers, attacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dp_core.bundle.report.pictures.heat_map import short_percent
from dp_core.text.pages.page_html import html_templates

if TYPE_CHECKING:
    from jinja2 import Template

Style = Literal["score", "share", "number", "times"]


@dataclass(frozen=True, slots=True)
class Score:
    """One headline number.

    Attributes:
        name: Key in JSON.
        label: Name in tables.
        best: What a perfect copy of the file has.
        style: How the number is written.
        meaning: One sentence.
    """

    name: str
    label: str
    best: str
    style: Style
    meaning: str


SCORES: tuple[Score, ...] = (
    Score("k_marginal", "k-marginal, pairs", "1000", "score", "NIST: 1000 (1 - mean 2-way TVD)"),
    Score("k_marginal_3", "k-marginal, triples", "1000", "score", "the same, at most 300 triples"),
    Score(
        "worst_density",
        "univariate, worst column",
        "0",
        "number",
        "sum of absolute differences of densities, at most 2",
    ),
    Score(
        "propensity",
        "propensity MSE",
        "0",
        "number",
        "mean squared error of a tree of depth 6 that tells sets from file; .25 if it tells all",
    ),
    Score(
        "propensity_ratio",
        "propensity ratio",
        "1",
        "times",
        "propensity MSE divided by its mean with permuted labels",
    ),
    Score("pearson", "Pearson correlations", "0", "number", "mean absolute difference"),
    Score("kendall", "Kendall correlations", "0", "number", "mean absolute difference of tau-b"),
    Score(
        "components",
        "principal components",
        "0",
        "number",
        "largest Kolmogorov-Smirnov distance along the file's first five components",
    ),
    Score(
        "slope",
        "slopes by group",
        "0",
        "number",
        "largest difference of regression slopes, in units of the outcome per unit of the"
        " predictor",
    ),
    Score("contradictions", "contradictions", "0", "share", "records that break a structural zero"),
    Score(
        "new_pairs",
        "new pairs of levels",
        "0",
        "share",
        "records with a pair of levels that the file does not have",
    ),
    Score(
        "unique_matched",
        "unique exact matches",
        "compare",
        "share",
        "of the records that occur once in the file, those that the set contains too",
    ),
    Score(
        "apparent",
        "apparent matches",
        "compare",
        "share",
        "records of the file that agree with a set's record in the quasi-identifiers, both unique",
    ),
    Score(
        "apparent_agreement",
        "agreement of apparent matches",
        "compare",
        "share",
        "mean share of the other columns in which the two records agree",
    ),
    Score(
        "subgroups",
        "worst over best subgroup",
        "1",
        "times",
        "largest over smallest error of a column's levels, for the most unequal column",
    ),
    Score(
        "subgroup_excess",
        "subgroup over prediction",
        "1",
        "times",
        "largest error of a level divided by what noise and sampling predict",
    ),
)
"""In the order of the table."""


def score_rows(
    found: Mapping[str, float | None], reference: Mapping[str, float | None]
) -> list[tuple[Score, str, str]]:
    """Return the rows of the table: the score, the sets' mean, and that of a resample.

    Args:
        found: Headline numbers of the sets.
        reference: The same of a resample of the file.
    """
    return [
        (one, format_score(one, found.get(one.name)), format_score(one, reference.get(one.name)))
        for one in SCORES
        if found.get(one.name) is not None
    ]


def format_score(score: Score, value: float | None) -> str:
    """Return a number as it is written; a dash for None.

    >>> [format_score(SCORES[n], x) for n, x in ((0, 987.65), (9, 0.0123), (4, 1.234))]
    ['988', '1.2 %', '1.2']
    """
    if value is None:
        return "–"
    if score.style == "score":
        return f"{value:.0f}"
    if score.style == "share":
        return f"{100 * value:.1f} %"
    if score.style == "times":
        return f"{value:.1f}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.0f}"


@cache
def page_template(path: Path) -> Template:
    """Return the template of a page, which may use the templates of this room and of the report."""
    import dp_core.bundle.report as report

    others = Path(__file__).parent, Path(str(report.__file__)).parent
    environment = html_templates(path.parent, *others)
    environment.filters["short"] = lambda value: short_percent(value / 100)
    environment.filters["score_rows"] = lambda found: score_rows(found["mean"], found["resample"])
    environment.filters["number"] = lambda value: (
        "–" if value is None else f"{value:.4g}".replace("-", "−")
    )
    return environment.get_template(path.name)


def as_html(notice: str, title: str, found: Mapping[str, Any]) -> str:
    """Return the page; its first line is the notice.

    Args:
        notice: Who may see it.
        title: Title of the file.
        found: Sections by name: `linked` (of linked tables), `scores`, `classifiers` and
            `attacks`; each may be missing, or be a mapping with the one key `problem`.
    """
    template = page_template(Path(__file__).with_name("evaluation_page.html.jinja"))
    sections = {name: found.get(name) for name in ("linked", "scores", "classifiers", "attacks")}
    return template.render(notice=notice, title=title, **sections)


def as_json(notice: str, title: str, found: Mapping[str, Any]) -> str:
    """Return the same as JSON; the first key says who may see it."""
    values = {"confidential": notice, "format": 1, "title": title, **found}
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"
