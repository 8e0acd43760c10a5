"""`dp-release metrics`: prints or serves them."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from dp_core.errors import BadInput
from dp_core.text.pages.answer import Answer
from flows.cli.command_parts import answering, cli, this_home

LOOPBACK = "127.0.0.1"


if TYPE_CHECKING:
    from rich.console import Console

    from flows.monitoring.home_state import Health


@dataclass(frozen=True, slots=True)
class MetricsAnswer(Answer):
    """The metrics of a home; None after they were served."""

    health: Health | None

    def to_json(self) -> Any:
        """Return every sample; an empty object after the metrics were served."""
        from flows.monitoring.metrics import families

        if self.health is None:
            return {}
        return {
            "fault": self.health.fault or None,
            "metrics": [
                {"name": sample.name, "labels": sample.labels, "value": sample.value}
                for family in families(self.health)
                for sample in family.samples
            ],
        }


def _print(_console: Console, answer: MetricsAnswer) -> None:
    from flows.monitoring.metrics import text_of

    if answer.health is None:
        return
    if answer.health.fault:
        click.echo(f"dp-release: {answer.health.fault}", err=True)
    click.echo(text_of(answer.health), nl=False)


@cli.command()
@click.option(
    "--listen", metavar="ADDRESS:PORT", help="Serve them over HTTP; default address: 127.0.0.1."
)
@answering(_print)
def metrics(listen: str | None) -> MetricsAnswer:
    """Print Prometheus metrics of the ledger and its releases."""
    from flows.monitoring.home_state import read_health

    if listen is not None:
        serve(*listening(listen))
        return MetricsAnswer(None)
    return MetricsAnswer(read_health())


def listening(text: str) -> tuple[str, int]:
    """Return an address and a port; the address defaults to the loopback interface.

    Raises:
        BadInput: if the text is not an address and a port.
    """
    address, _, port = text.rpartition(":")
    address = address.strip("[]") or LOOPBACK
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadInput(
            f"--listen {text!r} is not an address and port; write, for example, {LOOPBACK}:9181."
        )
    return address, int(port)


def serve(address: str, port: int) -> None:
    """Serve the metrics until the process ends.

    Raises:
        BadInput: if the address or port cannot be used.
    """
    from prometheus_client import start_http_server

    from flows.monitoring.home_state import read_health
    from flows.monitoring.metrics import registry_of

    last_fault = ""

    def read() -> Health:
        nonlocal last_fault
        health = read_health()
        if health.fault != last_fault:
            last_fault = health.fault
            click.echo(f"dp-release: {last_fault or 'The ledger can be used again.'}", err=True)
        return health

    try:
        server, thread = start_http_server(port, addr=address, registry=registry_of(read))
    except OSError as error:
        raise BadInput(
            f"Cannot listen on {address}:{port} ({error.strerror or 'no such address'}); give"
            " another address or port, or stop the program that uses it."
        ) from None
    click.echo(f"Metrics of {this_home()} on http://{address}:{port}/metrics", err=True)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        ended.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
