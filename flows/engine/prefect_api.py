"""Prefect's API for one release: Prefect's own routers, each loaded at the first request to it.

Prefect's whole server imports all thirty routers and builds the models of more than 200 routes,
which takes longer than a small release. A release asks for a few routes. This application is made
of the same parts (routers, error answers, and the services that write task runs and events), but
it imports a router only when it is asked for, and runs no scheduler and no automations.

`flows.engine.own_server` decides when it can replace the whole server.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from importlib import import_module
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prefect.server.events.services.event_persister import EventPersister
from prefect.server.exceptions import ObjectNotFoundError
from prefect.server.services.task_run_recorder import TaskRunRecorder
from sqlalchemy.exc import IntegrityError
from starlette.types import Receive, Scope, Send

from tasks.support.lazy_packages import LazyPackages

BASE = "/api"

ROUTERS = {
    "/flows": "flows",
    "/flow_runs": "flow_runs",
    "/task_runs": "task_runs",
    "/flow_run_states": "flow_run_states",
    "/task_run_states": "task_run_states",
    "/deployments": "deployments",
    "/saved_searches": "saved_searches",
    "/logs": "logs",
    "/concurrency_limits": "concurrency_limits",
    "/v2/concurrency_limits": "concurrency_limits_v2",
    "/block_types": "block_types",
    "/block_documents": "block_documents",
    "/work_pools": "workers",
    "/task_workers": "task_workers",
    "/work_queues": "work_queues",
    "/artifacts": "artifacts",
    "/block_schemas": "block_schemas",
    "/block_capabilities": "block_capabilities",
    "/collections": "collections",
    "/variables": "variables",
    "/csrf-token": "csrf_token",
    "/events": "events",
    "/automations": "automations",
    "/admin": "admin",
    "/hello": "root",
    "/ready": "root",
}
"""First part of a path, and the module of `prefect.server.api` with its routes.

Those of Prefect's pages are left out: nothing shows the pages of a server that ends with its
release.
"""

FIRST = ("/flows", "/flow_runs", "/events", "/artifacts", "/logs")
"""Routers that every release asks for; they are loaded before the first request."""


class PrefectApi:
    """The ASGI application.

    Args:
        secret: Name and password that a request must give, separated by a colon.
        started: Called once when requests can be answered.
    """

    def __init__(self, secret: str, started: Callable[[], None]) -> None:
        self._authorization = b"Basic " + base64.b64encode(secret.encode())
        self._started = started
        self._loaded = set[str]()
        self._app = FastAPI(
            openapi_url=None,
            lifespan=self._running,
            exception_handlers={
                Exception: _answer_of("custom_internal_exception_handler"),
                RequestValidationError: _answer_of("validation_exception_handler"),
                IntegrityError: _answer_of("integrity_exception_handler"),
                ObjectNotFoundError: _answer_of("prefect_object_not_found_exception_handler"),
            },
        )
        self._app.add_api_route(f"{BASE}/health", _health)
        for first in FIRST:
            self._load(ROUTERS[first])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that gives the secret; refuse any other with 401."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(given, self._authorization):
            await _refuse(scope, receive, send)
            return
        module = _module(scope["path"])
        if module is not None:
            self._load(module)
        await self._app(scope, receive, send)

    def _load(self, module: str) -> None:
        if module not in self._loaded:
            self._loaded.add(module)
            router = import_module(f"prefect.server.api.{module}").router
            self._app.include_router(router, prefix=BASE)

    @contextlib.asynccontextmanager
    async def _running(self, _app: FastAPI) -> AsyncIterator[None]:
        """Run the services that write what a flow run sends as events, as Prefect's server does."""
        services = (TaskRunRecorder(), EventPersister())
        running = [asyncio.create_task(service.start()) for service in services]
        try:
            self._started()
            yield
        finally:
            await asyncio.gather(*(service.stop() for service in services))
            await asyncio.gather(*running, return_exceptions=True)


def _module(path: str) -> str | None:
    """Return the module that answers a path, None if there is none."""
    parts = path.removeprefix(BASE).split("/")
    return ROUTERS.get("/".join(parts[:2])) or ROUTERS.get("/".join(parts[:3]))


async def _health() -> bool:
    return True


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
    else:
        await Response(status_code=401)(scope, receive, send)


# Errors get Prefect's own answers, which tell its client whether to try again. They are in the
# module of the whole server, which is imported only if there is an error.


def _answer_of(handler: str) -> Callable[[Request, Exception], Coroutine[Any, Any, Response]]:
    async def reply(request: Request, error: Exception) -> Response:
        found: Response = await getattr(_whole_server(), handler)(request, error)
        return found

    return reply


def _is_retryable(error: Exception) -> bool:
    return _whole_server().is_client_retryable_exception(error)


def is_worth_a_line(record: logging.LogRecord) -> bool:
    """Return whether uvicorn's log keeps a record: not if Prefect's client repeats the request.

    A locked database is answered with 503 and asked again. Prefect's own server leaves it out, too.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, Exception) and _is_retryable(error))


def _whole_server() -> Any:
    whole = import_module(_WHOLE)
    # If it is loaded lazily, a name that it does not hold yet completes it.
    assert hasattr(whole, "create_app")
    return whole


_WHOLE = "prefect.server.api.server"
WHOLE_SERVER = LazyPackages([], {_WHOLE: {"is_client_retryable_exception": _is_retryable}})
"""Install it before the first request. Prefect imports this module whenever a run changes its
state, for one function that it calls only if there is an error."""
