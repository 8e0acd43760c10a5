"""`dp-release metrics`: prints or serves them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping

import click

from dp_core.errors import BadInput
from flows.cli.command_parts import this_home, with_json

LOOPBACK = "127.0.0.1"


@click.command()
@click.option("--listen", metavar="ADDRESS:PORT", help="Serve them; 127.0.0.1 if only a port.")
@with_json
def metrics(listen: str | None, as_json: bool) -> Mapping[str, object]:
    """Print how ledger and releases stand, for Prometheus."""
    from flows.monitoring.home_state import read_health
    from flows.monitoring.metrics import families, text_of

    if listen is not None:
        serve(*listening(listen))
        return {}
    health = read_health()
    if not as_json:
        if health.fault:
            click.echo(f"dp-release: {health.fault}", err=True)
        click.echo(text_of(health), nl=False)
    return {
        "fault": health.fault or None,
        "metrics": [
            {"name": sample.name, "labels": sample.labels, "value": sample.value}
            for family in families(health)
            for sample in family.samples
        ],
    }


def listening(text: str) -> tuple[str, int]:
    """Return the address and port that were typed; loopback unless another address is stated.

    Raises:
        BadInput: if it is none.
    """
    address, _, port = text.rpartition(":")
    address = address.strip("[]") or LOOPBACK
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadInput(
            f"--listen {text!r} is no address and port; write one such as {LOOPBACK}:9181."
        )
    return address, int(port)


def serve(address: str, port: int) -> None:
    """Serve the metrics until the process is ended.

    Raises:
        BadInput: if nothing can listen there.
    """
    from prometheus_client import start_http_server

    from flows.monitoring.home_state import Health, read_health
    from flows.monitoring.metrics import registry_of

    told = ""

    def read() -> Health:
        nonlocal told
        health = read_health()
        if health.fault != told:
            told = health.fault
            click.echo(f"dp-release: {told or 'The ledger can be used again.'}", err=True)
        return health

    try:
        server, thread = start_http_server(port, addr=address, registry=registry_of(read))
    except OSError as error:
        raise BadInput(
            f"Nothing can listen on {address}:{port} ({error.strerror or 'no such address'});"
            " give another address or port, or end what listens there."
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
