"""Values typed on the command line: exact numbers, known words, calendars, plans, releases."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from dp_core.errors import BadInput, nearest
from dp_core.text.documents.typed_text import exact_number
from dp_core.text.names import check_name

if TYPE_CHECKING:
    from dp_core.plan.plan import Plan
    from dp_core.schema.privacy import Neighbours
    from dp_core.wall.accounting.composition import Composition, Terms
    from dp_core.wall.ledger.budget_periods import Calendar, Period

USUAL_TOTAL = 100
"""Largest total epsilon of an account that is accepted without a question."""


def exact_epsilon(option: str, text: str | None) -> Fraction | None:
    """Return an exact epsilon above 0; None if none was typed."""
    return None if text is None else exact_number(option, text, positive=True)


def exact_delta(option: str, text: str | None) -> Fraction | None:
    """Return an exact delta from 0 to below 1; None if none was typed."""
    return None if text is None else exact_number(option, text, below_one=True)


def confirm_total(epsilon: Fraction | None, *, meant: bool) -> None:
    """Ask whether a total above `USUAL_TOTAL` is meant, unless `meant` says so.

    Args:
        epsilon: The new total; None if it does not change.
        meant: Whether `--large-epsilon` was given.

    Raises:
        BadInput: if it is not meant, or nobody can be asked.
    """
    if meant or epsilon is None or epsilon <= USUAL_TOTAL:
        return
    what = (
        f"A total of epsilon {float(epsilon):g} protects nobody in practice: statistical offices"
        " publish with totals of at most about 20 (docs/choosing-epsilon.md)."
    )
    if _at_a_terminal():
        click.echo(what, err=True)
        if click.confirm("Is this total meant?", err=True):
            return
        raise BadInput("The ledger was not changed. Give a smaller --epsilon.")
    raise BadInput(
        f"{what} The ledger was not changed; if the total is meant, add --large-epsilon."
    )


def _at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def person_and_reason(by: str, reason: str) -> tuple[str, str]:
    """Return who decides and why, without surrounding spaces.

    Raises:
        BadInput: if one of them is empty.
    """
    for option, text in (("--by", by), ("--reason", reason)):
        if not text.strip():
            raise BadInput(f"{option} is empty; the ledger records a person and a reason.")
    return by.strip(), reason.strip()


_PERIODS = ("month", "quarter", "year")
_WORDS = {
    "--neighbours": ("add-remove", "replace-one"),
    "--unit": ("row", "person", "household"),
    "--composition": ("basic", "zcdp"),
    "--per": _PERIODS,
    "--every": _PERIODS,
}


def known_word(option: str, text: str) -> str:
    """Return one of the words an option takes.

    Raises:
        BadInput: if it is another, naming the nearest.
    """
    if text not in _WORDS[option]:
        raise BadInput(f"{option} {text!r} is not known.{nearest(text, _WORDS[option])}")
    return text


def words_of(option: str) -> tuple[str, ...]:
    """Return the words that an option takes."""
    return _WORDS[option]


def composition_word(text: str) -> Composition:
    """Return the composition of an account."""
    return cast("Composition", known_word("--composition", text))


def account_terms(
    composition: str, *, epsilon: Fraction, delta: Fraction, own_delta: Fraction = Fraction(0)
) -> Terms:
    """Return the terms of an account.

    Raises:
        BadInput: if there can be no such account.
    """
    from dp_core.wall.accounting.composition import Terms

    kind = composition_word(composition)
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
    per: str | None,
    epsilon: str | None,
    delta: str | None,
    carry_over: bool,
) -> Calendar | None:
    """Return the calendar of a new account; None if it has no allowance per period.

    `--period-delta` defaults to the whole own delta of a zcdp account. A basic account with a delta
    must state it, since no part of the delta is an obvious default.

    Args:
        terms: The account's terms.
        per: The period as typed: month, quarter or year.
        epsilon: Epsilon of one period as typed.
        delta: Delta of one period as typed.
        carry_over: Whether unused allowance is kept for later periods.

    Raises:
        BadInput: if the options do not belong together, or a period allows more than the total.
    """
    from dp_core.wall.ledger.budget_periods import Calendar

    if per is None:
        typed = {"period-epsilon": epsilon, "period-delta": delta, "carry-over": carry_over or None}
        for option, value in typed.items():
            if value is not None:
                raise BadInput(f"--{option} needs --per month, quarter or year.")
        return None
    period = cast("Period", known_word("--per", per))
    allowed = exact_epsilon("--period-epsilon", epsilon)
    if allowed is None:
        raise BadInput(f"--per {period} needs --period-epsilon: what one {period} may use.")
    own = exact_delta("--period-delta", delta)
    if own is None and terms.is_basic and terms.delta:
        raise BadInput(
            f"--per {period} needs --period-delta: what one {period} may use of the delta"
            f" {float(terms.delta):g}, or 0 for pure releases only."
        )
    if own is None:
        own = terms.own_delta
    today = datetime.now(UTC).date()
    return _checked(Calendar(period, allowed, own, carry_over, today), terms)


def raised_calendar(
    account: str, before: Calendar | None, terms: Terms, *, epsilon: str | None, delta: str | None
) -> Calendar | None:
    """Return the calendar with a higher allowance; None if no allowance was typed.

    Args:
        account: Name of the account, for messages.
        before: Its calendar so far.
        terms: Its terms after the raise.
        epsilon: Epsilon of one period as typed.
        delta: Delta of one period as typed.

    Raises:
        BadInput: if the account has no calendar, or the allowance is not raised.
    """
    if epsilon is None and delta is None:
        return None
    new_epsilon = exact_epsilon("--period-epsilon", epsilon)
    new_delta = exact_delta("--period-delta", delta)
    if before is None:
        raise BadInput(
            f"Account {account!r} has no allowance per period to raise: that is fixed when an"
            " account is opened, with --per."
        )
    after = replace(
        before,
        epsilon=before.epsilon if new_epsilon is None else new_epsilon,
        delta=before.delta if new_delta is None else new_delta,
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
    return _checked(after, terms)


def restated_calendar(
    account: str, before: Calendar | None, old: Terms, terms: Terms, *, delta: str | None
) -> Calendar | None:
    """Return the calendar of an account after a change of composition; None if it has none.

    A period limits the delta of a basic account, and the own delta of a zcdp account. So a new
    composition needs a new limit, with the default of `account_calendar`.

    Args:
        account: Name of the account, for messages.
        before: Its calendar so far.
        old: Its terms so far.
        terms: Its new terms.
        delta: Delta of one period as typed.

    Raises:
        BadInput: if the account has no calendar, or must state the delta of a period.
    """
    stated = exact_delta("--period-delta", delta)
    if before is None:
        if stated is not None:
            raise BadInput(
                f"Account {account!r} has no allowance per period; leave out --period-delta."
            )
        return None
    changed = old.composition != terms.composition
    if stated is None and changed and terms.is_basic:
        raise BadInput(
            f"Account {account!r} has an allowance per {before.period}, whose delta means another"
            f" thing under basic: give --period-delta, what one {before.period} may use of the"
            f" delta {float(terms.delta):g}, or 0 for pure releases only."
        )
    if stated is None:
        stated = terms.own_delta if changed else before.delta
    return _checked(replace(before, delta=stated), terms)


def _checked(calendar: Calendar, terms: Terms) -> Calendar:
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


def relation(text: str) -> Neighbours:
    """Return a neighbouring relation."""
    return "add-remove" if known_word("--neighbours", text) == "add-remove" else "replace-one"


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
