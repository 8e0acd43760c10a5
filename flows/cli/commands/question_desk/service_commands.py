"""`dp-release desk serve`, and the tokens of its users."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dp_core.errors import BadInput
from dp_core.text.names import check_name
from flows.cli.command_parts import PATH, existing_ledger, this_home
from flows.cli.commands.question_desk.desk_commands import desk
from flows.cli.completion import ACCOUNT
from flows.cli.missing_packages import require_pipeline


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
def token(account: str, user: str, days: int) -> None:
    """Print a new token for a user of a desk, once.

    Only its hash is kept.
    """
    require_pipeline()
    existing_ledger()
    from dp_core.errors import nearest
    from flows.desk.desk import find_desk
    from flows.desk.service.tokens import TokenStore

    users = find_desk(account).terms.users
    if check_name(user, what="user") not in users:
        raise BadInput(
            f"The desk {account!r} has no user {user!r}.{nearest(user, users)} Name each user under"
            " `users` in the desk's file, and open the desk again."
        )
    secret, made = TokenStore(this_home()).issue(account, user, days=days)
    click.echo(secret)
    click.echo(
        f"The token is shown only once. Send it to {user} by a secure channel; it expires on"
        f" {made.expires}.",
        err=True,
    )


@desk.command("revoke")
@click.argument("account", type=ACCOUNT)
@click.argument("user")
def revoke(account: str, user: str) -> None:
    """Revoke all tokens of a user at once.

    Questions of the user that are waiting then wait for a new token.
    """
    require_pipeline()  # no ledger: a stolen token can be revoked even if the ledger is unreadable
    from flows.desk.service.tokens import TokenStore

    store = TokenStore(this_home())
    number = store.revoke(account, user)
    if not number:
        known = sorted({each.user for each in store.valid() if each.account == account})
        whose = f" Users with a valid token: {', '.join(known)}." if known else ""
        raise BadInput(f"{user!r:.60} has no valid token for {account!r:.60}.{whose}")
    click.echo(f"Revoked {number} token{'s' * (number != 1)} of {user} for {account}.")
