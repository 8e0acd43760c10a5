"""Values typed on the command line: exact numbers, words, calendars, plans, releases."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.shell_completion import CompletionItem

from dp_core.errors import BadInput, nearest
from dp_core.text.documents.typed_text import exact_epsilon, exact_number
from dp_core.text.names import check_name

if TYPE_CHECKING:
    from dp_core.kernel.cost.composition import Composition, Terms
    from dp_core.plan.plan import Plan
    from dp_core.policies.budget_periods import Calendar, Period


class ExactNumber(click.ParamType):
    """An exact number of 0 or more.

    Args:
        positive: Whether 0 is refused; False by default.
        below_one: Whether 1 and more is refused; False by default.
    """

    name = "number"

    def __init__(self, *, positive: bool = False, below_one: bool = False) -> None:
        self._positive, self._below_one = positive, below_one

    def convert(self, value: Any, param: click.Parameter | None, _ctx: Any) -> Any:
        """Return the number as a fraction; name the option if it is none or out of range."""
        return exact_number(
            _option(param), value, positive=self._positive, below_one=self._below_one
        )


class Epsilon(ExactNumber):
    """An epsilon."""

    def convert(self, value: Any, param: click.Parameter | None, _ctx: Any) -> Any:
        """Return the epsilon as a fraction."""
        return exact_epsilon(value, what=_option(param))


class Level(ExactNumber):
    """A confidence level between 0 and 1."""

    def convert(self, value: Any, param: click.Parameter | None, _ctx: Any) -> Any:
        """Return the level as a float."""
        level = float(super().convert(value, param, _ctx))
        if level >= 1:
            raise BadInput(f"--level must be between 0 and 1, such as 0.95, not {value}.")
        return level


class Completed(click.types.StringParamType):
    """A text whose possible values the shell can complete.

    Args:
        values: Returns the possible values.
    """

    def __init__(self, values: Callable[[], Iterable[str]]) -> None:
        self._values = values

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the values that begin with what is typed; none if they cannot be read."""
        try:
            found = list(self._values())
        except (OSError, sqlite3.Error):
            return []
        return [CompletionItem(each) for each in found if each.startswith(incomplete)]


class Word(Completed):
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        super().__init__(lambda: words)
        self.words = words

    def convert(self, value: Any, param: click.Parameter | None, _ctx: Any) -> Any:
        """Return the word; name the nearest one if it is another."""
        if value not in self.words:
            raise BadInput(f"{_option(param)} {value!r} is not known.{nearest(value, self.words)}")
        return value


def _option(param: click.Parameter | None) -> str:
    return param.opts[0] if param is not None else ""


EPSILON = Epsilon()
DELTA = ExactNumber(below_one=True)
LEVEL = Level(positive=True)
PERIOD = Word("month", "quarter", "year")
COMPOSITION = Word("basic", "zcdp")


def confirm_total(epsilon: Fraction | None, delta: Fraction | None, *, meant: bool) -> None:
    """Ask at a terminal about a total that protects nobody (`unprotected`), unless it is meant.

    Args:
        epsilon: The new total; None if it does not change.
        delta: The new total delta; None if it does not change.
        meant: Whether `--large-epsilon` was given.

    Raises:
        BadInput: if it is not meant, or nobody can be asked.
    """
    from dp_core.accounts.requested import unprotected

    what = unprotected(epsilon or Fraction(0), delta or Fraction(0))
    if meant or not what:
        return
    if not _at_a_terminal():
        raise BadInput(
            f"{what} See docs/choosing-epsilon.md. The ledger was not changed; if the total is"
            " meant, add --large-epsilon."
        )
    click.echo(what, err=True)
    if not click.confirm("Is this total meant?", err=True):
        raise BadInput("The ledger was not changed. Give a smaller total.")


def on_terminal(stream: TextIO) -> bool:
    """Return whether a stream is shown to the person who gave the command, and kept nowhere."""
    return stream.isatty()


def _at_a_terminal() -> bool:
    return on_terminal(sys.stdin) and on_terminal(sys.stderr)


def person_and_reason(by: str, reason: str) -> tuple[str, str]:
    """Return who decides and why, without surrounding spaces.

    Raises:
        BadInput: if one of them is empty.
    """
    for option, text in (("--by", by), ("--reason", reason)):
        if not text.strip():
            raise BadInput(f"{option} is empty; the ledger records a person and a reason.")
    return by.strip(), reason.strip()


def account_terms(
    kind: Composition, *, epsilon: Fraction, delta: Fraction, own_delta: Fraction
) -> Terms:
    """Return the terms of an account.

    Raises:
        BadInput: if there can be no such account.
    """
    from dp_core.kernel.cost.composition import Terms

    if kind == "zcdp" and delta == 0:
        raise BadInput("--composition zcdp needs a --delta above 0, such as 1e-6.")
    if kind == "basic" and own_delta:
        raise BadInput("--own-delta belongs to --composition zcdp; basic sums the whole delta.")
    if kind == "zcdp" and own_delta >= delta:
        raise BadInput("--own-delta must be below --delta, the whole of which it is a part.")
    return Terms(kind, epsilon, delta, own_delta)


def account_calendar(
    terms: Terms,
    *,
    per: Period | None,
    epsilon: Fraction | None,
    delta: Fraction | None,
    carry_over: bool,
) -> Calendar | None:
    """Return the calendar of a new account; None if it has no allowance per period.

    `--period-delta` defaults to the whole own delta of a zcdp account. A basic account with a delta
    must state it, since no part of the delta is an obvious default.

    Args:
        terms: The account's terms.
        per: The period.
        epsilon: Epsilon of one period.
        delta: Delta of one period.
        carry_over: Whether unused allowance is kept for later periods.

    Raises:
        BadInput: if the options do not belong together, or a period allows more than the total.
    """
    from dp_core.policies.budget_periods import Calendar

    if per is None:
        typed = {"period-epsilon": epsilon, "period-delta": delta, "carry-over": carry_over or None}
        for option, value in typed.items():
            if value is not None:
                raise BadInput(f"--{option} needs --per month, quarter or year.")
        return None
    if epsilon is None:
        raise BadInput(f"--per {per} needs --period-epsilon: what one {per} may use.")
    if delta is None and terms.is_basic and terms.delta:
        raise BadInput(
            f"--per {per} needs --period-delta: what one {per} may use of the delta"
            f" {float(terms.delta):g}, or 0 for pure releases only."
        )
    own = terms.own_delta if delta is None else delta
    today = datetime.now(UTC).date()
    return _within_total(Calendar(per, epsilon, own, carry_over, today), terms)


def raised_calendar(
    account: str,
    before: Calendar | None,
    terms: Terms,
    *,
    epsilon: Fraction | None,
    delta: Fraction | None,
) -> Calendar | None:
    """Return the calendar with a higher allowance; None if no allowance was typed.

    Args:
        account: Name of the account, for messages.
        before: Its calendar so far.
        terms: Its terms after the raise.
        epsilon: New epsilon of one period.
        delta: New delta of one period.

    Raises:
        BadInput: if the account has no calendar, or the allowance is not raised.
    """
    if epsilon is None and delta is None:
        return None
    if before is None:
        raise BadInput(
            f"Account {account!r} has no allowance per period to raise: that is fixed when an"
            " account is opened, with --per."
        )
    after = replace(
        before,
        epsilon=before.epsilon if epsilon is None else epsilon,
        delta=before.delta if delta is None else delta,
    )
    for word, old, new in (
        ("epsilon", before.epsilon, after.epsilon),
        ("delta", before.delta, after.delta),
    ):
        if new < old:
            raise BadInput(
                f"A {before.period} of account {account!r} allows {word} {float(old):g}, and that"
                f" can only be raised, not lowered to {float(new):g}."
            )
    if after == before:
        raise BadInput(f"Account {account!r} has that allowance already; nothing was raised.")
    return _within_total(after, terms)


def restated_calendar(
    account: str, before: Calendar | None, old: Terms, terms: Terms, *, delta: Fraction | None
) -> Calendar | None:
    """Return the calendar of an account after a change of composition; None if it has none.

    A period limits the delta of a basic account, and the own delta of a zcdp account. So a new
    composition needs a new limit, with the default of `account_calendar`.

    Args:
        account: Name of the account, for messages.
        before: Its calendar so far.
        old: Its terms so far.
        terms: Its new terms.
        delta: New delta of one period.

    Raises:
        BadInput: if the account has no calendar, or must state the delta of a period.
    """
    if before is None:
        if delta is not None:
            raise BadInput(
                f"Account {account!r} has no allowance per period; leave out --period-delta."
            )
        return None
    changed = old.composition != terms.composition
    if delta is None and changed and terms.is_basic:
        raise BadInput(
            f"Account {account!r} has an allowance per {before.period}, whose delta means another"
            f" thing under basic: give --period-delta, what one {before.period} may use of the"
            f" delta {float(terms.delta):g}, or 0 for pure releases only."
        )
    if delta is None:
        delta = terms.own_delta if changed else before.delta
    return _within_total(replace(before, delta=delta), terms)


def _within_total(calendar: Calendar, terms: Terms) -> Calendar:
    """Return a calendar whose period allows no more than the account's total."""
    whole = terms.delta if terms.is_basic else terms.own_delta
    for option, part, total, word in (
        ("--period-epsilon", calendar.epsilon, terms.epsilon, "epsilon"),
        ("--period-delta", calendar.delta, whole, "delta" if terms.is_basic else "own delta"),
    ):
        if part > total:
            raise BadInput(
                f"{option} {float(part):g} is above the account's whole {word} of"
                f" {float(total):g}, so it would allow more than there is."
            )
    return calendar


_HASH = re.compile(r"[0-9a-fA-F]{64}")


def plan_named(text: str) -> tuple[str, Plan | None]:
    """Return the hash of a plan, and the plan itself if its spec was named.

    Raises:
        BadInput: if the text is neither a hash nor the path of a spec.
    """
    if _HASH.fullmatch(text.strip()):
        return text.strip().lower(), None
    path = Path(text)
    if not path.exists():
        raise BadInput(
            f"{text[:80]!r} is neither the hash of a plan (64 hex digits, as `dp-release plan SPEC`"
            " prints it) nor the path of a spec."
        )
    from tasks.run.earlier_releases import preview_plan

    plan = preview_plan(path)
    return plan.hash, plan


def check_release(text: str) -> str:
    """Return the name of a release; the path of its spec is a common mistake.

    Raises:
        BadInput: if it is a path, or no name.
    """
    if "/" in text or Path(text).is_file():
        raise BadInput(
            f"{text!r} is a path; name the release, as its spec does under `release`:"
            " `dp-release status` lists them."
        )
    return check_name(text, what="release")
