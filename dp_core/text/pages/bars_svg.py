"""A small plot of bars as inline SVG, for notebooks: no script, no style sheet, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from dp_core.text.pages.number_texts import four_digits
from dp_core.text.pages.page import Bars

_LABEL, _PLOT, _VALUE = 220, 320, 90
_ROW, _BAR, _TOP = 20, 12, 24
_LONGEST = 28
_COLOUR = "#4c78a8"


def bars_svg(bars: Bars) -> str:
    """Return the plot as one SVG element; colours and text suit light and dark pages.

    >>> drawn = bars_svg(Bars("share", (("a", 0.25), ("b", 0.75)), percent=True))
    >>> drawn.count("<rect"), "75 %" in drawn
    (2, True)
    """
    return "\n".join(_lines(bars))


def _lines(bars: Bars) -> Iterator[str]:
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
