"""The page of an evaluation that staff ask for: scores, classifiers, attacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dp_core.lab.evaluation.attack_table import attack_rows
from dp_core.lab.evaluation.page_template import page_environment


def as_html(notice: str, title: str, found: Mapping[str, Any]) -> str:
    """Return the page; its first line is the notice.

    Args:
        notice: Who may see it.
        title: Title of the file.
        found: Sections by name: `linked` (of linked tables), `scores`, `classifiers` and
            `attacks`; each may be missing, or be a mapping with the one key `problem`.
    """
    environment = page_environment()
    environment.filters["attack_rows"] = attack_rows
    template = environment.get_template("evaluation_page.html.jinja")
    sections = {name: found.get(name) for name in ("linked", "scores", "classifiers", "attacks")}
    return template.render(notice=notice, title=title, **sections)


def as_json(notice: str, title: str, found: Mapping[str, Any]) -> str:
    """Return the same as JSON; the first key says who may see it."""
    values = {"confidential": notice, "format": 1, "title": title, **found}
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"
