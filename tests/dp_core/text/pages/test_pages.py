"""Pages as text and as HTML."""

from __future__ import annotations

import io
import json
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
from rich.console import Console

from dp_core.errors import BadInput
from dp_core.text.pages.answer import CommandAnswer, known_values
from dp_core.text.pages.page import (
    Bars,
    Column,
    Fact,
    Listing,
    Sentence,
    Title,
    Verbatim,
    numbers,
    texts,
)
from dp_core.text.pages.page_html import page_html
from dp_core.text.pages.page_text import page_text, print_page
from dp_core.text.pages.python_words import in_python, speaks_python
from tests.html_elements import Elements

NASTY = "<script>alert('x')</script> & \"quoted\" [bold]"
PAGE = (
    Sentence(NASTY, warns=True),
    Fact("Warning", NASTY, warns=True),
    Listing((*texts(NASTY), *numbers("share")), ((NASTY, "0.5 %"), ("b", "12.25 %"))),
    Fact("Note", "the end"),
)


def test_texts_are_escaped_in_html():
    found = Elements(page_html(PAGE))

    assert {name for name, _ in found.tags} == {"div", "p", "b", "table", "tr", "th", "td"}
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
    row = tuple(f"1234567.{place}" for place in range(9))
    text = page_text((Fact("Note", "word " * 20), Listing(numbers(*["a" * 9] * 9), (row,))))

    assert max(map(len, text.splitlines()[:3])) <= 30
    assert text.splitlines()[-1].split() == [*row]


def test_a_row_has_a_cell_under_each_heading():
    with pytest.raises(ValueError, match="number of cells"):
        Listing(numbers("a", "b"), (("1",),))


def printed(page, width=40, **how):
    """Return what a terminal of this width shows."""
    console = Console(width=width, color_system=None, file=io.StringIO())
    print_page(console, page, **how)
    return console.file.getvalue()


def test_cells_have_the_form_of_their_type():
    row = ("1/3", 12345, Fraction(1, 3), 1e-9, date(2026, 11, 28), None)
    listing = Listing((*texts("share"), *numbers(*"abc"), *texts("day", "none")), [row])

    assert page_text((listing,)).split()[-5:] == ["1/3", "12,345", "0.3333", "1e-09", "2026-11-28"]
    assert "<td" in page_html((listing,))
    assert "12,345" in page_html((listing,))


@pytest.mark.parametrize("width", range(30, 60))
def test_a_narrow_terminal_breaks_words_before_numbers_and_shows_all(width):
    row = ("interaction of age x school_night_hours_sleep", "yrbss-demo", "±0.0001235")
    lines = printed((Listing((*texts("step", "release"), *numbers("margin")), [row]),), width)

    assert "…" not in lines
    assert "±0.0001235" in lines
    assert max(map(len, lines.splitlines())) <= width
    shown = "".join("".join(lines.splitlines()[1:]).split())
    assert sorted(shown) == sorted("".join(row).replace(" ", ""))


def test_columns_of_a_larger_rank_give_way_in_a_narrow_terminal():
    columns = (*texts("method"), *(Column(name, is_number=True, rank=n) for n, name in RANKED))
    listing = Listing(columns, [("privsyn", "0.1", "0.2", "0.3")])

    def heads(width):
        return printed((listing,), width).splitlines()[0].split()

    assert heads(40) == ["method", "third", "first", "second"]
    assert heads(24) == ["method", "first", "second"]
    assert heads(10) == ["method"]
    assert page_html((listing,)).count("<td") == 4


RANKED = ((3, "third"), (1, "first"), (2, "second"))


def test_a_medium_says_how_many_rows_it_leaves_out():
    rows = [(number,) for number in range(80)]
    first, last = (Listing(numbers("n"), rows, newest_last=newest) for newest in (False, True))

    assert "... and 20 more; .frame has all." in page_text((first,))
    assert "... and 20 more; .frame has all." in page_html((first,))
    assert "... and 70 more; --json has all." in printed((first,), most=10)
    assert printed((first,)).split()[-1] == "79"
    shown = " ".join(printed((last,), most=10).split())
    assert shown.split()[1] == "70"
    assert "Only the last 10 are shown; --json has all." in shown


def test_what_is_copied_stays_on_one_line():
    path = f"/folder/{'long name ' * 9}"

    assert path.rstrip() in printed((Fact("Bundle", path, whole=True),))
    assert path.rstrip() not in printed((Fact("Bundle", path),))


def test_a_verbatim_text_is_kept_to_its_last_sign():
    assert printed((Verbatim("a: [x]\n\n"),), width=3) == "a: [x]\n\n"
    assert "<pre>a: &lt;b&gt;</pre>" in page_html((Verbatim("a: <b>"),))


def test_no_empty_line_is_doubled_between_tables():
    listing = Listing(texts("a"), [("1",)])
    page = (Title("name", ": x"), listing, Bars("share", (("a", 1.0),)), listing, Sentence("end"))

    assert printed(page) == "name: x\n\na\n1\n\na\n1\n\nend\n"


def test_an_answer_is_one_value_for_programs_and_people():
    answer = CommandAnswer(
        {
            "cost": Fraction(1, 2),
            "day": date(2026, 11, 28),
            "way": Path("a"),
            **known_values(none=None),
        },
        (Sentence("Costs 0.5."),),
        code=3,
    )

    assert answer["cost"] == Fraction(1, 2)
    assert (answer.exit_code, answer.fault) == (3, None)
    assert json.loads(json.dumps(answer.to_json(), default=str)) == {
        "cost": "1/2",
        "day": "2026-11-28",
        "way": "a",
    }
    assert str(answer) == repr(answer) == "Costs 0.5."


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
