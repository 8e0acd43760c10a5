"""`dp-release desk ask`: answers a question about the confidential file, charged to the ledger."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dp_core.errors import BadInput
from dp_core.text.documents.typed_text import exact_number, plain_text
from flows.cli.command_parts import PATH, answering, existing_ledger, json_wanted
from flows.cli.commands.question_desk.desk_commands import desk
from flows.cli.completion import ACCOUNT
from flows.cli.missing_packages import require_pipeline

if TYPE_CHECKING:
    from flows.desk.asking import QuestionAnswer, QuestionPlan

_FORM = 'dp-release desk ask ACCOUNT "QUESTION" --epsilon E'


@desk.command("ask")
@click.argument("account", type=ACCOUNT)
@click.argument("question", metavar="QUESTION", nargs=-1)
@click.option("--epsilon", required=True, metavar="E", help="Epsilon of the answer.")
@click.option("--user", metavar="NAME", help="User whose allowance pays.")
@click.option("--plan", "only_plan", is_flag=True, help="Show only cost and width; spends nothing.")
@click.option("--anew", is_flag=True, help="Pay again for a question that is already answered.")
@click.option("--level", default="0.95", metavar="LEVEL", help="Confidence level; 0.95.")
@click.option("--sampling", is_flag=True, help="Tables: add the file's sampling error.")
@click.option("--out", metavar="DIR", type=PATH, help="New folder for a copy of the bundle.")
@answering
def ask(
    account: str,
    question: tuple[str, ...],
    epsilon: str,
    user: str | None,
    only_plan: bool,
    anew: bool,
    level: str,
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
    stated, cost = exact_number("--level", level, positive=True), exact_number("--epsilon", epsilon)
    if stated >= 1:
        raise BadInput(f"--level must be between 0 and 1, such as 0.95, not {level}.")
    require_pipeline()
    existing_ledger()
    from dp_core.bundle.writer import check_destination
    from flows.desk.asking import admit_question, answer_question, plan_question
    from flows.desk.desk import find_desk

    opened, asked = find_desk(account), " ".join(question)
    if only_plan:
        return plan_question(opened, asked, cost, user, anew=anew)
    if out is not None:
        check_destination(out)
    found = plan_question(opened, asked, cost, user, anew=anew)
    number = admit_question(opened, asked, cost, user, anew=anew)
    if found.already is None and not json_wanted():
        again = "Continuing" if found.continues == number else "Answering"
        click.echo(f"{again} question {number}; this takes about a minute.", err=True)
    answer = answer_question(opened, number, level=float(stated), sampling=sampling)
    if out is not None:
        shutil.copytree(answer.folder, out, dirs_exist_ok=True)
    return answer
