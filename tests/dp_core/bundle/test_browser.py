"""The report in a real browser: nothing fetched, nothing cut off, readable in light and dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser import Page

SCRIPT = (Path(__file__).parent / "page_rules.js").read_text(encoding="utf-8")


def _asked(name: str) -> str:
    return f"(() => {{ {SCRIPT}\nreturn {name}(); }})()"


TEXTS = _asked("texts")

RULES = _asked("rules")

FOCUS = _asked("focus")

WIDTH = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_fetched_and_nothing_complains(page: Page, file, dark):
    page.open(file, width=1200, dark=dark)

    assert page.requests() == [file.as_uri()]
    assert page.complaints() == []


@pytest.mark.parametrize("width", [320, 360, 768, 1200])
def test_the_page_is_never_wider_than_the_screen(page: Page, file, width):
    page.open(file, width=width)
    page.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    needed, given = page.ask(WIDTH)

    assert width - 20 < given <= width  # beside it may be a bar to scroll down
    assert needed <= given


def test_a_printed_page_is_not_wider_than_the_paper(page: Page, file):
    page.open(file, width=680)
    page.call("Emulation.setEmulatedMedia", media="print")
    needed, given = page.ask(WIDTH)
    page.call("Emulation.setEmulatedMedia", media="")

    assert needed <= given


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_the_contrast_that_readers_need(page: Page, file, dark):
    page.open(file, width=1200, dark=dark)
    found = page.ask(TEXTS)

    assert len(found) > 10
    assert {text: ratio for text, ratio in found.items() if ratio < 4.5} == {}
    ground = page.ask("getComputedStyle(document.body).backgroundColor")
    brightness = max(map(int, re.findall(r"\d+", ground)))
    assert brightness < 60 if dark else brightness > 200


@pytest.mark.parametrize("dark", [False, True])
def test_pictures_follow_the_scheme(page: Page, file, dark):
    page.open(file, width=1200, dark=dark)
    page.ask("document.querySelector('svg .whisker').getBoundingClientRect()")
    colour = page.ask("getComputedStyle(document.querySelector('svg .whisker')).stroke")

    assert colour == ("rgb(255, 168, 116)" if dark else "rgb(152, 57, 15)")


def test_the_page_keeps_to_the_rules_of_accessibility(page: Page, file):
    page.open(file, width=1200)

    assert page.ask(RULES) == []
    assert page.ask(FOCUS) == []


def test_the_rules_find_what_is_broken(page: Page, tmp_path, file):
    """So that the tests above can fail."""
    text = file.read_text(encoding="utf-8")
    broken = (
        text.replace("<h3", "<h4")
        .replace("</h3>", "</h4>")
        .replace('scope="col"', "")
        .replace(' role="img"', "")
        .replace("outline: 3px", "outline: 0px")
        .replace("--soft: #505b69", "--soft: #b0b5b9")
        .replace("default-src 'none'; ", "default-src *; ")
        .replace("<h1>", "<p style='width:1500px'>wide</p><img src='http://127.0.0.1:9/x.png'><h1>")
    )
    (tmp_path / "broken.html").write_text(broken, encoding="utf-8")
    page.open(tmp_path / "broken.html", width=360)

    rules = page.ask(RULES)
    assert {"th without scope", "picture without words"} <= set(rules)
    assert any(rule.startswith("heading") for rule in rules)
    assert page.ask(FOCUS)
    assert min(page.ask(TEXTS).values()) < 4.5
    assert page.ask(WIDTH)[0] > 360
    assert len(page.requests()) > 1
    assert page.complaints()
