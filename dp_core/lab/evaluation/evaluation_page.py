"""The templates of pages that show scores, and the filters they use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.bundle.report.pictures.heat_map import short_percent
from dp_core.lab.evaluation.score_table import score_rows
from dp_core.text.pages.html_template import html_templates

if TYPE_CHECKING:
    from jinja2 import Environment


def page_environment(*folders: Path) -> Environment:
    """Return an environment with the templates of this room, of the report and of other folders.

    Args:
        folders: Folders of further templates, which are searched first.
    """
    import dp_core.bundle.report as report

    environment = html_templates(*folders, Path(__file__).parent, Path(str(report.__file__)).parent)
    environment.filters["short"] = lambda value: short_percent(value / 100)
    environment.filters["score_rows"] = lambda found: score_rows(found["mean"], found["resample"])
    environment.filters["number"] = _number
    return environment


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}".replace("-", "−")


def as_html(notice: str, title: str, found: Mapping[str, Any]) -> str:
    """Return the page; its first line is the notice.

    Args:
        notice: Who may see it.
        title: Title of the file.
        found: Sections by name: `linked` (of linked tables), `scores`, `classifiers` and
            `attacks`; each may be missing, or be a mapping with the one key `problem`.
    """
    template = page_environment().get_template("evaluation_page.html.jinja")
    sections = {name: found.get(name) for name in ("linked", "scores", "classifiers", "attacks")}
    return template.render(notice=notice, title=title, **sections)


def as_json(notice: str, title: str, found: Mapping[str, Any]) -> str:
    """Return the same as JSON; the first key says who may see it."""
    values = {"confidential": notice, "format": 1, "title": title, **found}
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"
