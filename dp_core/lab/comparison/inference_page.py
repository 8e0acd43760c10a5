"""Page and JSON file that compare analyses of a file with those of its synthetic sets.

The first line of both is `notice`, which says who may see them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dp_core.lab.evaluation.evaluation_page import page_template
from dp_core.lab.measures.inference_agreement import MEANING, Agreement, Coefficient, Outcome
from dp_core.text.pages.answer import plain


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

    def values(self) -> dict[str, Any]:
        """Return all numbers as plain values; the first key says who may see them."""
        values = {
            "confidential": self.notice,
            "format": 1,
            "title": self.title,
            "rule": self.rule,
            "outcomes": _counts(self.outcomes),
            "formulas": [
                {
                    "formula": found.formula,
                    "problem": found.problem or None,
                    "outcomes": _counts(found.outcomes),
                    "mean_overlap": found.mean_overlap(),
                    "lost": list(found.lost),
                    "gained": list(found.gained),
                    "coefficients": [
                        {
                            "name": pair.name,
                            "file": _values(pair.real),
                            "sets": _values(pair.synthetic),
                            "outcome": str(pair.outcome),
                            "overlap": pair.overlap,
                            "width_ratio": pair.width_ratio,
                        }
                        for pair in found.pairs
                    ],
                }
                for found in self.agreements
            ],
        }
        return cast("dict[str, Any]", plain(values))


def as_json(comparison: Comparison) -> str:
    """Return all numbers as JSON."""
    return json.dumps(comparison.values(), indent=2, ensure_ascii=False) + "\n"


def as_html(comparison: Comparison, *, picture: str) -> str:
    """Return a page that needs no other file but its picture.

    Args:
        comparison: Content of the page.
        picture: Address of the stacked bars relative to the page.
    """
    template = page_template(Path(__file__).with_name("inference_page.html.jinja"))
    return template.render(**comparison.values(), picture=picture, meaning=MEANING)


def _counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    found = Counter(outcomes)
    return {str(kind): found[kind] for kind in Outcome}


def _values(one: Coefficient) -> dict[str, object]:
    return {
        "estimate": one.estimate,
        "low": one.low,
        "high": one.high,
        "significant": one.significant,
    }
