"""Sentences for a notebook: options of the commands as parameters of the functions.

Messages are written once, in the words of the commands. What prints itself in Python, and the
errors of the functions there, name the parameters instead.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from dp_core.errors import ReleaseError
from dp_core.text.pages.page import Fact, Page, Sentence, Title

_FLAGS = "naive|weighted|design|sampling"
_OPTION = re.compile(
    rf"(?<![-\w])--(?:(?P<flag>{_FLAGS})|(?P<name>family) (?P<value>'?[a-z-]+'?))(?![-\w])"
)
_CALLS = (
    (re.compile(r"--since EARLIER"), "since=EARLIER"),
    (re.compile(r"`dp-release (query|infer|verify)`"), r"`\1`"),
    (re.compile(r"`dp-release (resume) ([A-Za-z0-9._-]+)`"), r'`\1("\2")`'),
    (re.compile(r"`dp-release (run|resume)`"), r"`\1`"),
)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def in_python(text: str) -> str:
    """Return a sentence with the parameters of Python instead of options.

    >>> in_python("--naive prints them; --family poisson needs whole numbers.")
    'naive=True prints them; family="poisson" needs whole numbers.'
    >>> in_python("continue with `dp-release resume town-1`.")
    'continue with `resume("town-1")`.'
    """
    text = _OPTION.sub(_parameter, text)
    for pattern, call in _CALLS:
        text = pattern.sub(call, text)
    return text


def page_in_python(page: Page) -> Page:
    """Return a page whose sentences name parameters."""
    return tuple(
        replace(block, text=in_python(block.text))
        if isinstance(block, Title | Sentence | Fact)
        else block
        for block in page
    )


def speaks_python(
    function: Callable[_Arguments, _Result],
) -> Callable[_Arguments, _Result]:
    """Decorate a function of the library so that its errors name parameters."""

    @functools.wraps(function)
    def call(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        try:
            return function(*arguments, **options)
        except ReleaseError as error:
            error.message = in_python(error.message)
            error.args = (error.message,)
            raise

    return call


def _parameter(found: re.Match[str]) -> str:
    if found["flag"]:
        return f"{found['flag']}=True"
    value = found["value"].strip("'")
    return f'{found["name"]}="{value}"'
