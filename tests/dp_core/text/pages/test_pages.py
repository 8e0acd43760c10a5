"""Pages as text and as HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from dp_core.errors import BadInput
from dp_core.text.pages.page import Bars, Fact, Listing, Sentence
from dp_core.text.pages.page_html import page_html
from dp_core.text.pages.page_text import page_text
from dp_core.text.pages.python_words import in_python, speaks_python

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


# -- bars


def rectangles(html):
    """Return x and width of each bar, pixels."""
    found = [piece.split("/>")[0] for piece in html.split("<rect ")[1:]]
    return [
        tuple(float(each.split(f'{name}="')[1].split('"')[0]) for name in ("x", "width"))
        for each in found
    ]


def test_bars_are_as_long_as_their_values_and_escape_their_labels():
    html = page_html((Bars(NASTY, (("a", 1.0), (NASTY, 3.0), ("none", 0.0))),))
    (first, one), (second, three), (_, none) = rectangles(html)

    assert first == second
    assert three == pytest.approx(3 * one, abs=0.2)
    assert none < 1
    assert "<script" not in html


def test_negative_bars_and_whiskers_stay_inside_the_plot():
    html = page_html((Bars("x", (("a", -1.0), ("b", 2.0)), ((-3.0, 1.0), (1.0, 4.0))),))
    (left, width), (start, _) = rectangles(html)

    assert left + width == pytest.approx(start, abs=0.2)  # both end at zero
    ends = [float(piece.split()[0]) for piece in html.split('d="M')[1:]]
    assert len(ends) == 2
    assert min(ends) >= 220


def test_bars_need_their_whiskers_and_are_not_in_the_text():
    with pytest.raises(ValueError, match="whisker"):
        Bars("x", (("a", 1.0), ("b", 1.0)), ((0.0, 1.0),))
    assert page_text((Sentence("a"), Bars("x", (("a", 1.0),)), Sentence("b"))) == "a\nb"


# -- words of Python


@pytest.mark.parametrize(
    ("said", "python"),
    [
        ("; --naive prints them.", "; naive=True prints them."),
        ("--family 'poison' is not known.", 'family="poison" is not known.'),
        ("leave --weighted out", "leave weighted=True out"),
        ("`dp-release query` answers", "`query` answers"),
        ("type `dp-release resume town-1`.", 'type `resume("town-1")`.'),
        ("`dp-release ledger open` makes one", "`dp-release ledger open` makes one"),
        ("a--naive-b --naively", "a--naive-b --naively"),
    ],
)
def test_options_become_parameters(said, python):
    assert in_python(said) == python


def test_an_error_of_the_library_names_parameters():
    @speaks_python
    def refused():
        raise BadInput("Give --naive.", row="some-row")

    with pytest.raises(BadInput) as raised:
        refused()
    assert (raised.value.message, str(raised.value)) == ("Give naive=True.", "Give naive=True.")
    assert raised.value.row == "some-row"
