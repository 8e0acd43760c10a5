"""Templates of HTML pages, with everything escaped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def html_templates(*folders: Path) -> Environment:
    """Return an environment for the templates of some folders; an undefined name is an error.

    The filter `prose` shows what stands between backticks in a sentence as code.

    Args:
        folders: Folders of templates, searched in this order.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    from dp_core.text.pages.page_html import prose_html

    environment = Environment(
        loader=FileSystemLoader(folders, encoding="utf-8"),
        autoescape=True,  # titles, names and labels are whatever the schema says
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = lambda text: Markup(prose_html(str(text)))
    return environment
