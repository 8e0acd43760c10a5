"""The headings of the help and every message name commands there are."""

import ast
import re
from collections.abc import Iterator

import click
import pytest

from flows.cli.command_parts import SECTIONS
from flows.cli.main import cli
from tests.base_install import ROOT

NAMED = re.compile(r"(?:`|^ +|: )dp-release\s+([a-z][a-z-]*)(?:\s+([a-z][a-z-]*))?", re.MULTILINE)
"""A command that a text tells somebody to type, with the words that may be its group's."""


def named(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first two words of each command that a text names."""
    yield from (found.groups("") for found in NAMED.finditer(text))


def texts(source: str) -> Iterator[str]:
    """Yield the texts of a program, with braces in place of values."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, parts))


def is_command(first: str, second: str) -> bool:
    """Return whether two words begin a command that there is."""
    command = cli.commands.get(first)
    if not isinstance(command, click.Group):
        return command is not None
    return not second or second in command.commands


def test_every_heading_has_commands_that_exist_and_no_command_stands_under_two():
    listed = [name for names in SECTIONS.values() for name in names]
    assert len(listed) == len({*listed})
    assert {*listed} <= {*cli.commands}
    page = cli.get_help(click.Context(cli))
    assert all(f"\n{heading}:\n" in page for heading in SECTIONS)
    assert "..." not in page.partition("Make a release:")[2]


def test_a_command_without_a_heading_is_listed_last(monkeypatch):
    monkeypatch.setitem(cli.commands, "new", click.Command("new", help="Do something new."))
    page = cli.get_help(click.Context(cli))
    assert page.rstrip().endswith("Other commands:\n  new  Do something new.")


@pytest.mark.parametrize("folder", ["dp_core", "tasks", "flows"])
def test_every_command_that_a_message_names_exists(folder):
    found = {
        (path.name, words)
        for path in (ROOT / folder).rglob("*.py")
        for text in texts(path.read_text(encoding="utf-8"))
        for words in named(text)
    }
    assert found
    assert {one for one in found if not is_command(*one[1])} == set()


@pytest.mark.parametrize("words", [("publish", "town"), ("release", "publsh"), ("ask", "")])
def test_a_command_that_moved_or_is_misspelt_is_noticed(words):
    (found,) = named(f"Type `dp-release {' '.join(words)}`.")
    assert not is_command(*found)
