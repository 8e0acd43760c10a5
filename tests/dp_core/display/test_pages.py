"""Pages as text and as HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from dp_core.display.page import Fact, Listing, Sentence
from dp_core.display.page_html import page_html
from dp_core.display.page_text import page_text

NASTY = "<script>alert('x')</script> & \"quoted\" [bold]"
PAGE = (
    Sentence(NASTY, warns=True),
    Fact("Warning", NASTY, warns=True),
    Listing((NASTY, "share"), ((NASTY, "0.5 %"), ("b", "12.25 %")), texts=1),
    Fact("Note", "the end"),
)


class Elements(HTMLParser):
    """Names of the elements, and the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self.names.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def read(html):
    found = Elements()
    found.feed(html)
    found.close()
    assert found.open == []
    return found


def test_texts_are_escaped_in_html():
    found = read(page_html(PAGE))

    assert set(found.names) == {"div", "p", "b", "table", "tr", "th", "td"}
    assert sum(text.strip() == NASTY for text in found.texts) == 4


def test_warnings_look_different_in_html():
    warning, plain = (page_html((Fact("Note", "x", warns=warns),)) for warns in (True, False))

    assert "border-left" in warning
    assert "border-left" not in plain


def test_text_has_every_word_as_it_is():
    text = page_text(PAGE)

    assert text.count(NASTY) == 4
    assert text.startswith(NASTY)
    assert text.endswith("Note     the end")


def test_numbers_stand_at_the_right():
    rows = [line for line in page_text(PAGE).splitlines() if line.endswith("%")]

    assert len(rows) == 2
    assert len({len(line) for line in rows}) == 1


def test_a_narrow_terminal_cuts_no_number_of_a_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    numbers = tuple(f"1234567.{place}" for place in range(9))
    text = page_text((Fact("Note", "word " * 20), Listing(("a" * 9,) * 9, (numbers,), texts=0)))

    assert max(map(len, text.splitlines()[:3])) <= 30
    assert text.splitlines()[-1].split() == [*numbers]


def test_a_row_has_a_cell_under_each_heading():
    with pytest.raises(ValueError, match="number of cells"):
        Listing(("a", "b"), (("1",),), texts=0)
