"""The whole service: starts the HTTP server and the queue, and stops both."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flows.desk.service.addresses import Listening, check_listening
from flows.desk.service.application import LOG, Service, make_application
from flows.desk.service.desk_port import Desks
from flows.desk.service.http_server import bound_socket, serve_until_stopped
from flows.desk.service.limits import Limits
from flows.desk.service.queue import AnsweringProcesses, Queue
from flows.desk.service.service_records import ServiceRecords
from flows.desk.service.tokens import TokenStore


def serve_questions(
    home: Path,
    desks: Desks,
    where: Listening,
    limits: Limits,
    *,
    deployment: bool = False,
    said: Callable[[str], object],
) -> None:
    """Serve the desks of a home until SIGTERM or Ctrl-C.

    Args:
        home: The home.
        desks: Its desks.
        where: Where to listen.
        limits: Limits of users, requests and answers.
        deployment: Whether Prefect's deployment `questions` answers; by default (False) a process
            of this service does.
        said: Called with the URL once the service is listening.

    Raises:
        BadInput: if the address, or the TLS certificate or key, cannot be used.
    """
    check_listening(where)
    log_to_stderr()
    tokens, records = TokenStore(home), ServiceRecords(home)
    processes = AnsweringProcesses(records, limits.answer, deployment=deployment)
    queue = Queue(desks, tokens, records, limits, processes)
    service = Service(
        desks, tokens, records, limits, admitted=queue.wake, running=lambda: queue.running
    )
    listener = bound_socket(where)
    bound = replace(where, port=int(listener.getsockname()[1]))
    worker, stopped = threading.Thread(target=queue.run, name="questions"), threading.Event()
    ticks = threading.Thread(target=service.renew_at_ticks, args=(stopped,), name="ticks")

    def started() -> None:
        worker.start()
        ticks.start()
        said(bound.url)

    try:
        serve_until_stopped(make_application(service), listener, bound, limits, started=started)
    finally:
        stopped.set()
        queue.stop()
        processes.end()
        for each in (worker, ticks):
            if each.ident is not None:
                each.join()


def log_to_stderr() -> None:
    """Write the service's own lines to standard error: user, question number, state and cost."""
    if not LOG.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
