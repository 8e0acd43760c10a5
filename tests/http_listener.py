"""A small HTTP server that a test starts in this process: what it was sent, and what it answers."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Listener(HTTPServer):
    """A server on the loopback interface.

    Attributes:
        status: Status of its answers.
        body: Body of its answers.
        asked: Path and credentials of each request.
        posted: Path and JSON of each POST.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.body = 200, b""
        self.asked: list[tuple[str, str | None]] = []
        self.posted: list[tuple[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_arguments: object) -> None:
        """Say nothing, such as of a client that speaks TLS."""


class _Handler(BaseHTTPRequestHandler):
    server: Listener

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.posted.append((self.path, json.loads(body)))
        self.do_GET()

    def log_message(self, *_arguments: object) -> None:
        pass


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    """Serve during a block."""
    with Listener() as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listener
        finally:
            listener.shutdown()
            thread.join()
