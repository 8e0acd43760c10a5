"""Page and JSON file that compare analyses of a file with those of its synthetic sets.

The first line of both is `notice`, which says who may see them.
"""

from __future__ import annotations

import html
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dp_core.lab.measures.inference_agreement import MEANING, Agreement, Coefficient, Outcome, Pair


@dataclass(frozen=True, slots=True)
class Comparison:
    """Content of a page.

    Attributes:
        notice: Who may see it.
        title: Title of the file.
        rule: Phrase about the rule by which the sets were combined.
        agreements: One for each formula.
    """

    notice: str
    title: str
    rule: str
    agreements: tuple[Agreement, ...]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Outcomes of the coefficients of every formula."""
        return tuple(kind for found in self.agreements for kind in found.outcomes)


def as_json(comparison: Comparison) -> str:
    """Return all numbers as JSON; the first key says who may see them."""
    values = {
        "confidential": comparison.notice,
        "format": 1,
        "title": comparison.title,
        "rule": comparison.rule,
        "outcomes": _counts(comparison.outcomes),
        "formulas": [
            {
                "formula": found.formula,
                "problem": found.problem or None,
                "outcomes": _counts(found.outcomes),
                "mean_overlap": _number(found.mean_overlap()),
                "lost": list(found.lost),
                "gained": list(found.gained),
                "coefficients": [
                    {
                        "name": pair.name,
                        "file": _values(pair.real),
                        "sets": _values(pair.synthetic),
                        "outcome": str(pair.outcome),
                        "overlap": _number(pair.overlap),
                        "width_ratio": _number(pair.width_ratio),
                    }
                    for pair in found.pairs
                ],
            }
            for found in comparison.agreements
        ],
    }
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def as_html(comparison: Comparison, *, picture: str = "") -> str:
    """Return a page that needs no other file but its picture.

    Args:
        comparison: Content of the page.
        picture: Address of the stacked bars relative to the page; empty for none.
    """
    title = html.escape(comparison.title)
    parts = [
        f"<!-- {_comment(comparison.notice)} -->\n<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>CONFIDENTIAL inference from {title}</title>"
        "<style>:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;"
        "max-width:70rem;margin:1rem auto;padding:0 1rem}td,th{padding:.2rem .8rem .2rem 0;"
        "text-align:right}td:first-child,th:first-child{text-align:left}"
        "thead th{border-bottom:1px solid}.c{font-weight:700;border:2px solid;padding:.5rem}"
        ".t{overflow-x:auto}img{max-width:100%;height:auto;background:#fff}</style></head>"
        f'<body><p class="c">{html.escape(comparison.notice)}</p>'
        f"<h1>Inference from {title}</h1>"
        f"<p>The same regressions on the file and on the synthetic sets; the sets are combined"
        f" {html.escape(comparison.rule)}. All intervals are 95 % intervals.</p>"
    ]
    if picture:
        told = ", ".join(f"{kind} {count}" for kind, count in _counts(comparison.outcomes).items())
        parts.append(
            f'<p><img src="{html.escape(picture)}" alt="Stacked bars of the outcomes: {told}."></p>'
        )
    parts += [_section(found) for found in comparison.agreements]
    parts.append(f"<h2>What the columns mean</h2>{_legend()}</body></html>\n")
    return "".join(parts)


def _section(found: Agreement) -> str:
    head = f"<h2><code>{html.escape(found.formula)}</code></h2>"
    if found.problem:
        return f"{head}<p>Not compared. {html.escape(found.problem)}</p>"
    rows = "".join(_row(pair) for pair in found.pairs)
    counts = ", ".join(f"{kind} {count}" for kind, count in _counts(found.outcomes).items())
    notes = f"<p>{counts}; average overlap {_format_number(found.mean_overlap())}.</p>"
    for names, text in (
        (found.lost, "Only in the file; the sets have no such coefficient"),
        (found.gained, "Only in the sets"),
    ):
        if names:
            notes += f"<p>{text}: {html.escape(', '.join(names))}.</p>"
    return (
        f'{head}<div class="t"><table><thead><tr><th>coefficient</th><th>file</th>'
        "<th>95 % interval</th><th>sets</th><th>95 % interval</th><th>outcome</th><th>overlap</th>"
        f"<th>width ratio</th></tr></thead><tbody>{rows}</tbody></table></div>{notes}"
    )


def _row(pair: Pair) -> str:
    cells = [
        html.escape(pair.name),
        _format_number(pair.real.estimate),
        f"{_format_number(pair.real.low)} to {_format_number(pair.real.high)}",
        _format_number(pair.synthetic.estimate),
        f"{_format_number(pair.synthetic.low)} to {_format_number(pair.synthetic.high)}",
        str(pair.outcome),
        f"{pair.overlap:.2f}",
        f"{pair.width_ratio:.2f}",
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _legend() -> str:
    outcomes = "".join(f"<dt>{kind}</dt><dd>{MEANING[kind]}</dd>" for kind in Outcome)
    return (
        "<p>Outcome: signs and significance (at 5 %) in the sets compared with the file (Eugenio"
        f" and Liu 2021, Table 1; intercepts are not counted).</p><dl>{outcomes}</dl>"
        "<p>Overlap: the share of each interval that it has in common with the other, averaged over"
        " the two (Karr et al. 2006): 1 if they are equal, 0 if they touch, and negative if they"
        " are disjoint, which counts as 0 in the average. Width ratio: length of the sets' interval"
        " divided by that of the file's. Wide intervals overlap well, so consider both.</p>"
    )


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    found = Counter(outcomes)
    return {str(kind): found[kind] for kind in Outcome}


def _values(one: Coefficient) -> dict[str, object]:
    return {
        "estimate": _number(one.estimate),
        "low": _number(one.low),
        "high": _number(one.high),
        "significant": one.significant,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _format_number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def _comment(text: str) -> str:
    return text.replace("--", "- -")
