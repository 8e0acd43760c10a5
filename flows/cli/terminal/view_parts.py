"""Paths, numbers and amounts of all terminal views; see also `dp_core.text.pages.page_text`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from dp_core.text.pages.page_text import LABEL
from dp_core.wall.ledger.attempts.refused_attempts import MOST_REFUSED

if TYPE_CHECKING:
    from flows.answers.amounts import AccountAbove, PrivacyAmount


class OutputConsole(Console):
    """A console whose caller hears that the reader of the output has closed the pipe."""

    def on_broken_pipe(self) -> None:
        """Raise the error that is being handled; rich would end the process with exit code 1."""
        raise


def open_console() -> Console:
    """Return the console: as wide as the terminal, or 200 columns without a terminal."""
    console = OutputConsole(highlight=False)
    return console if console.is_terminal else OutputConsole(highlight=False, width=200)


def path(console: Console, label: str, text: str | Path) -> None:
    """Print a labelled path on one line, so that it can be copied whole."""
    console.print(f"{label:<{LABEL - 1}} {text}", markup=False, soft_wrap=True)


def number(value: float | Fraction | str) -> str:
    """Return a number with four significant digits; an exact one may be a text.

    >>> number(0.5), number(1e-9), number("1/3")
    ('0.5', '1e-09', '0.3333')
    """
    return f"{float(Fraction(value) if isinstance(value, str) else value):.4g}"


def privacy(amount: PrivacyAmount) -> str:
    """Return an epsilon and a delta in words."""
    return f"epsilon {number(amount.epsilon)}, delta {number(amount.delta)}"


def amount_words(amount: PrivacyAmount) -> str:
    """Return an amount of an account in words: rho first in a zcdp account."""
    if amount.rho is not None:
        return f"rho {number(amount.rho)} (epsilon {number(amount.epsilon)})"
    return privacy(amount)


def left_of(account: str, left: PrivacyAmount, above: AccountAbove | None) -> str:
    """Return what an account has left, and the account above it if that has less left."""
    text = f"account {account!r} has {amount_words(left)} left"
    if above:
        text += f"; {above.account!r}, above it, has {amount_words(above.left)} left"
    return text


def permanently_spent(amount: PrivacyAmount) -> str:
    """Return what stays spent, in the currency of its account."""
    if amount.rho is None:
        return f"epsilon {float(amount.epsilon):.6g} stays spent"
    return f"rho {float(amount.rho):.6g} stays spent"


def refusals_so_far(account: str, refused: int) -> str:
    """Return a sentence on how many of the attempts that an account allows were refused.

    >>> refusals_so_far("town", 2).partition(";")[0]
    "2 of 3 attempts on account 'town' (with its family) were refused"
    """
    were = "was" if refused == 1 else "were"
    return (
        f"{refused} of {MOST_REFUSED} attempts on account {account!r} (with its family) {were}"
        f" refused; after {MOST_REFUSED}, a person must allow more. An attempt is also refused"
        " if its release ended before its first charge. `dp-release schema check SCHEMA FILE` shows"
        " all that does not fit and is not counted."
    )
