"""A page as HTML, for notebooks, and templates of HTML pages: all texts are escaped.

The HTML of a notebook has no script and no style sheet, and fetches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.text.pages.number_texts import cell_text, four_digits
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

if TYPE_CHECKING:
    from jinja2 import Environment

# Notebooks would set what stands between two dollar signs as a formula.
_PLAIN = "tex2jax_ignore mathjax_ignore"
_WARNING = "border-left: 4px solid #d97706; padding-left: 0.6em; max-width: 60em"
_TEXT = "max-width: 60em"


_CODE = re.compile(r"`([^`\n]+)`")


_LABEL, _PLOT, _VALUE = 220, 320, 90
_ROW, _BAR, _TOP = 20, 12, 24
_LONGEST = 28
_COLOUR = "#4c78a8"


def prose_html(text: str) -> str:
    """Return a sentence as HTML: escaped, with what stands between backticks as code.

    >>> prose_html("`query` needs a < b")
    '<code>query</code> needs a &lt; b'
    """
    return _CODE.sub(r"<code>\1</code>", escape(text))


def html_templates(*folders: Path) -> Environment:
    """Return an environment for the templates of some folders; an undefined name is an error.

    The filter `prose` shows what stands between backticks in a sentence as code.

    Args:
        folders: Folders of templates, searched in this order.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

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
                yield from bars_svg(block)


def _style(warns: bool) -> str:
    return f' style="{_WARNING if warns else _TEXT}"'


def _table(listing: Listing) -> Iterator[str]:
    rows, more = listing.visible_rows(MOST_IN_NOTEBOOK, ".frame")
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


def bars_svg(bars: Bars) -> Iterator[str]:
    """Yield the lines of the plot as one SVG element; its colours suit light and dark pages.

    >>> drawn = "".join(bars_svg(Bars("share", (("a", 0.25), ("b", 0.75)), percent=True)))
    >>> drawn.count("<rect"), "75 %" in drawn
    (2, True)
    """
    ends = [value for _, value in bars.bars] + [end for both in bars.whiskers for end in both]
    low, high = min(0.0, *ends), max(0.0, *ends)
    span = (high - low) or 1.0
    width, height = _LABEL + _PLOT + _VALUE, _TOP + _ROW * len(bars.bars) + 4

    def at(value: float) -> float:
        return _LABEL + _PLOT * (value - low) / span

    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
        f' fill="currentColor" aria-label="{escape(bars.heading)}">'
    )
    yield f'<text x="{_LABEL}" y="14" opacity="0.7">{escape(bars.heading)}</text>'
    for number, (label, value) in enumerate(bars.bars):
        top = _TOP + number * _ROW
        middle = top + _BAR / 2
        left, right = sorted((at(0.0), at(value)))
        text = label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"
        yield f'<text x="{_LABEL - 6}" y="{middle + 4:.1f}" text-anchor="end">{escape(text)}</text>'
        yield (
            f'<rect x="{left:.1f}" y="{top}" width="{max(right - left, 0.5):.1f}" height="{_BAR}"'
            f' fill="{_COLOUR}"><title>{escape(label)}: {_number(value, bars)}</title></rect>'
        )
        end = right
        if bars.whiskers:
            first, last = map(at, bars.whiskers[number])
            end = max(end, last)
            yield (
                f'<path d="M{first:.1f} {middle:.1f}H{last:.1f}M{first:.1f} {middle - 4:.1f}v8'
                f'M{last:.1f} {middle - 4:.1f}v8" stroke="currentColor" fill="none"/>'
            )
        yield f'<text x="{end + 5:.1f}" y="{middle + 4:.1f}">{_number(value, bars)}</text>'
    yield "</svg>"


def _number(value: float, bars: Bars) -> str:
    if bars.percent:
        return f"{100 * value:.3g} %"
    return f"{value:,.0f}" if abs(value) >= 100 else four_digits(value)
