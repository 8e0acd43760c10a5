"""A page as HTML, for notebooks: no script, no style sheet, nothing fetched, all texts escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from dp_core.text.pages.bars_svg import bars_svg
from dp_core.text.pages.number_texts import cell_text
from dp_core.text.pages.page import (
    MOST_IN_NOTEBOOK,
    Bars,
    Fact,
    Listing,
    Page,
    Sentence,
    Title,
    Verbatim,
)

# Notebooks would set what stands between two dollar signs as a formula.
_PLAIN = "tex2jax_ignore mathjax_ignore"
_WARNING = "border-left: 4px solid #d97706; padding-left: 0.6em; max-width: 60em"
_TEXT = "max-width: 60em"


_CODE = re.compile(r"`([^`\n]+)`")


def prose_html(text: str) -> str:
    """Return a sentence as HTML: escaped, with what stands between backticks as code.

    >>> prose_html("`query` needs a < b")
    '<code>query</code> needs a &lt; b'
    """
    return _CODE.sub(r"<code>\1</code>", escape(text))


def page_html(page: Page) -> str:
    """Return a page as one HTML element.

    >>> print(page_html((Fact("Note", "2 < 3"),)))
    <div class="tex2jax_ignore mathjax_ignore">
    <p style="max-width: 60em"><b>Note</b> 2 &lt; 3</p>
    </div>
    """
    return "\n".join([f'<div class="{_PLAIN}">', *_lines(page), "</div>"])


def _lines(page: Page) -> Iterator[str]:
    for block in page:
        match block:
            case Title(name, text):
                yield f"<p{_style(False)}><b>{escape(name)}</b>{prose_html(text)}</p>"
            case Listing():
                yield from _table(block)
            case Fact(label, text, warns):
                yield f"<p{_style(warns)}><b>{escape(label)}</b> {prose_html(text)}</p>"
            case Sentence(text, warns):
                yield f"<p{_style(warns)}>{prose_html(text)}</p>"
            case Verbatim(text):
                yield f"<pre>{escape(text)}</pre>"
            case Bars():
                yield bars_svg(block)


def _style(warns: bool) -> str:
    return f' style="{_WARNING if warns else _TEXT}"'


def _table(listing: Listing) -> Iterator[str]:
    rows, more = listing.shown(MOST_IN_NOTEBOOK, ".frame")
    sides = ["right" if column.is_number else "left" for column in listing.columns]
    yield "<table>"
    yield from _row('th scope="col"', [column.heading for column in listing.columns], sides)
    for row in rows:
        yield from _row("td", [cell_text(cell) for cell in row], sides)
    yield "</table>"
    if more:
        yield f"<p{_style(False)}>{more}</p>"


def _row(element: str, cells: list[str], sides: list[str]) -> Iterator[str]:
    name = element.partition(" ")[0]
    texts = [
        f'<{element} style="text-align: {side}; padding: 0.1em 0.6em">{escape(cell)}</{name}>'
        for cell, side in zip(cells, sides, strict=True)
    ]
    yield f"<tr>{''.join(texts)}</tr>"
