"""The terminal views of the question desk."""

from __future__ import annotations

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dp_core.analysis.query.query_answer import QueryAnswer
from dp_core.text.pages.page_text import fact, print_page
from flows.answers.amounts import PrivacyAmount
from flows.cli.terminal.query_views import MOST_SHOWN
from flows.cli.terminal.view_parts import amount_words, path
from flows.desk.asking import QuestionAnswer, QuestionPlan
from flows.desk.desk_answers import AllDesks, DeskShown


def asked(console: Console, found: QuestionPlan | QuestionAnswer) -> None:
    """Print the plan of a question, or its answer and what it cost."""
    if isinstance(found, QuestionPlan):
        _plan(console, found)
        return
    answer = found.answer
    if isinstance(answer, QueryAnswer):
        if answer.determined:
            print_page(console, answer.page(MOST_SHOWN, "--json"))
        else:
            click.echo(f"dp-release: {answer.reason}", err=True)
    else:
        print_page(console, answer.page())
    console.print()
    if found.already:
        paid = f"nothing; answered from {found.release} (epsilon {float(found.epsilon):g})"
    else:
        paid = f"{amount_words(found.paid)}, from account {found.account}"
    fact(console, "Paid", f"{paid}.")
    path(console, "Bundle", found.folder)


def _plan(console: Console, plan: QuestionPlan) -> None:
    console.print(f"[bold]{escape(plan.question)}[/bold]   ({plan.kind})")
    if plan.already is not None:
        assert plan.already_epsilon is not None
        fact(
            console,
            "Cost",
            f"nothing; it is answered from {plan.already} (epsilon"
            f" {float(plan.already_epsilon):g}). --anew pays for another answer.",
        )
    for each in plan.accounts if plan.already is None else ():
        fact(
            console,
            "Cost",
            f"{amount_words(each.cost)}, from account {each.account}, which has"
            f" {amount_words(each.left_before)} left, and {amount_words(each.left_after)}"
            " afterwards.",
        )
    if plan.kind == "regression":
        width = "unknown without `rows_about` in the schema"
        if plan.expected_width is not None:
            width = (
                f"about {plan.expected_width:.2g} times as wide as from the file without noise;"
                " often wider with long tails, and occasionally far wider at low epsilon"
            )
        fact(console, "Intervals", f"{width}.")
    elif plan.expected_width is not None and plan.table is not None:
        points = "" if plan.expected_points is None else f" ({plan.expected_points:g} % of all)"
        fact(
            console,
            "Margin",
            f"±{plan.expected_width:g} records{points} for one count of {' x '.join(plan.table)}"
            " (95 %).",
        )
    if plan.awaits:
        fact(
            console,
            "Approval",
            "a person must approve the plan first: `dp-release ledger approve"
            f" {plan.plan_hash} --by NAME --reason TEXT`.",
        )
    if plan.continues is not None:
        fact(console, "State", f"not finished; asking again continues question {plan.continues}.")


def desk(console: Console, found: DeskShown) -> None:
    """Print a desk and its questions."""
    state = "closed: it takes no new questions" if found.closed else "open"
    console.print(
        f"[bold]Question desk {found.account}[/bold] is {state}. {escape(found.title)},"
        f" {len(found.columns)} columns."
    )
    terms = PrivacyAmount(found.largest_epsilon, found.delta)
    fact(
        console,
        "A question",
        f"costs at most {amount_words(terms)} ({found.neighbours}, one {found.unit}); answers"
        f" {found.answers.replace('-', ' ')}.",
    )
    for each in found.allowances:
        who = "Account" if each.user is None else f"User {each.user}"
        fact(console, who, f"{each.account} has {amount_words(each.left)} left.")
    path(console, "File", found.file)
    fact(console, "Terms", f"{found.terms_hash} (hash of the terms and the schema).")
    if not found.questions:
        fact(console, "Questions", "none yet.")
        return
    counts = ", ".join(f"{number} {state}" for state, number in found.counts.items())
    fact(console, "Questions", f"{counts}.")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for head in ("no", "user", "question", "epsilon", "state", "release"):
        table.add_column(head, overflow="fold")
    for one in found.questions:
        table.add_row(
            str(one.number),
            escape(one.user or ""),
            escape(one.question),
            "0 (paid before)" if one.free else f"{one.epsilon:g}",
            f"{one.state} (begun)" if one.state == "waiting" and one.begun else one.state,
            one.release,
        )
    console.print(table)
    for one in found.questions:
        if one.reason:
            fact(console, f"Question {one.number}", one.reason)


def shown(console: Console, found: DeskShown | AllDesks) -> None:
    """Print a desk, or one line for each desk."""
    if isinstance(found, DeskShown):
        desk(console, found)
        return
    if not found.desks:
        console.print(
            "No question desk is open. `dp-release desk open FILE --by NAME --reason TEXT`"
            " opens one."
        )
    for each in found.desks:
        state = "closed" if each.closed else "open"
        console.print(f"{each.account}  {state}  {len(each.questions)} questions")
