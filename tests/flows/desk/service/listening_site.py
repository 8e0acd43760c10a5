"""A service on small desks in a process of its own: `python -m` this module FOLDER [CERT KEY]."""

from __future__ import annotations

import sys
from pathlib import Path

from flows.desk.service.gate import Limits
from flows.desk.service.serving import Listening, bound_socket, serve_until_stopped
from tests.flows.desk.service.small_desks import Site

LIMITS = Limits(tick=0, requests=100_000, concurrent=1_000, patience=1.0, connections=100)


def main() -> None:
    """Serve until SIGTERM; print the port and the token of anna first."""
    folder, *pair = map(Path, sys.argv[1:])
    site = Site(folder, LIMITS)
    where = Listening("127.0.0.1", 0, *pair)
    listener = bound_socket(where)
    port = listener.getsockname()[1]

    def started() -> None:
        sys.stdout.write(f"{port} {site.secrets['anna']}\n")
        sys.stdout.flush()

    serve_until_stopped(site.app, listener, where, LIMITS, started=started)


if __name__ == "__main__":
    main()
