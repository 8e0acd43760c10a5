"""`dp-release desk`: `ask` for its users; the other commands are for privacy officers."""

from __future__ import annotations

import os
import shutil
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_core.errors import BadInput, nearest
from dp_core.text.documents.typed_text import plain_text
from dp_core.text.names import check_name
from flows.cli.arguments import EPSILON, LEVEL
from flows.cli.command_parts import (
    PATH,
    CommandGroup,
    answering,
    cli,
    decision_options,
    existing_ledger,
    json_wanted,
    this_home,
)
from flows.cli.completion import ACCOUNT
from flows.cli.missing_packages import require_pipeline

if TYPE_CHECKING:
    from dp_core.text.pages.answer import CommandAnswer
    from flows.desk.asking import QuestionAnswer, QuestionPlan

_FORM = 'dp-release desk ask ACCOUNT "QUESTION" --epsilon E'


@cli.group("desk", cls=CommandGroup)
def desk() -> None:
    """Answer single questions about a file, and manage who may ask."""


@desk.command("open")
@click.argument("file", type=PATH)
@decision_options
@answering
def open_(file: Path, by: str, reason: str) -> CommandAnswer:
    """Open a question desk, or apply a change of its file.

    It checks the file, the schema and the accounts, and that the data fit the schema, as `schema
    check` does. It spends nothing. The ledger records who opened it, why, and the hash of its
    terms.
    """
    require_pipeline()
    ledger = existing_ledger()
    from flows.desk.desk import open_desk
    from flows.desk.desk_answers import desk_answer

    return desk_answer(open_desk(file, ledger, by=by, reason=reason), ledger)


@desk.command("show")
@click.argument("account", type=ACCOUNT, required=False)
@answering
def show(account: str | None) -> CommandAnswer:
    """Show a desk with its questions, or list all desks.

    It also shows what the account of the desk, and that of each user, has left.
    """
    require_pipeline()
    ledger = existing_ledger()
    from flows.desk.desk import find_desk
    from flows.desk.desk_answers import all_desks_answer, desk_answer

    return all_desks_answer(ledger) if account is None else desk_answer(find_desk(account), ledger)


@desk.command("close")
@click.argument("account", type=ACCOUNT)
@decision_options
@answering
def close(account: str, by: str, reason: str) -> CommandAnswer:
    """Close a desk: it takes no new questions.

    Answers can still be read at no cost. The ledger records who closed it, and why.
    """
    require_pipeline()
    ledger = existing_ledger()
    from flows.desk.desk import close_desk, find_desk
    from flows.desk.desk_answers import desk_answer

    return desk_answer(close_desk(find_desk(account), ledger, by=by, reason=reason), ledger)


@desk.command("ask")
@click.argument("account", type=ACCOUNT)
@click.argument("question", metavar="QUESTION", nargs=-1)
@click.option("--epsilon", type=EPSILON, required=True, metavar="E", help="Epsilon of the answer.")
@click.option("--user", metavar="NAME", help="User whose allowance pays.")
@click.option("--plan", "only_plan", is_flag=True, help="Show only cost and width; spends nothing.")
@click.option("--anew", is_flag=True, help="Pay again for a question that is already answered.")
@click.option(
    "--level", type=LEVEL, default="0.95", metavar="LEVEL", help="Confidence level; 0.95."
)
@click.option("--sampling", is_flag=True, help="Tables: add the file's sampling error.")
@click.option("--out", metavar="DIR", type=PATH, help="New folder for a copy of the bundle.")
@answering
def ask(
    account: str,
    question: tuple[str, ...],
    epsilon: Fraction,
    user: str | None,
    only_plan: bool,
    anew: bool,
    level: float,
    sampling: bool,
    out: Path | None,
) -> QuestionPlan | QuestionAnswer:
    """Answer a question about the file, charged to the ledger.

    \b
    dp-release desk ask rand "income ~ age + sex" --epsilon 0.1 --plan
    dp-release desk ask rand "income ~ age + sex" --epsilon 0.1
    dp-release desk ask rand "share of smoker = yes by region" --epsilon 0.1 --user anna

    A question that is already answered costs nothing. If a command is interrupted, repeat it: the
    same question continues, and nothing is paid twice. docs/questions.md has the rules.
    """  # noqa: D301 (click's sign for text that is not to be wrapped)
    for word in question:
        plain_text("QUESTION", word)
    if not question:
        if " " in account.strip() or "~" in account:
            raise BadInput(f"The account of the desk comes first: {_FORM}.")
        raise BadInput(f"The question is missing; type {_FORM}.")
    require_pipeline()
    existing_ledger()
    from dp_core.bundle.writer import check_destination
    from flows.desk.asking import admit_question, answer_question, plan_question
    from flows.desk.desk import find_desk

    opened, asked = find_desk(account), " ".join(question)
    if only_plan:
        return plan_question(opened, asked, epsilon, user, anew=anew)
    if out is not None:
        check_destination(out)
    found = plan_question(opened, asked, epsilon, user, anew=anew)
    number = admit_question(opened, asked, epsilon, user, anew=anew)
    if found.already is None and not json_wanted():
        again = "Continuing" if found.continues == number else "Answering"
        click.echo(f"{again} question {number}; this takes about a minute.", err=True)
    answer = answer_question(opened, number, level=level, sampling=sampling)
    if out is not None:
        shutil.copytree(answer.folder, out, dirs_exist_ok=True)
    return answer


@desk.command("serve")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address; 127.0.0.1.")
@click.option(
    "--port", default=8085, type=click.IntRange(0, 65535), help="Port, 0 for a free one; 8085."
)
@click.option("--tls-cert", type=PATH, metavar="FILE", help="PEM file of the TLS certificate.")
@click.option("--tls-key", type=PATH, metavar="FILE", help="PEM file of its key.")
@click.option("--behind-tls-proxy", is_flag=True, help="A TLS proxy is in front of the service.")
@click.option("--deployment", is_flag=True, help="Let Prefect's deployment `questions` answer.")
@click.option(
    "--requests", default=60, type=click.IntRange(1), help="Requests per user and minute; 60."
)
@click.option(
    "--open-questions", default=5, type=click.IntRange(1), help="Open questions per user; 5."
)
@click.option(
    "--day", default=200, type=click.IntRange(1), help="New questions per user and day; 200."
)
@click.option(
    "--queue", default=100, type=click.IntRange(1), help="Open questions of all users; 100."
)
@click.option(
    "--tick", default=10.0, type=click.FloatRange(0), help="Seconds between state updates; 10."
)
def serve(
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_tls_proxy: bool,
    deployment: bool,
    requests: int,
    open_questions: int,
    day: int,
    queue: int,
    tick: float,
) -> None:
    """Answer questions over HTTP until stopped, one at a time.

    Users need a token (`dp-release desk token`). It serves all desks of the home. If it is
    stopped or killed, start it again: admitted questions continue, and nothing is paid twice.
    """
    require_pipeline()
    existing_ledger()
    from flows.desk.service.gate import Limits
    from flows.desk.service.open_desks import OpenDesks
    from flows.desk.service.serving import Listening, serve_questions

    if deployment and not os.environ.get("PREFECT_API_URL"):
        raise BadInput(
            "PREFECT_API_URL is not set, but --deployment needs Prefect's server; set it, for"
            " example, to http://127.0.0.1:4200/api."
        )
    serve_questions(
        this_home(),
        OpenDesks(),
        Listening(host, port, tls_cert, tls_key, behind_tls_proxy),
        Limits(requests=requests, open_questions=open_questions, day=day, queue=queue, tick=tick),
        deployment=deployment,
        said=lambda url: click.echo(
            f"Questions are answered on {url}; stop with Ctrl-C.", err=True
        ),
    )
    click.echo("Stopped. Admitted questions continue when it starts again.", err=True)


@desk.command("token")
@click.argument("account", type=ACCOUNT)
@click.argument("user")
@click.option("--days", default=90, type=int, help="Days until it expires; 90.")
@answering
def token(account: str, user: str, days: int) -> CommandAnswer:
    """Print a new token for a user of a desk, once.

    Only its hash is kept.
    """
    require_pipeline()
    existing_ledger()
    from dp_core.text.pages.answer import CommandAnswer
    from dp_core.text.pages.page import Sentence
    from flows.desk.desk import find_desk
    from flows.desk.service.tokens import TokenStore

    users = find_desk(account).terms.users
    if check_name(user, what="user") not in users:
        raise BadInput(
            f"The desk {account!r} has no user {user!r}.{nearest(user, users)} Name each user under"
            " `users` in the desk's file, and open the desk again."
        )
    secret, made = TokenStore(this_home()).issue(account, user, days=days)
    if not json_wanted():
        click.echo(
            f"The token is shown only once. Send it to {user} by a secure channel; it expires on"
            f" {made.expires}.",
            err=True,
        )
    values = {"account": account, "user": user, "token": secret, "expires": made.expires}
    return CommandAnswer(values, (Sentence(secret),))


@desk.command("revoke")
@click.argument("account", type=ACCOUNT)
@click.argument("user")
@answering
def revoke(account: str, user: str) -> CommandAnswer:
    """Revoke all tokens of a user at once.

    Questions of the user that are waiting then wait for a new token.
    """
    require_pipeline()  # no ledger: a stolen token can be revoked even if the ledger is unreadable
    from dp_core.text.pages.answer import CommandAnswer
    from dp_core.text.pages.number_texts import plural
    from dp_core.text.pages.page import Sentence
    from flows.desk.service.tokens import TokenStore

    store = TokenStore(this_home())
    number = store.revoke(account, user)
    if not number:
        known = sorted({each.user for each in store.valid() if each.account == account})
        whose = f" Users with a valid token: {', '.join(known)}." if known else ""
        raise BadInput(f"{user!r:.60} has no valid token for {account!r:.60}.{whose}")
    said = f"Revoked {plural(number, 'token')} of {user} for {account}."
    return CommandAnswer({"account": account, "user": user, "revoked": number}, (Sentence(said),))
